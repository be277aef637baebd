//! What each operation costs: round trips as the SDK sends them, and units as the database counts them, exactly.
//!
//! At reference input: ASCII, a memo of 40 characters, names of 24, at most 4 steps of history.

use crate::{
    bank::{Bank, Person, soon},
    client::{Client, key},
    fakes::sqs_batch,
};
use aws_sdk_dynamodb::{
    config::{ConfigBag, Intercept, RuntimeComponents, interceptors::*},
    error::BoxError,
    operation::{
        batch_get_item::{BatchGetItemInput, BatchGetItemOutput},
        get_item::{GetItemInput, GetItemOutput},
        put_item::{PutItemInput, PutItemOutput},
        query::{QueryInput, QueryOutput},
        transact_write_items::{TransactWriteItemsInput, TransactWriteItemsOutput},
        update_item::{UpdateItemInput, UpdateItemOutput},
    },
    types::{AttributeValue, ConsumedCapacity, ReturnConsumedCapacity},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Round trips, write units and read units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Cost {
    trips: u32,
    write_units: f64,
    read_units: f64,
}

/// Counts every send, and asks for and sums the units of every answer.
#[derive(Debug, Clone, Default)]
struct Meter(Arc<Mutex<Cost>>);

impl Meter {
    /// What was spent since the last look.
    fn take(&self) -> Cost {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    #[expect(clippy::float_arithmetic, reason = "the database reports units as floating-point numbers")]
    fn add<'a>(&self, writes: bool, capacity: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let units: f64 = capacity.into_iter().map(|consumed| consumed.capacity_units().unwrap()).sum();
        let mut cost = self.0.lock().unwrap();
        if writes {
            cost.write_units += units;
        } else {
            cost.read_units += units;
        }
    }
}

macro_rules! for_each_operation {
    ($do:ident) => {
        $do!(TransactWriteItemsInput, TransactWriteItemsOutput, true);
        $do!(UpdateItemInput, UpdateItemOutput, true);
        $do!(PutItemInput, PutItemOutput, true);
        $do!(GetItemInput, GetItemOutput, false);
        $do!(BatchGetItemInput, BatchGetItemOutput, false);
        $do!(QueryInput, QueryOutput, false);
    };
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "meter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        macro_rules! ask {
            ($input:ty, $output:ty, $writes:literal) => {
                if let Some(input) = context.input_mut().downcast_mut::<$input>() {
                    input.return_consumed_capacity = Some(ReturnConsumedCapacity::Total);
                }
            };
        }
        for_each_operation!(ask);
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.lock().unwrap().trips += 1;
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Ok(output) = context.output_or_error() else { return Ok(()) };
        macro_rules! sum {
            ($input:ty, $output:ty, $writes:literal) => {
                if let Some(output) = output.downcast_ref::<$output>() {
                    self.add($writes, output.consumed_capacity());
                }
            };
        }
        for_each_operation!(sum);
        Ok(())
    }
}

struct Setting {
    bank: Bank,
    meter: Meter,
    aoi: Person,
    ren: Person,
    phone: Client,
}

async fn setting() -> Setting {
    let meter = Meter::default();
    let bank = Bank::intercepted(Some(meter.clone())).await;
    let aoi = bank.person("aoi-4567890123456789-24c", 900_000).await;
    let ren = bank.person("ren-4567890123456789-24c", 0).await;
    let phone = bank.client(&aoi, "session-0123456789");
    meter.take();
    Setting { bank, meter, aoi, ren, phone }
}

fn cost(trips: u32, write_units: f64, read_units: f64) -> Cost {
    Cost { trips, write_units, read_units }
}

impl Setting {
    fn body(&self, amount_minor: i64) -> Value {
        json!({
            "source_account_id": self.aoi.account.as_str(),
            "destination_account_id": self.ren.account.as_str(),
            "amount_minor": amount_minor,
            "currency": "JPY",
            "requester_name": "a name of 24 characters.",
            "memo": "a memo of exactly 40 characters, no more",
        })
    }

    async fn requested(&self, name: &str, amount_minor: i64) -> (String, String) {
        let answer = self.phone.request(&key(name), &self.body(amount_minor)).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        (answer.id(), answer.text("content_hash").to_owned())
    }

    /// An instruction with three steps of history: admitted, authorized, authorized again.
    async fn authorized_twice(&self, name: &str, amount_minor: i64) -> String {
        let (id, hash) = self.requested(name, amount_minor).await;
        for _ in 0..2 {
            self.bank.next_step();
            let code = self.bank.code(&self.aoi.user, 0);
            assert_eq!(self.phone.authorize(&id, &code, &hash).await.status, 200);
        }
        id
    }
}

