//! The queue → the recipients: batches, messages that are none, plans and texts.

use crate::{
    bank::{Bank, Person, soon},
    client::{key, transfer},
    fakes::sqs_batch,
};
use aws_lambda_events::event::sqs::SqsEvent;
use serde_json::{Value, json};
use shared::{
    channel::Provider,
    domain::notification::{
        Channel, Contact, Locale,
        NotificationState::{Failed, Pending, Sent},
    },
    store::deadline::Deadline,
};
use std::time::Duration;

/// Two people, and the messages of `transfers` posted transfers from Aoi to Ren, a sent and a received one each.
async fn messages(bank: &Bank, transfers: usize) -> (Person, Person, Vec<String>) {
    let (aoi, ren) = (bank.person("aoi", 100).await, bank.person("ren", 0).await);
    let messages = more_messages(bank, &aoi, &ren, 0..transfers).await;
    (aoi, ren, messages)
}

async fn more_messages(bank: &Bank, aoi: &Person, ren: &Person, names: std::ops::Range<usize>) -> Vec<String> {
    let phone = bank.client(aoi, "s1");
    for name in names {
        let id = phone.authorized(bank, &key(&name.to_string()), &transfer(aoi, ren, 1)).await.id();
        assert_eq!(phone.confirm(&id).await.status, 200);
        bank.next_step();
    }
    bank.relay().await;
    bank.queue.messages.lock().unwrap().drain(..).collect()
}

/// Handles one batch of messages m0, m1, …, and gives the answer as Lambda gets it.
async fn handled(bank: &Bank, messages: &[String]) -> Value {
    let ids: Vec<String> = (0..messages.len()).map(|index| format!("m{index}")).collect();
    let batch = sqs_batch(ids.iter().zip(messages));
    serde_json::to_value(notifier::handle(&bank.app, &bank.providers, batch, soon()).await.unwrap()).unwrap()
}

fn nothing_failed() -> Value {
    json!({ "batchItemFailures": [] })
}

async fn rows(bank: &Bank) -> Vec<shared::store::deliver::NotificationRow> {
    bank.app.store.all_notifications().await.unwrap().1
}

#[tokio::test]
async fn a_poison_message_in_the_middle_is_named_and_its_neighbours_are_done() {
    let bank = Bank::new().await;
    let (_, _, mut batch) = messages(&bank, 1).await;
    for (poison, at) in [("no json", 1), ("{}", 0), ("", 2)] {
        batch.insert(at, poison.to_owned());
        let failed = json!({ "batchItemFailures": [{ "itemIdentifier": format!("m{at}") }] });
        assert_eq!(handled(&bank, &batch).await, failed, "{poison:?}");
        batch.remove(at);
    }
    assert_eq!((bank.mail.accepted(), bank.push.accepted()), (2, 2));
    assert!(rows(&bank).await.iter().all(|row| row.state == Sent));
    assert_eq!(handled(&bank, &batch).await, nothing_failed());
    assert_eq!(handled(&bank, &[]).await, nothing_failed());
}

#[tokio::test]
async fn a_message_that_is_not_done_and_has_no_id_fails_the_batch() {
    let bank = Bank::new().await;
    let (_, _, batch) = messages(&bank, 1).await;
    let with_id = |id: Value, body: &str| -> SqsEvent {
        serde_json::from_value(json!({ "Records": [
            { "messageId": "m0", "body": batch[0], "attributes": {}, "messageAttributes": {} },
            { "messageId": id, "body": body, "attributes": {}, "messageAttributes": {} },
        ] }))
        .unwrap()
    };
    let poison = with_id(Value::Null, "no json");
    assert!(notifier::handle(&bank.app, &bank.providers, poison, soon()).await.is_err());
    assert_eq!(bank.mail.accepted(), 1, "its neighbour is done all the same");
    // One that is done needs no id.
    let done = notifier::handle(&bank.app, &bank.providers, with_id(Value::Null, &batch[1]), soon()).await.unwrap();
    assert_eq!(serde_json::to_value(done).unwrap(), nothing_failed());
    assert_eq!(bank.mail.accepted(), 2);
}

