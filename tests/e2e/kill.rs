//! Functions that are killed, or not heard, in the middle of what they do.

use crate::{
    Suite,
    client::{Answer, key},
    delivery::{event_of, settled},
    gate::Act,
    people::Person,
    scenes::{couple, told_once},
    stack::{Stack, until},
};
use shared::domain::{event::EventKind, id::RequestId, notification::NotificationState};
use std::sync::Arc;

pub(crate) fn add(suite: &mut Suite) {
    suite.test("a_notifier_killed_after_its_send_sends_no_second_time_by_itself", killed_after_send);
    suite.test("a_notifier_killed_before_its_send_leaves_the_decision_to_an_operator", killed_before_send);
    suite.test("a_confirm_killed_after_its_commit_posts_once", killed_after_commit);
    suite.test("a_confirm_killed_before_its_commit_posts_once_when_it_is_repeated", killed_before_commit);
    suite.test("a_confirm_whose_reply_is_lost_is_found_and_repeated", lost_reply);
}

async fn killed_after_commit(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let approved = stack.approved(&client, &aoi, &ren, 40_000).await;
    let mut killing = stack.gate.ask("TransactWriteItems", &posting_of(&approved), Act::KillAfter, 1);
    failed(client.try_confirm(approved.id()).await);
    killing.was_met(1).await;
    let found = client.status(approved.id()).await.expect("200 FINANCIAL_COMMITTED");
    let again = client.confirm(approved.id()).await.expect("200 FINANCIAL_COMMITTED");
    assert!(again.is_replayed() && again.text("transfer_id") == found.text("transfer_id"));
    posted_once(&stack, &aoi, &ren, &again).await;
}

async fn killed_before_commit(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let approved = stack.approved(&client, &aoi, &ren, 40_000).await;
    let mut killing = stack.gate.ask("TransactWriteItems", &posting_of(&approved), Act::KillBefore, 1);
    failed(client.try_confirm(approved.id()).await);
    killing.was_met(1).await;
    client.status(approved.id()).await.expect("200 INSTRUCTION_ACKNOWLEDGED");
    assert_eq!((stack.balance(&aoi).await, stack.balance(&ren).await), (70_000, 0));
    let again = client.confirm(approved.id()).await.expect("200 FINANCIAL_COMMITTED");
    posted_once(&stack, &aoi, &ren, &again).await;
}

async fn lost_reply(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let (client, key) = (stack.login(&aoi, "phone"), key());
    let asked = client.request(&key, &stack.transfer(&aoi, &ren, 40_000)).await;
    let code = aoi.code(&stack).await;
    let approved = client.authorize(asked.id(), &code, asked.text("content_hash")).await;
    let approved = approved.expect("200 INSTRUCTION_ACKNOWLEDGED");
    let mut holding = stack.gate.ask("TransactWriteItems", &posting_of(&approved), Act::HoldAnswer, 1);
    let (device, id) = (client.clone(), approved.id().to_owned());
    let confirming = tokio::spawn(async move { device.try_confirm(&id).await });
    holding.was_met(1).await;
    confirming.abort();
    let by_id = client.status(approved.id()).await.expect("200 FINANCIAL_COMMITTED");
    let by_key = client.status_by_key(&key).await.expect("200 FINANCIAL_COMMITTED");
    let again = client.confirm(approved.id()).await.expect("200 FINANCIAL_COMMITTED");
    drop(holding);
    assert!(again.is_replayed());
    for found in [&by_id, &by_key] {
        assert_eq!(found.text("transfer_id"), again.text("transfer_id"));
    }
    posted_once(&stack, &aoi, &ren, &again).await;
}

/// What is in the posting of an instruction, and in no other write.
fn posting_of(approved: &Answer) -> String {
    format!("TRANSFER#{}", RequestId::parse(approved.id()).unwrap().transfer_id())
}

/// Asserts that a client was not told anything but that it failed.
fn failed(answer: Option<Answer>) {
    if let Some(answer) = answer {
        assert!(answer.status >= 500, "{} {}", answer.status, answer.body);
    }
}

/// Asserts that 40,000 of 70,000 moved once, and were told once.
async fn posted_once(stack: &Stack, aoi: &Person, ren: &Person, done: &Answer) {
    assert_eq!((stack.balance(aoi).await, stack.balance(ren).await), (30_000, 40_000));
    for (person, expected) in [(aoi, 2), (ren, 1)] {
        let path = format!("/v1/accounts/{}/entries", person.account);
        let shown = stack.login(person, "desk").get(&path).await.body;
        assert_eq!(shown["entries"].as_array().unwrap().len(), expected, "{shown}");
    }
    told_once(stack, done.text("transfer_id"), 4).await;
}

async fn killed_after_send(stack: Arc<Stack>) {
    let accepted = killed_at_send(&stack, Act::KillAfter).await;
    assert_eq!(accepted, [(1, 1), (2, 2)], "the operator's resend is a second mail, and known to be one");
}

async fn killed_before_send(stack: Arc<Stack>) {
    let accepted = killed_at_send(&stack, Act::KillBefore).await;
    assert_eq!(accepted, [(1, 0), (2, 1)], "only the operator's resend is accepted");
}

/// Kills the notifier at the mail to the payee. What was asked of SES, and accepted, before and after an operator's order.
async fn killed_at_send(stack: &Stack, act: Act) -> [(usize, usize); 2] {
    let (aoi, ren) = couple(stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let mut killing = stack.gate.ask("SendEmail", &ren.email, act, 1);
    let done = stack.pay(&client, &aoi, &ren, 40_000).await;
    killing.was_met(1).await;
    let (sent, received) = (event_of(done.id(), EventKind::Sent), event_of(done.id(), EventKind::Received));
    // Nobody may send it a second time, and it does not wait for ever: its claim ends after a minute.
    settled(stack, &received, 2).await;
    settled(stack, &sent, 2).await;
    let states = async || {
        let mut rows = stack.rows(&received).await;
        rows.sort_by_key(|row| row.channel.as_str());
        rows.iter().map(|row| row.state).collect::<Vec<_>>()
    };
    assert_eq!(states().await, [NotificationState::Unknown, NotificationState::Sent]);
    assert_eq!(stack.gate.count("Publish", &ren.push), (1, 1));
    for address in [("SendEmail", &aoi.email), ("Publish", &aoi.push)] {
        assert_eq!(stack.gate.count(address.0, address.1), (1, 1), "{address:?}");
    }
    let before = stack.gate.count("SendEmail", &ren.email);
    let listed = stack.order(&["notifications", "list", "--state", "UNKNOWN"]).await;
    assert!(listed.to_string().contains(received.as_str()), "{listed}");
    stack.order(&["notifications", "resend", received.as_str(), "EMAIL"]).await;
    until("the operator's resend is sent", async || {
        (states().await == [NotificationState::Sent, NotificationState::Sent]).then_some(())
    })
    .await;
    [before, stack.gate.count("SendEmail", &ren.email)]
}
