//! `POST /v1/transfers/{request_id}/authorization`: verifies a TOTP code and binds it to this instruction.

use lambda_http::{Body, Error, Request, Response, http::StatusCode};
use serde_json::Value;
use shared::{
    app::App,
    auth::Caller,
    body::{BodyFault, Members, string},
    cipher::Cipher,
    code::{Verdict, judge, locked_or_refused, open_secret},
    domain::{
        authorization::Authorization,
        id::RequestId,
        instruction::{Instruction, State},
        totp::{Code, TotpSecret},
    },
    http::{Call, Reply, path_request_id},
    problem::{ApiError, Standing},
    resource,
    store::{
        authorize::authorized_step,
        deadline::Backoff,
        totp::{Decided, TotpRecord},
    },
};

/// Handles one call.
///
/// # Errors
/// None: every outcome is an answer.
pub async fn handle(app: &App, cipher: &Cipher, request: Request) -> Result<Response<Body>, Error> {
    let call = Call::begin(app, &request);
    Ok(call.answer(authorize(app, cipher, &call, &request).await))
}

/// What the payer sends.
struct Approval {
    code: Code,
    content_hash: String,
}

async fn authorize(app: &App, cipher: &Cipher, call: &Call, request: &Request) -> Result<Reply, ApiError> {
    let caller = call.caller(app, request).await?;
    let id = path_request_id(request)?;
    let approval = Members::of(request).and_then(parse);
    let mut backoff = Backoff::until(call.deadline.for_writing());
    let mut doubtful = false;
    loop {
        let (found, record) = app.store.authorization_view(&caller.user, &id, call.deadline).await?;
        let instruction = found.ok_or(ApiError::NotFound)?;
        let approval = match &approval {
            Ok(approval) => approval,
            Err(fault) => return Err(fault.clone().on(Standing::of(&instruction, call.now))),
        };
        let attempt = Attempt { app, cipher, call, caller: &caller, approval, instruction };
        match attempt.decide(record, &mut doubtful).await {
            Ok(Some(reply)) => {
                tracing::info!(request_id = %id, trace_id = %call.trace_id, "authorized");
                return Ok(reply);
            }
            Ok(None) => {}
            // A wrong code that could not be counted is answered like a right one that could not be recorded.
            Err(ApiError::Contended(_)) => return Err(out_of_time(app, call, &caller, &id, doubtful).await),
            Err(error) => return Err(error),
        }
        if !backoff.wait().await {
            return Err(out_of_time(app, call, &caller, &id, doubtful).await);
        }
    }
}

/// Contended, if every send of this call was definitively cancelled; what may then be said of the instruction is read
/// once more. Otherwise nobody knows.
async fn out_of_time(app: &App, call: &Call, caller: &Caller, id: &RequestId, doubtful: bool) -> ApiError {
    if doubtful {
        return ApiError::Unavailable("a send of this call is in doubt".into());
    }
    match app.store.instruction(&caller.user, id, call.deadline).await {
        Ok(Some(instruction)) => ApiError::Contended(Standing::of(&instruction, app.now())),
        _ => ApiError::Contended(Standing::UNSEEN),
    }
}

fn parse(mut members: Members) -> Result<Approval, BodyFault> {
    let code =
        members.required("totp_code", |value: &Value| Code::parse(string(value)?).map_err(|fault| fault.to_string()));
    let content_hash = members.required("content_hash", |value| string(value).map(str::to_owned));
    let approval = code.zip(content_hash).map(|(code, content_hash)| Approval { code, content_hash });
    members.finish(approval)
}

/// One decision on one reading of the instruction and the user's TOTP record.
struct Attempt<'a> {
    app: &'a App,
    cipher: &'a Cipher,
    call: &'a Call,
    caller: &'a Caller,
    approval: &'a Approval,
    instruction: Instruction,
}

impl Attempt<'_> {
    /// The answer, or `None` if what was read is no longer so and has to be read again. `doubtful` becomes true when a
    /// send's outcome stayed unknown.
    async fn decide(&self, record: Option<TotpRecord>, doubtful: &mut bool) -> Result<Option<Reply>, ApiError> {
        let now = self.app.now();
        let standing = Standing::of(&self.instruction, now);
        if !self.instruction.is_open_at(now) {
            return Err(ApiError::Closed(standing));
        }
        if self.approval.content_hash != self.instruction.content_hash.as_str() {
            return Err(ApiError::ContentMismatch(standing));
        }
        let (record, active) = record
            .and_then(|record| record.active.clone().map(|active| (record, active)))
            .ok_or(ApiError::NotEnrolled(standing))?;
        if let Some(retry_after_s) = record.locked_for_s(now) {
            return Err(ApiError::Locked { retry_after_s, standing });
        }
        let secret = open_secret(self.app, self.cipher, &self.caller.user, &active).await?;
        // Both are asked, always: a repeat must not take another time than a fresh code or a wrong one.
        let (is_repeat, verdict) = (self.is_repeat(&secret), judge(&secret, &self.approval.code, &record, now));
        if is_repeat {
            return Ok(Some(resource::reply(StatusCode::OK, &self.instruction, now, true)));
        }
        match verdict {
            Verdict::Fresh(step) => {
                let authorization = Authorization {
                    session: self.caller.session.clone(),
                    content_hash: self.instruction.content_hash.clone(),
                    at: now,
                    step,
                };
                let deadline = self.call.deadline.for_writing();
                match self.app.store.authorize(&self.instruction, &authorization, &active, deadline).await? {
                    Decided::Written => Ok(Some(self.authorized(authorization))),
                    Decided::Changed => Ok(None),
                    Decided::InDoubt => {
                        *doubtful = true;
                        Ok(None)
                    }
                }
            }
            Verdict::NotFresh => {
                locked_or_refused(self.app, &self.caller.user, &record, standing, self.call).await.map(|()| None)
            }
        }
    }

    /// Whether this code already authorized this instruction with this content in this session: a double click, or a
    /// repeat after a lost reply, and no guess.
    fn is_repeat(&self, secret: &TotpSecret) -> bool {
        self.instruction.authorization.as_ref().is_some_and(|authorization| {
            authorization.session == self.caller.session
                && authorization.content_hash == self.instruction.content_hash
                && secret.matches(&self.approval.code, authorization.step)
        })
    }

    fn authorized(&self, authorization: Authorization) -> Reply {
        let mut instruction = self.instruction.clone();
        let now = authorization.at;
        instruction.state = State::Authorized;
        instruction.history.push(authorized_step(&authorization));
        instruction.authorization = Some(authorization);
        resource::reply(StatusCode::OK, &instruction, now, false)
    }
}
