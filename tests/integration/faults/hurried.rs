//! Calls of a function that has little time left.

use crate::client::{Answer, Client};
use lambda_http::{Body, Context, Request, RequestExt, Response};
use serde_json::{Value, json};
use shared::app::system_time;

/// What the function keeps back of its time: 300 ms for the answer and 400 ms for a last read.
const KEPT_BACK_MS: u64 = 700;

/// A client whose calls may write for so long, and no longer.
pub(crate) struct Hurried<'a> {
    pub(crate) client: &'a Client,
    pub(crate) writing_ms: u64,
}

impl Hurried<'_> {
    /// The request as its function gets it from the gateway, with the deadline in its context.
    fn request(&self, path: &str, id: Option<&str>, key: Option<&str>, body: &Value) -> Request {
        let bearer = format!("Bearer {}", self.client.token.as_deref().unwrap());
        let mut headers = json!({ "authorization": [bearer], "content-type": ["application/json"] });
        if let Some(key) = key {
            headers["idempotency-key"] = json!([key]);
        }
        let event = json!({
            "resource": path, "path": path, "httpMethod": "POST",
            "headers": {}, "multiValueHeaders": headers,
            "queryStringParameters": null, "multiValueQueryStringParameters": null,
            "pathParameters": id.map(|id| json!({ "request_id": id })),
            "requestContext": { "requestId": "test", "path": path, "httpMethod": "POST", "identity": {} },
            "body": if body.is_null() { String::new() } else { body.to_string() },
            "isBase64Encoded": false,
        });
        let mut context = Context::default();
        let now_ms = u64::try_from(system_time().as_millisecond()).unwrap();
        context.deadline = now_ms + KEPT_BACK_MS + self.writing_ms;
        lambda_http::request::from_str(&event.to_string()).unwrap().with_lambda_context(context)
    }

    pub(crate) async fn request_transfer(&self, key: &str, body: &Value) -> Answer {
        let request = self.request("/v1/transfers", None, Some(key), body);
        read(request::handle(&self.client.app, request).await.unwrap())
    }

    pub(crate) async fn authorize(&self, id: &str, code: &str, content_hash: &str) -> Answer {
        let body = json!({ "totp_code": code, "content_hash": content_hash });
        let request = self.request("/v1/transfers/x/authorization", Some(id), None, &body);
        read(authorize::handle(&self.client.app, &self.client.cipher, request).await.unwrap())
    }

    pub(crate) async fn confirm(&self, id: &str) -> Answer {
        let request = self.request("/v1/transfers/x/confirmation", Some(id), None, &Value::Null);
        read(confirm::handle(&self.client.app, request).await.unwrap())
    }

    pub(crate) async fn cancel(&self, id: &str) -> Answer {
        let request = self.request("/v1/transfers/x/cancellation", Some(id), None, &Value::Null);
        read(cancel::handle(&self.client.app, request).await.unwrap())
    }

    pub(crate) async fn enroll(&self, path: &str, body: &Value) -> Answer {
        let request = self.request(path, None, None, body);
        read(enroll::handle(&self.client.app, &self.client.cipher, request).await.unwrap())
    }
}

fn read(response: Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    }
}
