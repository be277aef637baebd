//! A whole bank in a test: a fresh database, the real handlers, a clock to turn, providers that record.

use crate::{
    client::{Client, token},
    fakes::{MemoryQueue, Recorder, Recording, sqs_batch, stream_record},
};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Intercept, Region};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, jwk::Jwk};
use serde_json::json;
use shared::{
    app::App,
    channel::Provider,
    cipher::Cipher,
    config::{Config, Need},
    domain::{
        account::{Account, AccountKind, AccountStatus, Limits},
        id::{AccountId, TransferId, UserId},
        invariants::{Books, violations},
        money::{Amount, Currency},
        notification::{Channel, Contact, Locale},
        totp::{SECRET_BYTES, STEP_S, TotpSecret, step_at},
    },
    store::{Store, Tables, accounts::AccountChange, deadline::Deadline, schema::create_tables, totp::Sealed},
};
use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// Where every test's clock starts: noon in Japan.
const START: &str = "2026-12-01T03:00:00Z";
pub(crate) const ISSUER: &str = "https://issuer.test";
pub(crate) const AUDIENCE: &str = "furikomi-test";
pub(crate) const KEY_ID: &str = "test-key";
/// The local AES-256 key of the tests, in base 64.
const LOCAL_KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// The issuer's key pair, made once per run.
pub(crate) static ISSUER_KEY: LazyLock<EncodingKey> = LazyLock::new(|| {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let rng = aws_lc_rs::rand::SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng).unwrap();
    EncodingKey::from_ec_der(pkcs8.as_ref())
});

/// The tables of a test's database.
pub(crate) fn tables() -> Tables {
    Tables {
        core: "core".to_owned(),
        ledger: "ledger".to_owned(),
        outbox: "outbox".to_owned(),
        notifications: "notifications".to_owned(),
    }
}

/// The SDK's configuration for an endpoint, with the loopback's dummy credentials.
pub(crate) fn sdk_config(endpoint: &str) -> aws_sdk_dynamodb::config::Builder {
    aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(endpoint)
}

/// A bank.
pub(crate) struct Bank {
    pub(crate) app: Arc<App>,
    pub(crate) cipher: Arc<Cipher>,
    pub(crate) endpoint: String,
    clock_ms: Arc<AtomicI64>,
    pub(crate) providers: Arc<Vec<Box<dyn Provider>>>,
    pub(crate) mail: Arc<Recorder>,
    pub(crate) push: Arc<Recorder>,
    pub(crate) queue: Arc<MemoryQueue>,
}

/// A person with an account.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) user: UserId,
    pub(crate) account: AccountId,
}

impl Bank {
    /// An empty bank on a fresh database.
    pub(crate) async fn new() -> Self {
        Self::intercepted(None::<NoIntercept>).await
    }

    /// A bank whose requests to DynamoDB go through `interceptor`.
    pub(crate) async fn intercepted(interceptor: Option<impl Intercept + 'static>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let database = dynoxide::Database::memory().unwrap();
        tokio::spawn(dynoxide::server::serve_on(listener, database));
        let plain = sdk_config(&endpoint).build();
        create_tables(&aws_sdk_dynamodb::Client::from_conf(plain), &tables()).await.unwrap();
        let mut config = sdk_config(&endpoint);
        if let Some(interceptor) = interceptor {
            config = config.interceptor(interceptor);
        }
        Self::on(Store::new(&config.build(), tables()), endpoint).await
    }

    /// A bank on a given store, whose tables are there already.
    pub(crate) async fn on(store: Store, endpoint: String) -> Self {
        let start: Timestamp = START.parse().unwrap();
        let clock_ms = Arc::new(AtomicI64::new(start.as_millisecond()));
        let read = Arc::clone(&clock_ms);
        let clock = Arc::new(move || Timestamp::from_millisecond(read.load(Ordering::SeqCst)).unwrap());
        let config = config();
        let app = App::new(&config, store, clock).await.unwrap();
        let (mail, push) = (Arc::new(Recorder::new(Channel::Email)), Arc::new(Recorder::new(Channel::Push)));
        let providers: Vec<Box<dyn Provider>> =
            vec![Box::new(Recording(Arc::clone(&mail))), Box::new(Recording(Arc::clone(&push)))];
        let key: [u8; 32] = *b"01234567890123456789012345678901";
        Self {
            app: Arc::new(app),
            cipher: Arc::new(Cipher::local(&key).unwrap()),
            endpoint,
            clock_ms,
            providers: Arc::new(providers),
            mail,
            push,
            queue: Arc::default(),
        }
    }

    /// Another process of the same bank: its own store on the same database, the same clock, providers and queue.
    pub(crate) async fn restarted(&self) -> Self {
        self.through(&self.endpoint).await
    }

