//! Reading the bodies of the development routes: strictly, every fault at once.

use crate::{
    dev::error::DevError,
    faults::{DELIVERIES_MAX, FAULTS_MAX, Faults},
};
use axum::{
    body::Bytes,
    http::{HeaderValue, header},
};
use lambda_http::Body;
use serde_json::Value;
use shared::{
    body::{Members, string},
    domain::{
        account::AccountStatus,
        money::{Currency, MAX_MINOR},
        notification::{Channel, Locale},
    },
    problem::Fault,
};

/// What can be asked for of a user; `None` asks for nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserOptions {
    pub(crate) status: Option<AccountStatus>,
    pub(crate) identity_verified: Option<bool>,
    pub(crate) daily_amount_minor: Option<i64>,
    pub(crate) daily_count: Option<i64>,
    pub(crate) per_transfer_minor: Option<i64>,
    pub(crate) locale: Option<Locale>,
    pub(crate) channels: Option<Vec<Channel>>,
    pub(crate) currency: Option<String>,
    pub(crate) enrolled: Option<bool>,
}

/// Reads a JSON object through `parse`, which notes what is wrong on the members. No media type is asked for, so that a
/// bare `curl -d` will do.
///
/// # Errors
/// [`DevError::Bad`] with every fault.
pub(crate) fn read<T>(body: &Bytes, parse: impl FnOnce(&mut Members) -> Option<T>) -> Result<T, DevError> {
    let mut request = lambda_http::Request::new(Body::Binary(body.to_vec()));
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut members = Members::of(&request)?;
    let whole = parse(&mut members);
    Ok(members.finish(whole)?)
}

impl UserOptions {
    /// Takes the options out of a body.
    pub(crate) fn take(members: &mut Members) -> Self {
        Self {
            status: members.optional("status", |value| word(value, AccountStatus::ALL, AccountStatus::as_str)),
            identity_verified: members.optional("identity_verified", boolean),
            daily_amount_minor: members.optional("daily_amount_limit_minor", |value| integer(value, 0, MAX_MINOR)),
            daily_count: members.optional("daily_count_limit", |value| integer(value, 0, MAX_MINOR)),
            per_transfer_minor: members.optional("per_transfer_limit_minor", |value| integer(value, 0, MAX_MINOR)),
            locale: members.optional("locale", |value| word(value, Locale::ALL, Locale::as_str)),
            channels: members.optional("channels", channels),
            currency: members.optional("currency", |value| {
                let code = string(value)?;
                Currency::parse(code).map(|_| code.to_owned()).map_err(|fault| fault.to_string())
            }),
            enrolled: members.optional("enrolled", boolean),
        }
    }
}

/// A number from `least` to `most`.
pub(crate) fn integer(value: &Value, least: i64, most: i64) -> Result<i64, String> {
    let number = value.as_i64().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("must be an integer from {least} to {most}"))
}

fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "must be true or false".to_owned())
}

fn word<T: Copy>(value: &Value, all: &[T], as_str: fn(T) -> &'static str) -> Result<T, String> {
    let found = value.as_str().and_then(|text| all.iter().copied().find(|item| as_str(*item) == text));
    found.ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|item| as_str(*item)).collect();
        format!("must be one of {}", words.join(", "))
    })
}

fn channel(value: &Value) -> Result<Channel, String> {
    word(value, Channel::ALL, Channel::as_str)
}

fn channels(value: &Value) -> Result<Vec<Channel>, String> {
    let items = value.as_array().ok_or("must be a list of channels")?;
    let mut channels = Vec::new();
    for item in items {
        let channel = channel(item)?;
        if channels.contains(&channel) {
            return Err(format!("names {} more than once", channel.as_str()));
        }
        channels.push(channel);
    }
    Ok(channels)
}

/// What is to be changed about the faults; `None` leaves it.
pub(crate) struct FaultChange {
    drop_confirm_replies: Option<i64>,
    deliver_events_times: Option<i64>,
    fail_channel: Option<Option<Channel>>,
    fail_times: Option<i64>,
    crash_after_send: Option<i64>,
}

impl FaultChange {
    /// Takes the faults out of a body.
    pub(crate) fn take(members: &mut Members) -> Self {
        let count = |value: &Value| integer(value, 0, FAULTS_MAX);
        Self {
            drop_confirm_replies: members.optional("drop_confirm_replies", count),
            deliver_events_times: members.optional("deliver_events_times", |value| integer(value, 0, DELIVERIES_MAX)),
            fail_channel: members.optional("fail_channel", |value| match value {
                Value::Null => Ok(None),
                value => channel(value).map(Some),
            }),
            fail_times: members.optional("fail_times", count),
            crash_after_send: members.optional("crash_after_send", count),
        }
    }

    /// A channel and its number of refusals belong together, as they stand after the change of `now`.
    ///
    /// # Errors
    /// [`DevError::Bad`] if one stands without the other.
    pub(crate) fn check(&self, now: Faults) -> Result<(), DevError> {
        let channel = self.fail_channel.unwrap_or(now.fail_channel);
        let fault = match (self.fail_channel, channel, self.fail_times) {
            (Some(Some(_)), _, None) => Fault::member("fail_times", "is missing: how often shall the channel fail?"),
            (_, None, Some(1..)) => Fault::member("fail_channel", "is missing: which channel shall fail?"),
            _ => return Ok(()),
        };
        Err(DevError::Bad(vec![fault]))
    }

    /// Applies the change.
    pub(crate) fn apply(&self, faults: &mut Faults) {
        faults.drop_confirm_replies = self.drop_confirm_replies.unwrap_or(faults.drop_confirm_replies);
        faults.deliver_events_times = self.deliver_events_times.unwrap_or(faults.deliver_events_times);
        faults.crash_after_send = self.crash_after_send.unwrap_or(faults.crash_after_send);
        faults.fail_channel = self.fail_channel.unwrap_or(faults.fail_channel);
        faults.fail_times = self.fail_times.unwrap_or(faults.fail_times);
        if faults.fail_channel.is_none() {
            faults.fail_times = 0;
        }
    }
}
