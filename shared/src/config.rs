//! Configuration: read whole at start, every fault named, nothing guessed.
//!
//! **Architecture Invariant**: this file alone reads the environment. An invalid, missing or unknown variable stops the
//! process; nothing falls back to another engine, key or provider.

use crate::{domain::day::BankZone, store::Tables};
use data_encoding::BASE64;
use jsonwebtoken::{Algorithm, jwk::JwkSet};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// The prefix of every variable of furikomi's; one that starts so and is not known is a fault.
pub const PREFIX: &str = "FURIKOMI_";

/// Everything that is wrong with the configuration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration is not usable:\n  {}", .0.join("\n  "))]
pub struct ConfigError(pub Vec<String>);

/// A part of the configuration that a function cannot do without, beyond the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Who may call: issuer, audience, algorithms and keys.
    Identity,
    /// How TOTP secrets are sealed.
    Cipher,
    /// Where events wait for the notifier.
    Queue,
    /// From whom mail comes.
    Sender,
}

/// Where the keys of the identity provider come from.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// A JWK Set (RFC 7517 §5) in the configuration itself.
    Inline(JwkSet),
    /// An `https` address that serves one (`http` on the loopback interface only).
    Url(String),
}

/// Which tokens are accepted.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The `iss` claim.
    pub issuer: String,
    /// A member of the `aud` claim.
    pub audience: String,
    /// The signature algorithms; never taken from a token.
    pub algorithms: Vec<Algorithm>,
    /// The claim that carries the session id.
    pub session_claim: String,
    /// The keys.
    pub keys: KeySource,
}

/// How TOTP secrets are sealed.
#[derive(Clone)]
pub enum CipherChoice {
    /// A key of AWS KMS, by id, alias or ARN.
    Kms(String),
    /// A local AES-256 key.
    Local(Zeroizing<[u8; 32]>),
}

impl std::fmt::Debug for CipherChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kms(_) => "Kms",
            Self::Local(_) => "Local",
        })
    }
}

/// The configuration of a function.
#[derive(Debug, Clone)]
pub struct Config {
    /// The four tables.
    pub tables: Tables,
    /// Where a day begins.
    pub zone: BankZone,
    /// The name of the bank in authenticator apps.
    pub totp_issuer: String,
    /// Who may call.
    pub identity: Option<Identity>,
    /// How TOTP secrets are sealed.
    pub cipher: Option<CipherChoice>,
    /// Where events wait for the notifier.
    pub queue_url: Option<String>,
    /// From whom mail comes.
    pub sender: Option<String>,
}

const CORE_TABLE: &str = "FURIKOMI_CORE_TABLE";
const LEDGER_TABLE: &str = "FURIKOMI_LEDGER_TABLE";
const OUTBOX_TABLE: &str = "FURIKOMI_OUTBOX_TABLE";
const NOTIFICATIONS_TABLE: &str = "FURIKOMI_NOTIFICATIONS_TABLE";
const TIME_ZONE: &str = "FURIKOMI_TIME_ZONE";
const TOTP_ISSUER: &str = "FURIKOMI_TOTP_ISSUER";
const JWT_ISSUER: &str = "FURIKOMI_JWT_ISSUER";
const JWT_AUDIENCE: &str = "FURIKOMI_JWT_AUDIENCE";
const JWT_ALGORITHMS: &str = "FURIKOMI_JWT_ALGORITHMS";
const JWT_SESSION_CLAIM: &str = "FURIKOMI_JWT_SESSION_CLAIM";
const JWKS: &str = "FURIKOMI_JWKS";
const JWKS_URL: &str = "FURIKOMI_JWKS_URL";
const KMS_KEY: &str = "FURIKOMI_KMS_KEY";
const LOCAL_KEY: &str = "FURIKOMI_LOCAL_KEY";
const QUEUE_URL: &str = "FURIKOMI_QUEUE_URL";
const SENDER: &str = "FURIKOMI_SENDER";
const STACK: &str = "FURIKOMI_STACK";

const KNOWN: [&str; 17] = [
    CORE_TABLE,
    LEDGER_TABLE,
    OUTBOX_TABLE,
    NOTIFICATIONS_TABLE,
    TIME_ZONE,
    TOTP_ISSUER,
    JWT_ISSUER,
    JWT_AUDIENCE,
    JWT_ALGORITHMS,
    JWT_SESSION_CLAIM,
    JWKS,
    JWKS_URL,
    KMS_KEY,
    LOCAL_KEY,
    QUEUE_URL,
    SENDER,
    STACK,
];

/// Which deployment metrics are counted for. It is asked for before the configuration is read, and names nothing that a
/// function works with.
#[must_use]
pub fn stack() -> String {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    std::env::var(STACK).unwrap_or_else(|_| "furikomi".to_owned())
}

