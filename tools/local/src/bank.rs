//! What the routes and the tasks of one server share.

use crate::{
    clock::AdjustableClock, data::Keys, engine::Engine, faults::FaultBox, issuer::AUDIENCE, issuer::ISSUER,
    issuer::Issuer, keep::Keep, queue::LocalQueue, queue::Message, recorder::Recorder,
};
use shared::{
    app::{App, StartError},
    cipher::Cipher,
    config::{CipherChoice, Config, Need},
    domain::day::Day,
    store::{Store, deadline::Deadline, schema::create_tables},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Mutex, Notify, RwLock, mpsc};

/// How long a route of the server itself may take at the database.
const DEV_TIME: Duration = Duration::from_secs(10);

/// The bank in one process.
pub(crate) struct Bank {
    pub(crate) app: App,
    pub(crate) cipher: Cipher,
    pub(crate) clock: Arc<AdjustableClock>,
    pub(crate) issuer: Issuer,
    pub(crate) faults: Arc<FaultBox>,
    pub(crate) keep: Keep,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) queue: LocalQueue,
    /// Says that the outbox may have something new.
    pub(crate) outbox_changed: Notify,
    /// Held for reading by whatever moves money; for writing by whoever needs books of one moment.
    pub(crate) books: Arc<RwLock<()>>,
    /// Users are added and changed one at a time.
    pub(crate) people: Mutex<()>,
}

impl Bank {
    /// Builds the bank on `engine`, with the tables created, by the ordinary configuration of the functions.
    pub(crate) async fn open(
        engine: &Engine,
        keys: &Keys,
        held_clock: bool,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Message>), StartError> {
        let client = aws_sdk_dynamodb::Client::from_conf(engine.dynamodb());
        let issuer = Issuer::new(&keys.issuer_pkcs8)?;
        let config = Config::read(variables(&issuer, keys), &[Need::Identity, Need::Cipher])?;
        create_tables(&client, &config.tables).await?;
        let keep = Keep::open(client).await?;
        let offset_ms = if held_clock { 0 } else { keep.offset().await? };
        let clock = Arc::new(AdjustableClock::new(offset_ms, held_clock));
        let Some(CipherChoice::Local(cipher_key)) = &config.cipher else {
            return Err("the cipher of the embedded server is local".into());
        };
        let cipher = Cipher::local(cipher_key)?;
        let store = Store::new(&engine.dynamodb(), config.tables.clone());
        let time = Arc::clone(&clock);
        let app = App::new(&config, store, Arc::new(move || time.now())).await?;
        let faults = Arc::new(FaultBox::default());
        let (queue, receiver) = LocalQueue::new(Arc::clone(&faults));
        let recorder = Arc::new(Recorder { keep: keep.clone(), faults: Arc::clone(&faults) });
        let bank = Self {
            app,
            cipher,
            clock,
            issuer,
            faults,
            keep,
            recorder,
            queue,
            outbox_changed: Notify::new(),
            books: Arc::default(),
            people: Mutex::default(),
        };
        Ok((bank, receiver))
    }

    /// The bank's day.
    pub(crate) fn today(&self) -> Day {
        self.app.zone.day(self.app.now())
    }

    /// When a call of the database has to be done.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(DEV_TIME)
    }

    /// Runs the sweeper once.
    pub(crate) async fn sweep(&self) -> Result<sweeper::Swept, lambda_http::Error> {
        let _moving = self.books.read().await;
        sweeper::handle(&self.app, &self.queue, self.deadline()).await
    }
}

/// The environment that a function would have.
fn variables(issuer: &Issuer, keys: &Keys) -> Vec<(String, String)> {
    [
        ("FURIKOMI_CORE_TABLE", "furikomi-core".to_owned()),
        ("FURIKOMI_LEDGER_TABLE", "furikomi-ledger".to_owned()),
        ("FURIKOMI_OUTBOX_TABLE", "furikomi-outbox".to_owned()),
        ("FURIKOMI_NOTIFICATIONS_TABLE", "furikomi-notifications".to_owned()),
        ("FURIKOMI_JWT_ISSUER", ISSUER.to_owned()),
        ("FURIKOMI_JWT_AUDIENCE", AUDIENCE.to_owned()),
        ("FURIKOMI_JWT_ALGORITHMS", "ES256".to_owned()),
        ("FURIKOMI_JWKS", issuer.jwks()),
        ("FURIKOMI_LOCAL_KEY", keys.cipher_key.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
