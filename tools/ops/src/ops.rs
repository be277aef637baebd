//! What every command works with.

use crate::{
    answer::Fault,
    cli::{Cli, Command, Dlq},
    dead_letters::{DeadLetters, SqsDeadLetters},
    values::{is_local_endpoint, operator as operator_name},
};
use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::config::ProvideCredentials;
use jiff::Timestamp;
use shared::{
    app::{Clock, system_time},
    cipher::Cipher,
    config::Config,
    domain::day::{BankZone, Day},
    queue::{Queue, SqsQueue},
    store::{Store, deadline::Deadline, orders::Order},
    telemetry::chain,
};
use std::{sync::Arc, time::Duration};

/// How long one step of a command may take.
const STEP_TIME: Duration = Duration::from_secs(20);

/// The database, the queues, and who is asking.
pub struct Ops {
    /// The database.
    pub store: Store,
    /// Where a day begins.
    pub zone: BankZone,
    /// The name of the bank in authenticator apps.
    pub totp_issuer: String,
    /// Who orders, for the trail.
    pub operator: Option<String>,
    /// The time.
    pub clock: Clock,
    /// Whether all of this is on this machine.
    pub is_local: bool,
    /// How secrets are sealed.
    pub cipher: Option<Cipher>,
    /// Where events wait for the notifier.
    pub queue: Option<Box<dyn Queue>>,
    /// The notifier's dead letters.
    pub dead_letters: Option<Box<dyn DeadLetters>>,
    /// The positions at which relay gave up.
    pub lost_positions: Option<Box<dyn DeadLetters>>,
}

impl Ops {
    /// Reads the environment for what `cli` needs.
    ///
    /// # Errors
    /// [`Fault::Usage`] with everything that is wrong with it.
    pub async fn from_env(cli: &Cli) -> Result<Self, Fault> {
        let mut faults = Vec::new();
        let config = Config::from_env(cli.command.needs()).map_err(|error| faults.extend(error.0)).ok();
        let sdk = aws_config::load_defaults(BehaviorVersion::latest()).await;
        if sdk.region().is_none() {
            faults.push("AWS_REGION is missing".to_owned());
        }
        if let Some(credentials) = sdk.credentials_provider()
            && let Err(error) = credentials.provide_credentials().await
        {
            faults.push(format!("there are no credentials for AWS ({})", chain(&error)));
        }
        let Some(config) = config.filter(|_| faults.is_empty()) else { return Err(Fault::Usage(faults.join("; "))) };
        let cipher = match &config.cipher {
            Some(choice) => Some(Cipher::new(choice, &sdk)?),
            None => None,
        };
        let letters = |url: &Option<String>| -> Option<Box<dyn DeadLetters>> {
            url.as_ref().map(|url| Box::new(SqsDeadLetters::new(&sdk, url)) as Box<dyn DeadLetters>)
        };
        let (dead_letters, lost_positions) = match &cli.command {
            Command::Dlq(Dlq::Redrive { dlq_url, on_failure_url, .. }) => (letters(dlq_url), letters(on_failure_url)),
            _ => (None, None),
        };
        Ok(Self {
            store: Store::new(&aws_sdk_dynamodb::Config::from(&sdk), config.tables),
            zone: config.zone,
            totp_issuer: config.totp_issuer,
            operator: cli.operator.clone(),
            clock: Arc::new(system_time),
            is_local: sdk.endpoint_url().is_some_and(is_local_endpoint),
            cipher,
            queue: config.queue_url.map(|url| Box::new(SqsQueue::new(&sdk, &url)) as Box<dyn Queue>),
            dead_letters,
            lost_positions,
        })
    }

    /// The time, to the millisecond that items keep.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = (self.clock)();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    /// Today, where the bank is.
    #[must_use]
    pub fn today(&self) -> Day {
        self.zone.day(self.now())
    }

    /// By when the next step has to be done.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        Deadline::after(STEP_TIME)
    }

    /// An order of the operator's, given now.
    ///
    /// # Errors
    /// [`Fault::Usage`] if nobody says who orders.
    pub fn order(&self, command: &str) -> Result<Order, Fault> {
        let operator = self.operator.as_deref().unwrap_or_default();
        let operator = operator_name(operator).map_err(|fault| {
            Fault::Usage(format!("say who orders it, by --operator NAME or USER: the name {fault}"))
        })?;
        Ok(Order::new(&operator, command, self.now(), &self.zone))
    }

    /// The queue.
    ///
    /// # Errors
    /// [`Fault::Usage`] if there is none.
    pub fn queue(&self) -> Result<&dyn Queue, Fault> {
        self.queue.as_deref().ok_or_else(|| Fault::Usage("FURIKOMI_QUEUE_URL is missing".to_owned()))
    }
}
