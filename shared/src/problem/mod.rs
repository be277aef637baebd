//! Error answers: `application/problem+json` (RFC 9457).
//!
//! **Architecture Invariant**: HTTP status codes of errors live in this file alone, and every error of every route is
//! one of [`ApiError`]'s. An answer says what it knows and no more: no account data, no internals.

pub mod types;

use crate::{
    domain::{
        authorization::AuthorizationFault,
        error::Refusal,
        instruction::{Instruction, MoneyMoved, ResultKind},
    },
    store::StoreError,
};
use jiff::Timestamp;
use lambda_http::{
    Body, Response,
    http::{HeaderValue, StatusCode, header},
};
use serde_json::{Map, Value, json};
use types::{ProblemType, type_of};

/// One fault of a request: where it is, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What is wrong, for people.
    pub detail: String,
}

/// Where a fault is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A JSON Pointer (RFC 6901) into the body; empty for the whole.
    Pointer(String),
    /// A query parameter.
    Parameter(String),
    /// A header.
    Header(&'static str),
}

impl Fault {
    /// A fault of the member `name` of the body.
    #[must_use]
    pub fn member(name: &str, detail: impl Into<String>) -> Self {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        Self { place: Place::Pointer(format!("/{escaped}")), detail: detail.into() }
    }

    /// A fault of the body as a whole.
    #[must_use]
    pub fn body(detail: impl Into<String>) -> Self {
        Self { place: Place::Pointer(String::new()), detail: detail.into() }
    }

    /// A fault of a query parameter.
    #[must_use]
    pub fn parameter(name: &str, detail: impl Into<String>) -> Self {
        Self { place: Place::Parameter(name.to_owned()), detail: detail.into() }
    }

    /// A fault of a header.
    #[must_use]
    pub fn header(name: &'static str, detail: impl Into<String>) -> Self {
        Self { place: Place::Header(name), detail: detail.into() }
    }
}

/// In which way a request is invalid; all are TR003.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalidity {
    /// Its content.
    Content,
    /// Its size.
    TooLarge,
    /// Its media type.
    MediaType,
}

/// What may be said of the instruction that an error answer concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its result; none where there is no instruction.
    pub result: Option<ResultKind>,
    /// Whether its money moved.
    pub money_moved: MoneyMoved,
}

impl Standing {
    /// There is no instruction.
    pub const NONE: Self = Self { result: None, money_moved: MoneyMoved::No };
    /// Whether there is one was not looked up, or could not be.
    pub const UNSEEN: Self = Self { result: None, money_moved: MoneyMoved::Unknown };

    /// What `instruction` allows to say at `now`.
    #[must_use]
    pub fn of(instruction: &Instruction, now: Timestamp) -> Self {
        Self { result: Some(instruction.result_at(now)), money_moved: instruction.money_moved() }
    }
}

/// Every error that a route can answer.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// TR001.
    #[error("the Idempotency-Key header is missing")]
    KeyMissing,
    /// TR002.
    #[error("the Idempotency-Key header is malformed or repeated")]
    KeyMalformed,
    /// TR003, with every fault at once.
    #[error("the request is invalid")]
    Invalid(Invalidity, Vec<Fault>, Standing),
    /// TR004: not there, or not yours.
    #[error("there is no such instruction, account or route")]
    NotFound,
    /// TR005 to TR008 and TR012 to TR016. With a standing whose instruction failed, the refusal is final.
    #[error("refused by a rule of the bank")]
    Refused {
        /// The rule.
        #[source]
        refusal: Refusal,
        /// When the day ends that the refusal belongs to.
        resets_at: Option<String>,
        /// The failed instruction's; [`Standing::NONE`] if none was admitted.
        standing: Standing,
    },
    /// TR009.
    #[error("the key belongs to an instruction with other content")]
    KeyReused(Standing),
    /// TR010.
    #[error("the instruction is closed")]
    Closed(Standing),
    /// TR011.
    #[error("too many instructions in a minute")]
    TooMany {
        /// Whole seconds to wait.
        retry_after_s: i64,
    },
    /// TR017.
    #[error("contended until the time ran out")]
    Contended(Standing),
    /// AU001.
    #[error("not authenticated")]
    Unauthenticated,
    /// AU002.
    #[error("the code was refused")]
    CodeRefused(Standing),
    /// AU003.
    #[error("locked after too many wrong codes")]
    Locked {
        /// Whole seconds to wait.
        retry_after_s: i64,
        /// The instruction's.
        standing: Standing,
    },
    /// AU004.
    #[error("no TOTP secret is in force")]
    NotEnrolled(Standing),
    /// AU005.
    #[error("there is no usable authorization")]
    NotAuthorized(#[source] AuthorizationFault, Standing),
    /// AU006.
    #[error("the content hash is not what was requested")]
    ContentMismatch(Standing),
    /// SV001: no answer in time; repeating the same is safe.
    #[error("a dependency did not answer in time")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// SV002.
    #[error("an internal error")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Contended => Self::Contended(Standing::UNSEEN),
            StoreError::Unavailable(_) => Self::Unavailable(error.into()),
            StoreError::Rejected(_) | StoreError::Corrupt(_) => Self::Internal(error.into()),
        }
    }
}

