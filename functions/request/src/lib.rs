//! `POST /v1/transfers`: admits an instruction, once per key.

mod body;

use body::RequestBody;
use lambda_http::{Body, Error, Request, Response, http::StatusCode};
use shared::{
    app::App,
    auth::Caller,
    body::{BodyFault, Members},
    domain::{
        error::Refusal,
        id::RequestId,
        idempotency::{Fingerprint, IdempotencyKey},
        instruction::{Instruction, Parties, ResultKind},
        posting::refusal_at_admission,
    },
    http::{Call, Reply},
    problem::{ApiError, Standing},
    resource,
    store::{admit::Admission, deadline::Backoff, instructions::AdmissionView},
};

/// How many stale days one posting removes at most; an account that is debited daily has one.
const STALE_DAYS_MAX: usize = 4;

/// Handles one call.
///
/// # Errors
/// None: every outcome is an answer.
pub async fn handle(app: &App, request: Request) -> Result<Response<Body>, Error> {
    let call = Call::begin(app, &request);
    Ok(call.answer(admit(app, &call, &request).await))
}

async fn admit(app: &App, call: &Call, request: &Request) -> Result<Reply, ApiError> {
    let caller = call.caller(app, request).await?;
    let key = idempotency_key(request)?;
    let id = RequestId::derive(&caller.user, &key);
    let body = match Members::of(request).and_then(RequestBody::parse) {
        Ok(body) => body,
        Err(fault) => return Err(invalid(app, call, &caller, &id, fault).await),
    };
    let mut backoff = Backoff::until(call.deadline.for_writing());
    loop {
        let content = &body.content;
        let accounts = (&content.source, &content.destination);
        let view = app.store.admission_view(&caller.user, &id, accounts, call.deadline).await?;
        if let Some(existing) = &view.instruction {
            return replay(app, existing, &body);
        }
        let instruction = admissible(app, &caller, &id, &body, &view)?;
        match app.store.admit(&instruction, call.deadline.for_writing()).await? {
            Admission::Admitted => {
                tracing::info!(request_id = %id, trace_id = %call.trace_id, "admitted");
                return Ok(resource::reply(StatusCode::CREATED, &instruction, instruction.created_at, false));
            }
            Admission::Exists(existing) => return replay(app, &existing, &body),
            Admission::TooMany { retry_after_s } => return Err(ApiError::TooMany { retry_after_s }),
            Admission::Contended => {}
        }
        if !backoff.wait().await {
            return Err(ApiError::Contended(Standing::UNSEEN));
        }
    }
}

/// The key of the one `Idempotency-Key` header.
fn idempotency_key(request: &Request) -> Result<IdempotencyKey, ApiError> {
    let mut values = request.headers().get_all("idempotency-key").iter();
    let value = values.next().ok_or(ApiError::KeyMissing)?;
    if values.next().is_some() {
        return Err(ApiError::KeyMalformed);
    }
    let text = value.to_str().map_err(|_| ApiError::KeyMalformed)?;
    IdempotencyKey::from_header(text).map_err(|_| ApiError::KeyMalformed)
}

/// The error for a body that cannot be read. The key may belong to an instruction that moved money, so what is said of
/// it is looked up and not assumed.
async fn invalid(app: &App, call: &Call, caller: &Caller, id: &RequestId, fault: BodyFault) -> ApiError {
    match app.store.instruction(&caller.user, id, call.deadline).await {
        Ok(found) => fault.on(found.map_or(Standing::NONE, |instruction| Standing::of(&instruction, call.now))),
        Err(_) => fault.on(Standing::UNSEEN),
    }
}

/// The answer when the key is known already: the same instruction for the same content, and nothing else.
fn replay(app: &App, existing: &Instruction, body: &RequestBody) -> Result<Reply, ApiError> {
    let now = app.now();
    let standing = Standing::of(existing, now);
    if existing.fingerprint != Fingerprint::of(&body.content) {
        return Err(ApiError::KeyReused(standing));
    }
    if standing.result == Some(ResultKind::NoPosting) {
        return Err(ApiError::Closed(standing));
    }
    Ok(resource::reply(StatusCode::OK, existing, now, true))
}

/// The instruction that may be admitted now, on what was read of its accounts.
fn admissible(
    app: &App,
    caller: &Caller,
    id: &RequestId,
    body: &RequestBody,
    view: &AdmissionView,
) -> Result<Instruction, ApiError> {
    let now = app.now();
    let source = view.source.as_ref().filter(|account| account.owner == caller.user).ok_or(ApiError::NotFound)?;
    if let Some(refusal) = refusal_at_admission(&body.content, source, view.destination.as_ref()) {
        return Err(refused(refusal));
    }
    let destination = view.destination.as_ref().ok_or_else(|| refused(Refusal::DestinationUnavailable))?;
    let parties = Parties {
        user: caller.user.clone(),
        destination_name: destination.holder_name.clone(),
        destination_owner: destination.owner.clone(),
        stale_days: source.stale_days(app.zone.day(now), STALE_DAYS_MAX),
    };
    Ok(Instruction::admit(id.clone(), body.content.clone(), parties, &caller.session, now))
}

fn refused(refusal: Refusal) -> ApiError {
    ApiError::Refused { refusal, resets_at: None, standing: Standing::NONE }
}
