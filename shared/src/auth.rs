//! Who is calling: the bearer token, verified by the function itself on every engine.

use crate::{
    config::{Identity, KeySource},
    domain::id::{SessionId, UserId},
};
use jiff::Timestamp;
use jsonwebtoken::{
    DecodingKey, Validation, decode, decode_header,
    jwk::{CommonParameters, JwkSet, KeyOperations, PublicKeyUse},
};
use lambda_http::http::{HeaderMap, header::AUTHORIZATION};
use serde_json::{Map, Value};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// How far the clocks of the identity provider and of furikomi may differ, in seconds.
const LEEWAY_S: i64 = 30;
/// The least time between two fetches of the provider's keys, in seconds.
const REFRESH_EVERY_S: i64 = 60;
const FETCH_TIMEOUT: Duration = Duration::from_secs(3);

/// A verified caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: UserId,
    /// The login session.
    pub session: SessionId,
}

/// Why a token was refused. For the log alone: callers learn AU001 and nothing else.
#[derive(Debug, thiserror::Error)]
pub enum AuthFault {
    /// No `Authorization: Bearer`, or more than one.
    #[error("there is not exactly one bearer token")]
    NoToken,
    /// The key that the token names is not one of the provider's.
    #[error("the token is signed with an unknown key")]
    UnknownKey,
    /// Signature, algorithm, issuer or audience.
    #[error("the token does not verify")]
    Invalid(#[source] jsonwebtoken::errors::Error),
    /// A claim is missing or malformed.
    #[error("the token has no usable claim {0}")]
    Claim(String),
    /// The token's time has passed.
    #[error("the token has expired")]
    Expired,
    /// The token's time has not come.
    #[error("the token is not valid yet")]
    NotYet,
    /// The provider's keys could not be fetched.
    #[error("the identity provider's keys cannot be had")]
    Keys(#[source] reqwest::Error),
}

/// The checks that a token has to pass.
#[derive(Debug)]
pub struct Auth {
    validation: Validation,
    session_claim: String,
    keys: Keys,
}

type KeyMap = Arc<HashMap<Option<String>, DecodingKey>>;

#[derive(Debug)]
enum Keys {
    Inline(KeyMap),
    Remote { url: String, client: reqwest::Client, cache: Mutex<Cache> },
}

#[derive(Debug, Default)]
struct Cache {
    keys: KeyMap,
    fetched_at: Option<Timestamp>,
}

impl Auth {
    /// Prepares the checks; keys at an address are fetched now, so that the first call need not.
    ///
    /// # Errors
    /// [`AuthFault::Keys`] if no HTTP client can be built. A provider that is down is not an error: it is asked again.
    pub async fn new(identity: &Identity, now: Timestamp) -> Result<Self, AuthFault> {
        let [first, rest @ ..] = identity.algorithms.as_slice() else {
            return Err(AuthFault::UnknownKey);
        };
        let mut validation = Validation::new(*first);
        validation.algorithms.extend(rest);
        validation.set_issuer(&[&identity.issuer]);
        validation.set_audience(&[&identity.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // Times are checked against the app's clock, below.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let keys = match &identity.keys {
            KeySource::Inline(set) => Keys::Inline(key_map(set)),
            KeySource::Url(url) => {
                let client = reqwest::Client::builder().timeout(FETCH_TIMEOUT).build().map_err(AuthFault::Keys)?;
                let keys = Keys::Remote { url: url.clone(), client, cache: Mutex::default() };
                keys.warm(now).await;
                keys
            }
        };
        Ok(Self { validation, session_claim: identity.session_claim.clone(), keys })
    }

    /// The caller that the one bearer token in `headers` stands for at `now`.
    ///
    /// # Errors
    /// [`AuthFault`]; none of them carries the token.
    pub async fn caller(&self, headers: &HeaderMap, now: Timestamp) -> Result<Caller, AuthFault> {
        let token = bearer(headers).ok_or(AuthFault::NoToken)?;
        let header = decode_header(token).map_err(AuthFault::Invalid)?;
        let key = self.keys.find(header.kid, now).await?;
        let claims: Map<String, Value> = decode(token, &key, &self.validation).map_err(AuthFault::Invalid)?.claims;
        check_times(&claims, now)?;
        let text = |name: &str| {
            let claim = claims.get(name).and_then(Value::as_str);
            claim.ok_or_else(|| AuthFault::Claim(name.to_owned()))
        };
        // One issuer (RFC 7519 §4.1.1): the check above is content with a list that names ours among others.
        text("iss")?;
        let user = UserId::parse(text("sub")?).map_err(|_| AuthFault::Claim("sub".to_owned()))?;
        let session = SessionId::from_claim(&user, text(&self.session_claim)?)
            .map_err(|_| AuthFault::Claim(self.session_claim.clone()))?;
        Ok(Caller { user, session })
    }
}

/// The one token of the one `Authorization` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start()).filter(|token| !token.is_empty())
}

/// `exp` must lie ahead and `nbf` behind, give or take the leeway (RFC 7519 §4.1.4 and §4.1.5).
fn check_times(claims: &Map<String, Value>, now: Timestamp) -> Result<(), AuthFault> {
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => numeric_date(value).map(Some).ok_or_else(|| AuthFault::Claim(name.to_owned())),
    };
    let now_s = now.as_second();
    let expires_s = time("exp")?.ok_or_else(|| AuthFault::Claim("exp".to_owned()))?;
    if expires_s.saturating_add(LEEWAY_S) <= now_s {
        return Err(AuthFault::Expired);
    }
    if time("nbf")?.is_some_and(|begins_s| begins_s.saturating_sub(LEEWAY_S) > now_s) {
        return Err(AuthFault::NotYet);
    }
    Ok(())
}

/// Whole seconds of a NumericDate, which may have a fraction (RFC 7519 §2).
fn numeric_date(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates, and the fraction is not needed")]
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

/// The keys that can verify a signature, by their id.
fn key_map(set: &JwkSet) -> KeyMap {
    let usable = set.keys.iter().filter(|jwk| is_for_signatures(&jwk.common)).filter_map(|jwk| {
        let key = DecodingKey::from_jwk(jwk).ok()?;
        Some((jwk.common.key_id.clone(), key))
    });
    Arc::new(usable.collect())
}

/// A key that says what it is for says signatures (RFC 7517 §4.2 and §4.3).
fn is_for_signatures(key: &CommonParameters) -> bool {
    let usage = key.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
    usage && key.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}

/// The key with this id; a token without an id is matched only where there is no choice.
fn find_in(keys: &KeyMap, id: &Option<String>) -> Option<DecodingKey> {
    match id {
        Some(_) => keys.get(id).cloned(),
        None if keys.len() == 1 => keys.values().next().cloned(),
        None => None,
    }
}

impl Keys {
    async fn find(&self, id: Option<String>, now: Timestamp) -> Result<DecodingKey, AuthFault> {
        let (url, client, cache) = match self {
            Self::Inline(keys) => return find_in(keys, &id).ok_or(AuthFault::UnknownKey),
            Self::Remote { url, client, cache } => (url, client, cache),
        };
        let mut cache = cache.lock().await;
        if let Some(key) = find_in(&cache.keys, &id) {
            return Ok(key);
        }
        cache.refresh(url, client, now).await?;
        find_in(&cache.keys, &id).ok_or(AuthFault::UnknownKey)
    }

    async fn warm(&self, now: Timestamp) {
        if let Self::Remote { url, client, cache } = self
            && let Err(fault) = cache.lock().await.refresh(url, client, now).await
        {
            tracing::warn!(error = %fault, "fetching the identity provider's keys at start failed");
        }
    }
}

impl Cache {
    /// Fetches the keys, at most once per [`REFRESH_EVERY_S`]. What was there stays if the provider is down or serves
    /// nothing usable.
    async fn refresh(&mut self, url: &str, client: &reqwest::Client, now: Timestamp) -> Result<(), AuthFault> {
        if self.fetched_at.is_some_and(|at| now.as_second().saturating_sub(at.as_second()) < REFRESH_EVERY_S) {
            return Ok(());
        }
        self.fetched_at = Some(now);
        let fetch = async { client.get(url).send().await?.error_for_status()?.json::<JwkSet>().await };
        let keys = key_map(&fetch.await.map_err(AuthFault::Keys)?);
        if !keys.is_empty() {
            self.keys = keys;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
    };
    use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
    use serde_json::json;
    use std::sync::{
        Mutex as StdMutex,
        atomic::{AtomicUsize, Ordering},
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

    /// An identity provider: what it serves, and how often it was asked.
    #[derive(Default)]
    struct Provider {
        body: StdMutex<String>,
        asked: AtomicUsize,
    }

    impl Provider {
        async fn start() -> Fallible<(Arc<Self>, String)> {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let url = format!("http://{}/jwks", listener.local_addr()?);
            let provider = Arc::new(Self::default());
            let serving = Arc::clone(&provider);
            tokio::spawn(async move {
                while let Ok((mut socket, _)) = listener.accept().await {
                    let mut request = [0_u8; 2048];
                    let _ = socket.read(&mut request).await;
                    serving.asked.fetch_add(1, Ordering::SeqCst);
                    let body = serving.body.lock().map(|body| body.clone()).unwrap_or_default();
                    let status = if body.is_empty() { "500 Internal Server Error" } else { "200 OK" };
                    let head =
                        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                    let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
                }
            });
            Ok((provider, url))
        }

        fn serves(&self, body: String) {
            if let Ok(mut served) = self.body.lock() {
                *served = body;
            }
        }
    }

    fn key_pair(id: &str) -> Fallible<(EncodingKey, Jwk)> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())?;
        let key = EncodingKey::from_ec_der(pkcs8.as_ref());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256)?;
        jwk.common.key_id = Some(id.to_owned());
        Ok((key, jwk))
    }

    fn headers(key: &EncodingKey, id: &str) -> Fallible<HeaderMap> {
        let claims = json!({ "iss": "i", "aud": ["a", "b"], "sub": "aoi", "sid": "s1", "exp": 4_102_444_800_i64 });
        let header = Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::ES256) };
        let token = jsonwebtoken::encode(&header, &claims, key)?;
        Ok(HeaderMap::from_iter([(AUTHORIZATION, format!("bearer {token}").parse()?)]))
    }

    #[tokio::test]
    async fn keys_by_address_are_cached_refreshed_at_a_bounded_rate_and_kept_when_the_provider_is_down() -> Fallible {
        let (provider, url) = Provider::start().await?;
        let ((old, old_jwk), (new, new_jwk)) = (key_pair("old")?, key_pair("new")?);
        provider.serves(json!({ "keys": [old_jwk] }).to_string());
        let identity = Identity {
            issuer: "i".to_owned(),
            audience: "a".to_owned(),
            algorithms: vec![Algorithm::ES256],
            session_claim: "sid".to_owned(),
            keys: KeySource::Url(url),
        };
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000_i64.saturating_add(seconds));
        let auth = Auth::new(&identity, at(0)?).await?;
        let asked = || provider.asked.load(Ordering::SeqCst);

        assert!(auth.caller(&headers(&old, "old")?, at(1)?).await.is_ok());
        assert_eq!(asked(), 1, "fetched at start, and not for a known key");

        provider.serves(json!({ "keys": [new_jwk] }).to_string());
        for _ in 0..3 {
            assert!(matches!(auth.caller(&headers(&new, "new")?, at(59)?).await, Err(AuthFault::UnknownKey)));
        }
        assert_eq!(asked(), 1, "an unknown key does not make it ask before its time");
        assert!(auth.caller(&headers(&new, "new")?, at(60)?).await.is_ok());
        assert_eq!(asked(), 2);

        provider.serves(String::new());
        assert!(matches!(auth.caller(&headers(&old, "gone")?, at(120)?).await, Err(AuthFault::Keys(_))));
        assert!(auth.caller(&headers(&new, "new")?, at(121)?).await.is_ok(), "the last good keys stay");
        provider.serves("{\"keys\":[]}".to_owned());
        assert!(matches!(auth.caller(&headers(&old, "gone")?, at(181)?).await, Err(AuthFault::UnknownKey)));
        assert!(auth.caller(&headers(&new, "new")?, at(182)?).await.is_ok(), "an empty set does not replace them");
        Ok(())
    }
}
