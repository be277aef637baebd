//! The stack under test: where it is, and the way to its tables, queues, operators and logs.

use crate::{gate::Gate, people::token_claims};
use aws_sdk_dynamodb::{config::Credentials, types::AttributeValue};
use jsonwebtoken::EncodingKey;
use serde_json::Value;
use shared::{
    domain::{
        event::EventId,
        id::{TransferId, UserId},
    },
    queue::to_cloud_event,
    store::{Store, deadline::Deadline, deliver::NotificationRow, schema::Tables},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::process::Command;

/// How long anything is waited for before it counts as not happening. The longest is a lease (60 s) and a sweep.
const PATIENCE: Duration = Duration::from_secs(240);
/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// A deployed stack.
pub(crate) struct Stack {
    /// Where the API is, without `/v1`.
    pub(crate) api: String,
    /// Where the engine is.
    pub(crate) endpoint: String,
    /// MiniStack checks the permissions of roles, and shapes the gateway's own answers; LocalStack's free edition does
    /// neither.
    pub(crate) is_ministack: bool,
    /// The outputs of the stack.
    pub(crate) outputs: Value,
    /// Its tables.
    pub(crate) store: Store,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) sns: aws_sdk_sns::Client,
    /// What `confirm`, `relay` and `notifier` reach the engine through.
    pub(crate) gate: Arc<Gate>,
    /// The issuer's key, its id, and the claims of a good token.
    pub(crate) issuer: (EncodingKey, String, Value),
    /// The issuer's public key, which anybody may know.
    pub(crate) public_key: String,
    pub(crate) http: reqwest::Client,
    /// What no log may contain.
    secrets: Mutex<BTreeSet<String>>,
    script: String,
    ops: String,
}

impl Stack {
    /// The stack that the environment names.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) async fn from_env() -> Result<Self, String> {
        let given = |name: &str| std::env::vars().find(|(key, _)| key == name).map(|(_, value)| value);
        let variable = |name: &str| given(name).filter(|value| !value.is_empty()).ok_or(format!("{name} is missing"));
        let outputs: Value = serde_json::from_str(&variable("E2E_OUTPUTS")?).map_err(|error| error.to_string())?;
        let endpoint = variable("E2E_ENDPOINT_URL")?;
        let tables = Tables {
            core: output(&outputs, "CoreTable"),
            ledger: output(&outputs, "LedgerTable"),
            outbox: output(&outputs, "OutboxTable"),
            notifications: output(&outputs, "NotificationsTable"),
        };
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .region(aws_sdk_dynamodb::config::Region::new(variable("AWS_REGION")?))
            .credentials_provider(root())
            .endpoint_url(&endpoint)
            .build();
        let script = variable("E2E_STACK")?;
        let issuer = issuer(&variable("E2E_ISSUER_KEY")?, &run(&script, &["token", "aoi"]).await?)?;
        Ok(Self {
            api: variable("E2E_API_URL")?,
            is_ministack: variable("E2E_ENGINE")? == "ministack",
            store: Store::new(&config, tables),
            dynamodb: aws_sdk_dynamodb::Client::from_conf(config),
            sqs: aws_sdk_sqs::Client::from_conf(sqs_config(&endpoint, &variable("AWS_REGION")?, None)),
            sns: aws_sdk_sns::Client::from_conf(sns_config(&endpoint, &variable("AWS_REGION")?)),
            gate: Gate::open(&variable("E2E_GATE_PORT")?, &endpoint).await?,
            issuer,
            public_key: variable("E2E_ISSUER_PUBLIC_KEY")?,
            http: reqwest::Client::builder().no_proxy().build().map_err(|error| error.to_string())?,
            secrets: Mutex::default(),
            ops: variable("E2E_OPS")?,
            outputs,
            endpoint,
            script,
        })
    }

    /// An output of the stack.
    pub(crate) fn output(&self, name: &str) -> String {
        output(&self.outputs, name)
    }

    /// Notes something that must not be in a log.
    pub(crate) fn keep_secret(&self, secret: &str) {
        self.secrets.lock().unwrap().insert(secret.to_owned());
    }

    /// All that must not be in a log.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.secrets.lock().unwrap().iter().cloned().collect()
    }

    /// Runs `ops --json`, and gives its exit code and what it printed.
    pub(crate) async fn ops(&self, arguments: &[&str]) -> (i32, Value) {
        let output = Command::new(&self.ops)
            .args(["--json", "--operator", "e2e"])
            .args(arguments)
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let json = serde_json::from_str(&said).unwrap_or_else(|_| {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            serde_json::json!({ "stdout": said, "stderr": error })
        });
        (output.status.code().unwrap_or(-1), json)
    }

    /// Runs `ops`, which must do what it is told.
    pub(crate) async fn order(&self, arguments: &[&str]) -> Value {
        let (code, said) = self.ops(arguments).await;
        assert_eq!(code, 0, "ops {arguments:?}: {said}");
        said
    }

    /// What `infra/stack` says.
    pub(crate) async fn script(&self, arguments: &[&str]) -> String {
        run(&self.script, arguments).await.unwrap()
    }

    /// The events of a transfer, by the outbox, as they are put on the queue.
    pub(crate) async fn events(&self, transfer: &str) -> Vec<(EventId, String)> {
        let transfer = TransferId::parse(transfer).unwrap();
        let record = self.store.outbox(&transfer, deadline()).await.unwrap().unwrap();
        record.events().iter().map(|event| (event.id.clone(), to_cloud_event(event))).collect()
    }

    /// The notifications of an event.
    pub(crate) async fn rows(&self, event: &EventId) -> Vec<NotificationRow> {
        self.store.notification_rows(event, deadline()).await.unwrap()
    }

    /// How much an account has, by the ledger.
    pub(crate) async fn balance(&self, person: &crate::people::Person) -> i64 {
        self.store.account(&person.account, deadline()).await.unwrap().unwrap().balance_minor
    }

    /// Ends the time of an instruction, as if ten minutes had passed.
    pub(crate) async fn age(&self, user: &UserId, request_id: &str) {
        let table = self.output("CoreTable");
        let past = AttributeValue::N((jiff::Timestamp::now().as_millisecond() - 1_000).to_string());
        let text = |value: String| AttributeValue::S(value);
        let update = self.dynamodb.update_item().table_name(table);
        update
            .key("pk", text(format!("USER#{user}")))
            .key("sk", text(format!("INSTRUCTION#{request_id}")))
            .condition_expression("attribute_exists(pk)")
            .update_expression("SET expires_at = :past, due_at = :past")
            .expression_attribute_values(":past", past)
            .send()
            .await
            .unwrap();
    }

    /// Puts a message on a queue.
    pub(crate) async fn send(&self, queue: &str, body: &str) {
        self.sqs.send_message().queue_url(self.output(queue)).message_body(body).send().await.unwrap();
    }

    /// The bodies of the messages that wait in a queue; they stay there.
    pub(crate) async fn letters(&self, queue: &str) -> Vec<String> {
        let receive = self.sqs.receive_message().queue_url(self.output(queue));
        let received = receive.max_number_of_messages(10).visibility_timeout(0).send().await.unwrap();
        received.messages().iter().filter_map(|message| message.body.clone()).collect()
    }
}

