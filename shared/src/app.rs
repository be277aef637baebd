//! What a function builds once, at its cold start.

use crate::{
    auth::Auth,
    config::{Config, Need},
    domain::day::BankZone,
    store::Store,
};
use aws_config::{BehaviorVersion, SdkConfig};
use jiff::Timestamp;
use std::sync::Arc;

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What every function works with.
pub struct App {
    /// The database.
    pub store: Store,
    /// Where a day begins.
    pub zone: BankZone,
    /// The name of the bank in authenticator apps.
    pub totp_issuer: String,
    /// The checks of bearer tokens, for functions behind the API.
    pub auth: Option<Auth>,
    /// The time.
    pub clock: Clock,
}

/// Why a function cannot start.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

impl App {
    /// Builds the app of a function that needs `needs`, with the configuration and the SDK's for what the function adds
    /// itself. One connection to DynamoDB is open when this returns.
    ///
    /// # Errors
    /// What is wrong with the configuration, every fault at once.
    pub async fn from_env(needs: &[Need]) -> Result<(Self, Config, SdkConfig), StartError> {
        let config = Config::from_env(needs)?;
        let sdk = sdk_config().await;
        let store = Store::new(&aws_sdk_dynamodb::Config::from(&sdk), config.tables.clone());
        let app = Self::new(&config, store, Arc::new(system_time)).await?;
        app.store.warm().await;
        Ok((app, config, sdk))
    }

    /// Builds an app on a given store and clock.
    ///
    /// # Errors
    /// If the checks of tokens cannot be prepared.
    pub async fn new(config: &Config, store: Store, clock: Clock) -> Result<Self, StartError> {
        let auth = match &config.identity {
            Some(identity) => Some(Auth::new(identity, clock()).await?),
            None => None,
        };
        Ok(Self { store, zone: config.zone.clone(), totp_issuer: config.totp_issuer.clone(), auth, clock })
    }

    /// The time, to the millisecond that items keep.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = (self.clock)();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}

/// The SDK's configuration, as the function's surroundings give it: region, credentials, endpoint.
pub async fn sdk_config() -> SdkConfig {
    aws_config::load_defaults(BehaviorVersion::latest()).await
}

/// The system's time.
#[must_use]
pub fn system_time() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the app's clock")]
    Timestamp::now()
}
