//! Tokens that are none.

use crate::{Suite, people::Person, stack::Stack};
use aws_lc_rs::{rand::SystemRandom, signature::ECDSA_P256_SHA256_FIXED_SIGNING, signature::EcdsaKeyPair};
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) fn add(suite: &mut Suite) {
    suite.test("a_token_that_is_none_opens_nothing", table);
    suite.test("a_token_of_one_user_shows_nothing_of_another", other_user);
}

async fn table(stack: Arc<Stack>) {
    let person = Person::new(&stack, "aoi", 0).await;
    let good = stack.claims(&person.user, "phone");
    stack.with_token(Some(stack.sign(&good))).get("/v1/accounts").await.expect("200");
    for (name, token) in bad_tokens(&stack, &good) {
        for path in ["/v1/accounts", "/v1/transfers?idempotency_key=key-of-the-token-table"] {
            let answer = stack.with_token(token.clone()).get(path).await;
            assert_eq!(answer.short(), "401 AU001", "{name}: {}", answer.body);
            assert_eq!(answer.body["money_moved"], "unknown", "{name}");
        }
    }
}

/// Every way to be refused, by name.
fn bad_tokens(stack: &Stack, good: &Value) -> Vec<(&'static str, Option<String>)> {
    let now = Timestamp::now().as_second();
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        stack.sign(&claims)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        stack.sign(&claims)
    };
    let (key, id, _) = &stack.issuer;
    let signed = |kid: Option<&str>| stack.sign_as(Algorithm::ES256, kid.map(str::to_owned), key, good);
    let (header, rest) =
        signed(Some(id)).split_once('.').map(|(head, rest)| (head.to_owned(), rest.to_owned())).unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let none = BASE64URL_NOPAD.encode(json!({ "alg": "none", "typ": "JWT", "kid": id }).to_string().as_bytes());
    let other_payload = BASE64URL_NOPAD.encode(with_user(good, "ren").to_string().as_bytes());
    vec![
        ("no token", None),
        ("no JWT", Some("abc".to_owned())),
        ("expired", Some(with("exp", json!(now - 3600)))),
        ("not yet valid", Some(with("nbf", json!(now + 3600)))),
        ("wrong issuer", Some(with("iss", json!("https://elsewhere.example")))),
        ("wrong audience", Some(with("aud", json!("another-app")))),
        ("no issuer", Some(without("iss"))),
        ("no audience", Some(without("aud"))),
        ("no end", Some(without("exp"))),
        ("no user", Some(without("sub"))),
        ("no session", Some(without("sid"))),
        ("a session that is no text", Some(with("sid", json!(1)))),
        ("unknown key id", Some(signed(Some("another-key")))),
        ("alg none", Some(format!("{none}.{payload}."))),
        ("alg none with a signature", Some(format!("{none}.{payload}.{signature}"))),
        ("HS256 with the public key", Some(hs256(stack, good))),
        ("another payload under the signature", Some(format!("{header}.{other_payload}.{signature}"))),
        ("another key's signature", Some(foreign(stack, good))),
    ]
}

fn with_user(good: &Value, user: &str) -> Value {
    let mut claims = good.clone();
    claims["sub"] = json!(user);
    claims
}

/// A token whose secret is what everybody may know: the issuer's public key, as it stands in the JWK Set.
fn hs256(stack: &Stack, claims: &Value) -> String {
    let (_, id, _) = &stack.issuer;
    let secret = EncodingKey::from_secret(stack.public_key.as_bytes()).unwrap();
    stack.sign_as(Algorithm::HS256, Some(id.clone()), &secret, claims)
}

/// A token that somebody else signed, under the issuer's key id.
fn foreign(stack: &Stack, claims: &Value) -> String {
    let (_, id, _) = &stack.issuer;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let key = EncodingKey::from_ec_der(pkcs8.as_ref());
    stack.sign_as(Algorithm::ES256, Some(id.clone()), &key, claims)
}

async fn other_user(stack: Arc<Stack>) {
    let (aoi, ren) = crate::scenes::couple(&stack, 70_000).await;
    let shown = stack.login(&ren, "phone").get("/v1/accounts").await.body;
    assert!(!shown.to_string().contains(aoi.account.as_str()), "{shown}");
    let accounts = shown["accounts"].as_array().unwrap();
    assert_eq!(accounts.len(), 1, "{shown}");
}
