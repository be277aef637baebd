//! The posting's sends go wrong.

use super::{Fault, READ, Setting, TRANSACTION, hurried::Hurried, passing_faults, setting};
use crate::client::{Answer, Client, key, transfer};

/// Long enough for a few sends on a slow machine.
const WRITING_MS: u64 = 900;
/// Legs of a posting.
const LEGS: usize = 7;
const CONFLICT: Fault = Fault::Cancel { legs: LEGS, leg: 1, reason: "TransactionConflict" };

/// An authorized transfer of 40,000 from Aoi to Ren, and Aoi's phone on the wire.
async fn authorized(on: &Setting) -> (Client, String) {
    let phone = on.there.client(&on.aoi, "s1");
    let id = phone.authorized(&on.there, &key("one"), &transfer(&on.aoi, &on.ren, 40_000)).await.id();
    on.wire.take(TRANSACTION);
    (phone, id)
}

fn assert_unknown(answer: &Answer, id: &str) {
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    assert_eq!((answer.code(), answer.text("result")), ("TR018", "RESULT_UNKNOWN"));
    assert_eq!((answer.text("money_moved"), answer.id().as_str()), ("unknown", id));
    assert_eq!(answer.headers["location"], format!("/v1/transfers/{id}").as_str());
    assert!(answer.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn whatever_happens_to_one_send_the_transfer_is_posted_once() {
    let on = setting().await;
    let phone = on.there.client(&on.aoi, "s1");
    let faults = passing_faults(LEGS);
    for (index, fault) in faults.iter().enumerate() {
        let body = transfer(&on.aoi, &on.ren, 1_000);
        let id = phone.authorized(&on.there, &key(&index.to_string()), &body).await.id();
        on.wire.take(TRANSACTION);
        on.wire.next(TRANSACTION, [*fault]);

        let confirmed = phone.confirm(&id).await;

        assert_eq!((confirmed.status, confirmed.text("result")), (200, "FINANCIAL_COMMITTED"), "{fault:?}");
        assert_eq!(on.wire.take(TRANSACTION).len(), 2, "{fault:?}");
        on.bank.assert_transfers(index + 1).await;
        on.bank.next_step();
    }
    assert_eq!(on.bank.balance(&on.ren).await, 1_000 * i64::try_from(faults.len()).unwrap());
}

#[tokio::test]
async fn a_send_in_doubt_is_sent_again_byte_for_byte_and_a_cancelled_one_is_followed_by_a_fresh_one() {
    for (fault, same) in [
        (Fault::LoseRequest, true),
        (Fault::LoseReply, true),
        (Fault::Answer(400, "TransactionInProgressException"), true),
        (CONFLICT, false),
        (Fault::Answer(400, "ThrottlingException"), false),
    ] {
        let on = setting().await;
        let (phone, id) = authorized(&on).await;
        on.wire.next(TRANSACTION, [fault]);
        assert_eq!(phone.confirm(&id).await.status, 200);
        let sent = on.wire.take(TRANSACTION);
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0].token() == sent[1].token(), same, "{fault:?}");
        assert_eq!(sent[0].body == sent[1].body, same, "{fault:?}");
        on.bank.assert_transfers(1).await;
    }
}

#[tokio::test]
async fn the_conditions_guard_where_the_token_is_forgotten() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.next(TRANSACTION, [Fault::LoseReply, Fault::ForgetToken]);

    let confirmed = phone.confirm(&id).await;

    assert_eq!((confirmed.status, confirmed.text("result")), (200, "FINANCIAL_COMMITTED"));
    assert_eq!(on.bank.balance(&on.ren).await, 40_000);
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn if_every_reply_is_lost_the_answer_is_unknown_and_a_look_says_what_happened() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    // The reads fail too once the posting was sent, so nobody can tell.
    on.wire.next(READ, [Fault::Pass]);
    on.wire.always(READ, Fault::LoseRequest);
    on.wire.always(TRANSACTION, Fault::LoseReply);

    let answer = Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await;

    assert_unknown(&answer, &id);
    assert!(on.wire.take(TRANSACTION).len() > 1);
    on.bank.assert_transfers(1).await;
    on.wire.mend();
    assert_eq!(phone.status(&id).await.text("result"), "FINANCIAL_COMMITTED");
    let again = phone.confirm(&id).await;
    assert_eq!((again.status, again.is_replayed()), (200, true));
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn if_every_reply_is_lost_and_the_last_read_shows_the_transfer_it_is_answered() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.always(TRANSACTION, Fault::LoseReply);
    let answer = Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await;
    assert_eq!((answer.status, answer.text("result")), (200, "FINANCIAL_COMMITTED"));
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_posting_that_never_arrived_is_unknown_and_can_be_repeated() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.always(TRANSACTION, Fault::LoseRequest);
    let answer = Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await;
    assert_unknown(&answer, &id);
    on.bank.assert_transfers(0).await;
    assert_eq!(phone.status(&id).await.text("result"), "INSTRUCTION_ACKNOWLEDGED");

    on.wire.mend();
    let again = phone.confirm(&id).await;
    assert_eq!((again.status, again.is_replayed()), (200, false));
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_posting_that_arrives_after_the_answer_is_found_by_a_look() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.next(TRANSACTION, [Fault::Late]);
    on.wire.always(TRANSACTION, Fault::LoseRequest);
    assert_unknown(&Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await, &id);
    on.bank.assert_transfers(0).await;

    on.wire.deliver_late().await;

    assert_eq!(phone.status(&id).await.text("result"), "FINANCIAL_COMMITTED");
    on.wire.mend();
    assert!(phone.confirm(&id).await.is_replayed());
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_posting_that_arrives_after_a_fence_moves_nothing() {
    for expires in [false, true] {
        let on = setting().await;
        let (phone, id) = authorized(&on).await;
        on.wire.next(TRANSACTION, [Fault::Late]);
        on.wire.always(TRANSACTION, Fault::LoseRequest);
        assert_unknown(&Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await, &id);
        if expires {
            on.bank.advance_s(660);
            assert_eq!(on.bank.sweep().await.expired, 1);
        } else {
            assert_eq!(phone.cancel(&id).await.text("state"), "CANCELLED");
        }

        on.wire.deliver_late().await;

        assert_eq!(phone.status(&id).await.text("result"), "NO_POSTING_CONFIRMED");
        assert_eq!((on.bank.balance(&on.aoi).await, on.bank.balance(&on.ren).await), (900_000, 0));
        on.bank.assert_transfers(0).await;
    }
}

