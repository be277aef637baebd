//! Providers that record, a queue to look into, and batches as Lambda gets them.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use shared::{
    channel::{Delivery, DeliveryFault, Provider},
    domain::notification::Channel,
    queue::{Queue, QueueError},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

/// What a provider was handed, and what it shall do next.
pub(crate) struct Recorder {
    channel: Channel,
    pub(crate) deliveries: Mutex<Vec<Delivery>>,
    /// What the next calls do, in order; nothing left means that they are accepted.
    pub(crate) script: Mutex<VecDeque<Act>>,
}

/// What a provider does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It accepts.
    Accept,
    /// It refuses for sure.
    Refuse,
    /// It may have accepted.
    Undecided,
    /// It accepts, and never comes back: as if the process died before it could write.
    AcceptAndHang,
}

impl Recorder {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { channel, deliveries: Mutex::default(), script: Mutex::default() }
    }

    pub(crate) fn then(&self, acts: impl IntoIterator<Item = Act>) {
        self.script.lock().unwrap().extend(acts);
    }

    /// How often the provider accepted each (event, channel).
    pub(crate) fn accepted(&self) -> usize {
        self.deliveries.lock().unwrap().len()
    }
}

/// A recorder as a provider.
pub(crate) struct Recording(pub(crate) Arc<Recorder>);

impl Provider for Recording {
    fn channel(&self) -> Channel {
        self.0.channel
    }

    fn deliver<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), DeliveryFault>> {
        Box::pin(async move {
            let act = self.0.script.lock().unwrap().pop_front().unwrap_or(Act::Accept);
            if act != Act::Refuse {
                self.0.deliveries.lock().unwrap().push(delivery.clone());
            }
            match act {
                Act::Accept => Ok(()),
                Act::Refuse => Err(DeliveryFault::Refused("refused by the test".into())),
                Act::Undecided => Err(DeliveryFault::Undecided("cut by the test".into())),
                Act::AcceptAndHang => std::future::pending().await,
            }
        })
    }
}

/// The queue of a test.
#[derive(Debug, Default)]
pub(crate) struct MemoryQueue {
    pub(crate) messages: Mutex<VecDeque<String>>,
    /// How many of the next sends fail.
    pub(crate) failures: Mutex<u32>,
}

impl Queue for MemoryQueue {
    fn send(&self, body: String) -> BoxFuture<'_, Result<(), QueueError>> {
        Box::pin(async move {
            let mut failures = self.failures.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return Err(QueueError("the queue is down, says the test".into()));
            }
            self.messages.lock().unwrap().push_back(body);
            Ok(())
        })
    }
}

/// A stream record in Lambda's shape.
pub(crate) fn stream_record(item: &shared::store::schema::Item, event_name: &str) -> Value {
    use aws_sdk_dynamodb::types::AttributeValue;
    fn attribute(value: &AttributeValue) -> Value {
        match value {
            AttributeValue::S(text) => json!({ "S": text }),
            AttributeValue::N(number) => json!({ "N": number }),
            AttributeValue::L(list) => json!({ "L": list.iter().map(attribute).collect::<Vec<_>>() }),
            other => panic!("the outbox has no {other:?}"),
        }
    }
    let image: serde_json::Map<String, Value> =
        item.iter().map(|(name, value)| (name.clone(), attribute(value))).collect();
    json!({
        "eventID": "1",
        "eventName": event_name,
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_796_094_000.0,
            "Keys": { "pk": image["pk"], "sk": image["sk"] },
            "NewImage": image,
            "SequenceNumber": "100",
            "SizeBytes": 500,
            "StreamViewType": "NEW_IMAGE",
        },
    })
}

/// A batch of SQS messages: ids and bodies.
pub(crate) fn sqs_batch<'a>(
    messages: impl Iterator<Item = (&'a String, &'a String)>,
) -> aws_lambda_events::event::sqs::SqsEvent {
    let records: Vec<Value> = messages
        .map(|(id, body)| json!({ "messageId": id, "body": body, "attributes": {}, "messageAttributes": {} }))
        .collect();
    serde_json::from_value(json!({ "Records": records })).unwrap()
}
