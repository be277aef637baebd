//! The server: its start, its tasks, and its end.

use crate::{
    bank::Bank,
    data::{Data, DataFault},
    engine::Engine,
    http, people, queue, recover,
    stream::{self, Stream},
    walk,
};
use shared::telemetry::chain;
use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

/// How long the tasks may take to end.
const STOP_TIME: Duration = Duration::from_secs(5);

/// How a server is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The port on the loopback interface; 0 takes a free one.
    pub port: u16,
    /// The data file; in memory if there is none.
    pub data: Option<PathBuf>,
    /// How often the sweeper runs by itself.
    pub sweep_every: Duration,
    /// Whether the clock stands still unless it is set: for demonstrations and tests that shall not depend on how fast
    /// the machine is.
    pub held_clock: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { port: 0, data: None, sweep_every: Duration::from_secs(60), held_clock: false }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is not to be had.
    #[error("cannot listen on {0} ({1}): choose another port with --port, or 0 for a free one")]
    Port(SocketAddr, io::Error),
    /// The data is not to be had.
    #[error(transparent)]
    Data(#[from] DataFault),
    /// Anything else.
    #[error("the server cannot start: {}", chain(.0.as_ref()))]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// A running server. It ends when it is told to, or when it is dropped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    pub(crate) bank: Arc<Bank>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    engine: Engine,
    /// Held as long as the data is in use.
    _lock: Option<File>,
}

impl Server {
    /// Starts a server: when this returns, it answers.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let listener = TcpListener::bind(wanted).await.map_err(|error| StartError::Port(wanted, error))?;
        let address = listener.local_addr().map_err(|error| StartError::Port(wanted, error))?;
        let data = Data::open(options.data.as_deref())?;
        Self::run(options, listener, address, data).await.map_err(StartError::Other)
    }

    async fn run(
        options: Options,
        listener: TcpListener,
        address: SocketAddr,
        data: Data,
    ) -> Result<Self, shared::app::StartError> {
        let engine = Engine::start(data.database).await?;
        let (bank, messages) = Bank::open(&engine, &data.keys, options.held_clock).await?;
        let bank = Arc::new(bank);
        people::seed(&bank).await?;
        // First the position, then the items: what is written in between is met twice and never missed.
        let stream = Stream::open(engine.streams(), &bank.app.store.tables().outbox).await?;
        let requeued = recover::requeue(&bank).await?;
        if requeued > 0 {
            tracing::info!(requeued, "events of the last run are delivered");
        }
        let (stop, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(queue::run(Arc::clone(&bank), messages, stopping.clone()));
        tasks.spawn(stream::run(Arc::clone(&bank), stream, stopping.clone()));
        tasks.spawn(sweep(Arc::clone(&bank), options.sweep_every, stopping.clone()));
        tasks.spawn(http::serve(listener, http::router(Arc::clone(&bank)), stopping));
        Ok(Self { address, bank, stop, tasks, engine, _lock: data.lock })
    }

    /// What to print at the start: the address, how to get in, a transfer to paste, and the way for `ops`.
    #[must_use]
    pub fn welcome(&self) -> String {
        let (now, offset_ms) = (self.bank.app.now(), self.bank.clock.offset_ms());
        walk::welcome(self.address, now, offset_ms, &self.operator_variables())
    }

    /// The environment in which `ops` works on this server's tables. The key that seals secrets is not in it.
    #[must_use]
    pub fn operator_variables(&self) -> Vec<(&'static str, String)> {
        let tables = self.bank.app.store.tables();
        vec![
            ("AWS_ENDPOINT_URL", self.engine.url.clone()),
            ("AWS_REGION", "local".to_owned()),
            ("AWS_ACCESS_KEY_ID", "local".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
            ("FURIKOMI_CORE_TABLE", tables.core.clone()),
            ("FURIKOMI_LEDGER_TABLE", tables.ledger.clone()),
            ("FURIKOMI_OUTBOX_TABLE", tables.outbox.clone()),
            ("FURIKOMI_NOTIFICATIONS_TABLE", tables.notifications.clone()),
        ]
    }

    /// Ends the server: running requests and deliveries are finished first, within a bound.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIME, ended).await.is_err() {
            tracing::warn!("what was still running is cut off");
            self.tasks.shutdown().await;
        }
        drop(self.bank);
        self.engine.stop().await;
    }
}

/// Waits until the server is told to end.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    stop.wait_for(|stop| *stop).await.map(drop).unwrap_or_default();
}

async fn sweep(bank: Arc<Bank>, every: Duration, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopped(&mut stop) => return,
            _ = ticks.tick() => {}
        }
        if let Err(error) = bank.sweep().await {
            tracing::error!(alarm = "sweeper", error = %chain(error.as_ref()), "a sweep failed");
        }
    }
}