/// How a client goes on after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryWith {
    SameKey,
    NewKey,
    NewAuthorization,
    Never,
}

impl RetryWith {
    const fn as_str(self) -> &'static str {
        match self {
            Self::SameKey => "same-key",
            Self::NewKey => "new-key",
            Self::NewAuthorization => "new-authorization",
            Self::Never => "never",
        }
    }
}

/// An error answer before it is written.
struct Problem {
    kind: ProblemType,
    detail: String,
    standing: Standing,
    retry_with: Option<RetryWith>,
    retry_after_s: Option<i64>,
    extra: Map<String, Value>,
}

impl From<&ApiError> for Problem {
    fn from(error: &ApiError) -> Self {
        use ApiError as E;
        use RetryWith::{NewAuthorization, NewKey, SameKey};
        let plain = |code, standing, retry_with| Self::new(code, standing, Some(retry_with));
        match error {
            E::KeyMissing => plain("TR001", Standing::UNSEEN, SameKey),
            E::KeyMalformed => plain("TR002", Standing::UNSEEN, SameKey),
            E::Invalid(invalidity, faults, standing) => Self::invalid(*invalidity, faults, *standing),
            E::NotFound => plain("TR004", Standing::NONE, RetryWith::Never),
            E::Refused { refusal, resets_at, standing } => Self::refused(*refusal, resets_at.as_deref(), *standing),
            E::KeyReused(standing) => plain("TR009", *standing, NewKey),
            E::Closed(standing) => Self::closed(*standing),
            E::TooMany { retry_after_s } => plain("TR011", Standing::NONE, SameKey).after(*retry_after_s),
            E::Contended(standing) => plain("TR017", *standing, SameKey).after(CONTENDED_RETRY_S),
            E::Unauthenticated => plain("AU001", Standing::UNSEEN, SameKey),
            E::CodeRefused(standing) => plain("AU002", *standing, NewAuthorization),
            E::Locked { retry_after_s, standing } => plain("AU003", *standing, NewAuthorization).after(*retry_after_s),
            E::NotEnrolled(standing) => plain("AU004", *standing, NewAuthorization),
            E::NotAuthorized(fault, standing) => plain("AU005", *standing, NewAuthorization)
                .saying(sentence(fault))
                .with("reason", fault.reason().into()),
            E::ContentMismatch(standing) => plain("AU006", *standing, NewAuthorization),
            E::Unavailable(_) => plain("SV001", Standing::UNSEEN, SameKey).after(CONTENDED_RETRY_S),
            E::Internal(_) => Self::new("SV002", Standing::UNSEEN, None),
        }
    }
}

/// How long a client should wait before it repeats a contended or unanswered request, in seconds.
pub const CONTENDED_RETRY_S: i64 = 1;

