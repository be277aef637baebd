//! The instruction as clients see it.

use crate::{
    domain::instruction::{Instruction, ResultKind, State, Step},
    http::Reply,
    problem::CONTENDED_RETRY_S,
};
use jiff::Timestamp;
use lambda_http::http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A time on the wire: RFC 3339, UTC, with milliseconds.
#[must_use]
pub fn time_json(at: Timestamp) -> Value {
    format!("{at:.3}").into()
}

/// The instruction resource with `result`.
#[must_use]
pub fn instruction_json(instruction: &Instruction, result: ResultKind) -> Value {
    let content = &instruction.content;
    let authorized_until = match (instruction.state, &instruction.authorization) {
        (State::Authorized, Some(authorization)) => time_json(authorization.until()),
        _ => Value::Null,
    };
    json!({
        "request_id": instruction.request_id.as_str(),
        "result": result.as_str(),
        "state": instruction.state.as_str(),
        "source_account_id": content.source.as_str(),
        "destination_account_id": content.destination.as_str(),
        "destination_name": instruction.destination_name,
        "amount_minor": content.amount.minor(),
        "currency": content.currency.code(),
        "requester_name": content.requester_name,
        "memo": content.memo,
        "content_hash": instruction.content_hash.as_str(),
        "created_at": time_json(instruction.created_at),
        "expires_at": time_json(instruction.expires_at),
        "authorized_until": authorized_until,
        "transfer_id": instruction.transfer_id().map(|id| id.to_string()),
        "posted_at": instruction.posted_at.map(time_json),
        "failure": instruction.failure.map(|failure| json!({
            "code": failure.refusal.code(),
            "message": failure.refusal.to_string(),
        })),
        "history": instruction.history.iter().map(step_json).collect::<Vec<_>>(),
    })
}

fn step_json(step: &Step) -> Value {
    json!({ "at": time_json(step.at), "step": step.state.as_str(), "session": step.session, "code": step.code })
}

/// The answer with the instruction, its result being what its state says at `now`.
#[must_use]
pub fn reply(status: StatusCode, instruction: &Instruction, now: Timestamp, replayed: bool) -> Reply {
    let reply = reply_as(status, instruction, instruction.result_at(now));
    if replayed { reply.with(REPLAYED, HeaderValue::from_static("true")) } else { reply }
}

/// The answer with the instruction and a given result.
#[must_use]
pub fn reply_as(status: StatusCode, instruction: &Instruction, result: ResultKind) -> Reply {
    located(Reply::new(status, instruction_json(instruction, result)), instruction)
}

/// TR018: a posting was submitted and its outcome is not known.
#[must_use]
pub fn unknown_reply(instruction: &Instruction) -> Reply {
    let mut body = instruction_json(instruction, ResultKind::Unknown);
    body["code"] = "TR018".into();
    body["money_moved"] = "unknown".into();
    body["retry_with"] = "same-key".into();
    body["retry_after_s"] = CONTENDED_RETRY_S.into();
    located(Reply::new(StatusCode::ACCEPTED, body), instruction)
        .with(header::RETRY_AFTER, HeaderValue::from(CONTENDED_RETRY_S))
}

fn located(reply: Reply, instruction: &Instruction) -> Reply {
    match HeaderValue::from_str(&format!("/v1/transfers/{}", instruction.request_id)) {
        Ok(location) => reply.with(header::LOCATION, location),
        Err(_) => reply,
    }
}
