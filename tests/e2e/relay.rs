//! The stream's last resort: what relay could not put on the queue is made good from the outbox.

use crate::{
    Suite,
    delivery::event_of,
    gate::Act,
    scenes::{couple, told_once},
    stack::{Stack, until},
};
use serde_json::Value;
use shared::domain::event::EventKind;
use std::sync::Arc;

pub(crate) fn add(suite: &mut Suite) {
    // Alone: as long as relay fails, nothing behind the record in its shard is told.
    suite.alone("what_relay_gives_up_is_in_the_failure_queue_and_is_made_good_from_the_outbox", given_up);
    suite.test("republishing_the_outbox_tells_nobody_twice", republished);
}

async fn given_up(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let approved = stack.approved(&client, &aoi, &ren, 40_000).await;
    let event = event_of(approved.id(), EventKind::Sent);
    let mut dying = stack.gate.ask("SendMessage", event.as_str(), Act::KillBefore, usize::MAX);
    let done = client.confirm(approved.id()).await.expect("200 FINANCIAL_COMMITTED");
    dying.was_met(2).await;
    let is_position = |letter: &String| {
        serde_json::from_str::<Value>(letter).is_ok_and(|letter| !letter["DDBStreamBatchInfo"].is_null())
    };
    until("the record's position is in the failure queue", async || {
        stack.letters("RelayFailureQueueUrl").await.iter().any(is_position).then_some(())
    })
    .await;
    drop(dying);
    assert!(stack.rows(&event).await.is_empty(), "nobody was told so far");
    let url = stack.output("RelayFailureQueueUrl");
    let said = stack.order(&["dlq", "redrive", "--on-failure-url", &url]).await;
    assert!(said["on_failure"]["positions"].as_u64().is_some_and(|positions| positions >= 1), "{said}");
    told_once(&stack, done.text("transfer_id"), 4).await;
    until("the failure queue is empty", async || stack.letters("RelayFailureQueueUrl").await.is_empty().then_some(()))
        .await;
}

async fn republished(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let done = stack.pay(&client, &aoi, &ren, 40_000).await;
    told_once(&stack, done.text("transfer_id"), 4).await;
    let said = stack.order(&["outbox", "republish", "--since", "1m"]).await;
    assert!(said["events_sent"].as_u64().is_some_and(|sent| sent >= 2), "{said}");
    crate::delivery::queue_is_empty(&stack).await;
    told_once(&stack, done.text("transfer_id"), 4).await;
}