#[tokio::test]
async fn request_costs_two_trips_and_a_replay_one() {
    let on = setting().await;
    assert_eq!((on.body(1)["memo"].as_str().unwrap().len(), on.aoi.user.as_str().len()), (40, 24));
    on.requested("one", 1).await;
    assert_eq!(on.meter.take(), cost(2, 5.0, 2.0));
    on.requested("two", 1).await;
    assert_eq!(on.meter.take(), cost(2, 5.0, 2.0));
    assert_eq!(on.phone.request(&key("one"), &on.body(1)).await.status, 200);
    assert_eq!(on.meter.take(), cost(1, 0.0, 2.0));
    assert_eq!(on.phone.request(&key("one"), &on.body(2)).await.code(), "TR009");
    assert_eq!(on.meter.take(), cost(1, 0.0, 2.0));
}

#[tokio::test]
async fn authorize_costs_two_trips_and_a_repeat_one() {
    let on = setting().await;
    let (id, hash) = on.requested("one", 1).await;
    for _ in 0..2 {
        on.bank.next_step();
        on.meter.take();
        let code = on.bank.code(&on.aoi.user, 0);
        assert_eq!(on.phone.authorize(&id, &code, &hash).await.status, 200);
        assert_eq!(on.meter.take(), cost(2, 4.0, 2.0));
        assert!(on.phone.authorize(&id, &code, &hash).await.is_replayed());
        assert_eq!(on.meter.take(), cost(1, 0.0, 2.0));
    }
    let wrong = on.bank.wrong_code(&on.aoi.user);
    assert_eq!(on.phone.authorize(&id, &wrong, &hash).await.code(), "AU002");
    assert_eq!(on.meter.take(), cost(2, 1.0, 2.0));
}

#[tokio::test]
async fn confirm_costs_two_trips_and_a_replay_one() {
    let on = setting().await;
    for name in ["first-of-the-day", "second"] {
        let id = on.authorized_twice(name, 1).await;
        on.meter.take();
        let confirmed = on.phone.confirm(&id).await;
        assert_eq!((confirmed.status, confirmed.body["history"].as_array().unwrap().len()), (200, 4));
        assert_eq!(on.meter.take(), cost(2, 15.0, 1.0));
        assert!(on.phone.confirm(&id).await.is_replayed());
        assert_eq!(on.meter.take(), cost(1, 0.0, 1.0));
        on.bank.next_step();
    }
    on.bank.assert_transfers(2).await;
}

