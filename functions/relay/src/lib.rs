//! The outbox's stream → the queue: each event of each new outbox item as one CloudEvent, at least once.

use aws_lambda_events::event::{dynamodb::EventRecord, streams::DynamoDbEventResponse};
use lambda_runtime::Error;
use serde::Deserialize;
use serde_json::Value;
use shared::{
    batch::stream_failure,
    queue::{Queue, to_cloud_event},
    store::{outbox::from_image, schema::Item},
    telemetry::chain,
};

/// A batch of a stream, with its records unread: one that cannot be read must not fail those before it.
#[derive(Debug, Deserialize)]
pub struct StreamEvent {
    /// The records, in the order of the shard.
    #[serde(rename = "Records")]
    pub records: Vec<Value>,
}

/// Relays a batch, in order, up to the first record that fails; that one and what follows it come again.
///
/// # Errors
/// If a record fails that has no sequence number: then the whole batch has to come again.
pub async fn handle(queue: &dyn Queue, batch: StreamEvent) -> Result<DynamoDbEventResponse, Error> {
    for record in batch.records {
        let sequence_number = record["dynamodb"]["SequenceNumber"].as_str().map(str::to_owned);
        if let Err(error) = relay(queue, record).await {
            tracing::error!(alarm = "relay", sequence_number, error = %chain(error.as_ref()), "a record was not relayed");
            return match sequence_number {
                Some(_) => Ok(stream_failure(sequence_number)),
                None => Err(error),
            };
        }
    }
    Ok(stream_failure(None))
}

async fn relay(queue: &dyn Queue, record: Value) -> Result<(), Error> {
    let record: EventRecord = serde_json::from_value(record)?;
    if record.event_name != "INSERT" {
        return Ok(());
    }
    let image = Item::from(record.change.new_image);
    let outbox = from_image(&image)?;
    for event in outbox.events() {
        queue.send(to_cloud_event(&event)).await?;
        tracing::info!(event_id = event.id.as_str(), transfer_id = %event.transfer, "relayed");
    }
    Ok(())
}
