//! What the tests of the server need: the real program as a process, and a client.

#![allow(dead_code, reason = "each test program uses a part of this")]
#![allow(clippy::arithmetic_side_effects, reason = "a test may stop at what it does not expect")]

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long anything is waited for before the test gives up: far longer than it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program with these arguments, to its end.
pub(crate) fn run(arguments: &[&str]) -> Fallible<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_local")).args(arguments).output()?)
}

/// The program as it serves, killed at the end of the test.
pub(crate) struct Process {
    child: Child,
    pub(crate) base: String,
    pub(crate) welcome: String,
}

impl Process {
    /// Starts it on a free port, and waits until it says where it listens.
    pub(crate) fn start(data: Option<&Path>) -> Fallible<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
        command.args(["--port", "0"]).stdout(Stdio::piped());
        if let Some(data) = data {
            command.arg("--data").arg(data);
        }
        let mut child = command.spawn()?;
        let stdout = BufReader::new(child.stdout.take().ok_or("no output")?);
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut welcome = String::new();
        while !welcome.contains("Stop with Ctrl-C") {
            match receiver.recv_timeout(PATIENCE) {
                Ok(line) => welcome.push_str(&format!("{line}\n")),
                Err(error) => {
                    child.kill()?;
                    return Err(format!("the server did not start: {error}: {welcome}").into());
                }
            }
        }
        let base = welcome.lines().next().and_then(|line| line.rsplit(' ').next()).ok_or("no address")?.to_owned();
        Ok(Self { child, base, welcome })
    }

    /// Kills it: SIGKILL, so that it does nothing more.
    pub(crate) fn kill(&mut self) -> Fallible {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, and waits until it has; its exit code.
    pub(crate) fn terminate(&mut self) -> Fallible<Option<i32>> {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        assert!(told.success());
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            assert!(Instant::now() < until, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn client(&self) -> Fallible<Client> {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        Ok(Client { http, base: self.base.clone() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            panic!("the server cannot be killed: {error}");
        }
    }
}

/// A client of the server.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
}

impl Client {
    /// Sends, and gives the status and the JSON.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Fallible<(u16, Value)> {
        let response = request.send().await?;
        let status = response.status().as_u16();
        Ok((status, response.json().await?))
    }

    pub(crate) async fn get(&self, path: &str) -> Fallible<Value> {
        let (status, body) = self.send(self.http.get(format!("{}{path}", self.base))).await?;
        if status == 200 { Ok(body) } else { Err(format!("{path}: {status} {body}").into()) }
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Fallible<(u16, Value)> {
        self.send(self.http.post(format!("{}{path}", self.base)).json(&body)).await
    }

    pub(crate) async fn token(&self, user: &str) -> Fallible<String> {
        let (status, body) = self.post("/dev/token", json!({ "user_id": user, "session_id": "phone" })).await?;
        assert_eq!(status, 200, "{body}");
        Ok(body["token"].as_str().ok_or("no token")?.to_owned())
    }

    pub(crate) async fn user(&self, user: &str) -> Fallible<Value> {
        let users = self.get("/dev/users").await?;
        let all = users["users"].as_array().ok_or("no users")?;
        Ok(all.iter().find(|shown| shown["user_id"] == user).ok_or("no such user")?.clone())
    }

    /// Asks for a transfer; the status and the instruction.
    pub(crate) async fn request(&self, from: &str, to: &str, amount_minor: i64, key: &str) -> Fallible<(u16, Value)> {
        let (token, source, destination) = (self.token(from).await?, self.user(from).await?, self.user(to).await?);
        let body = json!({
            "source_account_id": source["account_id"],
            "destination_account_id": destination["account_id"],
            "amount_minor": amount_minor,
            "currency": "JPY",
            "requester_name": from,
        });
        let url = format!("{}/v1/transfers", self.base);
        self.send(self.http.post(url).bearer_auth(token).header("idempotency-key", key).json(&body)).await
    }

    /// Sends a step of an instruction: `authorization` or `confirmation`.
    pub(crate) async fn step(&self, user: &str, id: &Value, step: &str, body: Value) -> Fallible<(u16, Value)> {
        let (token, id) = (self.token(user).await?, id.as_str().ok_or("no id")?);
        let url = format!("{}/v1/transfers/{id}/{step}", self.base);
        self.send(self.http.post(url).bearer_auth(token).json(&body)).await
    }

    /// A transfer up to the point where only the confirm is missing.
    pub(crate) async fn authorized(&self, from: &str, to: &str, amount_minor: i64, key: &str) -> Fallible<Value> {
        let (status, asked) = self.request(from, to, amount_minor, key).await?;
        assert_eq!(status, 201, "{asked}");
        self.post("/dev/clock", json!({ "advance_s": 30 })).await?;
        let code = self.get(&format!("/dev/totp?user_id={from}")).await?;
        let approval = json!({ "totp_code": code["totp_code"], "content_hash": asked["content_hash"] });
        let (status, body) = self.step(from, &asked["request_id"], "authorization", approval).await?;
        assert_eq!(status, 200, "{body}");
        Ok(asked["request_id"].clone())
    }

    /// A whole transfer; the instruction at its end.
    pub(crate) async fn transfer(&self, from: &str, to: &str, amount_minor: i64, key: &str) -> Fallible<Value> {
        let id = self.authorized(from, to, amount_minor, key).await?;
        let (status, body) = self.step(from, &id, "confirmation", json!({})).await?;
        assert_eq!(status, 200, "{body}");
        Ok(body)
    }

    pub(crate) async fn notifications(&self) -> Fallible<Vec<Value>> {
        let body = self.get("/dev/notifications").await?;
        Ok(body["notifications"].as_array().ok_or("no notifications")?.clone())
    }

    /// The notifications, once `enough` says that they are what is waited for.
    pub(crate) async fn notifications_when(&self, enough: impl Fn(&[Value]) -> bool) -> Fallible<Vec<Value>> {
        let until = Instant::now() + PATIENCE;
        loop {
            let rows = self.notifications().await?;
            if enough(&rows) {
                return Ok(rows);
            }
            if Instant::now() > until {
                return Err(format!("waited in vain: {rows:#?}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Whether nothing more happens to a notification by itself.
pub(crate) fn is_terminal(row: &Value) -> bool {
    ["SENT", "FAILED", "UNKNOWN"].iter().any(|state| row["state"] == *state)
}
