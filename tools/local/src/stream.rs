//! The event source mapping of the outbox's stream: reads it, hands batches to the relay, and honours its answers.

use crate::bank::Bank;
use aws_sdk_dynamodbstreams::{
    Client, Config,
    types::{AttributeValue, Record, ShardIteratorType},
};
use data_encoding::BASE64;
use relay::StreamEvent;
use serde_json::{Map, Value, json};
use shared::telemetry::chain;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::watch;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long the stream is left alone when nobody says that there may be something.
const POLL: Duration = Duration::from_millis(250);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How often a record is tried before it is left to the next start, which finds its item in the outbox.
const ATTEMPTS_MAX: u32 = 5;
const BATCH_MAX: i32 = 100;

/// A position in the stream.
pub(crate) struct Stream {
    client: Client,
    iterator: String,
}

impl Stream {
    /// The stream of `table`, from now on: what is older is in the table itself. dynoxide's streams have one shard.
    pub(crate) async fn open(config: Config, table: &str) -> Fallible<Self> {
        let client = Client::from_conf(config);
        let streams = client.list_streams().table_name(table).send().await?;
        let arn = streams.streams().first().and_then(|stream| stream.stream_arn()).ok_or("the outbox has no stream")?;
        let described = client.describe_stream().stream_arn(arn).send().await?;
        let shard = described.stream_description().and_then(|stream| stream.shards().first());
        let shard = shard.and_then(|shard| shard.shard_id()).ok_or("the outbox's stream has no shard")?;
        let iterator = client
            .get_shard_iterator()
            .stream_arn(arn)
            .shard_id(shard)
            .shard_iterator_type(ShardIteratorType::Latest)
            .send()
            .await?;
        let iterator = iterator.shard_iterator.ok_or("the outbox's stream has no position")?;
        Ok(Self { client, iterator })
    }

    async fn read(&mut self) -> Fallible<Vec<Value>> {
        let read = self.client.get_records().shard_iterator(&self.iterator).limit(BATCH_MAX).send().await?;
        let records = read.records().iter().map(record_json).collect();
        if let Some(next) = read.next_shard_iterator {
            self.iterator = next;
        }
        Ok(records)
    }
}

/// Relays until `stop`.
pub(crate) async fn run(bank: Arc<Bank>, mut stream: Stream, mut stop: watch::Receiver<bool>) {
    loop {
        let wait = match stream.read().await {
            Ok(records) if records.is_empty() => POLL,
            Ok(records) => {
                relay_all(&bank, records).await;
                Duration::ZERO
            }
            Err(error) => {
                tracing::warn!(error = %chain(error.as_ref()), "the outbox's stream cannot be read");
                RETRY
            }
        };
        tokio::select! {
            () = crate::server::stopped(&mut stop) => return,
            () = bank.outbox_changed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Hands `records` to the relay until it has accepted all of them. The one that it names comes again with those behind
/// it; one that never passes is set aside, so that it does not hold up the others.
async fn relay_all(bank: &Bank, mut records: Vec<Value>) {
    let mut attempts: u32 = 0;
    while !records.is_empty() {
        let Some(failed) = first_failed(bank, &records).await else { return };
        let passed = records.iter().position(|record| sequence_number(record) == failed).unwrap_or(0);
        records.drain(..passed);
        attempts = if passed == 0 { attempts.saturating_add(1) } else { 1 };
        if attempts >= ATTEMPTS_MAX {
            tracing::error!(alarm = "relay", sequence_number = failed, "a record was set aside");
            records.remove(0);
            attempts = 0;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The sequence number from which on the records have to come again, if any have.
async fn first_failed(bank: &Bank, records: &[Value]) -> Option<String> {
    let first = || records.first().map(sequence_number);
    match relay::handle(&bank.queue, StreamEvent { records: records.to_vec() }).await {
        Ok(answer) => {
            let failure = answer.batch_item_failures.into_iter().next()?;
            failure.item_identifier.or_else(first)
        }
        Err(_) => first(),
    }
}

fn sequence_number(record: &Value) -> String {
    record["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default().to_owned()
}

/// A record in the form in which Lambda hands it to a function.
fn record_json(record: &Record) -> Value {
    let change = record.dynamodb();
    let image = |image: Option<&HashMap<String, AttributeValue>>| {
        image.map_or_else(|| Value::Object(Map::new()), |image| Value::Object(item_json(image)))
    };
    json!({
        "eventID": record.event_id(),
        "eventName": record.event_name().map(|name| name.as_str()),
        "eventVersion": record.event_version(),
        "eventSource": "aws:dynamodb",
        "awsRegion": record.aws_region().unwrap_or("local"),
        "dynamodb": {
            "ApproximateCreationDateTime": change
                .and_then(|change| change.approximate_creation_date_time())
                .map_or(0, |at| at.secs()),
            "Keys": image(change.and_then(|change| change.keys())),
            "NewImage": image(change.and_then(|change| change.new_image())),
            "SequenceNumber": change.and_then(|change| change.sequence_number()),
            "SizeBytes": change.and_then(|change| change.size_bytes()).unwrap_or(0),
            "StreamViewType": change.and_then(|change| change.stream_view_type()).map(|view| view.as_str()),
        },
    })
}

fn item_json(item: &HashMap<String, AttributeValue>) -> Map<String, Value> {
    item.iter().map(|(name, value)| (name.clone(), value_json(value))).collect()
}

fn value_json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::Bool(is) => json!({ "BOOL": is }),
        AttributeValue::B(bytes) => json!({ "B": BASE64.encode(bytes.as_ref()) }),
        AttributeValue::L(values) => json!({ "L": values.iter().map(value_json).collect::<Vec<_>>() }),
        AttributeValue::M(item) => json!({ "M": item_json(item) }),
        AttributeValue::Ss(texts) => json!({ "SS": texts }),
        AttributeValue::Ns(numbers) => json!({ "NS": numbers }),
        AttributeValue::Bs(all) => {
            json!({ "BS": all.iter().map(|bytes| BASE64.encode(bytes.as_ref())).collect::<Vec<_>>() })
        }
        _ => json!({ "NULL": true }),
    }
}
