//! What is told again: the outbox, dead letters and notifications, through the library and queues in memory.

use crate::stand::{Queues, Stand, ago};
use ops::{
    answer::{Answer, Fault},
    cli::Notifications,
    commands::{dlq, notifications, outbox},
    ops::Ops,
    values::Since,
};
use shared::{
    domain::{
        event::EventId,
        notification::{Channel, NotificationState},
    },
    store::deliver::Claim,
};
use std::sync::Arc;

const ARN: &str = "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/app/1";

/// A bank with one transfer that was told to its payer by mail and push, and one that was told to nobody.
async fn bank() -> (Stand, Ops, Arc<Queues>, EventId) {
    let stand = Stand::new().await;
    stand.customer("aoi", 1_000).await;
    stand.customer("ren", 0).await;
    stand.done(&format!("contacts set aoi --email aoi@example.com --push {ARN}")).await;
    let told = stand.transfer("aoi", "ren", 1, 1).await;
    let event = stand.tell(&told, "aoi", "ren").await;
    stand.transfer("aoi", "ren", 2, 0).await;
    let (ops, queues) = stand.ops();
    (stand, ops, queues, event)
}

/// Brings a notification to `state`.
async fn settle(ops: &Ops, event: &EventId, channel: Channel, state: NotificationState) {
    let rows = ops.store.notification_rows(event, ops.deadline()).await.unwrap();
    let row = rows.iter().find(|row| row.channel == channel).unwrap();
    let Claim::Ours { id, .. } = ops.store.claim(row, ops.now(), ops.deadline()).await.unwrap() else {
        panic!("not ours")
    };
    if state != NotificationState::Sending {
        assert!(ops.store.settle(row, &id, state, ops.now(), ops.deadline()).await.unwrap());
    }
}

async fn state(ops: &Ops, event: &EventId, channel: Channel) -> (NotificationState, i64) {
    let rows = ops.store.notification_rows(event, ops.deadline()).await.unwrap();
    rows.iter().find(|row| row.channel == channel).map(|row| (row.state, row.attempts)).unwrap()
}

async fn resend(ops: &Ops, event: &EventId, channel: Channel) -> Result<Answer, Fault> {
    notifications::run(ops, Notifications::Resend { event: event.clone(), channel }).await
}

#[tokio::test]
async fn republishing_sends_what_is_young_enough_and_missing_where_asked() {
    let (_stand, ops, queues, told) = bank().await;
    let all = outbox::run(&ops, Since::Ago(3_600), false).await.unwrap();
    assert_eq!((&all.json["records"], &all.json["events_sent"]), (&2.into(), &4.into()));
    assert!(queues.events().contains(&told.as_str().to_owned()));
    queues.sent.lock().unwrap().clear();

    let missing = outbox::run(&ops, Since::Ago(3_600), true).await.unwrap();
    assert_eq!((&missing.json["events_sent"], &missing.json["events_left_out"]), (&2.into(), &2.into()));
    assert!(!queues.events().contains(&told.as_str().to_owned()));
    queues.sent.lock().unwrap().clear();

    let none = outbox::run(&ops, Since::At(ago(-60)), false).await.unwrap();
    assert_eq!((&none.json["events_sent"], queues.events().len()), (&0.into(), 0));
}

#[tokio::test]
async fn dead_letters_are_moved_and_what_is_no_event_stays() {
    let (_stand, ops, queues, _) = bank().await;
    outbox::run(&ops, Since::Ago(3_600), false).await.unwrap();
    let mut bodies: Vec<String> = std::mem::take(&mut queues.sent.lock().unwrap());
    bodies.insert(1, "poison".to_owned());
    queues.bury(&bodies);
    let done = dlq::run(&ops, 100).await.unwrap();
    assert_eq!(done.json["dlq"], serde_json::json!({ "moved": 4, "doubled": 0, "left": 1 }));
    assert!(!done.is_good, "a poisoned letter wants somebody's eyes");
    assert_eq!(queues.events().len(), 4);
    assert_eq!(queues.dead.lock().unwrap().iter().map(|letter| letter.body.clone()).collect::<Vec<_>>(), ["poison"]);
}

