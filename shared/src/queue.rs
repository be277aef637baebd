//! Events on their way to the notifier: CloudEvents 1.0 in JSON, on SQS or in the embedded server's own queue.

use crate::domain::{
    error::Refusal,
    event::{Event, EventId},
    id::UserId,
    money::{Amount, Currency},
};
use aws_config::SdkConfig;
use aws_sdk_sqs::{Client, config::timeout::TimeoutConfig};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Why an event could not be put on the queue.
#[derive(Debug, thiserror::Error)]
#[error("the event was not put on the queue")]
pub struct QueueError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Where events wait for the notifier. A send that fails may have been done: the inbox absorbs the repeat.
pub trait Queue: Send + Sync {
    /// Puts one CloudEvent on the queue.
    fn send(&self, body: String) -> BoxFuture<'_, Result<(), QueueError>>;
}

/// An SQS queue.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    client: Client,
    url: String,
}

impl SqsQueue {
    /// The queue at `url`.
    #[must_use]
    pub fn new(sdk: &SdkConfig, url: &str) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(1))
            .operation_attempt_timeout(Duration::from_secs(2))
            .operation_timeout(Duration::from_secs(6))
            .build();
        let config = aws_sdk_sqs::config::Builder::from(sdk).timeout_config(timeouts).build();
        Self { client: Client::from_conf(config), url: url.to_owned() }
    }
}

impl Queue for SqsQueue {
    fn send(&self, body: String) -> BoxFuture<'_, Result<(), QueueError>> {
        Box::pin(async move {
            let send = self.client.send_message().queue_url(&self.url).message_body(body).send();
            send.await.map(|_| ()).map_err(|error| QueueError(error.into()))
        })
    }
}

/// What `source` a CloudEvent of furikomi's names.
pub const SOURCE: &str = "furikomi";

/// The CloudEvent on the wire (CloudEvents 1.0, JSON format, structured mode).
#[derive(Debug, Serialize, Deserialize)]
struct CloudEvent {
    specversion: String,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: String,
    subject: String,
    time: String,
    datacontenttype: String,
    data: EventData,
}

#[derive(Debug, Serialize, Deserialize)]
struct EventData {
    recipient_id: String,
    transfer_id: String,
    amount_minor: i64,
    currency: String,
    account_masked: String,
    counterparty_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_code: Option<String>,
}

/// The body of a message is not an event of furikomi's.
#[derive(Debug, thiserror::Error)]
pub enum EventFault {
    /// Not a CloudEvent in JSON with furikomi's data.
    #[error("the message is not a CloudEvent of furikomi's")]
    Json(#[source] serde_json::Error),
    /// A value is not what it should be.
    #[error("the CloudEvent has an unusable {0}")]
    Value(&'static str),
}

/// The event as a CloudEvent.
#[must_use]
pub fn to_cloud_event(event: &Event) -> String {
    let wire = CloudEvent {
        specversion: "1.0".to_owned(),
        id: event.id.as_str().to_owned(),
        source: SOURCE.to_owned(),
        kind: event.kind.as_str().to_owned(),
        subject: event.transfer.to_string(),
        time: format!("{:.3}", event.at),
        datacontenttype: "application/json".to_owned(),
        data: EventData {
            recipient_id: event.recipient.to_string(),
            transfer_id: event.transfer.to_string(),
            amount_minor: event.amount.minor(),
            currency: event.currency.code().to_owned(),
            account_masked: event.account_masked.clone(),
            counterparty_name: event.counterparty_name.clone(),
            failure_code: event.failure_code.map(|refusal| refusal.code().to_owned()),
        },
    };
    serde_json::json!(wire).to_string()
}

/// Reads a CloudEvent of furikomi's.
///
/// # Errors
/// [`EventFault`].
pub fn from_cloud_event(body: &str) -> Result<Event, EventFault> {
    let wire: CloudEvent = serde_json::from_str(body).map_err(EventFault::Json)?;
    if wire.specversion != "1.0" {
        return Err(EventFault::Value("specversion"));
    }
    if wire.source != SOURCE {
        return Err(EventFault::Value("source"));
    }
    let (id, transfer, kind) = EventId::parse(&wire.id).ok_or(EventFault::Value("id"))?;
    if kind.as_str() != wire.kind {
        return Err(EventFault::Value("type"));
    }
    if transfer.as_str() != wire.data.transfer_id || transfer.as_str() != wire.subject {
        return Err(EventFault::Value("subject"));
    }
    let failure_code = match wire.data.failure_code.as_deref() {
        Some(code) => Some(Refusal::from_code(code).ok_or(EventFault::Value("failure_code"))?),
        None => None,
    };
    Ok(Event {
        id,
        kind,
        transfer,
        recipient: UserId::parse(&wire.data.recipient_id).map_err(|_| EventFault::Value("recipient_id"))?,
        at: wire.time.parse().map_err(|_| EventFault::Value("time"))?,
        amount: Amount::parse(wire.data.amount_minor).map_err(|_| EventFault::Value("amount_minor"))?,
        currency: Currency::parse(&wire.data.currency).map_err(|_| EventFault::Value("currency"))?,
        account_masked: wire.data.account_masked,
        counterparty_name: wire.data.counterparty_name,
        failure_code,
    })
}
