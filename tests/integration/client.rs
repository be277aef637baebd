//! A person's device, and what it is answered.

use crate::bank::{AUDIENCE, Bank, ISSUER, ISSUER_KEY, KEY_ID, Person};
use jsonwebtoken::{Algorithm, Header};
use lambda_http::{Body, Response, http};
use serde_json::{Value, json};
use shared::{app::App, cipher::Cipher, domain::id::UserId};
use std::sync::Arc;

/// A session with the API.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) app: Arc<App>,
    pub(crate) cipher: Arc<Cipher>,
    pub(crate) user: UserId,
    pub(crate) token: Option<String>,
}

/// An answer of the API.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The member `name` of the body as text; empty if it is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }

    pub(crate) fn code(&self) -> &str {
        self.text("code")
    }

    pub(crate) fn id(&self) -> String {
        self.text("request_id").to_owned()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }

    /// The body without its trace id, for comparing answers.
    pub(crate) fn untraced(&self) -> Value {
        let mut body = self.body.clone();
        body.as_object_mut().unwrap().remove("trace_id");
        body
    }
}

/// The body of a transfer between two people.
pub(crate) fn transfer(from: &Person, to: &Person, amount_minor: i64) -> Value {
    json!({
        "source_account_id": from.account.as_str(),
        "destination_account_id": to.account.as_str(),
        "amount_minor": amount_minor,
        "currency": "JPY",
        "requester_name": "Aoi",
        "memo": "rent",
    })
}

/// A key of at least 16 characters for `name`.
pub(crate) fn key(name: &str) -> String {
    format!("key-of-the-test-{name}")
}

impl Client {
    /// Sends any request; `headers` as given, plus the token.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_vec()).unwrap();
        // On the heap: a test that calls many times would otherwise outgrow its thread's stack.
        let answering = Box::pin(local::gateway::dispatch(&self.app, &self.cipher, request));
        let response: Response<Body> = answering.await.unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        }
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        self.send("POST", path, &all, body.to_string().as_bytes()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    pub(crate) async fn request(&self, key: &str, body: &Value) -> Answer {
        self.post("/v1/transfers", &[("idempotency-key", key)], body).await
    }

    pub(crate) async fn authorize(&self, id: &str, code: &str, content_hash: &str) -> Answer {
        let body = json!({ "totp_code": code, "content_hash": content_hash });
        self.post(&format!("/v1/transfers/{id}/authorization"), &[], &body).await
    }

    pub(crate) async fn confirm(&self, id: &str) -> Answer {
        self.send("POST", &format!("/v1/transfers/{id}/confirmation"), &[], b"").await
    }

    pub(crate) async fn cancel(&self, id: &str) -> Answer {
        self.send("POST", &format!("/v1/transfers/{id}/cancellation"), &[], b"").await
    }

    pub(crate) async fn status(&self, id: &str) -> Answer {
        self.get(&format!("/v1/transfers/{id}")).await
    }

    pub(crate) async fn status_by_key(&self, key: &str) -> Answer {
        self.get(&format!("/v1/transfers?idempotency_key={key}")).await
    }

    /// Requests and authorizes with the present code: an instruction that is ready to be confirmed.
    pub(crate) async fn authorized(&self, bank: &Bank, key: &str, body: &Value) -> Answer {
        let requested = self.request(key, body).await;
        assert_eq!(requested.status, 201, "{:?}", requested.body);
        let code = bank.code(&self.user, 0);
        let authorized = self.authorize(&requested.id(), &code, requested.text("content_hash")).await;
        assert_eq!(authorized.status, 200, "{:?}", authorized.body);
        authorized
    }
}

/// A token of the tests' issuer for a user and a session.
pub(crate) fn token(user: &str, session: &str) -> String {
    token_with(&json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": user, "sid": session, "exp": 4_102_444_800_i64 }))
}

/// A token of the tests' issuer with these claims.
pub(crate) fn token_with(claims: &Value) -> String {
    let header = Header { kid: Some(KEY_ID.to_owned()), ..Header::new(Algorithm::ES256) };
    jsonwebtoken::encode(&header, claims, &ISSUER_KEY).unwrap()
}
