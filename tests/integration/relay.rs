//! The outbox's stream → the queue.

use crate::{
    bank::Bank,
    client::{key, transfer},
    fakes::{MemoryQueue, stream_record},
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use shared::queue::{Queue, QueueError};
use std::sync::atomic::Ordering;

/// Stream records of `posted` postings and one failure of Aoi's, numbered 100, 101, ….
async fn records(bank: &Bank, posted: usize) -> Vec<Value> {
    let (aoi, ren) = (bank.person("aoi", 10).await, bank.person("ren", 0).await);
    let phone = bank.client(&aoi, "s1");
    let mut amounts = vec![1; posted];
    amounts.push(1_000);
    for (index, amount) in amounts.into_iter().enumerate() {
        let body = transfer(&aoi, &ren, amount);
        let id = phone.authorized(bank, &key(&index.to_string()), &body).await.id();
        assert_eq!(phone.confirm(&id).await.status, if amount == 1 { 200 } else { 422 });
        bank.next_step();
    }
    bank.assert_transfers(posted).await;
    let mut items = bank.app.store.scan(&bank.app.store.tables().outbox).await.unwrap();
    items.sort_by_key(|item| item["created_at"].as_n().unwrap().clone());
    let mut records: Vec<Value> = items.iter().map(|item| stream_record(item, "INSERT")).collect();
    for (index, record) in records.iter_mut().enumerate() {
        record["dynamodb"]["SequenceNumber"] = format!("{}", 100 + index).into();
    }
    records
}

/// What the relay answers to a batch, as Lambda gets it.
async fn relayed(queue: &MemoryQueue, records: Vec<Value>) -> Value {
    serde_json::to_value(relay::handle(queue, relay::StreamEvent { records }).await.unwrap()).unwrap()
}

/// Takes everything from the queue.
fn taken(queue: &MemoryQueue) -> Vec<Value> {
    queue.messages.lock().unwrap().drain(..).map(|message| serde_json::from_str(&message).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

const SENT: &str = "furikomi.transfer.sent.v1";
const RECEIVED: &str = "furikomi.transfer.received.v1";
const FAILED: &str = "furikomi.transfer.failed.v1";

#[tokio::test]
async fn a_posting_becomes_two_events_and_a_failure_one() {
    let bank = Bank::new().await;
    let records = records(&bank, 1).await;
    assert_eq!(relayed(&bank.queue, records).await, json!({ "batchItemFailures": [] }));
    let events = taken(&bank.queue);
    assert_eq!(kinds(&events), [SENT, RECEIVED, FAILED]);
    let recipients: Vec<_> = events.iter().map(|event| event["data"]["recipient_id"].as_str().unwrap()).collect();
    assert_eq!(recipients, ["aoi", "ren", "aoi"]);
    assert_eq!(events[2]["data"]["failure_code"], "TR008");
    let ids: std::collections::BTreeSet<_> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3, "every event has its own id");
}

#[tokio::test]
async fn an_event_is_a_cloud_event_and_shows_no_account() {
    let bank = Bank::new().await;
    let records = records(&bank, 1).await;
    relayed(&bank.queue, records).await;
    let events = taken(&bank.queue);
    let transfer = events[0]["subject"].as_str().unwrap().to_owned();
    let expected = json!({
        "specversion": "1.0",
        "id": transfer.replace("tr_", "ev_") + "_sent",
        "source": "furikomi",
        "type": SENT,
        "subject": transfer,
        "time": "2026-12-01T03:00:00.000Z",
        "datacontenttype": "application/json",
        "data": {
            "recipient_id": "aoi",
            "transfer_id": transfer,
            "amount_minor": 1,
            "currency": "JPY",
            "account_masked": "****aoi",
            "counterparty_name": "ren",
        },
    });
    assert_eq!(events[0], expected);
    assert!(events.iter().all(|event| !event.to_string().contains("ac_")), "{events:?}");
}

#[tokio::test]
async fn only_new_items_are_relayed() {
    let bank = Bank::new().await;
    let mut records = records(&bank, 1).await;
    records[0]["eventName"] = "MODIFY".into();
    records[1]["eventName"] = "REMOVE".into();
    records[1]["dynamodb"].as_object_mut().unwrap().remove("NewImage");
    assert_eq!(relayed(&bank.queue, records).await, json!({ "batchItemFailures": [] }));
    assert!(taken(&bank.queue).is_empty());
}

#[tokio::test]
async fn the_relay_stops_at_the_first_record_that_fails_and_names_it() {
    let bank = Bank::new().await;
    let sound = records(&bank, 3).await;
    let mut batch = sound.clone();
    batch[1]["dynamodb"]["NewImage"].as_object_mut().unwrap().remove("amount_minor");
    assert_eq!(relayed(&bank.queue, batch).await, json!({ "batchItemFailures": [{ "itemIdentifier": "101" }] }));
    assert_eq!(kinds(&taken(&bank.queue)), [SENT, RECEIVED], "the record before it, and none after it");

    // Lambda sends everything from there on again.
    assert_eq!(relayed(&bank.queue, sound[1..].to_vec()).await, json!({ "batchItemFailures": [] }));
    assert_eq!(kinds(&taken(&bank.queue)), [SENT, RECEIVED, SENT, RECEIVED, FAILED]);
}

#[tokio::test]
async fn a_record_that_is_no_stream_record_is_named_if_it_has_a_number_and_else_fails_the_batch() {
    let bank = Bank::new().await;
    let sound = records(&bank, 1).await;
    let numbered = json!({ "dynamodb": { "SequenceNumber": "7" } });
    assert_eq!(
        relayed(&bank.queue, vec![sound[0].clone(), numbered]).await,
        json!({ "batchItemFailures": [{ "itemIdentifier": "7" }] })
    );
    assert_eq!(taken(&bank.queue).len(), 2);
    for broken in [json!({}), json!("text"), json!({ "eventName": "INSERT", "dynamodb": { "SequenceNumber": 7 } })] {
        let batch = relay::StreamEvent { records: vec![sound[0].clone(), broken.clone()] };
        assert!(relay::handle(bank.queue.as_ref(), batch).await.is_err(), "{broken}");
        taken(&bank.queue);
    }
}

/// A queue whose second send fails.
#[derive(Default)]
struct FailsAtSecond {
    sends: std::sync::atomic::AtomicUsize,
    taken: MemoryQueue,
}

impl Queue for FailsAtSecond {
    fn send(&self, body: String) -> BoxFuture<'_, Result<(), QueueError>> {
        if self.sends.fetch_add(1, Ordering::SeqCst) == 1 {
            return Box::pin(async { Err(QueueError("the queue is down, says the test".into())) });
        }
        self.taken.send(body)
    }
}

#[tokio::test]
async fn a_record_whose_second_send_failed_is_relayed_again_as_a_whole() {
    let bank = Bank::new().await;
    let (batch, queue) = (records(&bank, 2).await, FailsAtSecond::default());
    let handled = |records: Vec<Value>| async {
        serde_json::to_value(relay::handle(&queue, relay::StreamEvent { records }).await.unwrap()).unwrap()
    };
    assert_eq!(handled(batch.clone()).await, json!({ "batchItemFailures": [{ "itemIdentifier": "100" }] }));
    assert_eq!(kinds(&taken(&queue.taken)), [SENT]);
    assert_eq!(handled(batch).await, json!({ "batchItemFailures": [] }));
    assert_eq!(kinds(&taken(&queue.taken)), [SENT, RECEIVED, SENT, RECEIVED, FAILED]);
}

#[tokio::test]
async fn what_the_relay_sends_twice_is_told_once() {
    let bank = Bank::new().await;
    let batch = records(&bank, 1).await;
    relayed(&bank.queue, batch.clone()).await;
    relayed(&bank.queue, batch).await;
    assert_eq!(bank.queue.messages.lock().unwrap().len(), 6);
    assert_eq!(bank.deliver().await, 0);
    assert_eq!((bank.mail.accepted(), bank.push.accepted()), (3, 3));
}