#[tokio::test]
async fn an_event_of_another_version_type_or_source_is_refused() {
    let bank = Bank::new().await;
    let (_, _, batch) = messages(&bank, 1).await;
    let sound: Value = serde_json::from_str(&batch[0]).unwrap();
    let other_transfer = format!("tr_{}", "a".repeat(32));
    for (pointer, value) in [
        ("/specversion", json!("0.3")),
        ("/specversion", json!(1.0)),
        ("/type", json!("furikomi.transfer.sent.v2")),
        ("/type", json!("furikomi.transfer.received.v1")),
        ("/type", json!("furikomi.transfer.recalled.v1")),
        ("/source", json!("elsewhere")),
        ("/id", json!("ev_x_sent")),
        ("/subject", json!(other_transfer)),
        ("/time", json!("yesterday")),
        ("/data/transfer_id", json!(other_transfer)),
        ("/data/recipient_id", json!("a b")),
        ("/data/amount_minor", json!(0)),
        ("/data/amount_minor", json!("1")),
        ("/data/amount_minor", Value::Null),
        ("/data/currency", json!("YEN")),
        ("/data/failure_code", json!("TR999")),
    ] {
        let mut event = sound.clone();
        *event.pointer_mut(pointer).unwrap_or(&mut Value::Null) = value.clone();
        if pointer == "/data/failure_code" {
            event["data"]["failure_code"] = value;
        }
        let failed = json!({ "batchItemFailures": [{ "itemIdentifier": "m0" }] });
        assert_eq!(handled(&bank, &[event.to_string()]).await, failed, "{event}");
    }
    assert_eq!((bank.mail.accepted(), rows(&bank).await.len()), (0, 0));
    assert_eq!(handled(&bank, &[sound.to_string()]).await, nothing_failed());
}

#[tokio::test]
async fn a_recipient_without_channels_is_recorded_as_such_and_done() {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", 100).await, bank.person("ren", 0).await);
    // Aoi wants no channel; nobody knows how to reach Mio.
    let none = Contact { locale: Locale::Ja, addresses: Vec::new() };
    bank.app.store.put_contact(&aoi.user, &none, soon()).await.unwrap();
    let batch = more_messages(&bank, &aoi, &ren, 0..1).await;
    let stranger = batch[1].replace("\"ren\"", "\"mio\"");
    assert_eq!(handled(&bank, &[batch[0].clone(), stranger]).await, nothing_failed());
    assert_eq!((bank.mail.accepted(), bank.push.accepted()), (0, 0));
    let items = bank.app.store.scan(&bank.app.store.tables().notifications).await.unwrap();
    let plans: Vec<_> = items.iter().map(|item| item["planned_channels"].as_l().unwrap().len()).collect();
    assert_eq!(plans, [0, 0], "two inboxes and no row");

    // A contact that comes later does not reopen the inbox.
    let now = Contact { locale: Locale::Ja, addresses: vec![(Channel::Email, "aoi@example.test".to_owned())] };
    bank.app.store.put_contact(&aoi.user, &now, soon()).await.unwrap();
    assert_eq!(handled(&bank, &batch[..1]).await, nothing_failed());
    assert_eq!(bank.mail.accepted(), 0);
}

#[tokio::test]
async fn a_contact_that_changes_later_does_not_change_the_plan_of_then() {
    use crate::fakes::Act;
    let bank = Bank::new().await;
    let (aoi, _, batch) = messages(&bank, 1).await;
    bank.mail.then([Act::Refuse]);
    assert_ne!(handled(&bank, &batch[..1]).await, nothing_failed());
    let moved = Contact { locale: Locale::Ja, addresses: vec![(Channel::Email, "new@example.test".to_owned())] };
    bank.app.store.put_contact(&aoi.user, &moved, soon()).await.unwrap();
    assert_eq!(handled(&bank, &batch[..1]).await, nothing_failed());
    let sent = bank.mail.deliveries.lock().unwrap().clone();
    assert_eq!((sent.len(), sent[0].address.as_str()), (1, "aoi@example.test"));
    assert_eq!(sent[0].message.subject, "Transfer completed");
    assert_eq!(bank.push.accepted(), 1);
}

