//! A fresh database, the real binary on it, the library on it, and queues in memory.

use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Credentials, Region},
};
use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use ops::{
    dead_letters::{DeadLetters, Letter},
    ops::Ops,
};
use serde_json::Value;
use shared::{
    app::system_time,
    domain::{
        authorization::Authorization,
        day::BankZone,
        event::{EventId, EventKind},
        id::{AccountId, SessionId, TransferId, UserId},
        idempotency::IdempotencyKey,
        instruction::{Content, Instruction, Parties},
        money::{Amount, Currency},
        totp::step_at,
    },
    queue::{Queue, QueueError},
    store::{Store, Tables, post::Verdict, schema::create_tables},
};
use std::{
    process::Stdio,
    sync::{Arc, Mutex},
};
use tokio::process::Command;

/// The local AES-256 key of the tests, in base 64.
const LOCAL_KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// What the binary printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// What was printed, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A database with its tables.
pub(crate) struct Stand {
    endpoint: String,
    /// For tampering.
    pub(crate) client: Client,
}

impl Stand {
    pub(crate) async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(dynoxide::server::serve_on(listener, dynoxide::Database::memory().unwrap()));
        let client = Client::from_conf(sdk(&endpoint));
        create_tables(&client, &tables()).await.unwrap();
        Self { endpoint, client }
    }

    /// The binary with these arguments, the environment of this database, and nothing else.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ops"));
        command
            .args(args)
            .env_clear()
            .env("USER", "hana")
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("FURIKOMI_LOCAL_KEY", LOCAL_KEY)
            .stdin(Stdio::null());
        for table in ["core", "ledger", "outbox", "notifications"] {
            command.env(format!("FURIKOMI_{}_TABLE", table.to_uppercase()), table);
        }
        command
    }

    /// Runs the binary.
    pub(crate) async fn run(&self, line: &str) -> Run {
        let args: Vec<&str> = line.split(' ').collect();
        run(&mut self.command(&args)).await
    }

    /// Runs the binary, which has to do it, and gives its JSON.
    pub(crate) async fn done(&self, line: &str) -> Value {
        let run = self.run(&format!("{line} --json")).await;
        assert_eq!(run.code, 0, "{line}: {run:?}");
        run.json()
    }

    /// Runs the binary, which has to refuse it, and gives what it says.
    pub(crate) async fn refused(&self, line: &str) -> String {
        let run = self.run(line).await;
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{line}: {run:?}");
        run.err
    }

    /// A customer with a verified account, enrolled, with a balance. The account is `ac_USER`.
    pub(crate) async fn customer(&self, user: &str, balance: u64) {
        self.done(&format!("accounts open ac_{user} --owner {user} --name {user} --currency JPY")).await;
        self.done(&format!("identity verify ac_{user}")).await;
        self.done(&format!("totp enroll {user} --show")).await;
        if balance > 0 {
            self.done(&format!("deposit ac_{user} {balance} --reference opening")).await;
        }
    }

    /// The library on this database.
    pub(crate) fn ops(&self) -> (Ops, Arc<Queues>) {
        let queues = Arc::new(Queues::default());
        let ops = Ops {
            store: Store::new(&sdk(&self.endpoint), tables()),
            zone: BankZone::parse("Asia/Tokyo").unwrap(),
            totp_issuer: "furikomi".to_owned(),
            operator: Some("hana".to_owned()),
            clock: Arc::new(system_time),
            is_local: true,
            cipher: None,
            queue: Some(Box::new(Handle(Arc::clone(&queues)))),
            dead_letters: Some(Box::new(Handle(Arc::clone(&queues)))),
            lost_positions: None,
        };
        (ops, queues)
    }

    /// Posts a transfer, or records its failure if a rule speaks against it. `step` is how many TOTP steps ago its code was:
    /// steps only grow.
    pub(crate) async fn transfer(&self, from: &str, to: &str, amount: i64, step: i64) -> TransferId {
        let (ops, _) = self.ops();
        let (store, deadline) = (&ops.store, ops.deadline());
        let (now, user) = (ops.now(), UserId::parse(from).unwrap());
        let session = SessionId::from_claim(&user, "s").unwrap();
        let key = IdempotencyKey::from_header(&format!("{from}-{to}-{amount}-{step}-key-of-the-test")).unwrap();
        let request_id = shared::domain::id::RequestId::derive(&user, &key);
        let content = Content {
            source: AccountId::parse(&format!("ac_{from}")).unwrap(),
            destination: AccountId::parse(&format!("ac_{to}")).unwrap(),
            amount: Amount::parse(amount).unwrap(),
            currency: Currency::parse("JPY").unwrap(),
            requester_name: from.to_owned(),
            memo: String::new(),
        };
        let parties = Parties {
            user: user.clone(),
            destination_name: to.to_owned(),
            destination_owner: UserId::parse(to).unwrap(),
            stale_days: Vec::new(),
        };
        let instruction = Instruction::admit(request_id.clone(), content, parties, &session, now);
        store.admit(&instruction, deadline).await.unwrap();
        let authorization = Authorization {
            session: session.clone(),
            content_hash: instruction.content_hash.clone(),
            at: now,
            step: step_at(now).saturating_sub(step),
        };
        let secret = store.totp(&user, deadline).await.unwrap().unwrap().active.unwrap();
        store.authorize(&instruction, &authorization, &secret, deadline).await.unwrap();
        let authorized = store.instruction(&user, &request_id, deadline).await.unwrap().unwrap();
        let done = store.confirm(authorized, &session, &ops.zone, &*ops.clock, deadline).await.unwrap();
        assert!(matches!(done.verdict, Verdict::Posted | Verdict::Refused(_)), "{done:?}");
        request_id.transfer_id()
    }

    /// Opens the inboxes of a posting's two events, with `recipient`'s channels on the first.
    pub(crate) async fn tell(&self, transfer: &TransferId, payer: &str, payee: &str) -> EventId {
        let (ops, _) = self.ops();
        let ids = [EventKind::Sent, EventKind::Received].map(|kind| EventId::derive(transfer, kind));
        for (event, user) in ids.iter().zip([payer, payee]) {
            let user = UserId::parse(user).unwrap();
            let contact = ops.store.contact(&user, ops.deadline()).await.unwrap();
            ops.store.open_inbox(event, &user, contact.as_ref(), ops.now(), ops.deadline()).await.unwrap();
        }
        let [sent, _] = ids;
        sent
    }
}