#[tokio::test]
async fn conflicts_alone_until_the_deadline_are_contended_and_nothing_is_posted() {
    for fault in [CONFLICT, Fault::Answer(400, "ProvisionedThroughputExceededException")] {
        let on = setting().await;
        let (phone, id) = authorized(&on).await;
        on.wire.always(TRANSACTION, fault);
        let answer = Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await;
        assert_eq!((answer.status, answer.code()), (503, "TR017"), "{:?}", answer.body);
        assert_eq!((answer.text("retry_with"), answer.text("money_moved")), ("same-key", "unknown"));
        assert_eq!(answer.text("result"), "INSTRUCTION_ACKNOWLEDGED");
        assert!(answer.headers.contains_key("retry-after"));
        assert!(on.wire.take(TRANSACTION).len() > 1);
        on.bank.assert_transfers(0).await;
        on.wire.mend();
        assert_eq!(phone.confirm(&id).await.status, 200);
        on.bank.assert_transfers(1).await;
    }
}

#[tokio::test]
async fn conflicts_after_a_send_in_doubt_are_never_called_contended() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.next(TRANSACTION, [Fault::Late]);
    on.wire.always(TRANSACTION, CONFLICT);
    assert_unknown(&Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await, &id);
    on.bank.assert_transfers(0).await;
    on.wire.deliver_late().await;
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn contended_is_not_said_of_a_transfer_that_somebody_else_posted_meanwhile() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.next(TRANSACTION, [CONFLICT, CONFLICT, Fault::Gate]);
    let hurried = Hurried { client: &phone, writing_ms: 5_000 };
    let other = on.bank.client(&on.aoi, "s1");
    let (answer, ()) = tokio::join!(hurried.confirm(&id), async {
        on.wire.held().await;
        assert_eq!(other.confirm(&id).await.status, 200);
        on.wire.open_gate();
    });
    assert_eq!((answer.status, answer.is_replayed()), (200, true), "{:?}", answer.body);
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_request_that_is_refused_by_the_database_is_an_error_and_after_a_doubt_it_is_unknown() {
    let denied = Fault::Answer(400, "AccessDeniedException");
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.next(TRANSACTION, [denied]);
    let answer = phone.confirm(&id).await;
    assert_eq!((answer.status, answer.code(), answer.text("money_moved")), (500, "SV002", "unknown"));
    assert_eq!(on.wire.take(TRANSACTION).len(), 1);

    on.wire.next(TRANSACTION, [Fault::Late]);
    on.wire.always(TRANSACTION, denied);
    assert_unknown(&Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await, &id);
    on.wire.deliver_late().await;
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_first_read_that_is_lost_is_made_again_and_otherwise_nothing_is_sent() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.always(READ, Fault::LoseReply);
    let answer = Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await;
    assert_eq!((answer.status, answer.code(), answer.text("retry_with")), (503, "SV001", "same-key"));
    assert_eq!(on.wire.take(TRANSACTION).len(), 0);
    on.wire.mend();
    on.wire.next(READ, [Fault::Answer(500, "InternalServerError"), Fault::LoseReply]);
    assert_eq!(phone.confirm(&id).await.status, 200);
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_send_that_hangs_is_given_up_and_sent_again_and_may_arrive_afterwards() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.next(TRANSACTION, [Fault::Gate]);
    let confirmed = phone.confirm(&id).await;
    assert_eq!((confirmed.status, confirmed.text("result")), (200, "FINANCIAL_COMMITTED"));
    let sent = on.wire.take(TRANSACTION);
    assert_eq!((sent.len(), sent[0].token()), (2, sent[1].token()));
    on.bank.assert_transfers(1).await;
    on.wire.deliver_late().await;
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_confirm_that_met_only_conflicts_looks_once_more_before_it_calls_its_authorization_stale() {
    let on = setting().await;
    let (phone, id) = authorized(&on).await;
    on.wire.always(TRANSACTION, CONFLICT);
    let elsewhere = on.bank.client(&on.aoi, "s1");
    let (answer, ()) = tokio::join!(phone.confirm(&id), async {
        while on.wire.take(TRANSACTION).is_empty() {
            tokio::task::yield_now().await;
        }
        // Another click posts it, and the minute passes in which the authorization could be used.
        assert_eq!(elsewhere.confirm(&id).await.status, 200);
        on.bank.advance_s(61);
    });
    assert_eq!((answer.status, answer.is_replayed()), (200, true), "{:?}", answer.body);
    on.bank.assert_transfers(1).await;
}