/// Waits until `look` sees what it looks for.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let waiting = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("this never happened: {what}"))
}

/// By when a read has to be answered.
pub(crate) fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

/// Who may do everything on an emulator. All clients share the type.
fn root() -> Credentials {
    Credentials::new("test", "test", None, None, "e2e")
}

/// The configuration of SQS, as root or as somebody else.
pub(crate) fn sqs_config(endpoint: &str, region: &str, credentials: Option<Credentials>) -> aws_sdk_sqs::Config {
    aws_sdk_sqs::Config::builder()
        .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
        .region(aws_sdk_sqs::config::Region::new(region.to_owned()))
        .credentials_provider(credentials.unwrap_or_else(root))
        .endpoint_url(endpoint)
        .build()
}

fn sns_config(endpoint: &str, region: &str) -> aws_sdk_sns::Config {
    aws_sdk_sns::Config::builder()
        .behavior_version(aws_sdk_sns::config::BehaviorVersion::latest())
        .region(aws_sdk_sns::config::Region::new(region.to_owned()))
        .credentials_provider(root())
        .endpoint_url(endpoint)
        .build()
}

fn output(outputs: &Value, name: &str) -> String {
    outputs[name].as_str().unwrap_or_else(|| panic!("the stack has no output {name}")).to_owned()
}

/// The key that signs tokens, from its PEM file; its id and the claims are those of a good token.
fn issuer(file: &str, token: &str) -> Result<(EncodingKey, String, Value), String> {
    let pem = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = data_encoding::BASE64.decode(base64.as_bytes()).map_err(|error| format!("{file}: {error}"))?;
    let header = jsonwebtoken::decode_header(token).map_err(|error| error.to_string())?;
    Ok((EncodingKey::from_ec_der(&der), header.kid.unwrap_or_default(), token_claims(token)?))
}

async fn run(script: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(script).args(arguments).kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("{script}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{script} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
