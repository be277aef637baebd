//! A person's device, and what it is answered.

use crate::{people::Person, stack::Stack};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a device waits for an answer. API Gateway gives up after 29 seconds.
const WAIT: Duration = Duration::from_secs(40);

/// A session of somebody's with the API.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

/// An answer of the API.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The member `name` of the body as text; empty if it is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }

    pub(crate) fn id(&self) -> &str {
        self.text("request_id")
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }

    /// The status, and what it is about: the code of an error, else the result.
    pub(crate) fn short(&self) -> String {
        let about = if self.text("code").is_empty() { self.text("result") } else { self.text("code") };
        format!("{} {about} {}", self.status, self.text("reason")).trim_end().to_owned()
    }

    /// The body without its trace id, for comparing answers.
    pub(crate) fn untraced(&self) -> Value {
        let mut body = self.body.clone();
        body.as_object_mut().unwrap().remove("trace_id");
        body
    }

    /// The answer, if it reads like this.
    #[track_caller]
    pub(crate) fn expect(self, short: &str) -> Self {
        assert_eq!(self.short(), short, "{}", self.body);
        self
    }
}

impl Stack {
    /// A session of `person`'s.
    pub(crate) fn login(&self, person: &Person, session: &str) -> Client {
        self.with_token(Some(self.sign(&self.claims(&person.user, session))))
    }

    /// A client with any token, or none.
    pub(crate) fn with_token(&self, token: Option<String>) -> Client {
        Client { http: self.http.clone(), base: self.api.clone(), token }
    }

    /// A memo that is in no log.
    fn memo(&self) -> String {
        let memo = format!("memo {}", crate::people::letters(16));
        self.keep_secret(&memo);
        memo
    }

    /// The body of a transfer.
    pub(crate) fn transfer(&self, from: &Person, to: &Person, amount_minor: i64) -> Value {
        json!({
            "source_account_id": from.account.as_str(),
            "destination_account_id": to.account.as_str(),
            "amount_minor": amount_minor,
            "currency": "JPY",
            "requester_name": from.name,
            "memo": self.memo(),
        })
    }

    /// Requests a transfer under a key of its own.
    pub(crate) async fn ask(&self, client: &Client, from: &Person, to: &Person, amount_minor: i64) -> Answer {
        let body = self.transfer(from, to, amount_minor);
        client.request(&key(), &body).await.expect("201 INSTRUCTION_ACKNOWLEDGED")
    }

    /// Requests and authorizes a transfer: it is ready to be confirmed.
    pub(crate) async fn approved(&self, client: &Client, from: &Person, to: &Person, amount_minor: i64) -> Answer {
        let asked = self.ask(client, from, to, amount_minor).await;
        let code = from.code(self).await;
        client.authorize(asked.id(), &code, asked.text("content_hash")).await.expect("200 INSTRUCTION_ACKNOWLEDGED")
    }

    /// A whole transfer.
    pub(crate) async fn pay(&self, client: &Client, from: &Person, to: &Person, amount_minor: i64) -> Answer {
        let approved = self.approved(client, from, to, amount_minor).await;
        client.confirm(approved.id()).await.expect("200 FINANCIAL_COMMITTED")
    }
}

/// A fresh idempotency key.
pub(crate) fn key() -> String {
    format!("e2e-{}", crate::people::letters(24))
}

impl Client {
    /// Sends any request, with its headers as given and the token. None if there was no answer.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Option<Answer> {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.http.request(method, format!("{}{path}", self.base)).timeout(WAIT);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let answer = request.send().await.ok()?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let bytes = answer.bytes().await.ok()?;
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Some(Answer { status, headers, body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()) })
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<Vec<u8>>) -> Answer {
        let answer = self.try_send(method, path, headers, body).await;
        answer.unwrap_or_else(|| panic!("{method} {path} had no answer"))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.send("POST", path, headers, Some(body.to_string().into_bytes())).await
    }

    pub(crate) async fn request(&self, key: &str, body: &Value) -> Answer {
        self.post("/v1/transfers", &[("idempotency-key", key)], body).await
    }

    pub(crate) async fn authorize(&self, id: &str, code: &str, content_hash: &str) -> Answer {
        let body = json!({ "totp_code": code, "content_hash": content_hash });
        self.post(&format!("/v1/transfers/{id}/authorization"), &[], &body).await
    }

    pub(crate) async fn confirm(&self, id: &str) -> Answer {
        self.post(&format!("/v1/transfers/{id}/confirmation"), &[], &json!({})).await
    }

    /// A confirmation that may have no answer.
    pub(crate) async fn try_confirm(&self, id: &str) -> Option<Answer> {
        self.try_send("POST", &format!("/v1/transfers/{id}/confirmation"), &[], Some(b"{}".to_vec())).await
    }

    pub(crate) async fn cancel(&self, id: &str) -> Answer {
        self.post(&format!("/v1/transfers/{id}/cancellation"), &[], &json!({})).await
    }

    pub(crate) async fn status(&self, id: &str) -> Answer {
        self.get(&format!("/v1/transfers/{id}")).await
    }

    pub(crate) async fn status_by_key(&self, key: &str) -> Answer {
        self.get(&format!("/v1/transfers?idempotency_key={key}")).await
    }
}