    /// Another process of the same bank that reaches the database by `endpoint`.
    pub(crate) async fn through(&self, endpoint: &str) -> Self {
        let store = Store::new(&sdk_config(endpoint).build(), tables());
        let read = Arc::clone(&self.clock_ms);
        let clock = Arc::new(move || Timestamp::from_millisecond(read.load(Ordering::SeqCst)).unwrap());
        Self {
            app: Arc::new(App::new(&config(), store, clock).await.unwrap()),
            cipher: Arc::clone(&self.cipher),
            endpoint: self.endpoint.clone(),
            clock_ms: Arc::clone(&self.clock_ms),
            providers: Arc::clone(&self.providers),
            mail: Arc::clone(&self.mail),
            push: Arc::clone(&self.push),
            queue: Arc::clone(&self.queue),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.app.now()
    }

    /// Turns the clock on.
    pub(crate) fn advance_s(&self, seconds: i64) {
        self.clock_ms.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// Turns the clock on by milliseconds.
    pub(crate) fn advance_ms(&self, ms: i64) {
        self.clock_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the clock.
    pub(crate) fn set_clock(&self, at: &str) {
        let at: Timestamp = at.parse().unwrap();
        self.clock_ms.store(at.as_millisecond(), Ordering::SeqCst);
    }

    /// Opens an account in yen with `balance_minor`, enrolled, reachable on both channels.
    pub(crate) async fn person(&self, name: &str, balance_minor: i64) -> Person {
        self.person_in(name, balance_minor, "JPY").await
    }

    pub(crate) async fn person_in(&self, name: &str, balance_minor: i64, currency: &str) -> Person {
        let user = UserId::parse(name).unwrap();
        let account = Account {
            id: AccountId::parse(&format!("ac_{name}")).unwrap(),
            owner: user.clone(),
            holder_name: name.to_owned(),
            currency: Currency::parse(currency).unwrap(),
            status: AccountStatus::Active,
            identity_verified: true,
            balance_minor: 0,
            limits: Limits { daily_amount_minor: 1_000_000, daily_count: 100, per_transfer_minor: 500_000 },
            kind: AccountKind::Customer,
            allowances: std::collections::BTreeMap::new(),
        };
        self.app.store.open_account(&account, soon()).await.unwrap();
        if balance_minor > 0 {
            self.fund(&account, balance_minor).await;
        }
        self.enroll(&user).await;
        let addresses = vec![
            (Channel::Email, format!("{name}@example.test")),
            (Channel::Push, format!("arn:aws:sns:us-east-1:000000000000:endpoint/GCM/app/{name}")),
        ];
        self.app.store.put_contact(&user, &Contact { locale: Locale::En, addresses }, soon()).await.unwrap();
        Person { user, account: account.id }
    }

    async fn fund(&self, account: &Account, balance_minor: i64) {
        let internal = Account {
            id: AccountId::parse(&format!("internal-{}", account.currency.code())).unwrap(),
            owner: UserId::parse("bank").unwrap(),
            holder_name: "furikomi".to_owned(),
            kind: AccountKind::Internal,
            ..account.clone()
        };
        self.app.store.open_account(&internal, soon()).await.unwrap();
        let transfer = TransferId::of_deposit(&account.id, &format!("{}/{balance_minor}", shared::random::name()));
        let amount = Amount::parse(balance_minor).unwrap();
        assert!(self.app.store.deposit(transfer, &internal, account, amount, self.now(), soon()).await.unwrap());
    }

    /// Puts more money on a person's account.
    pub(crate) async fn deposit(&self, person: &Person, amount_minor: i64) {
        let account = self.account(person).await;
        self.fund(&account, amount_minor).await;
    }

    /// Puts a user's secret in force without burning a step: the secret is derived from the user, see [`secret_of`].
    pub(crate) async fn enroll(&self, user: &UserId) {
        let sealed = self.cipher.seal(user, secret_of(user).as_bytes()).await.unwrap();
        let pending = Sealed { ciphertext: sealed, version: shared::random::name() };
        let store = &self.app.store;
        store.put_pending_secret(user, &pending, None, None, self.now(), soon()).await.unwrap();
        store.activate_pending_secret(user, &pending, 1, self.now(), soon()).await.unwrap();
    }

    pub(crate) async fn change(&self, person: &Person, change: AccountChange) {
        self.app
            .store
            .change_account(&person.account, change, self.app.zone.day(self.now()), soon())
            .await
            .unwrap()
            .unwrap();
    }

    pub(crate) async fn account(&self, person: &Person) -> Account {
        self.app.store.account(&person.account, soon()).await.unwrap().unwrap()
    }

    pub(crate) async fn balance(&self, person: &Person) -> i64 {
        self.account(person).await.balance_minor
    }

    /// The code of `user` for the present step, moved on by `offset` steps.
    pub(crate) fn code(&self, user: &UserId, offset: i64) -> String {
        secret_of(user).code_at(step_at(self.now()) + offset).to_string()
    }

    /// A code that is no code of any step near now.
    pub(crate) fn wrong_code(&self, user: &UserId) -> String {
        let near: Vec<String> = (-3..=3).map(|offset| self.code(user, offset)).collect();
        (0..10).map(|n| format!("{n:06}")).find(|code| !near.contains(code)).unwrap()
    }

    /// Moves the clock to the next TOTP step, so that the person has a fresh code.
    pub(crate) fn next_step(&self) {
        self.advance_s(STEP_S);
    }

    /// A person's device: a session with the API.
    pub(crate) fn client(&self, person: &Person, session: &str) -> Client {
        self.client_of(&person.user, session)
    }

    pub(crate) fn client_of(&self, user: &UserId, session: &str) -> Client {
        let (app, cipher) = (Arc::clone(&self.app), Arc::clone(&self.cipher));
        Client { app, cipher, user: user.clone(), token: Some(token(user.as_str(), session)) }
    }

    /// Everything, for counting and for the invariants.
    pub(crate) async fn books(&self) -> Books {
        self.app.store.books().await.unwrap()
    }

    /// Asserts the invariants over all items, and gives the books.
    pub(crate) async fn check(&self) -> Books {
        let books = self.books().await;
        assert_eq!(violations(&books, &self.app.zone), Vec::<String>::new());
        books
    }

    /// Asserts the counts of a bank with `transfers` between customers, and the invariants.
    pub(crate) async fn assert_transfers(&self, transfers: usize) -> Books {
        let books = self.check().await;
        let journals: Vec<_> = books.journals.iter().filter(|journal| journal.request_id.is_some()).collect();
        let of_transfers =
            books.entries.iter().filter(|entry| journals.iter().any(|j| j.transfer == entry.transfer)).count();
        let completed = books.instructions.iter().filter(|i| i.transfer_id().is_some()).count();
        assert_eq!((completed, journals.len(), of_transfers), (transfers, transfers, 2 * transfers));
        books
    }

    /// Puts every event of the outbox on the queue, as the relay does with the stream's records.
    pub(crate) async fn relay(&self) {
        for item in self.app.store.scan(&self.app.store.tables().outbox).await.unwrap() {
            let record = stream_record(&item, "INSERT");
            let batch = relay::StreamEvent { records: vec![record] };
            let response = relay::handle(self.queue.as_ref(), batch).await.unwrap();
            assert!(response.batch_item_failures.is_empty());
        }
    }

    /// Delivers every message of the queue once; those that are not done go back to it. Says how many did.
    pub(crate) async fn deliver(&self) -> usize {
        let messages: Vec<String> = self.queue.messages.lock().unwrap().drain(..).collect();
        let ids: Vec<String> = (0..messages.len()).map(|index| format!("m{index}")).collect();
        let batch = sqs_batch(ids.iter().zip(&messages));
        let response = notifier::handle(&self.app, &self.providers, batch, soon()).await.unwrap();
        let failed: Vec<_> = response.batch_item_failures.into_iter().map(|f| f.item_identifier).collect();
        let mut queue = self.queue.messages.lock().unwrap();
        queue.extend(ids.iter().zip(messages).filter(|(id, _)| failed.contains(id)).map(|(_, message)| message));
        failed.len()
    }

    /// One sweep.
    pub(crate) async fn sweep(&self) -> sweeper::Swept {
        sweeper::handle(&self.app, self.queue.as_ref(), soon()).await.unwrap()
    }
}

/// A deadline that no test reaches.
pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

/// The secret that [`Bank::enroll`] gives a user.
pub(crate) fn secret_of(user: &UserId) -> TotpSecret {
    let hash = shared::domain::hash::tagged("test.secret", &[user.as_str().as_bytes()]);
    TotpSecret::new(&hash[..SECRET_BYTES], "furikomi", user.as_str()).unwrap()
}

fn config() -> Config {
    let key = &*ISSUER_KEY;
    let mut jwk = Jwk::from_encoding_key(key, Algorithm::ES256).unwrap();
    jwk.common.key_id = Some(KEY_ID.to_owned());
    let variables = [
        ("FURIKOMI_CORE_TABLE", "core"),
        ("FURIKOMI_LEDGER_TABLE", "ledger"),
        ("FURIKOMI_OUTBOX_TABLE", "outbox"),
        ("FURIKOMI_NOTIFICATIONS_TABLE", "notifications"),
        ("FURIKOMI_JWT_ISSUER", ISSUER),
        ("FURIKOMI_JWT_AUDIENCE", AUDIENCE),
        ("FURIKOMI_JWT_ALGORITHMS", "ES256"),
        ("FURIKOMI_LOCAL_KEY", LOCAL_KEY),
        ("FURIKOMI_JWKS", &json!({ "keys": [jwk] }).to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Config::read(variables, &[Need::Identity, Need::Cipher]).unwrap()
}

/// No interceptor.
#[derive(Debug)]
pub(crate) struct NoIntercept;

impl Intercept for NoIntercept {
    fn name(&self) -> &'static str {
        "none"
    }
}
