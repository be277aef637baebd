//! Telling: everybody once, however often an event arrives and whatever fails on the way.

use crate::{
    Suite,
    gate::Act,
    scenes::{couple, told_once},
    stack::{Stack, until},
};
use futures_util::future::join_all;
use serde_json::Value;
use shared::domain::{
    event::{EventId, EventKind},
    id::RequestId,
    notification::NotificationState,
};
use std::sync::Arc;

pub(crate) fn add(suite: &mut Suite) {
    suite.test("an_event_that_fails_five_times_is_a_dead_letter_until_it_is_redriven", dead_letter);
    suite.test("a_message_that_is_no_event_ends_among_the_dead_letters_and_stays", poison);
    suite.test("a_provider_that_refuses_is_asked_again_alone", provider_failure);
    suite.test("a_provider_that_always_refuses_fails_its_channel_alone", provider_gives_up);
    suite.test("an_event_that_arrives_ten_times_at_once_is_told_once", redelivery);
}

/// A refusal of SES's, as it says it.
const REJECTED: Act = Act::Refuse(
    400,
    "<ErrorResponse xmlns=\"http://ses.amazonaws.com/doc/2010-12-01/\"><Error><Type>Sender</Type>\
     <Code>MessageRejected</Code><Message>refused by a test</Message></Error><RequestId>e2e</RequestId></ErrorResponse>",
);
/// A refusal of DynamoDB's that is neither a conflict nor a doubt.
const NO_TABLE: Act = Act::Refuse(
    400,
    "{\"__type\":\"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException\",\"message\":\"refused by a test\"}",
);

/// The event of an instruction that is to be posted.
pub(crate) fn event_of(request_id: &str, kind: EventKind) -> EventId {
    EventId::derive(&RequestId::parse(request_id).unwrap().transfer_id(), kind)
}

async fn redelivery(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let done = stack.pay(&client, &aoi, &ren, 40_000).await;
    let events = stack.events(done.text("transfer_id")).await;
    assert_eq!(events.len(), 2);
    let copies = (0..10).flat_map(|_| events.iter().map(|(_, body)| stack.send("EventsQueueUrl", body)));
    join_all(copies).await;
    told_once(&stack, done.text("transfer_id"), 4).await;
    queue_is_empty(&stack).await;
    told_once(&stack, done.text("transfer_id"), 4).await;
}

async fn provider_failure(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let refusing = stack.gate.ask("SendEmail", &ren.email, REJECTED, 2);
    let done = stack.pay(&client, &aoi, &ren, 40_000).await;
    let event = event_of(done.id(), EventKind::Received);
    settled(&stack, &event, 2).await;
    let state = |state: NotificationState| move |row: &shared::store::deliver::NotificationRow| row.state == state;
    assert!(stack.rows(&event).await.iter().all(state(NotificationState::Sent)));
    assert_eq!(stack.gate.count("SendEmail", &ren.email), (3, 1), "two refusals, then it is accepted");
    assert_eq!(stack.gate.count("Publish", &ren.push), (1, 1));
    assert_eq!(stack.gate.count("SendEmail", &aoi.email), (1, 1));
    drop(refusing);
}

async fn provider_gives_up(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let refusing = stack.gate.ask("SendEmail", &aoi.email, REJECTED, usize::MAX);
    let done = stack.pay(&client, &aoi, &ren, 40_000).await;
    let event = event_of(done.id(), EventKind::Sent);
    // A refusal costs one of the five attempts of the row, and one of the five receives of its message.
    let states = until("the mail is given up", async || {
        let rows = stack.rows(&event).await;
        let is_over = rows.len() == 2 && rows.iter().all(|row| row.state.is_terminal());
        is_over.then(|| rows.iter().map(|row| (row.channel.as_str(), row.state)).collect::<Vec<_>>())
    });
    let mut states = states.await;
    states.sort_by_key(|(channel, _)| *channel);
    assert_eq!(states, [("EMAIL", NotificationState::Failed), ("PUSH", NotificationState::Sent)]);
    assert_eq!((stack.gate.count("SendEmail", &aoi.email), stack.gate.count("Publish", &aoi.push)), ((5, 0), (1, 1)));
    drop(refusing);
    let listed = stack.order(&["notifications", "list", "--state", "FAILED"]).await;
    assert!(listed.to_string().contains(event.as_str()), "{listed}");
    stack.order(&["notifications", "resend", event.as_str(), "EMAIL"]).await;
    until("the operator's resend is sent", async || {
        stack.rows(&event).await.iter().all(|row| row.state == NotificationState::Sent).then_some(())
    })
    .await;
    assert_eq!(stack.gate.count("SendEmail", &aoi.email), (6, 1));
}

