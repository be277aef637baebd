//! `POST /v1/transfers/{request_id}/confirmation`: consumes the authorization and posts, once.

use lambda_http::{Body, Error, Request, Response, http::StatusCode};
use shared::{
    app::App,
    body::Members,
    domain::{error::Refusal, instruction::Instruction},
    http::{Call, Reply, path_request_id},
    problem::{ApiError, Standing},
    resource,
    store::post::{Confirmation, Verdict},
};

/// Handles one call.
///
/// # Errors
/// None: every outcome is an answer.
pub async fn handle(app: &App, request: Request) -> Result<Response<Body>, Error> {
    let call = Call::begin(app, &request);
    Ok(call.answer(confirm(app, &call, &request).await))
}

async fn confirm(app: &App, call: &Call, request: &Request) -> Result<Reply, ApiError> {
    let caller = call.caller(app, request).await?;
    let id = path_request_id(request)?;
    let body = Members::of_optional(request).and_then(|members| members.finish(Some(())));
    let found = app.store.instruction(&caller.user, &id, call.deadline).await?;
    let instruction = found.ok_or(ApiError::NotFound)?;
    body.map_err(|fault| fault.on(Standing::of(&instruction, call.now)))?;
    let clock = || app.now();
    let confirmation = app.store.confirm(instruction, &caller.session, &app.zone, &clock, call.deadline).await?;
    tracing::info!(
        request_id = %id,
        trace_id = %call.trace_id,
        transfer_id = confirmation.instruction.transfer_id().map(|id| id.to_string()),
        verdict = ?confirmation.verdict,
        "confirmed"
    );
    answer(app, confirmation)
}

fn answer(app: &App, confirmation: Confirmation) -> Result<Reply, ApiError> {
    let (now, instruction) = (app.now(), confirmation.instruction);
    let standing = Standing::of(&instruction, now);
    match confirmation.verdict {
        Verdict::Posted => Ok(resource::reply(StatusCode::OK, &instruction, now, false)),
        Verdict::Replayed => Ok(resource::reply(StatusCode::OK, &instruction, now, true)),
        Verdict::Closed => Err(ApiError::Closed(standing)),
        Verdict::NotAuthorized(fault) => Err(ApiError::NotAuthorized(fault, standing)),
        Verdict::Refused(refusal) => {
            Err(ApiError::Refused { refusal, resets_at: resets_at(app, &instruction, refusal), standing })
        }
        Verdict::Contended => Err(ApiError::Contended(standing)),
        Verdict::Unknown => Ok(resource::unknown_reply(&instruction)),
    }
}

/// When the day ends that a daily refusal was made on.
fn resets_at(app: &App, instruction: &Instruction, refusal: Refusal) -> Option<String> {
    let failure = instruction.failure.filter(|_| refusal.is_daily())?;
    Some(app.zone.end_of(app.zone.day(failure.at)))
}