impl Config {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// [`ConfigError`] with every fault.
    pub fn from_env(needs: &[Need]) -> Result<Self, ConfigError> {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
        Self::read(variables, needs)
    }

    /// Reads `variables`; whatever is not furikomi's is left alone.
    ///
    /// # Errors
    /// [`ConfigError`] with every fault.
    pub fn read(variables: impl IntoIterator<Item = (String, String)>, needs: &[Need]) -> Result<Self, ConfigError> {
        let mut reading = Reading {
            variables: variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect(),
            faults: Vec::new(),
        };
        reading.refuse_unknown();
        let config = Self {
            tables: Tables {
                core: reading.required(CORE_TABLE),
                ledger: reading.required(LEDGER_TABLE),
                outbox: reading.required(OUTBOX_TABLE),
                notifications: reading.required(NOTIFICATIONS_TABLE),
            },
            zone: reading.parsed(TIME_ZONE, "Asia/Tokyo", |name| BankZone::parse(name).map_err(|e| e.to_string())),
            totp_issuer: reading.take(TOTP_ISSUER).unwrap_or_else(|| "furikomi".to_owned()),
            identity: needs.contains(&Need::Identity).then(|| reading.identity()).flatten(),
            cipher: needs.contains(&Need::Cipher).then(|| reading.cipher()).flatten(),
            queue_url: needs.contains(&Need::Queue).then(|| reading.required(QUEUE_URL)),
            sender: needs.contains(&Need::Sender).then(|| reading.required(SENDER)),
        };
        if reading.faults.is_empty() { Ok(config) } else { Err(ConfigError(reading.faults)) }
    }
}

struct Reading {
    variables: BTreeMap<String, String>,
    faults: Vec<String>,
}

impl Reading {
    fn refuse_unknown(&mut self) {
        for name in self.variables.keys().filter(|name| !KNOWN.contains(&name.as_str())) {
            self.faults.push(format!("{name} is not a variable of furikomi's"));
        }
    }

    /// The value, if there is one; an empty one is a fault.
    fn take(&mut self, name: &str) -> Option<String> {
        let value = self.variables.get(name)?.trim().to_owned();
        if value.is_empty() {
            self.faults.push(format!("{name} is empty"));
        }
        Some(value)
    }

    fn required(&mut self, name: &str) -> String {
        self.take(name).unwrap_or_else(|| {
            self.faults.push(format!("{name} is missing"));
            String::new()
        })
    }

    /// The value through `parse`; a fault is noted, and `default`, which `parse` takes, stands in until the end.
    fn parsed<T>(&mut self, name: &str, default: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let value = self.take(name).unwrap_or_else(|| default.to_owned());
        match parse(&value) {
            Ok(parsed) => parsed,
            Err(fault) => {
                self.faults.push(format!("{name} {fault}"));
                #[expect(clippy::expect_used, reason = "the defaults are constants that a test parses")]
                parse(default).expect("the default is valid")
            }
        }
    }

    fn identity(&mut self) -> Option<Identity> {
        Some(Identity {
            issuer: self.required(JWT_ISSUER),
            audience: self.required(JWT_AUDIENCE),
            algorithms: self.parsed(JWT_ALGORITHMS, "RS256", parse_algorithms),
            session_claim: self.take(JWT_SESSION_CLAIM).unwrap_or_else(|| "sid".to_owned()),
            keys: self.keys()?,
        })
    }

    fn keys(&mut self) -> Option<KeySource> {
        let parsed = match (self.take(JWKS), self.take(JWKS_URL)) {
            (Some(set), None) => parse_jwks(&set).map(KeySource::Inline).map_err(|fault| format!("{JWKS} {fault}")),
            (None, Some(url)) if is_safe_url(&url) => Ok(KeySource::Url(url)),
            (None, Some(_)) => Err(format!("{JWKS_URL} must be an https address, or http on the loopback interface")),
            (None, None) => Err(format!("{JWKS} or {JWKS_URL} is missing")),
            (Some(_), Some(_)) => Err(format!("{JWKS} and {JWKS_URL} exclude each other")),
        };
        parsed.map_err(|fault| self.faults.push(fault)).ok()
    }

    fn cipher(&mut self) -> Option<CipherChoice> {
        let chosen = match (self.take(KMS_KEY), self.take(LOCAL_KEY)) {
            (Some(key), None) => Ok(CipherChoice::Kms(key)),
            (None, Some(key)) => parse_local_key(&key).map(CipherChoice::Local),
            (None, None) => Err(format!("{KMS_KEY} or {LOCAL_KEY} is missing")),
            (Some(_), Some(_)) => Err(format!("{KMS_KEY} and {LOCAL_KEY} exclude each other")),
        };
        chosen.map_err(|fault| self.faults.push(fault)).ok()
    }
}