async fn poison(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let poison = format!("no event {}", crate::people::letters(8));
    stack.send("EventsQueueUrl", &poison).await;
    let done = stack.pay(&client, &aoi, &ren, 40_000).await;
    told_once(&stack, done.text("transfer_id"), 4).await;
    until("the poison is among the dead letters", async || {
        stack.letters("EventsDeadLetterQueueUrl").await.contains(&poison).then_some(())
    })
    .await;
    let url = stack.output("EventsDeadLetterQueueUrl");
    let (code, said) = stack.ops(&["dlq", "redrive", "--dlq-url", &url]).await;
    assert_eq!(code, 1, "what is no event is left, and an operator is told: {said}");
    assert!(said["dlq"]["left"].as_u64().is_some_and(|left| left >= 1), "{said}");
    until("the poison is still there", async || {
        stack.letters("EventsDeadLetterQueueUrl").await.contains(&poison).then_some(())
    })
    .await;
}

async fn dead_letter(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let approved = stack.approved(&client, &aoi, &ren, 40_000).await;
    let event = event_of(approved.id(), EventKind::Received);
    let mut refusing = stack.gate.ask("TransactWriteItems", &format!("EVENT#{}", event.as_str()), NO_TABLE, usize::MAX);
    let done = client.confirm(approved.id()).await.expect("200 FINANCIAL_COMMITTED");
    refusing.was_met(1).await;
    let is_it =
        |letter: &String| serde_json::from_str::<Value>(letter).is_ok_and(|letter| letter["id"] == event.as_str());
    until("the event is a dead letter", async || {
        stack.letters("EventsDeadLetterQueueUrl").await.iter().any(is_it).then_some(())
    })
    .await;
    assert!(stack.rows(&event).await.is_empty());
    drop(refusing);
    let url = stack.output("EventsDeadLetterQueueUrl");
    // Whatever else is there may not be an event, which is said by the exit code.
    let (_, said) = stack.ops(&["dlq", "redrive", "--dlq-url", &url]).await;
    assert!(said["dlq"]["moved"].as_u64().is_some_and(|moved| moved >= 1), "{said}");
    told_once(&stack, done.text("transfer_id"), 4).await;
}

/// Waits until an event has so many notifications, and all of them are terminal.
pub(crate) async fn settled(stack: &Stack, event: &EventId, count: usize) {
    until("every notification is terminal", async || {
        let rows = stack.rows(event).await;
        (rows.len() == count && rows.iter().all(|row| row.state.is_terminal())).then_some(())
    })
    .await;
}

/// Waits until no message waits or is being handled.
pub(crate) async fn queue_is_empty(stack: &Stack) {
    use aws_sdk_sqs::types::QueueAttributeName::{
        ApproximateNumberOfMessages as Waiting, ApproximateNumberOfMessagesNotVisible as Running,
    };
    until("the queue is empty", async || {
        let ask = stack.sqs.get_queue_attributes().queue_url(stack.output("EventsQueueUrl"));
        let known = ask.attribute_names(Waiting).attribute_names(Running).send().await.unwrap();
        let count = |name| known.attributes().and_then(|all| all.get(&name)).map_or("0", String::as_str) == "0";
        (count(Waiting) && count(Running)).then_some(())
    })
    .await;
}
