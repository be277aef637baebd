//! A client of the API and of the development routes, as the scenes need it.

use crate::demo::PATIENCE;
use reqwest::{Method, header};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::time::Instant;

/// Why a scene could not go on.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// How often a fact is looked for again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The client.
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// Whether it says that it repeats an earlier one.
    pub(crate) replayed: bool,
    /// The JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// A text member, or nothing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }

    /// The status with the code, the reason or the result: what a table can show.
    pub(crate) fn short(&self) -> String {
        let said = ["code", "reason"].map(|name| self.text(name)).join(" ");
        let said = if self.status < 400 && self.text("code").is_empty() { self.text("result") } else { said.trim() };
        format!("{} {said}", self.status)
    }
}

/// A customer with a session.
pub(crate) struct Person {
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) token: String,
}

impl Client {
    /// A client of the server at `address`.
    pub(crate) fn new(address: SocketAddr) -> Result<Self, Failed> {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        Ok(Self { http, base: format!("http://{address}") })
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, Failed> {
        let response = request.send().await?;
        let (status, replayed) = (response.status().as_u16(), response.headers().contains_key("idempotency-replayed"));
        Ok(Answer { status, replayed, body: response.json().await? })
    }

    /// A development route. Anything but success fails the scene.
    async fn dev(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failed> {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = self.send(request).await?;
        if answer.status < 300 {
            Ok(answer.body)
        } else {
            Err(format!("{path}: {} {}", answer.status, answer.body).into())
        }
    }

    /// Reads a development route.
    pub(crate) async fn dev_get(&self, path: &str) -> Result<Value, Failed> {
        self.dev(Method::GET, path, None).await
    }

    /// Writes to a development route.
    pub(crate) async fn dev_post(&self, path: &str, body: Value) -> Result<Value, Failed> {
        self.dev(Method::POST, path, Some(body)).await
    }

    /// A new customer with this balance and these options, logged in.
    pub(crate) async fn newcomer(
        &self,
        user: &str,
        name: &str,
        balance_minor: i64,
        options: Value,
    ) -> Result<Person, Failed> {
        let mut body = json!({ "user_id": user, "name": name, "balance_minor": balance_minor });
        if let (Some(body), Value::Object(options)) = (body.as_object_mut(), options) {
            body.extend(options);
        }
        self.dev_post("/dev/users", body).await?;
        self.login(user, "phone").await
    }

    /// Aoi and Ren of their own for a scene.
    pub(crate) async fn couple(&self, scene: &str, aoi_minor: i64, ren_minor: i64) -> Result<(Person, Person), Failed> {
        let aoi = self.newcomer(&format!("aoi-{scene}"), "Aoi", aoi_minor, json!({})).await?;
        let ren = self.newcomer(&format!("ren-{scene}"), "Ren", ren_minor, json!({})).await?;
        Ok((aoi, ren))
    }

    /// A customer in a session.
    pub(crate) async fn login(&self, user: &str, session: &str) -> Result<Person, Failed> {
        let found = self.dev_post("/dev/token", json!({ "user_id": user, "session_id": session })).await?;
        let users = self.dev_get("/dev/users").await?;
        let all = users["users"].as_array().ok_or("no users")?;
        let shown = all.iter().find(|shown| shown["user_id"] == user).ok_or("no such user")?;
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("not a text");
        Ok(Person { user: user.to_owned(), account: text(&shown["account_id"])?, token: text(&found["token"])? })
    }

    /// The balance, asked for by its owner.
    pub(crate) async fn balance(&self, person: &Person) -> Result<i64, Failed> {
        let answer = self.get(person, &format!("/v1/accounts/{}", person.account)).await?;
        answer.body["balance_minor"].as_i64().ok_or_else(|| format!("no balance: {}", answer.body).into())
    }

    /// Reads a route of the API.
    pub(crate) async fn get(&self, person: &Person, path: &str) -> Result<Answer, Failed> {
        self.send(self.http.get(format!("{}{path}", self.base)).bearer_auth(&person.token)).await
    }

    async fn post(&self, person: &Person, path: &str, body: Value) -> Result<Answer, Failed> {
        self.send(self.http.post(format!("{}{path}", self.base)).bearer_auth(&person.token).json(&body)).await
    }

    /// Asks for a transfer.
    pub(crate) async fn request(
        &self,
        from: &Person,
        to: &Person,
        amount_minor: i64,
        key: &str,
    ) -> Result<Answer, Failed> {
        let body = json!({
            "source_account_id": from.account,
            "destination_account_id": to.account,
            "amount_minor": amount_minor,
            "currency": "JPY",
            "requester_name": "Aoi",
            "memo": "demo",
        });
        let url = format!("{}/v1/transfers", self.base);
        let request = self.http.post(url).bearer_auth(&from.token).header("idempotency-key", key).json(&body);
        self.send(request.header(header::ACCEPT, "application/json")).await
    }

    /// Asks for a transfer that has to be admitted.
    pub(crate) async fn ask(&self, from: &Person, to: &Person, amount_minor: i64, key: &str) -> Result<Answer, Failed> {
        let asked = self.request(from, to, amount_minor, key).await?;
        if asked.status == 201 { Ok(asked) } else { Err(format!("not admitted: {}", asked.body).into()) }
    }

    /// The code that the person's authenticator app shows.
    pub(crate) async fn code(&self, person: &Person) -> Result<String, Failed> {
        let shown = self.dev_get(&format!("/dev/totp?user_id={}", person.user)).await?;
        shown["totp_code"].as_str().map(str::to_owned).ok_or_else(|| "no code".into())
    }

    /// Sends a code for an instruction.
    pub(crate) async fn authorize(
        &self,
        person: &Person,
        asked: &Answer,
        code: &str,
        hash: &str,
    ) -> Result<Answer, Failed> {
        let path = format!("/v1/transfers/{}/authorization", asked.text("request_id"));
        self.post(person, &path, json!({ "totp_code": code, "content_hash": hash })).await
    }

    /// Approves an instruction with a fresh code, as things should be. The clock is not moved.
    pub(crate) async fn approve(&self, person: &Person, asked: &Answer) -> Result<String, Failed> {
        let code = self.code(person).await?;
        let answer = self.authorize(person, asked, &code, asked.text("content_hash")).await?;
        if answer.status == 200 { Ok(code) } else { Err(format!("not authorized: {}", answer.body).into()) }
    }

    /// Confirms an instruction.
    pub(crate) async fn confirm(&self, person: &Person, asked: &Answer) -> Result<Answer, Failed> {
        self.post(person, &format!("/v1/transfers/{}/confirmation", asked.text("request_id")), json!({})).await
    }

    /// Cancels an instruction.
    pub(crate) async fn cancel(&self, person: &Person, asked: &Answer) -> Result<Answer, Failed> {
        self.post(person, &format!("/v1/transfers/{}/cancellation", asked.text("request_id")), json!({})).await
    }

    /// Looks an instruction up.
    pub(crate) async fn status(&self, person: &Person, asked: &Answer) -> Result<Answer, Failed> {
        self.get(person, &format!("/v1/transfers/{}", asked.text("request_id"))).await
    }

    /// A transfer from the request to the confirm.
    pub(crate) async fn transfer(
        &self,
        from: &Person,
        to: &Person,
        amount_minor: i64,
        key: &str,
    ) -> Result<Answer, Failed> {
        let asked = self.ask(from, to, amount_minor, key).await?;
        self.advance(30).await?;
        self.approve(from, &asked).await?;
        self.confirm(from, &asked).await
    }

    /// Moves the clock ahead.
    pub(crate) async fn advance(&self, seconds: i64) -> Result<(), Failed> {
        self.dev_post("/dev/clock", json!({ "advance_s": seconds })).await.map(drop)
    }

    /// The counts of the ledger: instructions, journals and entries.
    pub(crate) async fn counts(&self) -> Result<[i64; 3], Failed> {
        let ledger = self.dev_get("/dev/ledger").await?;
        Ok(["instructions", "journals", "entries"].map(|name| ledger[name].as_i64().unwrap_or(-1)))
    }

    /// The notifications of the transfer that an instruction became or would have become, once there are `expected` and
    /// all are settled: `aoi-a EMAIL SENT 1`, in order.
    pub(crate) async fn told(&self, asked: &Answer, expected: usize) -> Result<String, Failed> {
        let suffix = asked.text("request_id").trim_start_matches("ti_").to_owned();
        let until = Instant::now().checked_add(PATIENCE).ok_or("no time")?;
        loop {
            let shown = self.dev_get("/dev/notifications").await?;
            let rows = shown["notifications"].as_array().ok_or("no notifications")?;
            let mine: Vec<&Value> =
                rows.iter().filter(|row| row["event_id"].as_str().is_some_and(|id| id.contains(&suffix))).collect();
            let settled = mine.iter().all(|row| row["state"] != "PENDING" && row["state"] != "SENDING");
            if mine.len() >= expected && settled {
                let mut told: Vec<String> = mine.into_iter().map(row_text).collect();
                told.sort();
                return Ok(told.join("\n"));
            }
            if Instant::now() > until {
                return Err(format!("{} of {expected} notifications are settled: {mine:?}", mine.len()).into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn row_text(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    format!("{} {} {} ×{}", text("user_id"), text("channel"), text("state"), row["provider_calls"])
}
