//! `POST /v1/totp` and `POST /v1/totp/activation`: a new secret, pending until a code of it activates it.

use lambda_http::{Body, Error, Request, Response, http::StatusCode};
use qrcode::{QrCode, render::svg};
use serde_json::{Value, json};
use shared::{
    app::App,
    auth::Caller,
    body::{BodyFault, Members, string},
    cipher::Cipher,
    code::{Verdict, judge, locked_or_refused, new_secret, open_secret},
    domain::totp::{Code, TotpSecret},
    http::{Call, Reply, route_ends_with},
    problem::{ApiError, Fault, Invalidity, Standing},
    random,
    store::{
        deadline::Backoff,
        totp::{Decided, Sealed, TotpRecord},
    },
};

/// Enrolment concerns no instruction: no money moves by it, whatever becomes of it.
const STANDING: Standing = Standing::NONE;

/// Handles one call.
///
/// # Errors
/// None: every outcome is an answer.
pub async fn handle(app: &App, cipher: &Cipher, request: Request) -> Result<Response<Body>, Error> {
    let call = Call::begin(app, &request);
    let enrolment = Enrolment { app, cipher, call: &call };
    let result = if route_ends_with(&request, "/activation") {
        enrolment.activate(&request).await
    } else {
        enrolment.begin(&request).await
    };
    Ok(call.answer(result))
}

struct Enrolment<'a> {
    app: &'a App,
    cipher: &'a Cipher,
    call: &'a Call,
}

