//! Who is calling: every route verifies the bearer token itself.

use crate::{
    bank::{AUDIENCE, Bank, ISSUER, ISSUER_KEY, KEY_ID},
    client::{Answer, Client, key, token, token_with, transfer},
    look::aoi_and_ren,
};
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use serde_json::{Value, json};

/// Aoi's claims at noon of the first of December in Japan, with `changes`; `null` takes a claim out.
fn claims(changes: &[(&str, Value)]) -> Value {
    let mut claims = json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "aoi", "sid": "s1", "exp": 4_102_444_800_i64 });
    for (name, value) in changes {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(*name)),
            value => claims[*name] = value.clone(),
        }
    }
    claims
}

fn header() -> Header {
    Header { kid: Some(KEY_ID.to_owned()), ..Header::new(Algorithm::ES256) }
}

/// A token put together by hand.
fn by_hand(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    format!("{}.{}.{signature}", part(header), part(claims))
}

/// A token that is signed with `secret` as if it were a shared one.
fn hs256(secret: &[u8]) -> String {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
    let unsigned = by_hand(&json!({ "alg": "HS256", "kid": KEY_ID }), &claims(&[]), "");
    let tag = sign(&Key::new(HMAC_SHA256, secret), unsigned.trim_end_matches('.').as_bytes());
    format!("{unsigned}{}", BASE64URL_NOPAD.encode(tag.as_ref()))
}

async fn listed(bank: &Bank, authorizations: &[&str]) -> Answer {
    let user = shared::domain::id::UserId::parse("aoi").unwrap();
    let anybody = Client { token: None, ..bank.client_of(&user, "s1") };
    let headers: Vec<(&str, &str)> = authorizations.iter().map(|value| ("authorization", *value)).collect();
    anybody.send("GET", "/v1/accounts", &headers, b"").await
}

fn assert_unauthenticated(answer: &Answer, context: &str) {
    answer.assert_problem(401, "AU001", context);
    assert_eq!(answer.header("www-authenticate"), "Bearer", "{context}");
    assert_eq!((&answer.body["money_moved"], &answer.body["result"]), (&json!("unknown"), &Value::Null), "{context}");
}

#[tokio::test]
async fn exactly_one_bearer_token_is_taken() {
    let (bank, ..) = aoi_and_ren(70_000).await;
    let token = token("aoi", "s1");
    let (bearer, other) = (format!("Bearer {token}"), format!("Bearer {}", crate::client::token("ren", "s1")));
    let rows: Vec<Vec<String>> = vec![
        vec![],
        vec![String::new()],
        vec!["Bearer".to_owned()],
        vec!["Bearer ".to_owned()],
        vec![token.clone()],
        vec![format!("Basic {token}")],
        vec![format!("Token {token}")],
        vec![format!("Bearer{token}")],
        vec![format!("Bearer {token} x")],
        vec![format!("{bearer}, {bearer}")],
        vec![bearer.clone(), bearer.clone()],
        vec![bearer.clone(), other],
        vec![bearer.clone(), String::new()],
    ];
    for row in rows {
        let values: Vec<&str> = row.iter().map(String::as_str).collect();
        assert_unauthenticated(&listed(&bank, &values).await, &format!("{values:?}"));
    }
    for value in [bearer, format!("bearer {token}"), format!("BEARER  {token}")] {
        assert_eq!(listed(&bank, &[&value]).await.status, 200, "{value}");
    }
}

