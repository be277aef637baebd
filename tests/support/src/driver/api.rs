//! The Runtime API of one process, on the loopback interface.

use super::lock;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, State},
    http::{Response, StatusCode},
    routing::{get, post},
};
use serde_json::{Value, json};
use shared::{app::system_time, random};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, oneshot, watch},
    task::JoinHandle,
};

/// The version that stands in every path of the API.
const VERSION: &str = "2018-06-01";
/// What Lambda takes as a response.
const BODY_MAX: usize = 6 * 1024 * 1024;
const FUNCTION_ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:driven";

/// What a process said of an event.
#[derive(Debug)]
pub(super) enum Answer {
    Response(Value),
    Error(Value),
}

/// An event that waits for the process, and who waits for its answer.
pub(super) struct Offer {
    id: String,
    deadline_ms: i64,
    event: String,
    answer: oneshot::Sender<Answer>,
}

impl Offer {
    /// An event whose time begins now.
    pub(super) fn new(event: &Value, timeout: Duration, answer: oneshot::Sender<Answer>) -> Self {
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let deadline_ms = system_time().as_millisecond().saturating_add(timeout_ms);
        Self { id: random::name(), deadline_ms, event: event.to_string(), answer }
    }
}

#[derive(Default)]
struct Table {
    /// The next event.
    offered: Mutex<Option<Offer>>,
    changed: Notify,
    /// The event that the process is at, by its id.
    handled: Mutex<Option<(String, oneshot::Sender<Answer>)>>,
    asked: watch::Sender<bool>,
    init_error: Mutex<Option<Value>>,
}

/// A served Runtime API. It ends when it is dropped.
pub(super) struct RuntimeApi {
    table: Arc<Table>,
    serving: JoinHandle<io::Result<()>>,
}

impl RuntimeApi {
    /// Serves an API, and says where.
    pub(super) async fn serve() -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let table = Arc::<Table>::default();
        let routes = Router::new()
            .route(&format!("/{VERSION}/runtime/invocation/next"), get(next))
            .route(&format!("/{VERSION}/runtime/invocation/{{id}}/response"), post(response))
            .route(&format!("/{VERSION}/runtime/invocation/{{id}}/error"), post(error))
            .route(&format!("/{VERSION}/runtime/init/error"), post(init_error))
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .with_state(Arc::clone(&table));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok((Self { table, serving }, address))
    }

    /// Lays an event before the process.
    pub(super) fn offer(&self, offer: Offer) {
        *lock(&self.table.offered) = Some(offer);
        self.table.changed.notify_one();
    }

    /// Waits until the process has asked for its first event.
    pub(super) async fn asked(&self) {
        self.table.asked.subscribe().wait_for(|asked| *asked).await.map(drop).unwrap_or_default();
    }

    /// What the process reported instead of asking for an event.
    pub(super) fn init_error(&self) -> Option<Value> {
        lock(&self.table.init_error).clone()
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Hands out the next event, as soon as there is one.
async fn next(State(table): State<Arc<Table>>) -> Response<Body> {
    table.asked.send_replace(true);
    let offer = loop {
        let changed = table.changed.notified();
        let offered = lock(&table.offered).take();
        match offered {
            Some(offer) => break offer,
            None => changed.await,
        }
    };
    let response = Response::builder()
        .header("content-type", "application/json")
        .header("lambda-runtime-aws-request-id", &offer.id)
        .header("lambda-runtime-deadline-ms", offer.deadline_ms)
        .header("lambda-runtime-invoked-function-arn", FUNCTION_ARN)
        .header("lambda-runtime-trace-id", format!("Root=1-00000000-{:.24}", offer.id));
    *lock(&table.handled) = Some((offer.id, offer.answer));
    response.body(Body::from(offer.event)).unwrap_or_default()
}

async fn response(State(table): State<Arc<Table>>, Path(id): Path<String>, body: Bytes) -> (StatusCode, String) {
    table.take(&id, Answer::Response(read(&body)))
}

async fn error(State(table): State<Arc<Table>>, Path(id): Path<String>, body: Bytes) -> (StatusCode, String) {
    table.take(&id, Answer::Error(read(&body)))
}

async fn init_error(State(table): State<Arc<Table>>, body: Bytes) -> (StatusCode, String) {
    *lock(&table.init_error) = Some(read(&body));
    (StatusCode::ACCEPTED, accepted())
}

impl Table {
    /// Passes an answer on, if it is for the event that is being handled.
    fn take(&self, id: &str, answer: Answer) -> (StatusCode, String) {
        let handled = lock(&self.handled).take_if(|(handled, _)| handled == id);
        match handled.map(|(_, waiting)| waiting.send(answer)) {
            Some(Ok(())) => (StatusCode::ACCEPTED, accepted()),
            Some(Err(_)) | None => {
                let body = json!({ "errorType": "InvalidRequestID", "errorMessage": "no such event is being handled" });
                (StatusCode::BAD_REQUEST, body.to_string())
            }
        }
    }
}

fn accepted() -> String {
    json!({ "status": "OK" }).to_string()
}

/// What is no JSON is shown as the text that it is.
fn read(body: &Bytes) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into())
}
