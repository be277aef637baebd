//! The notifier's and the sweeper's sends go wrong.

use super::{Fault, Setting, TRANSACTION, UPDATE, setting};
use crate::{
    bank::{Bank, soon},
    client::{key, transfer},
};
use shared::{
    domain::{
        id::RequestId,
        notification::{
            Channel,
            NotificationState::{self, Sending, Sent, Unknown},
        },
    },
    store::{
        deadline::Deadline,
        deliver::{Claim, NotificationRow},
    },
};

/// A posted transfer of Aoi's whose two events are on the queue.
async fn posted(on: &Setting) -> String {
    let phone = on.bank.client(&on.aoi, "s1");
    let id = phone.authorized(&on.bank, &key("one"), &transfer(&on.aoi, &on.ren, 1)).await.id();
    assert_eq!(phone.confirm(&id).await.status, 200);
    on.there.relay().await;
    id
}

async fn states(bank: &Bank) -> Vec<NotificationState> {
    bank.app.store.all_notifications().await.unwrap().1.into_iter().map(|row| row.state).collect()
}

/// Faults of a write after which the notifier must go on.
const FAULTS: [Fault; 6] = [
    Fault::LoseRequest,
    Fault::LoseReply,
    Fault::CutReply,
    Fault::Answer(500, "InternalServerError"),
    Fault::ForwardThenAnswer(500, "InternalServerError"),
    Fault::Answer(400, "ThrottlingException"),
];

#[tokio::test]
async fn whatever_happens_to_one_write_everybody_is_told_once() {
    for fault in FAULTS {
        // Each write of the first event: its inbox, then claim and settle of the mail.
        for (operation, sound) in [(TRANSACTION, 0), (UPDATE, 0), (UPDATE, 1)] {
            let on = setting().await;
            posted(&on).await;
            on.wire.next(operation, vec![Fault::Pass; sound]);
            on.wire.next(operation, [fault]);
            assert_eq!(on.there.deliver().await, 0, "{fault:?} of {operation} {sound}");
            assert_eq!((on.bank.mail.accepted(), on.bank.push.accepted()), (2, 2), "{fault:?} of {operation} {sound}");
            assert_eq!(states(&on.bank).await, [Sent; 4]);
        }
    }
}

#[tokio::test]
async fn an_inbox_whose_replies_were_lost_under_a_forgotten_token_is_opened_once() {
    let on = setting().await;
    posted(&on).await;
    on.wire.next(TRANSACTION, [Fault::LoseReply, Fault::ForgetToken]);
    assert_eq!(on.there.deliver().await, 0);
    assert_eq!((on.bank.mail.accepted(), on.bank.push.accepted()), (2, 2));
    assert_eq!(states(&on.bank).await, [Sent; 4]);
}

/// The row of the mail that the payer gets.
async fn mail_of_payer(on: &Setting, id: &str) -> NotificationRow {
    let store = &on.bank.app.store;
    let transfer = RequestId::parse(id).unwrap().transfer_id();
    let event = store.outbox(&transfer, soon()).await.unwrap().unwrap().events().remove(0);
    let contact = store.contact(&event.recipient, soon()).await.unwrap();
    let rows = store.open_inbox(&event.id, &event.recipient, contact.as_ref(), on.bank.now(), soon()).await.unwrap();
    rows.into_iter().find(|row| row.channel == Channel::Email).unwrap()
}

#[tokio::test]
async fn a_send_that_was_never_recorded_is_never_repeated() {
    let on = setting().await;
    let id = posted(&on).await;
    let mail = mail_of_payer(&on, &id).await;
    let store = &on.there.app.store;
    let Claim::Ours { id: claim, attempts: 1 } = store.claim(&mail, on.bank.now(), soon()).await.unwrap() else {
        panic!("the row is free");
    };
    on.wire.always(UPDATE, Fault::LoseRequest);
    let short = Deadline::after(std::time::Duration::from_millis(300));
    assert!(store.settle(&mail, &claim, Sent, on.bank.now(), short).await.is_err());
    on.wire.mend();

    // The message comes again within the lease and after it.
    assert_eq!(on.there.deliver().await, 1);
    assert_eq!((on.bank.mail.accepted(), on.bank.push.accepted()), (1, 2), "only the payee's mail");
    assert_eq!(states(&on.bank).await.iter().filter(|state| **state == Sending).count(), 1);
    on.bank.advance_s(61);
    assert_eq!(on.there.deliver().await, 0);
    assert_eq!(on.bank.mail.accepted(), 1);
    assert_eq!(states(&on.bank).await.iter().filter(|state| **state == Unknown).count(), 1);
}

#[tokio::test]
async fn a_fence_survives_what_happens_to_one_send_and_is_made_once() {
    for fault in FAULTS {
        let on = setting().await;
        let phone = on.bank.client(&on.aoi, "s1");
        let id = phone.request(&key("one"), &transfer(&on.aoi, &on.ren, 1)).await.id();
        on.bank.advance_s(660);
        on.wire.next(UPDATE, [fault]);
        on.there.sweep().await;
        let status = phone.status(&id).await;
        assert_eq!(
            (status.text("state"), status.body["history"].as_array().unwrap().len()),
            ("EXPIRED", 2),
            "{fault:?}"
        );
        assert_eq!(on.there.sweep().await.expired, 0);
    }
}
