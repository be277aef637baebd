//! A wire between the store and its database that can be told to go wrong: an HTTP proxy in the test's own process.

use axum::body::{Body, Bytes, to_bytes};
use hyper::{Request, Response, StatusCode, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
};

/// What happens to one send.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Nothing.
    Pass,
    /// The connection closes before the database sees the request.
    LoseRequest,
    /// The database does what was asked; then the connection closes without an answer.
    LoseReply,
    /// The database does what was asked; its answer's body is cut.
    CutReply,
    /// This answer, and the database never sees the request.
    Answer(u16, &'static str),
    /// The database does what was asked, and this is answered.
    ForwardThenAnswer(u16, &'static str),
    /// The transaction is cancelled for `reason` at `leg`, and the database never sees it.
    Cancel { legs: usize, leg: usize, reason: &'static str },
    /// As if the database had forgotten the token: forwarded under another one.
    ForgetToken,
    /// Forwarded once the gate is opened, and then answered if the client still waits.
    Gate,
    /// The connection closes at once; the request arrives once the gate is opened.
    Late,
    /// The keys of this table are left unprocessed.
    Unprocessed(&'static str),
}

/// A send that came by.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) operation: String,
    pub(crate) body: Bytes,
}

impl Sent {
    pub(crate) fn token(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["ClientRequestToken"].as_str().unwrap_or_default().to_owned()
    }
}

/// The proxy.
pub(crate) struct Wire {
    pub(crate) endpoint: String,
    upstream: String,
    /// What happens to the next sends of an operation, in order.
    next: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    /// What happens to all sends after those.
    always: Mutex<HashMap<&'static str, Fault>>,
    sent: Mutex<Vec<Sent>>,
    /// Requests that stand before the gate, or did.
    held: watch::Sender<usize>,
    gate: Semaphore,
    /// Late requests that have arrived.
    arrived: watch::Sender<usize>,
}

/// Connections are not kept, so that one client serves the runtimes of all tests.
static UPSTREAM: LazyLock<reqwest::Client> =
    LazyLock::new(|| reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap());

impl Wire {
    /// A wire to the database at `upstream`.
    pub(crate) async fn to(upstream: &str) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Arc::new(Self {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            upstream: upstream.to_owned(),
            next: Mutex::default(),
            always: Mutex::default(),
            sent: Mutex::default(),
            held: watch::channel(0).0,
            gate: Semaphore::new(0),
            arrived: watch::channel(0).0,
        });
        let serving = Arc::clone(&wire);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let wire = Arc::clone(&serving);
                let service = service_fn(move |request| Arc::clone(&wire).serve(request));
                let connection = hyper::server::conn::http1::Builder::new();
                // An error here is a fault that was asked for, or a client that went away.
                tokio::spawn(async move { connection.serve_connection(TokioIo::new(stream), service).await.ok() });
            }
        });
        wire
    }

    /// What happens to the next sends of `operation`.
    pub(crate) fn next(&self, operation: &'static str, faults: impl IntoIterator<Item = Fault>) {
        self.next.lock().unwrap().entry(operation).or_default().extend(faults);
    }

    /// What happens to all further sends of `operation` that have no fault of their own.
    pub(crate) fn always(&self, operation: &'static str, fault: Fault) {
        self.always.lock().unwrap().insert(operation, fault);
    }

    /// From now on the wire is sound.
    pub(crate) fn mend(&self) {
        self.next.lock().unwrap().clear();
        self.always.lock().unwrap().clear();
    }

    /// The sends of `operation` since the last call, and forgets all sends.
    pub(crate) fn take(&self, operation: &str) -> Vec<Sent> {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        sent.into_iter().filter(|sent| sent.operation == operation).collect()
    }

    /// Waits until a request stands before the gate.
    pub(crate) async fn held(&self) {
        until_some(&self.held).await;
    }

    /// Lets everything through the gate, now and later.
    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// Opens the gate and waits until a late request has arrived at the database.
    pub(crate) async fn deliver_late(&self) {
        self.open_gate();
        until_some(&self.arrived).await;
    }

    fn fault_of(&self, operation: &str) -> Fault {
        let own = self.next.lock().unwrap().get_mut(operation).and_then(VecDeque::pop_front);
        own.or_else(|| self.always.lock().unwrap().get(operation).copied()).unwrap_or(Fault::Pass)
    }

    async fn serve(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, String> {
        let target = request.headers()["x-amz-target"].to_str().unwrap().to_owned();
        let operation = target.rsplit('.').next().unwrap().to_owned();
        let body = to_bytes(Body::new(request.into_body()), usize::MAX).await.unwrap();
        self.sent.lock().unwrap().push(Sent { operation: operation.clone(), body: body.clone() });
        match self.fault_of(&operation) {
            Fault::Pass => Ok(self.forward(&target, body).await),
            Fault::LoseRequest => Err("lost before it was done".to_owned()),
            Fault::LoseReply => {
                self.forward(&target, body).await;
                Err("lost after it was done".to_owned())
            }
            Fault::CutReply => {
                self.forward(&target, body).await;
                Ok(answer(StatusCode::OK, "{\"ConsumedCapacity\": [{\"Tab"))
            }
            Fault::Answer(status, code) => Ok(error(status, code)),
            Fault::ForwardThenAnswer(status, code) => {
                self.forward(&target, body).await;
                Ok(error(status, code))
            }
            Fault::Cancel { legs, leg, reason } => Ok(cancelled(legs, leg, reason)),
            Fault::ForgetToken => Ok(self.forward(&target, with_other_token(&body)).await),
            Fault::Gate => Ok(self.deliver_after_gate(target, body).await.unwrap()),
            Fault::Late => {
                self.deliver_after_gate(target, body);
                Err("on its way for long".to_owned())
            }
            Fault::Unprocessed(table) => Ok(self.leave_unprocessed(&target, &body, table).await),
        }
    }

    /// On its way, whether or not the client still waits.
    fn deliver_after_gate(self: Arc<Self>, target: String, body: Bytes) -> JoinHandle<Response<Body>> {
        tokio::spawn(async move {
            self.held.send_modify(|held| *held += 1);
            self.gate.acquire().await.unwrap().forget();
            let reply = self.forward(&target, body).await;
            self.arrived.send_modify(|arrived| *arrived += 1);
            reply
        })
    }

    async fn forward(&self, target: &str, body: Bytes) -> Response<Body> {
        let request = UPSTREAM.post(&self.upstream).body(body);
        let request = request
            .header("x-amz-target", target)
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-date", "20261201T000000Z")
            .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20261201/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0");
        let reply = request.send().await.unwrap();
        let status = StatusCode::from_u16(reply.status().as_u16()).unwrap();
        answer(status, reply.bytes().await.unwrap())
    }

    /// Reads the other tables' keys, and says that this table's were not processed.
    async fn leave_unprocessed(&self, target: &str, body: &Bytes, table: &str) -> Response<Body> {
        let mut wanted: Value = serde_json::from_slice(body).unwrap();
        let left = wanted["RequestItems"].as_object_mut().unwrap().remove(table).unwrap();
        let mut reply = json!({ "Responses": {} });
        if !wanted["RequestItems"].as_object().unwrap().is_empty() {
            let read = self.forward(target, wanted.to_string().into()).await;
            reply = serde_json::from_slice(&to_bytes(read.into_body(), usize::MAX).await.unwrap()).unwrap();
        }
        reply["UnprocessedKeys"] = json!({ table: left });
        answer(StatusCode::OK, reply.to_string())
    }
}

/// Waits for the count to leave zero; a test that waits in vain fails.
async fn until_some(count: &watch::Sender<usize>) {
    let mut count = count.subscribe();
    tokio::time::timeout(Duration::from_secs(30), count.wait_for(|count| *count > 0)).await.unwrap().unwrap();
}

fn answer(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let response = Response::builder().status(status).header("content-type", "application/x-amz-json-1.0");
    response.body(body.into()).unwrap()
}

fn error(status: u16, code: &str) -> Response<Body> {
    let body = json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "says the test" });
    answer(StatusCode::from_u16(status).unwrap(), body.to_string())
}

fn cancelled(legs: usize, at: usize, reason: &str) -> Response<Body> {
    let reasons: Vec<Value> = (0..legs).map(|leg| json!({ "Code": if leg == at { reason } else { "None" } })).collect();
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "Transaction cancelled, says the test",
        "CancellationReasons": reasons,
    });
    answer(StatusCode::BAD_REQUEST, body.to_string())
}

fn with_other_token(body: &Bytes) -> Bytes {
    let mut body: Value = serde_json::from_slice(body).unwrap();
    body["ClientRequestToken"] = shared::random::name().into();
    body.to_string().into()
}
