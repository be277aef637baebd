//! The body of `POST /v1/transfers`.

use serde_json::Value;
use shared::{
    body::{BodyFault, Members, string},
    domain::{
        id::AccountId,
        instruction::Content,
        money::{Amount, Currency},
        text,
    },
};

/// Characters of a requester's name.
const NAME_CHARS: (usize, usize) = (1, 48);
/// Characters of a memo.
const MEMO_CHARS: (usize, usize) = (0, 140);

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestBody {
    pub(crate) content: Content,
}

impl RequestBody {
    /// Takes the members of a body; each fault is named with its pointer, all at once.
    pub(crate) fn parse(mut members: Members) -> Result<Self, BodyFault> {
        let source = members.required("source_account_id", account);
        let destination = members.required("destination_account_id", account);
        let amount = members.required("amount_minor", amount);
        let currency = members.required("currency", currency);
        let requester_name = members.required("requester_name", |value| words(value, NAME_CHARS));
        let memo = members.optional("memo", |value| words(value, MEMO_CHARS)).unwrap_or_default();
        let content = match (source, destination, amount, currency, requester_name) {
            (Some(source), Some(destination), Some(amount), Some(currency), Some(requester_name)) => {
                Some(Self { content: Content { source, destination, amount, currency, requester_name, memo } })
            }
            _ => None,
        };
        members.finish(content)
    }
}

fn account(value: &Value) -> Result<AccountId, String> {
    AccountId::parse(string(value)?).map_err(|_| "must be an account id".to_owned())
}

fn amount(value: &Value) -> Result<Amount, String> {
    let minor = value.as_i64().unwrap_or(0);
    Amount::parse(minor).map_err(|fault| fault.to_string())
}

fn currency(value: &Value) -> Result<Currency, String> {
    Currency::parse(string(value)?).map_err(|fault| fault.to_string())
}

fn words(value: &Value, (min, max): (usize, usize)) -> Result<String, String> {
    text::parse(string(value)?, min, max).map_err(|fault| fault.to_string())
}
