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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shared::domain::idempotency::Fingerprint;
    use unicode_normalization::UnicodeNormalization;

    /// The members of a body as JSON texts, so that order and spacing can be played with.
    type Texts = Vec<(&'static str, String)>;

    fn texts(amount: i64, name: &str, memo: &str) -> Texts {
        let quoted = |text: &str| Value::from(text).to_string();
        vec![
            ("source_account_id", quoted("ac_1")),
            ("destination_account_id", quoted("ac_2")),
            ("amount_minor", amount.to_string()),
            ("currency", quoted("JPY")),
            ("requester_name", quoted(name)),
            ("memo", quoted(memo)),
        ]
    }

    fn body(texts: &Texts, space: &str) -> String {
        let members: Vec<String> =
            texts.iter().map(|(name, text)| format!("{space}\"{name}\"{space}:{space}{text}{space}")).collect();
        format!("{space}{{{}}}{space}", members.join(","))
    }

    fn fingerprint(body: &str) -> Result<Fingerprint, BodyFault> {
        let parsed = Members::parse(body.as_bytes()).and_then(RequestBody::parse)?;
        Ok(Fingerprint::of(&parsed.content))
    }

    fn refused(fault: BodyFault) -> TestCaseError {
        TestCaseError::fail(format!("{fault:?}"))
    }

    proptest! {
        #[test]
        fn how_a_body_is_written_does_not_change_its_fingerprint(
            amount in 1..=shared::domain::money::MAX_MINOR,
            name in "[a-zé葵ガぱ]{1,16}",
            memo in "[a-z 葵ガぱé]{0,40}",
            order in Just(vec![0_usize, 1, 2, 3, 4, 5]).prop_shuffle(),
            space in "[ \t\r\n]{0,3}",
            ends in "[ \u{3000}]{0,4}",
        ) {
            let plain = texts(amount, &name, &memo);
            let decomposed = |text: &str| format!("{ends}{}{ends}", text.nfd().collect::<String>());
            let other = texts(amount, &decomposed(&name), &decomposed(&memo));
            let shuffled: Texts = order.iter().map(|index| other[*index].clone()).collect();
            let (one, two) = (fingerprint(&body(&plain, "")), fingerprint(&body(&shuffled, &space)));
            prop_assert_eq!(one.map_err(refused)?, two.map_err(refused)?);
        }

        #[test]
        fn any_field_changes_the_fingerprint(
            amount in 1..shared::domain::money::MAX_MINOR,
            name in "[a-z]{1,16}",
            memo in "[a-z]{0,40}",
            field in 0..6_usize,
        ) {
            let plain = texts(amount, &name, &memo);
            let mut changed = plain.clone();
            changed[field].1 = match field {
                0 | 1 => "\"ac_3\"".to_owned(),
                2 => amount.saturating_add(1).to_string(),
                3 => "\"USD\"".to_owned(),
                _ => format!("\"{}x\"", changed[field].1.trim_matches('"')),
            };
            let (one, two) = (fingerprint(&body(&plain, "")), fingerprint(&body(&changed, "")));
            prop_assert_ne!(one.map_err(refused)?, two.map_err(refused)?);
        }

        #[test]
        fn no_bytes_make_the_parser_fall(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Members::parse(&bytes).and_then(RequestBody::parse);
        }
    }

    #[test]
    fn a_memo_that_is_left_out_is_an_empty_one() -> Result<(), BodyFault> {
        let mut without = texts(1, "Aoi", "");
        let with = fingerprint(&body(&without, ""))?;
        without.pop();
        assert_eq!(fingerprint(&body(&without, ""))?, with);
        Ok(())
    }
}