#[tokio::test]
async fn a_refusal_at_confirm_costs_one_more_transaction() {
    let on = setting().await;
    on.bank.deposit(&on.aoi, 1).await;
    let id = on.authorized_twice("one", 500_000).await;
    on.bank.next_step();
    let second = on.authorized_twice("two", 500_000).await;
    assert_eq!(on.phone.confirm(&second).await.status, 200);
    on.meter.take();
    // The cancelled transaction reports no units, here as there; DynamoDB bills its legs: 14 write units.
    let stale = on.phone.confirm(&id).await;
    assert_eq!((stale.status, stale.code()), (403, "AU005"));
    assert_eq!(on.meter.take(), cost(1, 0.0, 1.0));
    on.bank.next_step();
    let code = on.bank.code(&on.aoi.user, 0);
    let status = on.phone.status(&id).await;
    assert_eq!(on.phone.authorize(&id, &code, status.text("content_hash")).await.status, 200);
    on.meter.take();
    assert_eq!(on.phone.confirm(&id).await.code(), "TR008");
    assert_eq!(on.meter.take(), cost(3, 5.0, 1.0));
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn cancel_and_status_cost_one_trip() {
    let on = setting().await;
    let (id, _) = on.requested("one", 1).await;
    on.meter.take();
    assert_eq!(on.phone.status(&id).await.status, 200);
    assert_eq!(on.meter.take(), cost(1, 0.0, 2.0));
    assert_eq!(on.phone.status_by_key(&key("one")).await.status, 200);
    assert_eq!(on.meter.take(), cost(1, 0.0, 2.0));
    assert_eq!(on.phone.cancel(&id).await.status, 200);
    assert_eq!(on.meter.take(), cost(1, 2.0, 0.0));
    assert_eq!(on.phone.cancel(&id).await.status, 200);
    assert_eq!(on.meter.take(), cost(1, 0.0, 0.0));

    let posted = on.authorized_twice("posted", 1).await;
    assert_eq!(on.phone.confirm(&posted).await.status, 200);
    on.meter.take();
    assert_eq!(on.phone.status(&posted).await.text("result"), "FINANCIAL_COMMITTED");
    assert_eq!(on.meter.take(), cost(1, 0.0, 2.0));
}

#[tokio::test]
async fn notifying_costs_two_trips_and_two_per_channel() {
    let on = setting().await;
    let id = on.authorized_twice("one", 1).await;
    assert_eq!(on.phone.confirm(&id).await.status, 200);
    on.bank.relay().await;
    let messages: Vec<String> = on.bank.queue.messages.lock().unwrap().drain(..).collect();
    let ids = ["m0".to_owned()];
    for message in &messages {
        on.meter.take();
        for expected in [cost(2 + 2 * 2, 18.0, 1.0), cost(3, 0.0, 2.0)] {
            let batch = sqs_batch(ids.iter().zip([message]));
            let answer = notifier::handle(&on.bank.app, &on.bank.providers, batch, soon()).await.unwrap();
            assert!(answer.batch_item_failures.is_empty());
            assert_eq!(on.meter.take(), expected);
        }
    }
}

#[tokio::test]
async fn what_is_not_yours_costs_what_is_not_there_costs() {
    let on = setting().await;
    let (id, hash) = on.requested("one", 1).await;
    let nowhere = format!("ti_{}", "a".repeat(32));
    let stranger = on.bank.client(&on.ren, "s1");
    let code = on.bank.wrong_code(&on.ren.user);
    let mut costs = Vec::new();
    for id in [&id, &nowhere] {
        on.meter.take();
        let mut answers = Vec::new();
        for answer in [
            stranger.status(id).await,
            stranger.authorize(id, &code, &hash).await,
            stranger.confirm(id).await,
            stranger.cancel(id).await,
        ] {
            assert_eq!((answer.status, answer.code()), (404, "TR004"));
            answers.push(answer.untraced());
        }
        costs.push((on.meter.take(), answers));
    }
    assert_eq!(costs[0], costs[1]);
    assert_eq!(costs[0].0.trips, 4);
    for path in ["", "/entries"] {
        let mut costs = Vec::new();
        for account in [on.aoi.account.as_str(), "ac_nobody"] {
            on.meter.take();
            assert_eq!(stranger.get(&format!("/v1/accounts/{account}{path}")).await.code(), "TR004");
            costs.push(on.meter.take());
        }
        assert_eq!((costs[0], costs[0].trips), (costs[1], 1));
    }
}

/// The size of an item by DynamoDB's rules: names and values, a number by its digits, 3 bytes and 1 per element for
/// lists and maps.
fn size_of(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(number) => number.len().div_ceil(2) + 2,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::Bool(_) => 1,
        AttributeValue::L(list) => 3 + list.iter().map(|element| 1 + size_of(element)).sum::<usize>(),
        AttributeValue::M(map) => {
            3 + map.iter().map(|(name, element)| 1 + name.len() + size_of(element)).sum::<usize>()
        }
        other => panic!("there is no {other:?} in an item"),
    }
}

#[tokio::test]
async fn every_item_is_at_most_a_kilobyte() {
    let on = setting().await;
    for name in ["one", "two"] {
        let id = on.authorized_twice(name, 1).await;
        assert_eq!(on.phone.confirm(&id).await.status, 200);
        on.bank.next_step();
        on.bank.advance_s(24 * 60 * 60);
    }
    let id = on.authorized_twice("failed", 400_000).await;
    let frozen = shared::domain::account::AccountStatus::Frozen;
    on.bank
        .change(&on.ren, shared::store::accounts::AccountChange { status: Some(frozen), ..Default::default() })
        .await;
    assert_eq!(on.phone.confirm(&id).await.code(), "TR005");
    on.bank.relay().await;
    assert_eq!(on.bank.deliver().await, 0);
    let tables = on.bank.app.store.tables().clone();
    let mut largest = 0;
    for table in [tables.core, tables.ledger, tables.outbox, tables.notifications] {
        for item in on.bank.app.store.scan(&table).await.unwrap() {
            let size: usize = item.iter().map(|(name, value)| name.len() + size_of(value)).sum();
            assert!(size <= 1024, "{size} bytes: {item:?}");
            largest = largest.max(size);
        }
    }
    assert!(largest > 512, "{largest}");
}
