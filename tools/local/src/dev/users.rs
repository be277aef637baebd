//! `/dev/users`, `/dev/token` and `/dev/totp`: customers, and what they would hold in their hands.

use crate::{
    bank::Bank,
    dev::{
        error::DevError,
        options::{UserOptions, integer, read},
    },
    people::{self, NewUser},
};
use axum::{
    Json,
    body::Bytes,
    extract::{Path, RawQuery, State},
    http::StatusCode,
};
use serde_json::{Value, json};
use shared::{
    body::string,
    code::open_secret,
    domain::{
        account::BANK_ID,
        id::{SessionId, UserId},
        money::MAX_MINOR,
        text,
        totp::{STEP_S, step_at},
    },
    problem::Fault,
};
use std::sync::Arc;

/// `GET /dev/users`
pub(crate) async fn list(State(bank): State<Arc<Bank>>) -> Result<Json<Value>, DevError> {
    Ok(Json(json!({ "users": people::all(&bank).await? })))
}

/// `POST /dev/users`
pub(crate) async fn add(State(bank): State<Arc<Bank>>, body: Bytes) -> Result<(StatusCode, Json<Value>), DevError> {
    let user = read(&body, |members| {
        let id = members.required("user_id", new_user_id);
        let name =
            members.required("name", |value| text::parse(string(value)?, 1, 48).map_err(|fault| fault.to_string()));
        let balance_minor = members.required("balance_minor", |value| integer(value, 0, MAX_MINOR));
        let options = UserOptions::take(members);
        Some(NewUser { id: id?, name: name?, balance_minor: balance_minor?, options })
    })?;
    Ok((StatusCode::CREATED, Json(people::add(&bank, user).await?)))
}

/// `PATCH /dev/users/{user_id}`
pub(crate) async fn change(
    State(bank): State<Arc<Bank>>,
    Path(user_id): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, DevError> {
    let user = UserId::parse(&user_id).map_err(|_| DevError::NoSuchUser)?;
    people::find(&bank, &user).await?;
    let options = read(&body, |members| {
        for name in ["user_id", "name", "balance_minor"] {
            members.optional(name, |_| Err::<(), _>("cannot be changed here".to_owned()));
        }
        Some(UserOptions::take(members))
    })?;
    people::change(&bank, &user, options).await.map(Json)
}

/// `POST /dev/token`
pub(crate) async fn token(State(bank): State<Arc<Bank>>, body: Bytes) -> Result<Json<Value>, DevError> {
    let (user, session) = read(&body, |members| {
        let user = members.required("user_id", user_id);
        let session = members.required("session_id", |value| string(value).map(str::to_owned));
        let (user, session) = (user?, session?);
        // Only what the functions will take.
        let usable = SessionId::from_claim(&user, &session).is_ok();
        Some((user, usable.then_some(session)))
    })?;
    let session =
        session.ok_or_else(|| DevError::Bad(vec![Fault::member("session_id", "must have 1 to 1,024 bytes")]))?;
    people::find(&bank, &user).await?;
    let token = bank.issuer.token(user.as_str(), &session, bank.app.now());
    Ok(Json(json!({ "token": token.map_err(|error| DevError::Internal(error.into()))? })))
}

/// `GET /dev/totp?user_id=…`: the code that the user's authenticator app shows; the next one, if this one was used
/// already. `valid_for_s` says for how long the bank takes it.
pub(crate) async fn totp(State(bank): State<Arc<Bank>>, RawQuery(query): RawQuery) -> Result<Json<Value>, DevError> {
    let query = query.unwrap_or_default();
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let [(name, value)] = pairs.as_slice() else { return Err(no_user_parameter()) };
    if name != "user_id" {
        return Err(no_user_parameter());
    }
    let user = UserId::parse(value).map_err(|_| DevError::NoSuchUser)?;
    people::find(&bank, &user).await?;
    let record = bank.app.store.totp(&user, bank.deadline()).await?.ok_or(DevError::NotEnrolled)?;
    let sealed = record.active.as_ref().ok_or(DevError::NotEnrolled)?;
    let secret = open_secret(&bank.app, &bank.cipher, &user, sealed).await;
    let secret = secret.map_err(|error| DevError::Internal(error.into()))?;
    let now = bank.app.now();
    let current = step_at(now);
    let step = current.max(record.last_step.saturating_add(1));
    if step > current.saturating_add(1) {
        return Err(DevError::CodesUsed);
    }
    // A code is taken until the end of the step after its own.
    let ends = step.saturating_add(2).saturating_mul(STEP_S);
    let valid_for_s = ends.saturating_sub(now.as_second());
    Ok(Json(json!({ "totp_code": secret.code_at(step).as_str(), "valid_for_s": valid_for_s })))
}

fn no_user_parameter() -> DevError {
    DevError::Bad(vec![Fault::parameter("user_id", "must be there once, and nothing else")])
}

fn user_id(value: &Value) -> Result<UserId, String> {
    UserId::parse(string(value)?).map_err(|_| "must have 1 to 255 bytes, without spaces".to_owned())
}

fn new_user_id(value: &Value) -> Result<UserId, String> {
    let id = user_id(value)?;
    if id.as_str() == BANK_ID { Err("is the bank's own".to_owned()) } else { Ok(id) }
}
