//! A gate between functions and their engine: it lets everything pass, counts it, and holds or refuses what a test asks
//! it to. `infra/stack test` points `confirm`, `relay` and `notifier` at it.

use crate::processes;
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, sync::watch};

/// The most that a call's body or its answer has.
const BODY_MAX: usize = 4 * 1024 * 1024;

/// One call of a function's.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// What it asks of whom: `TransactWriteItems`, `SendMessage`, `SendEmail`, `Publish` …
    pub(crate) operation: String,
    /// Its body, with percent-encoding undone.
    pub(crate) body: String,
    /// Whether the engine did it.
    pub(crate) is_done: bool,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is held before the engine sees it, and the function killed.
    KillBefore,
    /// The engine does it; then its function is killed, and never hears of it.
    KillAfter,
    /// The engine does it; its answer is held until the rule is dropped.
    HoldAnswer,
    /// This answer, and the engine never sees it.
    Refuse(u16, &'static str),
}

/// What a test asks for: for the next `left` calls of `operation` whose body contains `about`.
struct Plan {
    id: u64,
    operation: &'static str,
    about: String,
    act: Act,
    left: usize,
    met: watch::Sender<usize>,
    dropped: watch::Receiver<bool>,
}

/// Asks for something as long as it lives.
pub(crate) struct Rule {
    id: u64,
    gate: Arc<Gate>,
    met: watch::Receiver<usize>,
    _alive: watch::Sender<bool>,
}

impl Rule {
    /// Waits until `count` calls have met the rule, and what it asks for was done.
    pub(crate) async fn was_met(&mut self, count: usize) {
        let met = self.met.wait_for(|met| *met >= count);
        let seen = tokio::time::timeout(std::time::Duration::from_secs(120), met).await;
        seen.unwrap_or_else(|_| panic!("fewer than {count} calls came to the gate")).unwrap();
    }
}

impl Drop for Rule {
    fn drop(&mut self) {
        self.gate.plans.lock().unwrap().retain(|plan| plan.id != self.id);
    }
}

/// The gate.
pub(crate) struct Gate {
    port: u16,
    upstream: String,
    http: reqwest::Client,
    plans: Mutex<Vec<Plan>>,
    calls: Mutex<Vec<Call>>,
}

impl Gate {
    /// Opens the gate at `port` of the loopback interface.
    ///
    /// # Errors
    /// If the port is not to be had.
    pub(crate) async fn open(port: &str, upstream: &str) -> Result<Arc<Self>, String> {
        let port: u16 = port.parse().map_err(|_| format!("E2E_GATE_PORT is {port}"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| error.to_string())?;
        let gate = Arc::new(Self {
            port,
            upstream: upstream.to_owned(),
            // A function that is killed leaves its connection; the next call must not be given that one.
            http: reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().map_err(|e| e.to_string())?,
            plans: Mutex::default(),
            calls: Mutex::default(),
        });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&gate));
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Ok(gate)
    }

    /// Asks for `act` on the next `count` calls of `operation` whose body contains `about`.
    pub(crate) fn ask(self: &Arc<Self>, operation: &'static str, about: &str, act: Act, count: usize) -> Rule {
        let (alive, dropped) = watch::channel(false);
        let (met, meeting) = watch::channel(0);
        let mut plans = self.plans.lock().unwrap();
        let id = plans.last().map_or(0, |plan| plan.id + 1);
        plans.push(Plan { id, operation, about: about.to_owned(), act, left: count, met, dropped });
        Rule { id, gate: Arc::clone(self), met: meeting, _alive: alive }
    }

    /// How many calls of `operation` about `about` came by, and how many of them the engine did.
    pub(crate) fn count(&self, operation: &str, about: &str) -> (usize, usize) {
        let calls = self.calls.lock().unwrap();
        let of = calls.iter().filter(|call| call.operation == operation && call.body.contains(about));
        let (all, done): (Vec<_>, Vec<_>) = (of.clone().collect(), of.filter(|call| call.is_done).collect());
        (all.len(), done.len())
    }

    /// The first plan for a call, used up by one.
    fn plan(&self, operation: &str, body: &str) -> Option<(Act, watch::Sender<usize>, watch::Receiver<bool>)> {
        let mut plans = self.plans.lock().unwrap();
        let plan =
            plans.iter_mut().find(|plan| plan.left > 0 && plan.operation == operation && body.contains(&plan.about))?;
        plan.left -= 1;
        Some((plan.act, plan.met.clone(), plan.dropped.clone()))
    }

    fn record(&self, operation: &str, body: &str, is_done: bool) {
        let call = Call { operation: operation.to_owned(), body: body.to_owned(), is_done };
        self.calls.lock().unwrap().push(call);
    }

    async fn forward(&self, path: &str, headers: HeaderMap, body: Bytes) -> Response {
        // The signature covers the name that the function called, so that header stays as it is.
        let sent = self.http.post(format!("{}{path}", self.upstream)).headers(headers).body(body).send().await;
        let Ok(answer) = sent else { return StatusCode::BAD_GATEWAY.into_response() };
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        for hop in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
            headers.remove(hop);
        }
        let Ok(body) = answer.bytes().await else { return StatusCode::BAD_GATEWAY.into_response() };
        (status, headers, body).into_response()
    }
}

async fn pass(State(gate): State<Arc<Gate>>, ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else { return StatusCode::BAD_REQUEST.into_response() };
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let (operation, text) = (operation(&parts.headers, &body), unescape(&body));
    let Some((act, met, mut dropped)) = gate.plan(&operation, &text) else {
        let answer = gate.forward(&path, parts.headers, body).await;
        gate.record(&operation, &text, answer.status().is_success());
        return answer;
    };
    let meet = || met.send_modify(|met| *met += 1);
    if let Act::Refuse(status, said) = act {
        gate.record(&operation, &text, false);
        meet();
        let refused = Response::builder().status(status).header(header::CONTENT_TYPE, content_type(said));
        return refused.body(Body::from(said)).unwrap();
    }
    if act == Act::KillBefore {
        gate.record(&operation, &text, false);
        processes::kill_peer(peer, gate.port);
        meet();
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let answer = gate.forward(&path, parts.headers, body).await;
    gate.record(&operation, &text, answer.status().is_success());
    if act == Act::KillAfter {
        processes::kill_peer(peer, gate.port);
    }
    meet();
    if act == Act::HoldAnswer {
        // An error means that the rule is gone, which is what is waited for.
        dropped.changed().await.unwrap_or_default();
    }
    answer
}

/// The operation by the header of JSON protocols, or by the form of the query protocol.
fn operation(headers: &HeaderMap, body: &[u8]) -> String {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    let by_header = target.and_then(|target| target.rsplit_once('.')).map(|(_, operation)| operation.to_owned());
    by_header.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        let action = text.split('&').find_map(|pair| pair.strip_prefix("Action="));
        action.unwrap_or_default().to_owned()
    })
}

/// A body with its percent-encoding undone, so that addresses can be found in it.
fn unescape(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.replace("%40", "@").replace("%3A", ":").replace("%2F", "/")
}

fn content_type(said: &str) -> &'static str {
    if said.starts_with('<') { "text/xml" } else { "application/x-amz-json-1.0" }
}