/// Runs a command to its end.
pub(crate) async fn run(command: &mut Command) -> Run {
    let output = command.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn tables() -> Tables {
    let [core, ledger, outbox, notifications] = ["core", "ledger", "outbox", "notifications"].map(str::to_owned);
    Tables { core, ledger, outbox, notifications }
}

fn sdk(endpoint: &str) -> aws_sdk_dynamodb::Config {
    aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(endpoint)
        .build()
}

/// The main queue and its dead letters, in memory.
#[derive(Default)]
pub(crate) struct Queues {
    pub(crate) sent: Mutex<Vec<String>>,
    pub(crate) dead: Mutex<Vec<Letter>>,
    /// How many sends still succeed; `None` is all.
    pub(crate) sends_left: Mutex<Option<usize>>,
    pub(crate) may_delete: Mutex<bool>,
}

impl Queues {
    /// The ids of the events that were sent.
    pub(crate) fn events(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        sent.iter().map(|body| shared::queue::from_cloud_event(body).unwrap().id.as_str().to_owned()).collect()
    }

    /// Puts letters into the dead-letter queue.
    pub(crate) fn bury(&self, bodies: &[String]) {
        let mut dead = self.dead.lock().unwrap();
        for body in bodies {
            let id = format!("m{}", dead.len());
            dead.push(Letter { receipt: id.clone(), id, body: body.clone() });
        }
        *self.may_delete.lock().unwrap() = true;
    }
}

struct Handle(Arc<Queues>);

impl Queue for Handle {
    fn send(&self, body: String) -> BoxFuture<'_, Result<(), QueueError>> {
        Box::pin(async move {
            let mut left = self.0.sends_left.lock().unwrap();
            match left.as_mut() {
                Some(0) => return Err(QueueError("the queue is down".into())),
                Some(left) => *left = left.saturating_sub(1),
                None => {}
            }
            self.0.sent.lock().unwrap().push(body);
            Ok(())
        })
    }
}

impl DeadLetters for Handle {
    /// Gives the oldest letters again and again, as a queue whose letters are never hidden.
    fn receive(&self, max: i32) -> BoxFuture<'_, Result<Vec<Letter>, QueueError>> {
        let max = usize::try_from(max).unwrap();
        Box::pin(async move { Ok(self.0.dead.lock().unwrap().iter().take(max).cloned().collect()) })
    }

    fn delete<'a>(&'a self, letter: &'a Letter) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move {
            if !*self.0.may_delete.lock().unwrap() {
                return Err(QueueError("the queue is down".into()));
            }
            self.0.dead.lock().unwrap().retain(|other| other.receipt != letter.receipt);
            Ok(())
        })
    }
}

/// So many seconds before now; after it if they are negative.
pub(crate) fn ago(seconds: i64) -> jiff::Timestamp {
    system_time().checked_sub(SignedDuration::from_secs(seconds)).unwrap()
}
