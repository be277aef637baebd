//! A bank whose functions are processes.

use crate::front::{Front, Outside, Point, ask};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use serde_json::{Value, json};
use shared::{
    app::system_time,
    cipher::Cipher,
    domain::{
        account::{Account, AccountKind, AccountStatus, Limits},
        day::BankZone,
        id::{AccountId, TransferId, UserId},
        invariants::violations,
        money::{Amount, Currency},
        notification::{Channel, Contact, Locale},
        totp::{SECRET_BYTES, TotpSecret, step_at},
    },
    store::{Store, Tables, deadline::Deadline, schema::create_tables, survey::Survey, totp::Sealed},
};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};
use support::driver::{
    Function, Outcome, Setup,
    events::{ApiAnswer, ApiCall},
    programs,
};

const ISSUER: &str = "https://issuer.test";
const AUDIENCE: &str = "furikomi-test";
const KEY: &[u8; 32] = b"01234567890123456789012345678901";
/// As the template has it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The notifier's.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);

static PROGRAMS: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| programs::build().unwrap());

static ISSUER_KEY: LazyLock<EncodingKey> = LazyLock::new(|| {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let rng = aws_lc_rs::rand::SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng).unwrap();
    EncodingKey::from_ec_der(pkcs8.as_ref())
});

/// The binary of a function, built if need be.
pub(crate) fn program(name: &str) -> PathBuf {
    PROGRAMS.get(name).unwrap_or_else(|| panic!("there is no {name} among {PROGRAMS:?}")).clone()
}

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) engine: String,
    pub(crate) outside: Arc<Outside>,
    cipher: Cipher,
    zone: BankZone,
}

/// A function and what it calls.
pub(crate) struct Driven {
    pub(crate) function: Function,
    pub(crate) front: Arc<Front>,
}

/// Somebody with an account and a session.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) user: UserId,
    pub(crate) account: AccountId,
    token: String,
}

/// The functions that a client calls.
pub(crate) struct Api {
    pub(crate) request: Driven,
    pub(crate) authorize: Driven,
    pub(crate) confirm: Driven,
    pub(crate) cancel: Driven,
    pub(crate) status: Driven,
}

pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

impl World {
    pub(crate) async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let engine = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(dynoxide::server::serve_on(listener, dynoxide::Database::memory().unwrap()));
        let sdk = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .endpoint_url(&engine)
            .build();
        let name = |table: &str| table.to_owned();
        let tables = Tables {
            core: name("core"),
            ledger: name("ledger"),
            outbox: name("outbox"),
            notifications: name("notifications"),
        };
        create_tables(&aws_sdk_dynamodb::Client::from_conf(sdk.clone()), &tables).await.unwrap();
        let (store, zone) = (Store::new(&sdk, tables), BankZone::parse("Asia/Tokyo").unwrap());
        let world = Self { store, engine, outside: Arc::default(), cipher: Cipher::local(KEY).unwrap(), zone };
        world.store.open_account(&internal(), soon()).await.unwrap();
        world
    }

    /// A function, whose process is started when it is needed.
    pub(crate) async fn function(&self, name: &str) -> Driven {
        let front = Front::new(&self.engine, &self.outside).await;
        let timeout = if name == "notifier" { LONG_TIMEOUT } else { TIMEOUT };
        let setup = Setup { program: program(name), environment: environment(&front.endpoint), timeout };
        let function = Function::new(setup);
        front.serves(&function);
        Driven { function, front }
    }

    pub(crate) async fn api(&self) -> Api {
        Api {
            request: self.function("request").await,
            authorize: self.function("authorize").await,
            confirm: self.function("confirm").await,
            cancel: self.function("cancel").await,
            status: self.function("status").await,
        }
    }

    /// Opens an account in yen, enrolled, reachable on both channels.
    pub(crate) async fn person(&self, name: &str, balance_minor: i64) -> Person {
        let user = UserId::parse(name).unwrap();
        let account = Account {
            id: AccountId::parse(&format!("ac_{name}")).unwrap(),
            owner: user.clone(),
            holder_name: name.to_owned(),
            kind: AccountKind::Customer,
            ..internal()
        };
        self.store.open_account(&account, soon()).await.unwrap();
        if balance_minor > 0 {
            let transfer = TransferId::of_deposit(&account.id, "the first");
            let amount = Amount::parse(balance_minor).unwrap();
            let done = self.store.deposit(transfer, &internal(), &account, amount, system_time(), soon()).await;
            assert!(done.unwrap());
        }
        let sealed = self.cipher.seal(&user, secret(&user).as_bytes()).await.unwrap();
        let pending = Sealed { ciphertext: sealed, version: shared::random::name() };
        self.store.put_pending_secret(&user, &pending, None, None, system_time(), soon()).await.unwrap();
        self.store.activate_pending_secret(&user, &pending, 1, system_time(), soon()).await.unwrap();
        let addresses = vec![(Channel::Email, format!("{name}@example.test")), (Channel::Push, format!("arn:{name}"))];
        self.store.put_contact(&user, &Contact { locale: Locale::En, addresses }, soon()).await.unwrap();
        Person { token: token(&user), user, account: account.id }
    }

    pub(crate) async fn balance(&self, person: &Person) -> i64 {
        self.store.account(&person.account, soon()).await.unwrap().unwrap().balance_minor
    }

    /// Everything, in order: no violation, and one instruction, one journal, two entries and one outbox item for each of
    /// so many transfers.
    pub(crate) async fn assert_transfers(&self, transfers: usize) -> Survey {
        let survey = self.store.survey(&mut |_, _| {}).await.unwrap();
        assert_eq!(survey.unreadable, Vec::<String>::new());
        let books = &survey.books;
        assert_eq!(violations(books, &self.zone), Vec::<String>::new());
        let journals: Vec<_> = books.journals.iter().filter(|journal| journal.request_id.is_some()).collect();
        let is_of_one = |transfer: &TransferId| journals.iter().any(|journal| journal.transfer == *transfer);
        let entries = books.entries.iter().filter(|entry| is_of_one(&entry.transfer)).count();
        let completed = books.instructions.iter().filter(|instruction| instruction.transfer_id().is_some()).count();
        let told = books.outbox.keys().filter(|transfer| is_of_one(transfer)).count();
        let expected = (transfers, transfers, 2 * transfers, transfers);
        assert_eq!((completed, journals.len(), entries, told), expected);
        survey
    }

    /// The items of the outbox, as the stream has them.
    pub(crate) async fn outbox(&self) -> Vec<Value> {
        let scanned = ask(&self.engine, "Scan", json!({ "TableName": "outbox" })).await;
        scanned["Items"].as_array().unwrap().clone()
    }

    /// As if a minute had passed: every lease on a notification has ended.
    pub(crate) async fn end_leases(&self) {
        let scanned = ask(&self.engine, "Scan", json!({ "TableName": "notifications" })).await;
        for mut item in scanned["Items"].as_array().unwrap().clone() {
            if item.get("lease_until").is_some() && item.get("due_at").is_some() {
                let past = (system_time().as_millisecond() - 1).to_string();
                item["lease_until"] = json!({ "N": past });
                item["due_at"] = json!({ "N": past });
                ask(&self.engine, "PutItem", json!({ "TableName": "notifications", "Item": item })).await;
            }
        }
    }
}