/// Asymmetric algorithms only: with a shared secret, whoever can check a token can make one.
fn parse_algorithms(list: &str) -> Result<Vec<Algorithm>, String> {
    list.split(',')
        .map(|name| {
            let algorithm: Algorithm = name.trim().parse().map_err(|_| unknown_algorithm(name))?;
            match algorithm {
                Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => Err(unknown_algorithm(name)),
                other => Ok(other),
            }
        })
        .collect()
}

fn unknown_algorithm(name: &str) -> String {
    format!("names {name:?}, which is not an asymmetric signature algorithm such as RS256 or ES256")
}

fn parse_jwks(json: &str) -> Result<JwkSet, String> {
    let set: JwkSet = serde_json::from_str(json).map_err(|error| format!("is not a JWK Set: {error}"))?;
    if set.keys.is_empty() { Err("has no key".to_owned()) } else { Ok(set) }
}

fn is_safe_url(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let loopback = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    url.scheme() == "https" || url.scheme() == "http" && loopback
}

fn parse_local_key(text: &str) -> Result<Zeroizing<[u8; 32]>, String> {
    let fault = || format!("{LOCAL_KEY} must be 32 bytes in base 64");
    let bytes = Zeroizing::new(BASE64.decode(text.as_bytes()).map_err(|_| fault())?);
    let key: [u8; 32] = bytes.as_slice().try_into().map_err(|_| fault())?;
    Ok(Zeroizing::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: [(&str, &str); 4] =
        [(CORE_TABLE, "core"), (LEDGER_TABLE, "ledger"), (OUTBOX_TABLE, "outbox"), (NOTIFICATIONS_TABLE, "n")];

    fn read(extra: &[(&str, &str)], needs: &[Need]) -> Result<Config, ConfigError> {
        let all = TABLES.iter().chain(extra).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::read(all, needs)
    }

    #[test]
    fn the_defaults_are_valid() -> Result<(), ConfigError> {
        read(&[("PATH", "/bin")], &[])?;
        read(&[(KMS_KEY, "alias/k"), (QUEUE_URL, "q"), (SENDER, "s")], &[Need::Cipher, Need::Queue, Need::Sender])?;
        let identity = [(JWT_ISSUER, "i"), (JWT_AUDIENCE, "a"), (JWKS_URL, "https://idp.example/jwks")];
        let config = read(&identity, &[Need::Identity])?;
        let identity = config.identity.ok_or_else(|| ConfigError(Vec::new()))?;
        assert_eq!((identity.algorithms, identity.session_claim.as_str()), (vec![Algorithm::RS256], "sid"));
        Ok(())
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let variables = [
            (CORE_TABLE, ""),
            (TIME_ZONE, "Asia/Edo"),
            (JWT_ALGORITHMS, "HS256"),
            (JWKS, "{}"),
            (KMS_KEY, "k"),
            (LOCAL_KEY, "k"),
            ("FURIKOMI_COLOUR", "red"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let faults =
            Config::read(variables, &[Need::Identity, Need::Cipher, Need::Queue, Need::Sender]).map_err(|e| e.0);
        let faults = faults.err().unwrap_or_default();
        for name in [
            CORE_TABLE,
            LEDGER_TABLE,
            OUTBOX_TABLE,
            NOTIFICATIONS_TABLE,
            TIME_ZONE,
            JWT_ISSUER,
            JWT_AUDIENCE,
            JWT_ALGORITHMS,
            JWKS,
            KMS_KEY,
            QUEUE_URL,
            SENDER,
            "FURIKOMI_COLOUR",
        ] {
            assert!(faults.iter().any(|fault| fault.starts_with(name)), "{name}: {faults:?}");
        }
    }

    #[test]
    fn keys_come_from_one_safe_place() {
        for (url, valid) in [
            ("https://idp.example/jwks", true),
            ("http://127.0.0.1:8080/jwks", true),
            ("http://idp.example/jwks", false),
            ("ftp://idp.example", false),
            ("jwks.json", false),
        ] {
            let identity = [(JWT_ISSUER, "i"), (JWT_AUDIENCE, "a"), (JWKS_URL, url)];
            assert_eq!(read(&identity, &[Need::Identity]).is_ok(), valid, "{url}");
        }
        assert!(read(&[(LOCAL_KEY, "c2hvcnQ=")], &[Need::Cipher]).is_err());
        assert!(read(&[(LOCAL_KEY, "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")], &[Need::Cipher]).is_ok());
    }
}