#[tokio::test]
async fn a_token_that_does_not_verify_is_refused() {
    let (bank, ..) = aoi_and_ren(70_000).await;
    let good = token("aoi", "s1");
    let parts: Vec<&str> = good.split('.').collect();
    let jwk = serde_json::to_value(Jwk::from_encoding_key(&ISSUER_KEY, Algorithm::ES256).unwrap()).unwrap();
    let point = ["x", "y"].map(|name| BASE64URL_NOPAD.decode(jwk[name].as_str().unwrap().as_bytes()).unwrap()).concat();
    let other_key = {
        use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
        let rng = aws_lc_rs::rand::SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng).unwrap();
        EncodingKey::from_ec_der(pkcs8.as_ref())
    };
    let signed = |header: &Header| jsonwebtoken::encode(header, &claims(&[]), &ISSUER_KEY).unwrap();
    let of = |alg: &str| json!({ "alg": alg, "kid": KEY_ID, "typ": "JWT" });
    let own_key = Jwk::from_encoding_key(&other_key, Algorithm::ES256).unwrap();
    let carried = Header { jwk: Some(own_key), ..header() };
    let rows = [
        ("garbage", "x".to_owned()),
        ("two parts", format!("{}.{}", parts[0], parts[1])),
        ("four parts", format!("{good}.x")),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("a signature of nothing", format!("{}.{}.{}", parts[0], parts[1], BASE64URL_NOPAD.encode(&[0; 64]))),
        ("other claims", by_hand(&of("ES256"), &claims(&[("sub", json!("ren"))]), parts[2])),
        ("alg none", by_hand(&of("none"), &claims(&[]), "")),
        ("alg None", by_hand(&of("None"), &claims(&[]), "")),
        ("alg none with a signature", by_hand(&of("none"), &claims(&[]), parts[2])),
        ("no alg", by_hand(&json!({ "kid": KEY_ID }), &claims(&[]), parts[2])),
        ("alg ES384", by_hand(&of("ES384"), &claims(&[]), parts[2])),
        ("alg RS256", by_hand(&of("RS256"), &claims(&[]), parts[2])),
        ("HS256 by the public key's JWK", hs256(jwk.to_string().as_bytes())),
        ("HS256 by the public key's point", hs256(&point)),
        ("HS256 by the uncompressed point", hs256(&[&[4], point.as_slice()].concat())),
        ("HS256 by nothing", hs256(b"")),
        ("another key", jsonwebtoken::encode(&header(), &claims(&[]), &other_key).unwrap()),
        ("a key that it carries itself", jsonwebtoken::encode(&carried, &claims(&[]), &other_key).unwrap()),
        ("an unknown key id", signed(&Header { kid: Some("other".to_owned()), ..header() })),
        ("an empty key id", signed(&Header { kid: Some(String::new()), ..header() })),
        ("no claims", jsonwebtoken::encode(&header(), &json!([]), &ISSUER_KEY).unwrap()),
    ];
    for (context, token) in rows {
        assert_unauthenticated(&listed(&bank, &[&format!("Bearer {token}")]).await, context);
    }
    assert_eq!(listed(&bank, &[&format!("Bearer {good}")]).await.status, 200);
}

#[tokio::test]
async fn a_token_whose_claims_are_not_right_is_refused() {
    let (bank, ..) = aoi_and_ren(70_000).await;
    let long = "s".repeat(1_025);
    let rows: Vec<(&str, Value)> = vec![
        ("iss", json!("https://other.test")),
        ("iss", json!(format!("{ISSUER}/"))),
        ("iss", json!(["https://other.test", ISSUER])),
        ("iss", Value::Null),
        ("iss", json!(1)),
        ("aud", json!("other")),
        ("aud", json!(["other"])),
        ("aud", json!([])),
        ("aud", json!({ "furikomi-test": true })),
        ("aud", Value::Null),
        ("sub", Value::Null),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", json!(["aoi"])),
        ("sub", json!("aoi ren")),
        ("sub", json!("aoi\n")),
        ("sub", json!("a".repeat(256))),
        ("sid", Value::Null),
        ("sid", json!("")),
        ("sid", json!(7)),
        ("sid", json!(["s1"])),
        ("sid", json!(long)),
        ("exp", Value::Null),
        ("exp", json!("4102444800")),
        ("exp", json!(true)),
        ("exp", json!([4_102_444_800_i64])),
        ("exp", json!(0)),
        ("exp", json!(-1)),
        ("nbf", json!("0")),
        ("nbf", json!([])),
        ("nbf", json!(4_102_444_800_i64)),
    ];
    for (claim, value) in rows {
        let token = token_with(&claims(&[(claim, value.clone())]));
        assert_unauthenticated(&listed(&bank, &[&format!("Bearer {token}")]).await, &format!("{claim}: {value}"));
    }
    for (claim, value) in [
        ("aud", json!(["other", AUDIENCE])),
        ("exp", json!(4_102_444_800.5)),
        ("nbf", json!(0)),
        ("scope", json!({ "any": [1, 2] })),
    ] {
        let token = token_with(&claims(&[(claim, value.clone())]));
        assert_eq!(listed(&bank, &[&format!("Bearer {token}")]).await.status, 200, "{claim}: {value}");
    }
}