/// The bank's own account.
fn internal() -> Account {
    Account {
        id: AccountId::parse("internal-JPY").unwrap(),
        owner: UserId::parse("bank").unwrap(),
        holder_name: "furikomi".to_owned(),
        currency: Currency::parse("JPY").unwrap(),
        status: AccountStatus::Active,
        identity_verified: true,
        balance_minor: 0,
        limits: Limits { daily_amount_minor: 1_000_000, daily_count: 100, per_transfer_minor: 500_000 },
        kind: AccountKind::Internal,
        allowances: BTreeMap::new(),
    }
}

pub(crate) fn environment(endpoint: &str) -> Vec<(String, String)> {
    let key = &*ISSUER_KEY;
    let mut jwk = Jwk::from_encoding_key(key, Algorithm::ES256).unwrap();
    jwk.common.key_id = Some("test-key".to_owned());
    [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("FURIKOMI_CORE_TABLE", "core"),
        ("FURIKOMI_LEDGER_TABLE", "ledger"),
        ("FURIKOMI_OUTBOX_TABLE", "outbox"),
        ("FURIKOMI_NOTIFICATIONS_TABLE", "notifications"),
        ("FURIKOMI_JWT_ISSUER", ISSUER),
        ("FURIKOMI_JWT_AUDIENCE", AUDIENCE),
        ("FURIKOMI_JWT_ALGORITHMS", "ES256"),
        ("FURIKOMI_JWKS", &json!({ "keys": [jwk] }).to_string()),
        ("FURIKOMI_LOCAL_KEY", &data_encoding::BASE64.encode(KEY)),
        ("FURIKOMI_QUEUE_URL", "http://queue.test/events"),
        ("FURIKOMI_SENDER", "bank@example.test"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn token(user: &UserId) -> String {
    let header = Header { kid: Some("test-key".to_owned()), ..Header::new(Algorithm::ES256) };
    let claims =
        json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": user.as_str(), "sid": "phone", "exp": 4_102_444_800_i64 });
    jsonwebtoken::encode(&header, &claims, &ISSUER_KEY).unwrap()
}

fn secret(user: &UserId) -> TotpSecret {
    let hash = shared::domain::hash::tagged("crash.secret", &[user.as_str().as_bytes()]);
    TotpSecret::new(&hash[..SECRET_BYTES], "furikomi", user.as_str()).unwrap()
}

impl Person {
    /// Somebody with a session, and nothing else yet.
    pub(crate) fn newcomer(name: &str) -> Self {
        let user = UserId::parse(name).unwrap();
        Self { token: token(&user), user, account: AccountId::parse(&format!("ac_{name}")).unwrap() }
    }

    /// The present code, which each test uses for one instruction of a person alone.
    pub(crate) fn code(&self) -> String {
        secret(&self.user).code_at(step_at(system_time())).to_string()
    }

    /// A code of no step near now.
    pub(crate) fn wrong_code(&self) -> String {
        let now = step_at(system_time());
        let near: Vec<_> = (-4..=4).map(|offset| secret(&self.user).code_at(now + offset)).collect();
        (0..20).map(|n| format!("{n:06}")).find(|code| near.iter().all(|near| **near != *code)).unwrap()
    }

    fn call(&self, resource: &str, id: Option<&str>, key: Option<&str>, body: &str) -> Value {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![("authorization", bearer.as_str()), ("content-type", "application/json")];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let parameters: Vec<_> = id.into_iter().map(|id| ("request_id", id)).collect();
        let method = if resource.ends_with("{request_id}") { "GET" } else { "POST" };
        ApiCall { method, resource, parameters: &parameters, query: &[], headers: &headers, body }.event()
    }

    /// The events of the API's calls.
    pub(crate) fn request(&self, to: &Self, amount_minor: i64) -> Value {
        let body = json!({
            "source_account_id": self.account.as_str(),
            "destination_account_id": to.account.as_str(),
            "amount_minor": amount_minor,
            "currency": "JPY",
            "requester_name": "Aoi",
            "memo": "rent",
        });
        self.call("/v1/transfers", None, Some("key-of-the-crash-test"), &body.to_string())
    }

    pub(crate) fn authorize(&self, asked: &ApiAnswer, code: &str) -> Value {
        let body = json!({ "totp_code": code, "content_hash": asked.text("content_hash") }).to_string();
        self.call("/v1/transfers/{request_id}/authorization", Some(asked.text("request_id")), None, &body)
    }

    pub(crate) fn confirm(&self, asked: &ApiAnswer) -> Value {
        self.call("/v1/transfers/{request_id}/confirmation", Some(asked.text("request_id")), None, "")
    }

    pub(crate) fn cancel(&self, asked: &ApiAnswer) -> Value {
        self.call("/v1/transfers/{request_id}/cancellation", Some(asked.text("request_id")), None, "")
    }

    pub(crate) fn enroll(&self) -> Value {
        self.call("/v1/totp", None, None, "")
    }

    pub(crate) fn activate(&self, code: &str) -> Value {
        self.call("/v1/totp/activation", None, None, &json!({ "totp_code": code }).to_string())
    }

    pub(crate) fn status(&self, asked: &ApiAnswer) -> Value {
        self.call("/v1/transfers/{request_id}", Some(asked.text("request_id")), None, "")
    }
}

impl Driven {
    /// What the function responds to an event; it must not die of it.
    pub(crate) async fn respond(&self, event: &Value) -> Value {
        match self.function.invoke(event).await.unwrap() {
            Outcome::Answered(response) => response,
            other => panic!("{other:?}\n{}", self.function.lines().join("\n")),
        }
    }

    /// The answer to a call of the API.
    pub(crate) async fn answer(&self, event: &Value) -> ApiAnswer {
        ApiAnswer::read(&self.respond(event).await)
    }

    /// Has the function handle the event, and kills it at `point`.
    pub(crate) async fn die(&self, event: &Value, point: Point) {
        // A process that only now begins would make a call of its own before its first event.
        self.function.start().await.unwrap();
        self.front.arm(Some(point));
        let outcome = self.function.invoke(event).await.unwrap();
        assert_eq!(outcome, Outcome::Died, "{point:?}");
        assert!(self.function.process_id().is_none());
    }

    /// Has the function handle the event undisturbed, and counts its calls.
    pub(crate) async fn calls(&self, event: &Value) -> (usize, Value) {
        self.function.start().await.unwrap();
        self.front.arm(None);
        let response = self.respond(event).await;
        (self.front.calls(), response)
    }
}

impl Api {
    /// A transfer that only has to be confirmed.
    pub(crate) async fn authorized(&self, from: &Person, to: &Person, amount_minor: i64) -> ApiAnswer {
        let asked = self.request.answer(&from.request(to, amount_minor)).await;
        assert_eq!(asked.status, 201, "{asked:?}");
        let authorized = self.authorize.answer(&from.authorize(&asked, &from.code())).await;
        assert_eq!(authorized.status, 200, "{authorized:?}");
        asked
    }

    /// A transfer that is posted.
    pub(crate) async fn posted(&self, from: &Person, to: &Person, amount_minor: i64) {
        let asked = self.authorized(from, to, amount_minor).await;
        let confirmed = self.confirm.answer(&from.confirm(&asked)).await;
        assert_eq!((confirmed.status, confirmed.text("result")), (200, "FINANCIAL_COMMITTED"), "{confirmed:?}");
    }
}
