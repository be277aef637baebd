//! Tokens and key sets in the shapes of Amazon Cognito, Auth0 and Keycloak, signed by RS256 as they sign: the claims are
//! those of the providers' documentation, with the settings of `docs/deploy.md`.

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use serde_json::{Value, json};
use shared::{
    auth::{Auth, AuthFault, Caller},
    config::{Config, Need},
};

const NOW_S: i64 = 1_796_083_200;

/// A provider: how furikomi is set up for it, and what its tokens of one login look like.
struct Provider {
    issuer: &'static str,
    audience: &'static str,
    session_claim: &'static str,
    claims: fn(user: &str, login: &str) -> Value,
}

/// An ID token: <https://docs.aws.amazon.com/cognito/latest/developerguide/amazon-cognito-user-pools-using-the-id-token.html>.
/// `jti` is of the one token, `origin_jti` of the login.
fn cognito(user: &str, login: &str) -> Value {
    json!({
        "sub": user, "iss": COGNITO.issuer, "aud": COGNITO.audience, "token_use": "id",
        "cognito:groups": ["payers"], "cognito:username": user, "email_verified": true, "email": "aoi@example.test",
        "origin_jti": login, "jti": format!("{login}-{}", shared::random::name()), "event_id": "64f513be",
        "auth_time": NOW_S - 60, "iat": NOW_S - 60, "exp": NOW_S + 3_540,
    })
}

/// An access token for an API, with `sid` put in by an Action:
/// <https://auth0.com/docs/secure/tokens/access-tokens/access-token-profiles>. It has several audiences where `openid` was
/// asked for.
fn auth0(user: &str, login: &str) -> Value {
    json!({
        "iss": AUTH0.issuer, "sub": user, "aud": [AUTH0.audience, "https://tenant.auth0.test/userinfo"],
        "iat": NOW_S - 60, "exp": NOW_S + 86_340, "azp": "client", "scope": "openid transfers",
        "https://bank.example/sid": login,
    })
}

/// An access token: <https://www.keycloak.org/docs/latest/server_admin/#_protocol-mappers>. `jti` is of the one token.
fn keycloak(user: &str, login: &str) -> Value {
    json!({
        "exp": NOW_S + 240, "iat": NOW_S - 60, "auth_time": NOW_S - 60, "jti": shared::random::name(),
        "iss": KEYCLOAK.issuer, "aud": [KEYCLOAK.audience, "account"], "sub": user, "typ": "Bearer", "azp": "app",
        "sid": login, "acr": "1", "allowed-origins": ["https://app.example"],
        "realm_access": { "roles": ["offline_access"] }, "scope": "openid email", "email_verified": false,
    })
}

const COGNITO: Provider = Provider {
    issuer: "https://cognito-idp.ap-northeast-1.amazonaws.com/ap-northeast-1_AbCdEfGhI",
    audience: "1example23456789",
    session_claim: "origin_jti",
    claims: cognito,
};
const AUTH0: Provider = Provider {
    issuer: "https://tenant.auth0.test/",
    audience: "https://bank.example/api",
    session_claim: "https://bank.example/sid",
    claims: auth0,
};
const KEYCLOAK: Provider = Provider {
    issuer: "https://login.example/realms/bank",
    audience: "furikomi",
    session_claim: "sid",
    claims: keycloak,
};

/// A signing key, and its public half as the provider shows it: with `use`, `alg` and a certificate.
fn key(id: &str, usage: &str) -> (EncodingKey, Value) {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pkcs8 = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    // The RSAPrivateKey of PKCS #1 follows a header of PKCS #8, which has 26 bytes for this size (RFC 5958 §2).
    let key = EncodingKey::from_rsa_der(&pkcs8.as_ref()[26..]);
    let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap()).unwrap();
    let algorithm = if usage == "enc" { "RSA-OAEP" } else { "RS256" };
    for (name, value) in [("kid", id), ("use", usage), ("alg", algorithm), ("x5t", "dGh1bWI")] {
        jwk[name] = json!(value);
    }
    jwk["x5c"] = json!(["MIIC"]);
    (key, jwk)
}

fn signed(key: &EncodingKey, id: &str, claims: &Value) -> String {
    let header = Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::RS256) };
    jsonwebtoken::encode(&header, claims, key).unwrap()
}