impl Enrolment<'_> {
    /// Stores a fresh pending secret and shows it, this once.
    async fn begin(&self, request: &Request) -> Result<Reply, ApiError> {
        let caller = self.call.caller(self.app, request).await?;
        let code = Members::of_optional(request).and_then(optional_code).map_err(|fault| fault.on(STANDING))?;
        let secret = new_secret(self.app, &caller.user)?;
        let shown = shown(&secret)?;
        let pending = self.seal(&caller, &secret).await?;
        let mut backoff = Backoff::until(self.call.deadline.for_writing());
        loop {
            let record = self.app.store.totp(&caller.user, self.call.deadline).await?;
            if self.put_pending(&caller, record, code.as_ref(), &pending).await? {
                tracing::info!(security_event = "totp-pending", trace_id = %self.call.trace_id);
                return Ok(Reply::new(StatusCode::CREATED, shown));
            }
            if !backoff.wait().await {
                return Err(ApiError::Contended(STANDING));
            }
        }
    }

    /// One decision on one reading of the record; `false` if it has to be read again.
    async fn put_pending(
        &self,
        caller: &Caller,
        record: Option<TotpRecord>,
        code: Option<&Code>,
        pending: &Sealed,
    ) -> Result<bool, ApiError> {
        let (user, now) = (&caller.user, self.app.now());
        let deadline = self.call.deadline.for_writing();
        let active = record.as_ref().and_then(|record| record.active.as_ref().map(|active| (record, active)));
        let proof = match (active, code) {
            (None, None) => None,
            (None, Some(_)) => return Err(ApiError::NotEnrolled(STANDING)),
            (Some(_), None) => return Err(code_missing()),
            (Some((record, active)), Some(code)) => match self.test(caller, record, active, code).await? {
                Some(step) => Some((active, step)),
                None => return Ok(false),
            },
        };
        let replaced = record.as_ref().and_then(|record| record.pending.as_ref());
        let decided = self.app.store.put_pending_secret(user, pending, replaced, proof, now, deadline).await?;
        Ok(decided == Decided::Written)
    }

    /// Puts the pending secret in force, if the code is one of its own.
    async fn activate(&self, request: &Request) -> Result<Reply, ApiError> {
        let caller = self.call.caller(self.app, request).await?;
        let code = Members::of(request).and_then(required_code).map_err(|fault| fault.on(STANDING))?;
        let mut backoff = Backoff::until(self.call.deadline.for_writing());
        loop {
            let record = self.app.store.totp(&caller.user, self.call.deadline).await?;
            let record = record.ok_or(ApiError::NotEnrolled(STANDING))?;
            if self.put_in_force(&caller, &record, &code).await? {
                tracing::info!(security_event = "totp-active", trace_id = %self.call.trace_id);
                return Ok(Reply::new(StatusCode::OK, json!({ "status": "ACTIVE" })));
            }
            if !backoff.wait().await {
                return Err(ApiError::Contended(STANDING));
            }
        }
    }

    async fn put_in_force(&self, caller: &Caller, record: &TotpRecord, code: &Code) -> Result<bool, ApiError> {
        let Some(pending) = &record.pending else {
            return self.repeat_activation(caller, record, code).await;
        };
        let Some(step) = self.test(caller, record, pending, code).await? else { return Ok(false) };
        let (now, deadline) = (self.app.now(), self.call.deadline.for_writing());
        let decided = self.app.store.activate_pending_secret(&caller.user, pending, step, now, deadline).await?;
        Ok(decided == Decided::Written)
    }

    /// Nothing is pending: the code that activated the secret in force is a repeat, any other is a wrong guess.
    async fn repeat_activation(&self, caller: &Caller, record: &TotpRecord, code: &Code) -> Result<bool, ApiError> {
        let Some(active) = &record.active else { return Err(ApiError::NotEnrolled(STANDING)) };
        self.refuse_locked(record)?;
        let secret = open_secret(self.app, self.cipher, &caller.user, active).await?;
        if record.activated_step.is_some_and(|step| secret.matches(code, step)) {
            return Ok(true);
        }
        locked_or_refused(self.app, &caller.user, record, STANDING, self.call).await.map(|()| false)
    }

    /// The step that `code` may burn under `sealed`; `None` if the record has to be read again. A wrong code is counted.
    async fn test(
        &self,
        caller: &Caller,
        record: &TotpRecord,
        sealed: &Sealed,
        code: &Code,
    ) -> Result<Option<i64>, ApiError> {
        self.refuse_locked(record)?;
        let secret = open_secret(self.app, self.cipher, &caller.user, sealed).await?;
        match judge(&secret, code, record, self.app.now()) {
            Verdict::Fresh(step) => Ok(Some(step)),
            Verdict::NotFresh => {
                locked_or_refused(self.app, &caller.user, record, STANDING, self.call).await.map(|()| None)
            }
        }
    }

    fn refuse_locked(&self, record: &TotpRecord) -> Result<(), ApiError> {
        match record.locked_for_s(self.app.now()) {
            Some(retry_after_s) => Err(ApiError::Locked { retry_after_s, standing: STANDING }),
            None => Ok(()),
        }
    }

    async fn seal(&self, caller: &Caller, secret: &TotpSecret) -> Result<Sealed, ApiError> {
        let sealed = self.cipher.seal(&caller.user, secret.as_bytes()).await;
        let ciphertext = sealed.map_err(|error| ApiError::Unavailable(error.into()))?;
        Ok(Sealed { ciphertext, version: random::name() })
    }
}

fn parse_code(value: &Value) -> Result<Code, String> {
    Code::parse(string(value)?).map_err(|fault| fault.to_string())
}

fn optional_code(mut members: Members) -> Result<Option<Code>, BodyFault> {
    let code = members.optional("totp_code", parse_code);
    members.finish(Some(code))
}

fn required_code(mut members: Members) -> Result<Code, BodyFault> {
    let code = members.required("totp_code", parse_code);
    members.finish(code)
}

fn code_missing() -> ApiError {
    let fault =
        Fault::member("totp_code", "is missing: a secret is in force, and a code of it is needed to replace it");
    ApiError::Invalid(Invalidity::Content, vec![fault], STANDING)
}

/// The one showing of a new secret: for authenticator apps as a URI, and as a QR code of it.
fn shown(secret: &TotpSecret) -> Result<Value, ApiError> {
    let uri = secret.otpauth_uri().map_err(|error| ApiError::Internal(error.into()))?;
    let code = QrCode::new(uri.as_bytes()).map_err(|error| ApiError::Internal(error.into()))?;
    let svg = code.render::<svg::Color<'_>>().min_dimensions(240, 240).build();
    Ok(json!({ "status": "PENDING", "otpauth_uri": uri.as_str(), "qr_svg": svg }))
}