#[tokio::test]
async fn a_dead_letter_is_deleted_only_after_it_was_sent() {
    let (_stand, ops, queues, _) = bank().await;
    outbox::run(&ops, Since::Ago(3_600), false).await.unwrap();
    let bodies: Vec<String> = std::mem::take(&mut queues.sent.lock().unwrap());
    queues.bury(&bodies);
    *queues.sends_left.lock().unwrap() = Some(1);
    assert!(matches!(dlq::run(&ops, 100).await, Err(Fault::Queue(_))));
    assert_eq!((queues.events().len(), queues.dead.lock().unwrap().len()), (1, 3));

    *queues.sends_left.lock().unwrap() = None;
    let bounded = dlq::run(&ops, 2).await.unwrap();
    assert_eq!((&bounded.json["dlq"]["moved"], queues.dead.lock().unwrap().len()), (&2.into(), 1));

    *queues.may_delete.lock().unwrap() = false;
    let doubled = dlq::run(&ops, 100).await.unwrap();
    assert_eq!(doubled.json["dlq"], serde_json::json!({ "moved": 0, "doubled": 1, "left": 0 }));
}

#[tokio::test]
async fn a_lost_position_of_the_stream_is_made_good_from_the_outbox() {
    let (_stand, mut ops, queues, told) = bank().await;
    ops.lost_positions = ops.dead_letters.take();
    let position = serde_json::json!({ "DDBStreamBatchInfo": {
        "approximateArrivalOfFirstRecord": ago(30).to_string(), "batchSize": 1 } });
    queues.bury(&[position.to_string(), "poison".to_owned()]);
    let done = dlq::run(&ops, 100).await.unwrap();
    assert_eq!(done.json["on_failure"], serde_json::json!({ "positions": 1, "left": 1, "events_sent": 2 }));
    assert!(!queues.events().contains(&told.as_str().to_owned()), "what has its inbox is not sent again");
    assert_eq!(queues.dead.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_operator_resends_what_is_unknown_or_failed_and_nothing_else() {
    let (stand, ops, queues, event) = bank().await;
    settle(&ops, &event, Channel::Email, NotificationState::Unknown).await;
    settle(&ops, &event, Channel::Push, NotificationState::Sent).await;
    let listed = stand.done("notifications list").await;
    assert_eq!(listed["notifications"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["notifications"][0]["channel"], "EMAIL");
    assert_eq!(stand.done("notifications list --state FAILED").await["notifications"].as_array().unwrap().len(), 0);

    let done = resend(&ops, &event, Channel::Email).await.unwrap();
    assert_eq!(done.json["changed"], true);
    assert_eq!(state(&ops, &event, Channel::Email).await, (NotificationState::Pending, 0));
    assert_eq!(queues.events(), [event.as_str()]);

    // What the first send's holder still has to say is about the first send.
    assert_eq!(resend(&ops, &event, Channel::Email).await.unwrap().json["changed"], false);
    assert_eq!(queues.events().len(), 2, "a repeat puts it on the queue again, which does no harm");

    assert!(matches!(resend(&ops, &event, Channel::Push).await, Err(Fault::Refused(_))));
    assert_eq!(state(&ops, &event, Channel::Push).await, (NotificationState::Sent, 1));

    settle(&ops, &event, Channel::Email, NotificationState::Sending).await;
    assert!(matches!(resend(&ops, &event, Channel::Email).await, Err(Fault::Refused(_))));
    assert_eq!(state(&ops, &event, Channel::Email).await, (NotificationState::Sending, 1));
    let trail = stand.done("trail").await;
    let resends = trail["lines"].as_array().unwrap().iter().filter(|line| line["command"] == "notifications resend");
    assert_eq!(resends.count(), 1, "{trail}");
}

#[tokio::test]
async fn what_the_outbox_no_longer_holds_is_not_made_to_wait_for_ever() {
    let (_stand, ops, queues, _) = bank().await;
    let unknown = EventId::parse("ev_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_sent").unwrap().0;
    assert!(matches!(resend(&ops, &unknown, Channel::Email).await, Err(Fault::Refused(_))));
    assert_eq!(queues.events().len(), 0);
}
