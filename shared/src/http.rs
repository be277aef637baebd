//! What the functions behind the API have in common: the call, who makes it, and its answer.

use crate::{
    app::{App, system_time},
    auth::{AuthFault, Caller},
    domain::id::RequestId,
    problem::{ApiError, Fault, Invalidity, Standing},
    store::deadline::Deadline,
    telemetry::chain,
};
use jiff::Timestamp;
use lambda_http::{
    Adapter, Body, Error, Request, RequestExt, Response,
    http::{HeaderName, HeaderValue, StatusCode, header},
    request::{LambdaRequest, RequestContext},
};
use lambda_runtime::{LambdaEvent, Service, service_fn};
use serde_json::Value;
use std::time::Duration;

/// Runs a function behind the API: `handle` gets every request with every value of its headers.
///
/// # Errors
/// If the runtime cannot go on.
pub async fn run<F, A>(handle: F) -> Result<(), Error>
where
    F: FnMut(Request) -> A,
    A: Future<Output = Result<Response<Body>, Error>> + Send,
{
    let mut adapter = Adapter::from(service_fn(handle));
    lambda_runtime::run(service_fn(move |event: LambdaEvent<LambdaRequest>| {
        adapter.call(LambdaEvent { payload: with_all_headers(event.payload), ..event })
    }))
    .await
}

/// Reads the event of a REST API with Lambda proxy integration as [`run`] does.
///
/// # Errors
/// If it is not such an event.
pub fn read_event(event: &str) -> Result<Request, Error> {
    let event: LambdaRequest = serde_json::from_str(event)?;
    Ok(with_all_headers(event).into())
}

/// A REST API sends the headers twice: the last value of each, and all of them. `lambda_http` lets the first win over
/// the second, so that a repeated key or token would pass as a single one. Here all of them count.
fn with_all_headers(event: LambdaRequest) -> LambdaRequest {
    match event {
        LambdaRequest::ApiGatewayV1(mut event) => {
            for name in event.multi_value_headers.keys() {
                event.headers.remove(name);
            }
            LambdaRequest::ApiGatewayV1(event)
        }
        other => other,
    }
}

/// How long a call may take where no Lambda runtime says.
const DEFAULT_TIME: Duration = Duration::from_secs(10);
/// What is kept back of a function's time for sending the answer.
const ANSWER_TIME: Duration = Duration::from_millis(300);

/// One call of the API.
#[derive(Debug)]
pub struct Call {
    /// Joins the answer to the log.
    pub trace_id: String,
    /// When it arrived.
    pub now: Timestamp,
    /// When it has to be answered.
    pub deadline: Deadline,
}

/// A successful answer.
#[derive(Debug)]
pub struct Reply {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Value,
}