#[tokio::test]
async fn people_are_told_in_their_language_with_their_own_account_masked() {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi-12345678", 100).await, bank.person("ren-87654321", 0).await);
    let ja = Contact { locale: Locale::Ja, addresses: vec![(Channel::Email, "ren@example.test".to_owned())] };
    bank.app.store.put_contact(&ren.user, &ja, soon()).await.unwrap();
    let batch = more_messages(&bank, &aoi, &ren, 0..1).await;
    assert_eq!(handled(&bank, &batch).await, nothing_failed());
    let sent = bank.mail.deliveries.lock().unwrap().clone();
    let transfer = bank.books().await.journals.iter().find(|journal| journal.request_id.is_some()).unwrap().clone();
    let body = |lead: &str, reference: &str| format!("{lead}\n{reference}: {}", transfer.transfer);
    assert_eq!(sent[0].message.subject, "Transfer completed");
    assert_eq!(sent[0].message.body, body("You sent JPY 1 to ren-87654321 from account ****5678.", "Reference"));
    assert_eq!(sent[1].message.subject, "お振込を受け取りました");
    assert_eq!(sent[1].message.body, body("口座 ****4321 に Aoi 様から JPY 1 の入金がありました。", "取引番号"));
    let events: Vec<Value> = batch.iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    assert_eq!(sent[0].idempotency_key, format!("{}/EMAIL", events[0]["id"].as_str().unwrap()));
}

#[tokio::test]
async fn a_failure_tells_the_payer_why_and_nobody_else() {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", 100).await, bank.person("ren", 0).await);
    let ja = Contact { locale: Locale::Ja, addresses: vec![(Channel::Push, "arn:aoi".to_owned())] };
    bank.app.store.put_contact(&aoi.user, &ja, soon()).await.unwrap();
    let phone = bank.client(&aoi, "s1");
    let id = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 101)).await.id();
    assert_eq!(phone.confirm(&id).await.code(), "TR008");
    bank.relay().await;
    assert_eq!(bank.deliver().await, 0);
    assert_eq!((bank.mail.accepted(), bank.push.accepted()), (0, 1));
    let told = bank.push.deliveries.lock().unwrap()[0].clone();
    assert_eq!((told.address.as_str(), told.message.subject.as_str()), ("arn:aoi", "お振込ができませんでした"));
    assert!(told.message.body.contains("残高が不足しています (TR008)"), "{}", told.message.body);
    bank.assert_transfers(0).await;
}

#[tokio::test]
async fn a_notification_that_there_is_no_time_to_send_is_not_claimed() {
    let bank = Bank::new().await;
    let (_, _, batch) = messages(&bank, 1).await;
    let ids = ["m0".to_owned(), "m1".to_owned()];
    let hurried = sqs_batch(ids.iter().zip(&batch));
    let deadline = Deadline::after(Duration::from_secs(5));
    let answer = notifier::handle(&bank.app, &bank.providers, hurried, deadline).await.unwrap();
    assert_eq!(answer.batch_item_failures.len(), 2);
    assert!(rows(&bank).await.iter().all(|row| row.state == Pending && row.attempts == 0));
    assert_eq!(handled(&bank, &batch).await, nothing_failed());
    assert_eq!((bank.mail.accepted(), bank.push.accepted()), (2, 2));
}

#[tokio::test]
async fn a_channel_without_a_provider_fails_and_keeps_the_other() {
    let bank = Bank::new().await;
    let (_, _, batch) = messages(&bank, 1).await;
    let mail: Vec<Box<dyn Provider>> = vec![Box::new(crate::fakes::Recording(std::sync::Arc::clone(&bank.mail)))];
    let ids = ["m0".to_owned()];
    let one = sqs_batch(ids.iter().zip(&batch));
    let answer = notifier::handle(&bank.app, &mail, one, soon()).await.unwrap();
    assert!(answer.batch_item_failures.is_empty());
    let mut states: Vec<_> = rows(&bank).await.iter().map(|row| (row.channel, row.state)).collect();
    states.sort_unstable();
    assert_eq!(states, [(Channel::Email, Sent), (Channel::Push, Failed)]);
}
