//! AWS as one function sees it: DynamoDB on the embedded engine, SQS, SES and SNS in memory. It can kill the function at
//! any of its calls.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response, StatusCode},
};
use serde_json::{Value, json};
use std::sync::{
    Arc, LazyLock, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};
use support::driver::Function;

/// Where a function is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Point {
    /// Before this call, counted from one, arrives.
    Before(usize),
    /// After this call was done, and before its reply.
    After(usize),
}

impl Point {
    /// The points of a function that makes so many calls, in their order.
    pub(crate) fn all(calls: usize) -> impl Iterator<Item = Self> {
        (1..=calls).flat_map(|call| [Self::Before(call), Self::After(call)])
    }

    /// Whether the function's call of this number was done when it was killed here.
    pub(crate) fn did(self, call: usize) -> bool {
        self >= Self::After(call) || matches!(self, Self::Before(at) if at > call)
    }
}

/// What is outside of the bank and its functions: what SQS keeps, and what the providers accepted.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// Bodies of the queue's messages, in order.
    pub(crate) queue: Mutex<Vec<String>>,
    /// Addresses that SES took a mail for.
    pub(crate) mails: Mutex<Vec<String>>,
    /// Endpoints that SNS took a message for.
    pub(crate) pushes: Mutex<Vec<String>>,
}

/// What one function calls.
pub(crate) struct Front {
    pub(crate) endpoint: String,
    engine: String,
    outside: Arc<Outside>,
    function: OnceLock<Function>,
    state: Mutex<Calls>,
    /// While this holds, no call is answered.
    hangs: AtomicBool,
}

#[derive(Debug, Default)]
struct Calls {
    made: usize,
    kill_at: Option<Point>,
}

/// Connections are not kept, so that one client serves the runtimes of all tests.
static UPSTREAM: LazyLock<reqwest::Client> =
    LazyLock::new(|| reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap());

impl Front {
    pub(crate) async fn new(engine: &str, outside: &Arc<Outside>) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = Arc::new(Self {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            engine: engine.to_owned(),
            outside: Arc::clone(outside),
            function: OnceLock::new(),
            state: Mutex::default(),
            hangs: AtomicBool::new(false),
        });
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&front));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        front
    }

    /// Whose calls these are.
    pub(crate) fn serves(&self, function: &Function) {
        assert!(self.function.set(function.clone()).is_ok());
    }

    /// From here calls are counted, and the function is killed at this point, once.
    pub(crate) fn arm(&self, kill_at: Option<Point>) {
        *self.state.lock().unwrap() = Calls { made: 0, kill_at };
    }

    /// The calls since the last arming.
    pub(crate) fn calls(&self) -> usize {
        self.state.lock().unwrap().made
    }

    /// From here calls are answered, or not.
    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::SeqCst);
    }

    /// Notes a call, and gives what point is before it and after it, if the function is to be killed there.
    fn count(&self) -> (bool, bool) {
        let mut state = self.state.lock().unwrap();
        state.made += 1;
        let made = state.made;
        let before = state.kill_at.take_if(|point| *point == Point::Before(made)).is_some();
        let after = state.kill_at.take_if(|point| *point == Point::After(made)).is_some();
        (before, after)
    }

    async fn kill(&self) {
        self.function.get().unwrap().kill().await;
    }

    async fn serve(self: Arc<Self>, headers: HeaderMap, body: Bytes) -> Response<Body> {
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let (before, after) = self.count();
        if before {
            self.kill().await;
            return reply(StatusCode::INTERNAL_SERVER_ERROR, "", "");
        }
        let done = self.forward(&headers, body).await;
        if after {
            self.kill().await;
        }
        done
    }

    async fn forward(&self, headers: &HeaderMap, body: Bytes) -> Response<Body> {
        let target = headers.get("x-amz-target").map(|target| target.to_str().unwrap().to_owned());
        match target.as_deref() {
            Some("AmazonSQS.SendMessage") => {
                let message: Value = serde_json::from_slice(&body).unwrap();
                self.outside.queue.lock().unwrap().push(message["MessageBody"].as_str().unwrap().to_owned());
                let done = json!({ "MessageId": "m", "MD5OfMessageBody": "0" });
                reply(StatusCode::OK, "application/x-amz-json-1.0", done.to_string())
            }
            Some(target) => dynamodb(&self.engine, target, body).await,
            None => self.provide(&body),
        }
    }

    /// SES and SNS, which speak in forms and XML.
    fn provide(&self, form: &[u8]) -> Response<Body> {
        let value = |name: &str| {
            let found = form_urlencoded::parse(form).find(|(found, _)| found == name);
            found.map_or_else(String::new, |(_, value)| value.into_owned())
        };
        let action = value("Action");
        match action.as_str() {
            "SendEmail" => self.outside.mails.lock().unwrap().push(value("Destination.ToAddresses.member.1")),
            "Publish" => self.outside.pushes.lock().unwrap().push(value("TargetArn")),
            other => panic!("nobody does {other}"),
        }
        let xml =
            format!("<{action}Response><{action}Result><MessageId>m</MessageId></{action}Result></{action}Response>");
        reply(StatusCode::OK, "text/xml", xml)
    }
}

async fn answer(State(front): State<Arc<Front>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    // A task of its own: what has arrived is done, also if the one who sent it is no more.
    tokio::spawn(front.serve(headers, body)).await.unwrap()
}

/// Has the engine do what is asked.
async fn dynamodb(engine: &str, target: &str, body: impl Into<reqwest::Body>) -> Response<Body> {
    let request = UPSTREAM
        .post(engine)
        .header("x-amz-target", target)
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-date", "20261201T000000Z")
        .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20261201/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0");
    let done = request.body(body).send().await.unwrap();
    let status = StatusCode::from_u16(done.status().as_u16()).unwrap();
    reply(status, "application/x-amz-json-1.0", done.bytes().await.unwrap())
}

/// Asks the engine, on no function's behalf; the answer as DynamoDB's JSON has it.
pub(crate) async fn ask(engine: &str, operation: &str, request: Value) -> Value {
    let answer = dynamodb(engine, &format!("DynamoDB_20120810.{operation}"), request.to_string()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn reply(status: StatusCode, content_type: &str, body: impl Into<Body>) -> Response<Body> {
    Response::builder().status(status).header("content-type", content_type).body(body.into()).unwrap()
}
