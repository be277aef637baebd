//! The record of a refusal goes wrong: 422 is said only of a record that has committed.

use super::{Fault, READ, Setting, TRANSACTION, hurried::Hurried, passing_faults, setting};
use crate::{
    bank::Bank,
    client::{Answer, Client, key, transfer},
};

const WRITING_MS: u64 = 900;
/// Legs of a refusal's record.
const LEGS: usize = 2;
const CONFLICT: Fault = Fault::Cancel { legs: LEGS, leg: 0, reason: "TransactionConflict" };

/// An authorized transfer from Ren, who has nothing, to Aoi.
async fn authorized(on: &Setting, name: &str) -> (Client, String) {
    let phone = on.there.client(&on.ren, "s1");
    let id = phone.authorized(&on.there, &key(name), &transfer(&on.ren, &on.aoi, 1)).await.id();
    on.wire.take(TRANSACTION);
    (phone, id)
}

async fn hurried(phone: &Client, id: &str) -> Answer {
    Hurried { client: phone, writing_ms: WRITING_MS }.confirm(id).await
}

/// Failed instructions, and events of failures.
async fn failures(bank: &Bank) -> (usize, usize) {
    let books = bank.assert_transfers(0).await;
    let failed = books.instructions.iter().filter(|instruction| instruction.failure.is_some()).count();
    (failed, books.outbox.values().map(Vec::len).sum())
}

#[tokio::test]
async fn whatever_happens_to_one_send_the_refusal_is_recorded_once_and_answered() {
    let on = setting().await;
    let faults = passing_faults(LEGS);
    for (index, fault) in faults.iter().enumerate() {
        let (phone, id) = authorized(&on, &index.to_string()).await;
        on.wire.next(TRANSACTION, [Fault::Pass, *fault]);
        let refused = phone.confirm(&id).await;
        assert_eq!((refused.status, refused.code()), (422, "TR008"), "{fault:?}");
        assert_eq!(refused.text("result"), "NO_POSTING_CONFIRMED");
        assert_eq!(refused.body["money_moved"], false);
        assert_eq!(on.wire.take(TRANSACTION).len(), 3, "{fault:?}");
        assert_eq!(failures(&on.bank).await, (index + 1, index + 1), "{fault:?}");
        on.bank.next_step();
    }
}

#[tokio::test]
async fn a_record_that_meets_itself_is_a_refusal_like_any_other() {
    let on = setting().await;
    let (phone, id) = authorized(&on, "one").await;
    on.wire.next(TRANSACTION, [Fault::Pass, Fault::LoseReply, Fault::ForgetToken]);
    let refused = phone.confirm(&id).await;
    assert_eq!((refused.status, refused.code()), (422, "TR008"), "{:?}", refused.body);
    assert_eq!(failures(&on.bank).await, (1, 1));
}

#[tokio::test]
async fn a_record_that_was_never_known_to_commit_is_no_refusal() {
    let on = setting().await;
    let (phone, id) = authorized(&on, "one").await;
    on.wire.next(TRANSACTION, [Fault::Pass]);
    on.wire.always(TRANSACTION, Fault::LoseRequest);
    let answer = hurried(&phone, &id).await;
    assert_eq!((answer.status, answer.code(), answer.text("result")), (202, "TR018", "RESULT_UNKNOWN"));
    assert_eq!(failures(&on.bank).await, (0, 0));

    on.wire.mend();
    let refused = phone.confirm(&id).await;
    assert_eq!((refused.status, refused.code()), (422, "TR008"));
    assert_eq!(failures(&on.bank).await, (1, 1));
}

#[tokio::test]
async fn a_record_whose_replies_are_all_lost_is_unknown_unless_a_read_shows_it() {
    for readable in [false, true] {
        let on = setting().await;
        let (phone, id) = authorized(&on, "one").await;
        on.wire.next(TRANSACTION, [Fault::Pass]);
        on.wire.always(TRANSACTION, Fault::LoseReply);
        on.wire.next(READ, [Fault::Pass]);
        if !readable {
            on.wire.always(READ, Fault::LoseReply);
        }
        let answer = hurried(&phone, &id).await;
        let expected = if readable { (422, "TR008") } else { (202, "TR018") };
        assert_eq!((answer.status, answer.code()), expected, "{:?}", answer.body);
        assert_eq!(failures(&on.bank).await, (1, 1));
        on.wire.mend();
        assert_eq!(phone.status(&id).await.text("result"), "NO_POSTING_CONFIRMED");
    }
}

#[tokio::test]
async fn a_record_that_is_only_ever_contended_leaves_the_instruction_open() {
    let on = setting().await;
    let (phone, id) = authorized(&on, "one").await;
    on.wire.next(TRANSACTION, [Fault::Pass]);
    on.wire.always(TRANSACTION, CONFLICT);
    let answer = hurried(&phone, &id).await;
    assert_eq!((answer.status, answer.code(), answer.text("retry_with")), (503, "TR017", "same-key"));
    assert_eq!(failures(&on.bank).await, (0, 0));
    assert_eq!(phone.status(&id).await.text("state"), "AUTHORIZED");
}

#[tokio::test]
async fn a_record_that_comes_too_late_answers_what_became_of_the_instruction() {
    for cancelled in [true, false] {
        let on = setting().await;
        let (phone, id) = authorized(&on, "one").await;
        on.wire.next(TRANSACTION, [Fault::Pass, Fault::Gate]);
        let elsewhere = on.bank.client(&on.ren, "s1");
        let (answer, ()) = tokio::join!(phone.confirm(&id), async {
            on.wire.held().await;
            if cancelled {
                assert_eq!(elsewhere.cancel(&id).await.status, 200);
            } else {
                // Money came in, and a second click posted with it.
                on.bank.deposit(&on.ren, 1).await;
                assert_eq!(elsewhere.confirm(&id).await.status, 200);
            }
            on.wire.open_gate();
        });
        if cancelled {
            assert_eq!((answer.status, answer.code()), (409, "TR010"), "{:?}", answer.body);
            assert_eq!(answer.text("result"), "NO_POSTING_CONFIRMED");
            assert_eq!(failures(&on.bank).await, (0, 0));
        } else {
            assert_eq!((answer.status, answer.is_replayed()), (200, true), "{:?}", answer.body);
            assert_eq!(answer.text("result"), "FINANCIAL_COMMITTED");
            on.bank.assert_transfers(1).await;
        }
    }
}
