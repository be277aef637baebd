//! Notifiers that die or run out of time, and messages that come again or stop coming.

use crate::{
    bank::{Bank, soon},
    client::{key, transfer},
    fakes::{Act, sqs_batch},
    faults::{
        UPDATE,
        wire::{Fault, Wire},
    },
    look::aoi_and_ren,
};
use shared::{
    domain::notification::NotificationState::{self, Pending, Sending, Sent, Unknown},
    queue::from_cloud_event,
    store::{
        deadline::Deadline,
        deliver::{Claim, NotificationRow},
    },
};
use std::time::Duration;

/// As often as the queue gives a message before it goes to the dead letters.
const RECEIVES_MAX: usize = 5;

/// A bank with one posted transfer, and the message to its payer.
async fn posted() -> (Bank, String) {
    let (bank, aoi, ren, phone) = aoi_and_ren(100).await;
    let id = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 1)).await.id();
    assert_eq!(phone.confirm(&id).await.status, 200);
    bank.relay().await;
    let message = bank.queue.messages.lock().unwrap().drain(..).next().unwrap();
    (bank, message)
}

/// The rows that a first receive made, none of them claimed.
async fn rows_of(bank: &Bank, message: &str) -> Vec<NotificationRow> {
    let (store, event) = (&bank.app.store, from_cloud_event(message).unwrap());
    let contact = store.contact(&event.recipient, soon()).await.unwrap();
    store.open_inbox(&event.id, &event.recipient, contact.as_ref(), bank.now(), soon()).await.unwrap()
}

async fn states(bank: &Bank) -> Vec<NotificationState> {
    bank.app.store.all_notifications().await.unwrap().1.into_iter().map(|row| row.state).collect()
}

/// One receive of the message; whether it is done.
async fn receive(bank: &Bank, message: &str, deadline: Deadline) -> bool {
    let batch = sqs_batch([(&"m".to_owned(), &message.to_owned())].into_iter());
    let answer = notifier::handle(&bank.app, &bank.providers, batch, deadline).await.unwrap();
    answer.batch_item_failures.is_empty()
}

/// The first notifier claims the mail, and is heard of no more.
async fn claim_and_die(bank: &Bank, message: &str) {
    let rows = rows_of(bank, message).await;
    let claim = bank.restarted().await.app.store.claim(&rows[0], bank.now(), soon()).await.unwrap();
    assert!(matches!(claim, Claim::Ours { attempts: 1, .. }), "{claim:?}");
}

#[tokio::test]
async fn a_duplicate_within_the_lease_of_a_dead_notifier_sends_the_other_channel_and_waits() {
    let (bank, message) = posted().await;
    claim_and_die(&bank, &message).await;
    let second = bank.restarted().await;
    assert!(!receive(&second, &message, soon()).await, "the mail is in another's hands");
    assert_eq!((states(&bank).await, bank.mail.accepted(), bank.push.accepted()), (vec![Sending, Sent], 0, 1));
    bank.advance_s(59);
    assert!(!receive(&second, &message, soon()).await);
    // Whether the dead one had sent cannot be known: nobody sends in its place.
    bank.advance_s(1);
    assert!(receive(&second, &message, soon()).await);
    assert_eq!((states(&bank).await, bank.mail.accepted(), bank.push.accepted()), (vec![Unknown, Sent], 0, 1));
}

#[tokio::test]
async fn a_message_whose_receives_end_within_a_lease_leaves_the_row_to_the_sweeper() {
    let (bank, message) = posted().await;
    claim_and_die(&bank, &message).await;
    for _ in 0..RECEIVES_MAX {
        assert!(!receive(&bank, &message, soon()).await);
    }
    // It is among the dead letters now; nobody brings it again.
    assert_eq!(states(&bank).await, [Sending, Sent]);
    bank.advance_s(60);
    let swept = bank.sweep().await;
    assert_eq!((swept.unknown, swept.requeued), (1, 0));
    assert_eq!((states(&bank).await, bank.mail.accepted(), bank.push.accepted()), (vec![Unknown, Sent], 0, 1));
    assert_eq!(bank.sweep().await, sweeper::Swept::default());
    // An operator who puts it on the queue again has nothing sent twice by it.
    assert!(receive(&bank, &message, soon()).await);
    assert_eq!((bank.mail.accepted(), bank.push.accepted()), (0, 1));
}

#[tokio::test]
async fn a_message_whose_receives_end_before_anything_was_claimed_is_brought_back_by_the_sweeper() {
    let (bank, message) = posted().await;
    rows_of(&bank, &message).await;
    for _ in 0..RECEIVES_MAX {
        // Too little time to settle a claim, so none is made.
        assert!(!receive(&bank, &message, Deadline::after(Duration::from_secs(8))).await);
    }
    assert_eq!(states(&bank).await, [Pending, Pending]);
    bank.advance_s(30 * 60);
    assert_eq!(bank.sweep().await.requeued, 2);
    assert_eq!(bank.deliver().await, 0);
    assert_eq!((states(&bank).await, bank.mail.accepted(), bank.push.accepted()), (vec![Sent, Sent], 1, 1));
}

#[tokio::test]
async fn a_claim_that_arrives_late_does_not_hold_a_row_that_waits_for_its_next_try() {
    let (bank, message) = posted().await;
    let wire = Wire::to(&bank.endpoint).await;
    let notifier = bank.through(&wire.endpoint).await;
    // The mail's claim stalls and is sent again; then the provider refuses the mail.
    wire.next(UPDATE, [Fault::Late]);
    bank.mail.then([Act::Refuse]);
    assert!(!receive(&notifier, &message, soon()).await);
    assert_eq!(states(&bank).await, [Pending, Sent]);

    wire.deliver_late().await;

    assert_eq!(states(&bank).await, [Pending, Sent], "nobody has the mail in hand");
    assert!(receive(&notifier, &message, soon()).await);
    assert_eq!((states(&bank).await, bank.mail.accepted(), bank.push.accepted()), (vec![Sent, Sent], 1, 1));
}
