//! The store: every read and write of DynamoDB, one file per use case.
//!
//! **Architecture Invariant**: nothing outside this module names a table's key or attribute, and no function reports an
//! outcome that it does not know: see [`transact::Outcome`].

pub mod accounts;
pub mod admit;
pub mod audit;
pub mod authorize;
pub mod cancel;
pub mod deadline;
pub mod deliver;
pub mod expire;
pub mod instructions;
mod item;
mod legs;
pub mod orders;
pub mod outbox;
pub mod post;
pub mod refuse;
pub mod schema;
pub mod survey;
pub mod totp;
pub mod transact;

pub use schema::Tables;

use aws_sdk_dynamodb::{
    Client, Config,
    config::{retry::RetryConfig, timeout::TimeoutConfig},
};
use std::time::Duration;

/// Why the store has no answer. None of these says that nothing was written, except [`StoreError::Rejected`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// DynamoDB did not answer, or not in time: a read failed, or a write's outcome is unknown.
    #[error("the database did not answer in time")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Every write was definitively cancelled by a conflict or by throttling until the time ran out.
    #[error("the items stayed contended until the time ran out")]
    Contended,
    /// DynamoDB refused the request itself: a missing permission or table, or a malformed request. Nothing was written.
    #[error("the database refused the request")]
    Rejected(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A stored item is not what this version of furikomi writes.
    #[error("a stored item cannot be read: {0}")]
    Corrupt(String),
}

/// DynamoDB, as furikomi uses it.
#[derive(Debug, Clone)]
pub struct Store {
    /// For reads: the SDK retries them.
    reads: Client,
    /// For writes: the SDK's own retries are off, since they would hide what the first send did. The store sends again
    /// by itself and remembers.
    writes: Client,
    tables: Tables,
}

/// How long one attempt may take: three times a slow transaction's 99th percentile.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const READ_BACKOFF: Duration = Duration::from_millis(25);
const READ_ATTEMPTS_MAX: u32 = 3;

impl Store {
    /// A store on `config`'s endpoint and credentials. Its timeouts and retries are replaced by furikomi's own.
    #[must_use]
    pub fn new(config: &Config, tables: Tables) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .build();
        let with = |retries: RetryConfig| {
            Client::from_conf(config.to_builder().timeout_config(timeouts.clone()).retry_config(retries).build())
        };
        Self {
            reads: with(
                RetryConfig::standard().with_initial_backoff(READ_BACKOFF).with_max_attempts(READ_ATTEMPTS_MAX),
            ),
            writes: with(RetryConfig::disabled()),
            tables,
        }
    }

    /// The names of the tables.
    #[must_use]
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Opens the connection that the first request will use, by a read of a key that cannot exist. For the start of a
    /// function; a failure is left to the first request to report.
    pub async fn warm(&self) {
        let key = schema::Key { pk: "WARM".to_owned(), sk: "WARM".to_owned() };
        if let Err(error) =
            self.reads.get_item().table_name(&self.tables.core).set_key(Some(key.to_item())).send().await
        {
            tracing::warn!(error = %aws_sdk_dynamodb::error::DisplayErrorContext(&error), "warming the connection failed");
        }
    }
}
