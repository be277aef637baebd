//! `POST /v1/transfers/{request_id}/cancellation`: closes an instruction that has not been posted.

use lambda_http::{Body, Error, Request, Response, http::StatusCode};
use shared::auth::Caller;
use shared::{
    app::App,
    body::{BodyFault, Members},
    domain::{id::RequestId, instruction::State},
    http::{Call, Reply, path_request_id},
    problem::{ApiError, Standing},
    resource,
    store::cancel::Closing,
};

/// Handles one call.
///
/// # Errors
/// None: every outcome is an answer.
pub async fn handle(app: &App, request: Request) -> Result<Response<Body>, Error> {
    let call = Call::begin(app, &request);
    Ok(call.answer(cancel(app, &call, &request).await))
}

async fn cancel(app: &App, call: &Call, request: &Request) -> Result<Reply, ApiError> {
    let caller = call.caller(app, request).await?;
    let id = path_request_id(request)?;
    if let Err(fault) = Members::of_optional(request).and_then(|members| members.finish(Some(()))) {
        return Err(invalid(app, call, &caller, &id, fault).await);
    }
    let closing = app.store.cancel(&caller.user, &id, &caller.session, call.now, call.deadline).await?;
    match closing {
        Closing::Closed(instruction) => {
            tracing::info!(request_id = %id, trace_id = %call.trace_id, "cancelled");
            Ok(resource::reply(StatusCode::OK, &instruction, call.now, false))
        }
        Closing::NotOpen(instruction) if instruction.state == State::Cancelled => {
            Ok(resource::reply(StatusCode::OK, &instruction, call.now, true))
        }
        Closing::NotOpen(instruction) => Err(ApiError::Closed(Standing::of(&instruction, call.now))),
        Closing::Missing => Err(ApiError::NotFound),
    }
}

/// The error for a body that should have been empty; what is said of the instruction is looked up.
async fn invalid(app: &App, call: &Call, caller: &Caller, id: &RequestId, fault: BodyFault) -> ApiError {
    match app.store.instruction(&caller.user, id, call.deadline).await {
        Ok(Some(instruction)) => fault.on(Standing::of(&instruction, call.now)),
        Ok(None) => ApiError::NotFound,
        Err(_) => fault.on(Standing::UNSEEN),
    }
}
