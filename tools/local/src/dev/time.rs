//! `/dev/clock`, `/dev/sweep` and `/dev/faults`: time, what it brings about, and mishaps.

use crate::{
    bank::Bank,
    dev::{
        error::DevError,
        options::{FaultChange, integer, read},
    },
};
use axum::{Json, body::Bytes, extract::State};
use jiff::Timestamp;
use serde_json::{Value, json};
use shared::{body::string, problem::Fault, resource::time_json};
use std::sync::Arc;

/// The furthest that one call moves the clock ahead, in seconds: a hundred years.
const ADVANCE_MAX_S: i64 = 100 * 366 * 24 * 60 * 60;

fn now(bank: &Bank) -> Json<Value> {
    Json(json!({ "now": time_json(bank.app.now()) }))
}

/// `GET /dev/clock`
pub(crate) async fn clock(State(bank): State<Arc<Bank>>) -> Json<Value> {
    now(&bank)
}

/// `POST /dev/clock`
pub(crate) async fn set_clock(State(bank): State<Arc<Bank>>, body: Bytes) -> Result<Json<Value>, DevError> {
    let (advance_s, to) = read(&body, |members| {
        let advance_s = members.optional("advance_s", |value| integer(value, 0, ADVANCE_MAX_S));
        let to = members.optional("set", |value| {
            let text = string(value)?;
            text.parse::<Timestamp>().map_err(|_| "must be a time such as 2026-12-01T23:59:59+09:00".to_owned())
        });
        Some((advance_s, to))
    })?;
    let moved = match (advance_s, to) {
        (Some(seconds), None) => bank.clock.advance(seconds),
        (None, Some(to)) => bank.clock.set(to),
        _ => return Err(DevError::Bad(vec![Fault::body("must have either advance_s or set")])),
    };
    moved.map_err(|error| DevError::Bad(vec![Fault::body(error.to_string())]))?;
    bank.keep.note_offset(bank.clock.offset_ms()).await.map_err(DevError::Internal)?;
    Ok(now(&bank))
}

/// `POST /dev/sweep`
pub(crate) async fn sweep(State(bank): State<Arc<Bank>>) -> Result<Json<Value>, DevError> {
    let swept = bank.sweep().await.map_err(DevError::Internal)?;
    Ok(Json(json!({ "expired": swept.expired })))
}

/// `GET /dev/faults`
pub(crate) async fn faults(State(bank): State<Arc<Bank>>) -> Json<Value> {
    Json(bank.faults.change(|_| {}).to_json())
}

/// `POST /dev/faults`
pub(crate) async fn set_faults(State(bank): State<Arc<Bank>>, body: Bytes) -> Result<Json<Value>, DevError> {
    let change = read(&body, |members| Some(FaultChange::take(members)))?;
    change.check(bank.faults.change(|_| {}))?;
    Ok(Json(bank.faults.change(|faults| change.apply(faults)).to_json()))
}