impl Reply {
    /// `body` with `status`; never stored by anyone in between.
    #[must_use]
    pub fn new(status: StatusCode, body: Value) -> Self {
        Self { status, headers: vec![(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], body }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl Call {
    /// Begins a call: its trace id, its time and its deadline.
    #[must_use]
    pub fn begin(app: &App, request: &Request) -> Self {
        Self { trace_id: trace_id(request), now: app.now(), deadline: Deadline::after(time_left(request)) }
    }

    /// Who calls, by the verified bearer token alone.
    ///
    /// # Errors
    /// [`ApiError::Unauthenticated`]; [`ApiError::Unavailable`] if the identity provider's keys cannot be had.
    pub async fn caller(&self, app: &App, request: &Request) -> Result<Caller, ApiError> {
        let auth = app.auth.as_ref().ok_or(ApiError::Unauthenticated)?;
        match auth.caller(request.headers(), self.now).await {
            Ok(caller) => Ok(caller),
            Err(fault @ AuthFault::Keys(_)) => Err(ApiError::Unavailable(fault.into())),
            Err(fault) => {
                tracing::warn!(security_event = "unauthenticated", trace_id = %self.trace_id, reason = %fault);
                Err(ApiError::Unauthenticated)
            }
        }
    }

    /// The answer on the wire; an error is logged here, once.
    #[must_use]
    pub fn answer(&self, result: Result<Reply, ApiError>) -> Response<Body> {
        match result {
            Ok(reply) => {
                let mut response = Response::new(Body::Text(reply.body.to_string()));
                *response.status_mut() = reply.status;
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.extend(reply.headers);
                response
            }
            Err(error) => {
                self.log(&error);
                error.response(&self.trace_id)
            }
        }
    }

    fn log(&self, error: &ApiError) {
        let (code, trace_id) = (error.code(), &self.trace_id);
        match error {
            ApiError::Internal(_) => tracing::error!(alarm = "internal", code, trace_id, error = %chain(error)),
            ApiError::Unavailable(_) => tracing::error!(alarm = "unavailable", code, trace_id, error = %chain(error)),
            ApiError::Contended(_) => tracing::warn!(alarm = "contended", code, trace_id),
            ApiError::CodeRefused(_) | ApiError::Locked { .. } | ApiError::NotAuthorized(..) => {
                tracing::warn!(security_event = "refused", code, trace_id, reason = %chain(error));
            }
            _ => tracing::info!(code, trace_id, "refused"),
        }
    }
}

/// The answer for a route that does not exist, whoever asks.
#[must_use]
pub fn no_such_route(request: &Request) -> Response<Body> {
    ApiError::NotFound.response(&trace_id(request))
}

/// The root of the X-Ray trace, else the gateway's request id, else a fresh name.
fn trace_id(request: &Request) -> String {
    let root = |trace: &str| trace.split(';').find_map(|part| part.trim().strip_prefix("Root=").map(str::to_owned));
    if let Some(root) = request.lambda_context_ref().and_then(|context| root(context.xray_trace_id.as_deref()?)) {
        return root;
    }
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV1(context)) => context.request_id.clone().unwrap_or_else(crate::random::name),
        _ => crate::random::name(),
    }
}

/// What the invocation has left, less the time for the answer.
fn time_left(request: &Request) -> Duration {
    request.lambda_context_ref().map_or(DEFAULT_TIME, left)
}

/// When an invocation that answers no request has to be done.
#[must_use]
pub fn time_of(context: &lambda_http::Context) -> Deadline {
    Deadline::after(left(context))
}

fn left(context: &lambda_http::Context) -> Duration {
    let now_ms = u64::try_from(system_time().as_millisecond()).unwrap_or(u64::MAX);
    Duration::from_millis(context.deadline.saturating_sub(now_ms)).saturating_sub(ANSWER_TIME)
}

/// The instruction that the path names. What is no id of an instruction is no instruction.
///
/// # Errors
/// [`ApiError::NotFound`].
pub fn path_request_id(request: &Request) -> Result<RequestId, ApiError> {
    let raw = path_parameter(request, "request_id").ok_or(ApiError::NotFound)?;
    RequestId::parse(&raw).map_err(|_| ApiError::NotFound)
}

/// Whether the route that the gateway matched ends with `ending`. What the client wrote in place of a parameter does
/// not count.
#[must_use]
pub fn route_ends_with(request: &Request, ending: &str) -> bool {
    let resource = match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV1(context)) => context.resource_path.as_deref(),
        _ => None,
    };
    resource.unwrap_or_else(|| request.raw_http_path()).ends_with(ending)
}

/// A parameter of the path.
#[must_use]
pub fn path_parameter(request: &Request, name: &str) -> Option<String> {
    request.path_parameters_ref()?.first(name).map(str::to_owned)
}

/// The query's parameters, each at most once and each one of `known`.
///
/// # Errors
/// Every fault; what kind of answer it makes is the route's to say.
pub fn query(request: &Request, known: &[&str]) -> Result<Vec<(String, String)>, Vec<Fault>> {
    let map = request.query_string_parameters();
    let (mut parameters, mut faults): (Vec<(String, String)>, Vec<Fault>) = (Vec::new(), Vec::new());
    for (name, value) in map.iter() {
        let fault = if !known.contains(&name) {
            "is not a parameter that is known here"
        } else if parameters.iter().any(|(earlier, _)| earlier == name) {
            "stands there more than once"
        } else {
            parameters.push((name.to_owned(), value.to_owned()));
            continue;
        };
        let fault = Fault::parameter(name, fault);
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    if faults.is_empty() { Ok(parameters) } else { Err(faults) }
}

/// The error for faults of a query, on a route whose instruction, if it has one, stands so.
#[must_use]
pub fn invalid_query(faults: Vec<Fault>, standing: Standing) -> ApiError {
    ApiError::Invalid(Invalidity::Content, faults, standing)
}
