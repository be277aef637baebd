//! Reading the values of the command line.

use jiff::{Span, SpanRelativeTo, Timestamp};
use shared::domain::{
    event::EventId,
    id::{AccountId, UserId},
    money::{Amount, Currency, MAX_MINOR},
    notification::{Channel, Locale, NotificationState},
    text,
};

/// The longest name of an account's holder, as that of a requester.
const NAME_MAX: usize = 48;
/// The longest name of an operator.
const OPERATOR_MAX: usize = 64;
/// The longest reference of a deposit.
const REFERENCE_MAX: usize = 128;
/// The longest address: a mail address has at most 254 bytes (RFC 5321 §4.5.3.1), an endpoint's ARN is shorter.
const ADDRESS_MAX: usize = 256;

pub(crate) fn account(raw: &str) -> Result<AccountId, String> {
    AccountId::parse(raw).map_err(|fault| fault.to_string())
}

pub(crate) fn user(raw: &str) -> Result<UserId, String> {
    UserId::parse(raw).map_err(|fault| fault.to_string())
}

pub(crate) fn currency(raw: &str) -> Result<Currency, String> {
    Currency::parse(raw).map_err(|fault| fault.to_string())
}

pub(crate) fn amount(raw: &str) -> Result<Amount, String> {
    let minor = raw.parse().map_err(|_| format!("must be an integer from 1 to {MAX_MINOR}"))?;
    Amount::parse(minor).map_err(|fault| fault.to_string())
}

/// A limit: from nothing to all that there can be.
pub(crate) fn limit(raw: &str) -> Result<i64, String> {
    let limit = raw.parse().ok().filter(|limit| (0..=MAX_MINOR).contains(limit));
    limit.ok_or_else(|| format!("must be an integer from 0 to {MAX_MINOR}"))
}

pub(crate) fn holder_name(raw: &str) -> Result<String, String> {
    text::parse(raw, 1, NAME_MAX).map_err(|fault| fault.to_string())
}

pub(crate) fn operator(raw: &str) -> Result<String, String> {
    text::parse(raw, 1, OPERATOR_MAX).map_err(|fault| fault.to_string())
}

pub(crate) fn reference(raw: &str) -> Result<String, String> {
    text::parse(raw, 1, REFERENCE_MAX).map_err(|fault| fault.to_string())
}

pub(crate) fn email(raw: &str) -> Result<String, String> {
    let address = text::parse(raw, 3, ADDRESS_MAX).map_err(|fault| fault.to_string())?;
    let is_one = !address.contains(char::is_whitespace)
        && address.split_once('@').is_some_and(|(who, at)| !who.is_empty() && !at.is_empty() && !at.contains('@'));
    if is_one { Ok(address) } else { Err("is not a mail address".to_owned()) }
}

pub(crate) fn push(raw: &str) -> Result<String, String> {
    let is_arn = raw.len() <= ADDRESS_MAX && raw.starts_with("arn:") && !raw.contains(char::is_whitespace);
    if is_arn { Ok(raw.to_owned()) } else { Err("is not the ARN of an SNS endpoint".to_owned()) }
}

pub(crate) fn locale(raw: &str) -> Result<Locale, String> {
    Locale::parse(raw).ok_or_else(|| "must be ja or en".to_owned())
}

pub(crate) fn event(raw: &str) -> Result<EventId, String> {
    EventId::parse(raw).map(|(id, _, _)| id).ok_or_else(|| "is not an event's id (ev_…)".to_owned())
}

pub(crate) fn channel(raw: &str) -> Result<Channel, String> {
    Channel::parse(&raw.to_ascii_uppercase()).ok_or_else(|| "must be EMAIL or PUSH".to_owned())
}

pub(crate) fn state(raw: &str) -> Result<NotificationState, String> {
    let state = NotificationState::parse(&raw.to_ascii_uppercase());
    state.ok_or_else(|| "must be PENDING, SENDING, SENT, FAILED or UNKNOWN".to_owned())
}

/// A length of time in seconds: a number of seconds, or `90s`, `15m`, `24h`, `7d`.
pub(crate) fn seconds(raw: &str) -> Result<i64, String> {
    let fault = || "must be a length of time such as 90s, 15m, 24h or 7d".to_owned();
    let length = match raw.parse::<i64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let span: Span = raw.parse().map_err(|_| fault())?;
            span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| fault())?.as_secs()
        }
    };
    if length >= 0 { Ok(length) } else { Err(fault()) }
}

/// A moment: itself, or how long ago it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// This one.
    At(Timestamp),
    /// So many seconds ago.
    Ago(i64),
}

impl Since {
    /// The moment, seen from `now`.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(seconds) => now.checked_sub(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN),
        }
    }
}

pub(crate) fn since(raw: &str) -> Result<Since, String> {
    if let Ok(at) = raw.parse() {
        return Ok(Since::At(at));
    }
    let ago = seconds(raw).map(Since::Ago);
    ago.map_err(|_| "must be RFC 3339 (2026-12-01T00:00:00+09:00) or a length of time (24h, 7d)".to_owned())
}

/// The hosts of stacks on this machine or in its containers: loopback, or a name without a domain.
pub(crate) fn is_local_endpoint(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || !matches!(scheme, "http" | "https") {
        return false;
    }
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or_default(),
    };
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => {
            let is_name = !host.is_empty() && !host.contains('.');
            is_name || host.ends_with(".localhost") || host == "localhost.localstack.cloud"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_or_a_length_of_time() {
        let now: Timestamp = "2026-12-02T00:00:00Z".parse().unwrap();
        for (raw, at) in [
            ("2026-12-01T09:00:00+09:00", "2026-12-01T00:00:00Z"),
            ("24h", "2026-12-01T00:00:00Z"),
            ("1d", "2026-12-01T00:00:00Z"),
            ("90m", "2026-12-01T22:30:00Z"),
            ("60", "2026-12-01T23:59:00Z"),
        ] {
            assert_eq!(since(raw).map(|since| since.at(now)), Ok(at.parse().unwrap()), "{raw}");
        }
        for raw in ["", "yesterday", "-1h", "1 month", "2026-12-01"] {
            assert!(since(raw).is_err(), "{raw}");
        }
    }

    #[test]
    fn only_stacks_nearby_are_local() {
        for (url, local) in [
            ("http://127.0.0.1:8000", true),
            ("http://[::1]:8000/x", true),
            ("http://localhost:4566", true),
            ("http://localstack:4566", true),
            ("http://sqs.us-east-1.localhost:4566", true),
            ("https://localhost.localstack.cloud:4566", true),
            ("https://dynamodb.ap-northeast-1.amazonaws.com", false),
            ("http://10.0.0.1:4566", false),
            ("http://localhost@example.com", false),
            ("http://localhost.example.com", false),
            ("localhost:4566", false),
            ("http://", false),
        ] {
            assert_eq!(is_local_endpoint(url), local, "{url}");
        }
    }

    #[test]
    fn addresses_are_what_their_providers_take() {
        assert!(email("aoi@example.com").is_ok());
        for raw in ["aoi", "@example.com", "aoi@", "a@b@c", "a b@c", "a@b\n"] {
            assert!(email(raw).is_err(), "{raw}");
        }
        assert!(push("arn:aws:sns:ap-northeast-1:1:endpoint/GCM/a/b").is_ok());
        assert!(push("phone").is_err());
    }
}
