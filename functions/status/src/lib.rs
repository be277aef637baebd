//! `GET /v1/transfers/{request_id}` and `GET /v1/transfers?idempotency_key=…`: what became of an instruction. It never
//! writes, and it alone checks the instruction against its journal.

use lambda_http::{Body, Error, Request, Response, http::StatusCode};
use shared::{
    app::App,
    auth::Caller,
    domain::{
        id::RequestId,
        idempotency::IdempotencyKey,
        instruction::{Instruction, ResultKind, State},
        invariants::Journal,
    },
    http::{Call, Reply, invalid_query, path_parameter, path_request_id, query},
    problem::{ApiError, Fault, Standing},
    resource,
};

/// Handles one call.
///
/// # Errors
/// None: every outcome is an answer.
pub async fn handle(app: &App, request: Request) -> Result<Response<Body>, Error> {
    let call = Call::begin(app, &request);
    Ok(call.answer(status(app, &call, &request).await))
}

async fn status(app: &App, call: &Call, request: &Request) -> Result<Reply, ApiError> {
    let caller = call.caller(app, request).await?;
    let id = wanted(request, &caller)?;
    let (instruction, result) = consistent(app, call, &caller, &id).await?;
    if result == ResultKind::Unknown {
        tracing::warn!(alarm = "result-unknown", request_id = %id, trace_id = %call.trace_id, "the result is unknown");
    }
    Ok(resource::reply_as(StatusCode::OK, &instruction, result))
}

/// The instruction that the path or the key names: exactly one of the two, and no other parameter.
fn wanted(request: &Request, caller: &Caller) -> Result<RequestId, ApiError> {
    if path_parameter(request, "request_id").is_some() {
        query(request, &[]).map_err(unseen)?;
        return path_request_id(request);
    }
    let parameters = query(request, &["idempotency_key"]).map_err(unseen)?;
    let fault = |detail: String| unseen(vec![Fault::parameter("idempotency_key", detail)]);
    let (_, value) = parameters.first().ok_or_else(|| fault("is missing".to_owned()))?;
    let key = IdempotencyKey::from_canonical(value).map_err(|error| fault(error.to_string()))?;
    Ok(RequestId::derive(&caller.user, &key))
}

/// The query cannot be read, so no instruction was looked up.
fn unseen(faults: Vec<Fault>) -> ApiError {
    invalid_query(faults, Standing::UNSEEN)
}

/// The instruction and what may be said of it. The batch read is not of one moment, so a pair that does not fit is read
/// once more before it is called unknown.
async fn consistent(
    app: &App,
    call: &Call,
    caller: &Caller,
    id: &RequestId,
) -> Result<(Instruction, ResultKind), ApiError> {
    let (found, journal) = app.store.status_view(&caller.user, id, call.deadline).await?;
    let instruction = found.ok_or(ApiError::NotFound)?;
    if fits(&instruction, journal.as_ref()) {
        let result = instruction.result_at(app.now());
        return Ok((instruction, result));
    }
    let (found, journal) = app.store.status_view(&caller.user, id, call.deadline).await?;
    let instruction = found.ok_or(ApiError::NotFound)?;
    let result = if fits(&instruction, journal.as_ref()) {
        instruction.result_at(app.now())
    } else {
        tracing::error!(alarm = "inconsistent", request_id = %id, "an instruction and its journal do not agree");
        ResultKind::Unknown
    };
    Ok((instruction, result))
}

/// COMPLETED has a journal, and both agree; every other state has none.
fn fits(instruction: &Instruction, journal: Option<&Journal>) -> bool {
    match (instruction.state, journal) {
        (State::Completed, Some(journal)) => journal.agrees_with(&instruction.request_id, &instruction.content),
        (State::Completed, None) => false,
        (_, journal) => journal.is_none(),
    }
}