/// A fault's own words as a sentence.
fn sentence(words: &impl std::fmt::Display) -> String {
    let text = words.to_string();
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

impl Problem {
    fn new(code: &str, standing: Standing, retry_with: Option<RetryWith>) -> Self {
        let kind = type_of(code);
        Self { kind, detail: kind.detail.to_owned(), standing, retry_with, retry_after_s: None, extra: Map::new() }
    }

    fn saying(mut self, detail: String) -> Self {
        self.detail = detail;
        self
    }

    fn after(mut self, seconds: i64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.extra.insert(name.to_owned(), value);
        self
    }

    fn invalid(invalidity: Invalidity, faults: &[Fault], standing: Standing) -> Self {
        let mut problem = Self::new("TR003", standing, Some(RetryWith::Never));
        problem.kind.status = match invalidity {
            Invalidity::Content => StatusCode::BAD_REQUEST,
            Invalidity::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Invalidity::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        };
        let errors = faults
            .iter()
            .map(|fault| match &fault.place {
                Place::Pointer(pointer) => json!({ "pointer": pointer, "detail": fault.detail }),
                Place::Parameter(name) => json!({ "parameter": name, "detail": fault.detail }),
                Place::Header(name) => json!({ "header": name, "detail": fault.detail }),
            })
            .collect();
        problem.with("errors", Value::Array(errors))
    }

    fn refused(refusal: Refusal, resets_at: Option<&str>, standing: Standing) -> Self {
        // A refusal that was recorded is final; one at admission left nothing behind, and the key is still free.
        let retry_with = if standing.result.is_some() { RetryWith::NewKey } else { RetryWith::SameKey };
        let problem = Self::new(refusal.code(), standing, Some(retry_with)).saying(sentence(&refusal));
        match resets_at {
            Some(at) => problem.with("resets_at", at.into()),
            None => problem,
        }
    }

    fn closed(standing: Standing) -> Self {
        let closed = |retry_with| Self::new("TR010", standing, Some(retry_with));
        match standing.result {
            Some(ResultKind::Committed) => closed(RetryWith::Never).saying("The instruction was posted.".to_owned()),
            Some(ResultKind::NoPosting) => closed(RetryWith::NewKey)
                .saying("The instruction is closed and was not posted. A new attempt needs a new key.".to_owned()),
            // Its time has passed and nobody fenced it yet.
            _ => closed(RetryWith::SameKey),
        }
    }
}

impl ApiError {
    /// The code that clients branch on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        Problem::from(self).kind.code
    }

    /// The answer for this error. A 500 says nothing but the trace id.
    #[must_use]
    pub fn response(&self, trace_id: &str) -> Response<Body> {
        let problem = Problem::from(self);
        let ProblemType { code, slug, title, status, .. } = problem.kind;
        let mut body = problem.extra;
        let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
        put("type", format!("/problems/{slug}").into());
        put("title", title.into());
        put("status", status.as_u16().into());
        put("code", code.into());
        put("trace_id", trace_id.into());
        put("money_moved", money_moved_json(problem.standing.money_moved));
        if !problem.detail.is_empty() {
            put("detail", problem.detail.into());
        }
        if let Some(result) = problem.standing.result {
            put("result", result.as_str().into());
        }
        if let Some(retry_with) = problem.retry_with {
            put("retry_with", retry_with.as_str().into());
        }
        if let Some(seconds) = problem.retry_after_s {
            put("retry_after_s", seconds.into());
        }
        let mut response = Response::new(Body::Text(Value::Object(body).to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = problem.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if matches!(self, Self::Unauthenticated) {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// `true`, `false` or `"unknown"`.
#[must_use]
pub fn money_moved_json(money_moved: MoneyMoved) -> Value {
    match money_moved {
        MoneyMoved::Yes => Value::Bool(true),
        MoneyMoved::No => Value::Bool(false),
        MoneyMoved::Unknown => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{INTERNAL, PROBLEM_TYPES};

    #[test]
    fn every_refusal_has_a_problem_type() {
        for refusal in Refusal::ALL {
            assert_eq!(type_of(refusal.code()).code, refusal.code());
        }
        let codes: std::collections::BTreeSet<_> = PROBLEM_TYPES.iter().map(|kind| kind.code).collect();
        let slugs: std::collections::BTreeSet<_> = PROBLEM_TYPES.iter().map(|kind| kind.slug).collect();
        assert_eq!((codes.len(), slugs.len()), (PROBLEM_TYPES.len(), PROBLEM_TYPES.len()));
        assert_eq!(INTERNAL.code, "SV002");
    }

    #[test]
    fn an_internal_error_says_nothing_but_the_trace_id() {
        let error = ApiError::Internal("table furikomi-ledger is missing".into());
        let body = String::from_utf8_lossy(error.response("t-1").body()).into_owned();
        assert_eq!(
            body,
            r#"{"code":"SV002","money_moved":"unknown","status":500,"title":"Internal error","trace_id":"t-1","type":"/problems/internal"}"#
        );
    }
}
