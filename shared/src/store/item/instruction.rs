//! Instructions as items.

use super::{Reader, bytes, number, text, time};
use crate::{
    domain::{
        authorization::{Authorization, KIND_TRANSFER},
        day::Day,
        error::Refusal,
        id::{AccountId, RequestId, SessionId, UserId},
        idempotency::{ContentHash, Fingerprint},
        instruction::{Content, Failure, Instruction, State, Step},
        money::Currency,
    },
    store::{StoreError, schema::*},
};
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;

pub(crate) fn history_step(step: &Step) -> AttributeValue {
    let mut map =
        HashMap::from([(STEP_AT.to_owned(), time(step.at)), (STEP_STATE.to_owned(), text(step.state.as_str()))]);
    if let Some(session) = &step.session {
        map.insert(STEP_SESSION.to_owned(), text(session));
    }
    if let Some(code) = &step.code {
        map.insert(STEP_CODE.to_owned(), text(code));
    }
    AttributeValue::M(map)
}

fn read_step(value: &AttributeValue, reader: &Reader<'_>) -> Result<Step, StoreError> {
    let map = value.as_m().map_err(|_| reader.corrupt(HISTORY))?;
    let step = Reader(map);
    Ok(Step {
        at: step.time(STEP_AT)?,
        state: step.word(STEP_STATE, State::parse)?,
        session: step.optional(STEP_SESSION, Reader::text)?.map(str::to_owned),
        code: step.optional(STEP_CODE, Reader::text)?.map(str::to_owned),
    })
}

/// A new instruction as an item; it carries the due index's attributes as long as it is open.
pub(crate) fn instruction_item(instruction: &Instruction) -> Item {
    let content = &instruction.content;
    let mut item = Key::instruction(&instruction.user, &instruction.request_id).to_item();
    item.extend(
        [
            (STATE, text(instruction.state.as_str())),
            (SOURCE, text(content.source.as_str())),
            (DESTINATION, text(content.destination.as_str())),
            (DESTINATION_NAME, text(&instruction.destination_name)),
            (DESTINATION_OWNER, text(instruction.destination_owner.as_str())),
            (AMOUNT, number(content.amount.minor())),
            (CURRENCY, text(content.currency.code())),
            (REQUESTER_NAME, text(&content.requester_name)),
            (MEMO, text(&content.memo)),
            (FINGERPRINT, bytes(instruction.fingerprint.as_bytes())),
            (CONTENT_HASH, text(instruction.content_hash.as_str())),
            (CREATED_AT, time(instruction.created_at)),
            (EXPIRES_AT, time(instruction.expires_at)),
            (HISTORY, AttributeValue::L(instruction.history.iter().map(history_step).collect())),
            (DUE_SHARD, text(due_shard(instruction.request_id.as_str()))),
            (DUE_AT, time(instruction.expires_at)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    if !instruction.stale_days.is_empty() {
        let days = instruction.stale_days.iter().map(|day| text(day.to_string())).collect();
        item.insert(STALE_DAYS.to_owned(), AttributeValue::L(days));
    }
    item
}

pub(crate) fn read_instruction(item: &Item) -> Result<Instruction, StoreError> {
    let reader = Reader(item);
    let steps = reader.list(HISTORY)?;
    Ok(Instruction {
        request_id: RequestId::parse(reader.key_part(SK, INSTRUCTION_PREFIX)?).map_err(|_| reader.corrupt(SK))?,
        user: UserId::parse(reader.key_part(PK, USER_PREFIX)?).map_err(|_| reader.corrupt(PK))?,
        content: read_content(&reader)?,
        destination_name: reader.text(DESTINATION_NAME)?.to_owned(),
        destination_owner: reader.parsed(DESTINATION_OWNER, UserId::parse)?,
        fingerprint: Fingerprint::from_bytes(reader.bytes(FINGERPRINT)?).ok_or_else(|| reader.corrupt(FINGERPRINT))?,
        content_hash: ContentHash::from_stored(reader.text(CONTENT_HASH)?),
        created_at: reader.time(CREATED_AT)?,
        expires_at: reader.time(EXPIRES_AT)?,
        state: reader.word(STATE, State::parse)?,
        authorization: reader.optional(AUTH_AT, |reader, _| read_authorization(reader))?.flatten(),
        posted_at: reader.optional(POSTED_AT, Reader::time)?,
        failure: reader.optional(FAILED_AT, |reader, name| {
            Ok(Failure { refusal: reader.word(FAILURE_CODE, Refusal::from_code)?, at: reader.time(name)? })
        })?,
        history: steps.iter().map(|step| read_step(step, &reader)).collect::<Result<_, _>>()?,
        stale_days: reader.optional(STALE_DAYS, |reader, name| reader.words(name, Day::parse))?.unwrap_or_default(),
    })
}

fn read_content(reader: &Reader<'_>) -> Result<Content, StoreError> {
    Ok(Content {
        source: reader.parsed(SOURCE, AccountId::parse)?,
        destination: reader.parsed(DESTINATION, AccountId::parse)?,
        amount: reader.amount(AMOUNT)?,
        currency: reader.parsed(CURRENCY, Currency::parse)?,
        requester_name: reader.text(REQUESTER_NAME)?.to_owned(),
        memo: reader.text(MEMO)?.to_owned(),
    })
}

/// An authorization of another kind than a transfer's is none.
fn read_authorization(reader: &Reader<'_>) -> Result<Option<Authorization>, StoreError> {
    if reader.text(AUTH_KIND)? != KIND_TRANSFER {
        return Ok(None);
    }
    Ok(Some(Authorization {
        session: reader.parsed(AUTH_SESSION, SessionId::parse)?,
        content_hash: ContentHash::from_stored(reader.text(AUTH_HASH)?),
        at: reader.time(AUTH_AT)?,
        step: reader.number(AUTH_STEP)?,
    }))
}