impl Provider {
    /// The checks by the functions' configuration: the keys inline, and the algorithm left at its default.
    async fn auth(&self, keys: &[&Value]) -> Auth {
        let variables = [
            ("FURIKOMI_CORE_TABLE", "core"),
            ("FURIKOMI_LEDGER_TABLE", "ledger"),
            ("FURIKOMI_OUTBOX_TABLE", "outbox"),
            ("FURIKOMI_NOTIFICATIONS_TABLE", "notifications"),
            ("FURIKOMI_JWT_ISSUER", self.issuer),
            ("FURIKOMI_JWT_AUDIENCE", self.audience),
            ("FURIKOMI_JWT_SESSION_CLAIM", self.session_claim),
            ("FURIKOMI_JWKS", &json!({ "keys": keys }).to_string()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::read(variables, &[Need::Identity]).unwrap();
        Auth::new(config.identity.as_ref().unwrap(), now()).await.unwrap()
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW_S).unwrap()
}

async fn caller(auth: &Auth, token: &str) -> Result<Caller, AuthFault> {
    let headers = [("authorization", format!("Bearer {token}"))];
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    auth.caller(&headers.into_iter().collect(), now()).await
}

#[tokio::test]
async fn the_tokens_of_the_usual_providers_are_taken() {
    let ((key, jwk), (other, other_jwk)) = (key("one", "sig"), key("two", "sig"));
    for (provider, user) in [
        (COGNITO, "76d6a5b0-0000-4000-8000-4f20b5f4a1f3"),
        (AUTH0, "auth0|507f1f77bcf86cd799439020"),
        (KEYCLOAK, "f3b8c9d2-0000-4000-8000-3f1c27a4b5d6"),
    ] {
        let auth = provider.auth(&[&other_jwk, &jwk]).await;
        let claims = (provider.claims)(user, "login-1");
        let first = caller(&auth, &signed(&key, "one", &claims)).await.unwrap();
        assert_eq!(first.user.as_str(), user);
        let refreshed = (provider.claims)(user, "login-1");
        assert_eq!(caller(&auth, &signed(&other, "two", &refreshed)).await.unwrap(), first, "{}", provider.issuer);
        let again = caller(&auth, &signed(&key, "one", &(provider.claims)(user, "login-2"))).await.unwrap();
        assert_ne!(again.session, first.session, "{}: another login is another session", provider.issuer);
        for claim in ["aud", "iss", "sub", provider.session_claim] {
            let mut without = claims.clone();
            without.as_object_mut().unwrap().remove(claim).unwrap();
            assert!(caller(&auth, &signed(&key, "one", &without)).await.is_err(), "{}: {claim}", provider.issuer);
        }
    }
}

#[tokio::test]
async fn cognitos_access_token_is_refused_for_it_has_no_audience() {
    let (key, jwk) = key("one", "sig");
    let auth = COGNITO.auth(&[&jwk]).await;
    let mut claims = cognito("aoi", "login-1");
    claims.as_object_mut().unwrap().remove("aud");
    claims["client_id"] = json!(COGNITO.audience);
    claims["token_use"] = json!("access");
    assert!(matches!(caller(&auth, &signed(&key, "one", &claims)).await, Err(AuthFault::Invalid(_))));
}

/// RFC 7517 §5: keys that are not understood are passed over; §4.2: a key for encryption signs nothing.
#[tokio::test]
async fn only_the_signature_keys_of_a_set_count() {
    let ((key, jwk), (encryption, encryption_jwk)) = (key("one", "sig"), key("two", "enc"));
    let strange = [
        json!({ "kty": "AKP", "kid": "three", "use": "sig", "alg": "ML-DSA-65", "pub": "AAAA" }),
        json!({ "kty": "EC", "kid": "four", "use": "sig", "alg": "ES256K", "crv": "secp256k1", "x": "AA", "y": "AA" }),
        json!({ "kty": "OKP", "kid": "five", "use": "sig", "alg": "EdDSA", "crv": "Ed448", "x": "AA" }),
        json!({ "kty": "RSA", "kid": "six", "use": "sig", "alg": "RS256" }),
        json!({ "kid": "seven" }),
    ];
    let mut keys: Vec<&Value> = strange.iter().collect();
    keys.extend([&encryption_jwk, &jwk]);
    let auth = KEYCLOAK.auth(&keys).await;
    let claims = keycloak("aoi", "login-1");
    caller(&auth, &signed(&key, "one", &claims)).await.unwrap();
    let by_encryption_key = caller(&auth, &signed(&encryption, "two", &claims)).await;
    assert!(matches!(by_encryption_key, Err(AuthFault::UnknownKey)), "{by_encryption_key:?}");
}
