//! Queues of messages that were given up.

use aws_config::SdkConfig;
use aws_sdk_sqs::{Client, config::timeout::TimeoutConfig};
use futures_util::future::BoxFuture;
use shared::queue::QueueError;
use std::time::Duration;

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Its id in its queue.
    pub id: String,
    /// What it says.
    pub body: String,
    /// What this receipt of it is deleted by.
    pub receipt: String,
}

/// A queue of messages that were given up.
pub trait DeadLetters: Send + Sync {
    /// Up to `max` messages, 1 to 10; none if the queue has none to give now. What is received comes back by itself
    /// unless it is deleted.
    fn receive(&self, max: i32) -> BoxFuture<'_, Result<Vec<Letter>, QueueError>>;

    /// Deletes a message that was received.
    fn delete<'a>(&'a self, letter: &'a Letter) -> BoxFuture<'a, Result<(), QueueError>>;
}

/// A dead-letter queue on SQS.
#[derive(Debug, Clone)]
pub struct SqsDeadLetters {
    client: Client,
    url: String,
}

/// A long poll asks all of SQS's servers (a short one may see none of a short queue's messages).
const WAIT_S: i32 = 2;
/// For how long a message that was received is not given to others: longer than moving ten of them takes.
const HIDDEN_S: i32 = 120;

impl SqsDeadLetters {
    /// The queue at `url`.
    #[must_use]
    pub fn new(sdk: &SdkConfig, url: &str) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(1))
            .operation_attempt_timeout(Duration::from_secs(5))
            .operation_timeout(Duration::from_secs(12))
            .build();
        let config = aws_sdk_sqs::config::Builder::from(sdk).timeout_config(timeouts).build();
        Self { client: Client::from_conf(config), url: url.to_owned() }
    }
}

impl DeadLetters for SqsDeadLetters {
    fn receive(&self, max: i32) -> BoxFuture<'_, Result<Vec<Letter>, QueueError>> {
        Box::pin(async move {
            let receive = self
                .client
                .receive_message()
                .queue_url(&self.url)
                .max_number_of_messages(max)
                .wait_time_seconds(WAIT_S)
                .visibility_timeout(HIDDEN_S)
                .send();
            let output = receive.await.map_err(|error| QueueError(error.into()))?;
            // A message without a receipt cannot be deleted: moving it would double it.
            let letter = |message: aws_sdk_sqs::types::Message| {
                Some(Letter { id: message.message_id?, body: message.body?, receipt: message.receipt_handle? })
            };
            Ok(output.messages.unwrap_or_default().into_iter().filter_map(letter).collect())
        })
    }

    fn delete<'a>(&'a self, letter: &'a Letter) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move {
            let delete = self.client.delete_message().queue_url(&self.url).receipt_handle(&letter.receipt).send();
            delete.await.map(|_| ()).map_err(|error| QueueError(error.into()))
        })
    }
}
