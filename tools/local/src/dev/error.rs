//! What the development routes answer when they cannot do it.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use shared::{
    body::BodyFault,
    problem::{Fault, Place},
    store::StoreError,
    telemetry::chain,
};

/// Why a development route did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    /// The body or the query, with every fault.
    #[error("the request is not usable")]
    Bad(Vec<Fault>),
    /// There is no such user.
    #[error("there is no such user")]
    NoSuchUser,
    /// There is such a user already.
    #[error("there is such a user already")]
    UserExists,
    /// The user has no TOTP secret.
    #[error("the user is not enrolled for TOTP")]
    NotEnrolled,
    /// This code and the next one were used already.
    #[error("the present code and the next one were used already: a new one comes within 30 seconds")]
    CodesUsed,
    /// The database did not do it.
    #[error("the database did not do it")]
    Store(#[from] StoreError),
    /// Anything else.
    #[error("the server failed")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<BodyFault> for DevError {
    fn from(fault: BodyFault) -> Self {
        Self::Bad(fault.faults)
    }
}

impl IntoResponse for DevError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::NoSuchUser => StatusCode::NOT_FOUND,
            Self::UserExists | Self::NotEnrolled | Self::CodesUsed => StatusCode::CONFLICT,
            Self::Store(_) | Self::Internal(_) => {
                tracing::error!(alarm = "internal", error = %chain(&self), "a development route failed");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        let mut body = json!({ "error": self.to_string() });
        if let Self::Bad(faults) = &self {
            let told: Vec<String> = faults.iter().map(|fault| format!("{} {}", place(fault), fault.detail)).collect();
            body["error"] = told.join("; ").into();
            body["errors"] = faults.iter().map(fault_json).collect();
        }
        (status, Json(body)).into_response()
    }
}

fn place(fault: &Fault) -> &str {
    match &fault.place {
        Place::Pointer(pointer) if pointer.is_empty() => "the body",
        Place::Pointer(pointer) => pointer,
        Place::Parameter(name) => name,
        Place::Header(name) => name,
    }
}

fn fault_json(fault: &Fault) -> Value {
    match &fault.place {
        Place::Pointer(pointer) => json!({ "pointer": pointer, "detail": fault.detail }),
        Place::Parameter(name) => json!({ "parameter": name, "detail": fault.detail }),
        Place::Header(name) => json!({ "header": name, "detail": fault.detail }),
    }
}

/// The answer to a method that a development route does not have.
pub(crate) async fn method_not_allowed() -> Response {
    let body = json!({ "error": "this route does not have this method" });
    (StatusCode::METHOD_NOT_ALLOWED, Json(body)).into_response()
}

/// What the framework refuses by itself, such as a body beyond all bounds, in JSON like everything else.
pub(crate) async fn in_json(response: Response) -> Response {
    let status = response.status();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == "application/json");
    if !status.is_client_error() || is_json {
        return response;
    }
    (status, Json(json!({ "error": status.canonical_reason().unwrap_or("refused") }))).into_response()
}