#[tokio::test]
async fn a_tokens_times_have_half_a_minutes_leeway() {
    let (bank, ..) = aoi_and_ren(70_000).await;
    let now_s = bank.now().as_second();
    for (claim, offset_s, status) in [
        ("exp", -30, 401),
        ("exp", -29, 200),
        ("exp", 0, 200),
        ("exp", 1, 200),
        ("nbf", 0, 200),
        ("nbf", 30, 200),
        ("nbf", 31, 401),
    ] {
        let token = token_with(&claims(&[(claim, json!(now_s + offset_s))]));
        assert_eq!(listed(&bank, &[&format!("Bearer {token}")]).await.status, status, "{claim} {offset_s}");
    }
    // The bank's clock decides, and a token that was good goes bad with it.
    let token = format!("Bearer {}", token_with(&claims(&[("exp", json!(now_s + 60))])));
    bank.advance_ms(89_999);
    assert_eq!(listed(&bank, &[&token]).await.status, 200);
    bank.advance_ms(1);
    assert_unauthenticated(&listed(&bank, &[&token]).await, "expired");
}

#[tokio::test]
async fn every_route_asks_who_is_calling_before_anything_else() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 1)).await;
    let id = authorized.id();
    let (before, stranger) = (bank.snapshot().await, Client { token: None, ..phone.clone() });
    let forged = Client { token: Some(format!("{}x", token("aoi", "s1"))), ..phone };
    let routes = [
        ("POST", "/v1/transfers".to_owned()),
        ("POST", format!("/v1/transfers/{id}/authorization")),
        ("POST", format!("/v1/transfers/{id}/confirmation")),
        ("POST", format!("/v1/transfers/{id}/cancellation")),
        ("GET", format!("/v1/transfers/{id}")),
        ("GET", "/v1/transfers?x=1".to_owned()),
        ("POST", "/v1/totp".to_owned()),
        ("POST", "/v1/totp/activation".to_owned()),
        ("GET", "/v1/accounts".to_owned()),
        ("GET", "/v1/accounts/ac_aoi".to_owned()),
        ("GET", "/v1/accounts/ac_aoi/entries?limit=0".to_owned()),
    ];
    for (method, path) in &routes {
        // A body that is none, no key, no parameter: nothing of it is looked at.
        assert_unauthenticated(&stranger.send(method, path, &[], b"{").await, path);
        assert_unauthenticated(&forged.send(method, path, &[], b"{").await, path);
    }
    bank.assert_unchanged(&before, "a stranger").await;
}

#[tokio::test]
async fn unknown_routes_are_not_found() {
    let (_, _, _, phone) = aoi_and_ren(70_000).await;
    let foreign = phone.get("/v1/accounts/ac_ren").await;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("GET", "/v2/transfers"),
        ("GET", "/v1/transfers/"),
        ("GET", "/v1/transfers/a/b"),
        ("GET", "/v1/transfers/a/confirmation"),
        ("POST", "/v1/transfers/a"),
        ("POST", "/v1/transfers/a/confirmation/"),
        ("POST", "/v1/accounts"),
        ("GET", "/v1/totp"),
        ("PUT", "/v1/transfers"),
        ("DELETE", "/v1/accounts/ac_aoi"),
        ("PATCH", "/v1/transfers"),
        ("OPTIONS", "/v1/transfers"),
        ("GET", "/V1/accounts"),
        ("GET", "/dev/users"),
    ] {
        let unknown = phone.send(method, path, &[], b"").await;
        unknown.assert_problem(404, "TR004", path);
        assert_eq!(unknown.untraced(), foreign.untraced(), "{method} {path}");
    }
}

#[tokio::test]
async fn a_session_is_shown_masked_and_kept_only_as_a_hash() {
    let (bank, aoi, ren, _) = aoi_and_ren(70_000).await;
    let secret_session = "a-session-id-that-is-a-credential";
    let phone = bank.client(&aoi, secret_session);
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 1)).await;
    phone.confirm(&authorized.id()).await;
    let answer = phone.status(&authorized.id()).await.body.to_string();
    let stored = format!("{:?}", bank.snapshot().await);
    for text in [&answer, &stored] {
        assert!(!text.contains(secret_session) && !text.contains("credential"), "{text}");
    }
    bank.assert_transfers(1).await;
}
