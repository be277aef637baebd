//! The identity provider: one ES256 key, its public JWK Set, and tokens.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;
use shared::domain::hash;

/// The `iss` claim.
pub(crate) const ISSUER: &str = "https://issuer.furikomi.example";
/// The `aud` claim.
pub(crate) const AUDIENCE: &str = "furikomi";
/// When tokens end: far enough ahead that setting the clock does not end them.
const EXPIRES: i64 = 32_503_680_000;

/// The key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the issuer's key is not a P-256 key in PKCS #8")]
pub(crate) struct KeyFault;

/// The issuer of the server's tokens.
pub(crate) struct Issuer {
    key: EncodingKey,
    key_id: String,
    jwks: String,
}

impl Issuer {
    /// An issuer with this private key.
    pub(crate) fn new(pkcs8: &[u8]) -> Result<Self, KeyFault> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8).map_err(|_| KeyFault)?;
        // An uncompressed point (SEC 1 §2.3.3): 4, then 32 bytes each of x and y.
        let point = pair.public_key().as_ref();
        let (Some(x), Some(y), 65) = (point.get(1..33), point.get(33..65), point.len()) else {
            return Err(KeyFault);
        };
        let key_id = BASE64URL_NOPAD.encode(&hash::tagged("furikomi.local.key.v1", &[point])[..12]);
        let jwk = json!({
            "kty": "EC",
            "crv": "P-256",
            "use": "sig",
            "alg": "ES256",
            "kid": key_id,
            "x": BASE64URL_NOPAD.encode(x),
            "y": BASE64URL_NOPAD.encode(y),
        });
        Ok(Self { key: EncodingKey::from_ec_der(pkcs8), key_id, jwks: json!({ "keys": [jwk] }).to_string() })
    }

    /// The public JWK Set (RFC 7517 §5).
    pub(crate) fn jwks(&self) -> String {
        self.jwks.clone()
    }

    /// A token for a user's session. It has no `nbf`, so that it holds whichever way the clock is set.
    pub(crate) fn token(
        &self,
        user: &str,
        session: &str,
        now: Timestamp,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(self.key_id.clone());
        let claims = json!({
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "sid": session,
            "iat": now.as_second(),
            "exp": EXPIRES,
        });
        encode(&header, &claims, &self.key)
    }
}
