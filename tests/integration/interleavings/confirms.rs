//! Confirms that race with each other, with a new authorization, and with a change of either account.

use crate::{
    bank::{Bank, Person},
    client::{Client, key, transfer},
    faults::{Setting, TRANSACTION, UPDATE, hurried::Hurried, setting, wire::Fault},
};
use shared::{
    domain::{account::AccountStatus, instruction::State, totp::step_at},
    store::accounts::AccountChange,
};

/// Long enough for a few sends on a slow machine.
const WRITING_MS: u64 = 900;
/// Legs of a posting.
const CONFLICT: Fault = Fault::Cancel { legs: 7, leg: 0, reason: "TransactionConflict" };
const NOTHING: AccountChange = AccountChange {
    status: None,
    identity_verified: None,
    daily_amount_minor: None,
    daily_count: None,
    per_transfer_minor: None,
};
const FREEZE: AccountChange = AccountChange { status: Some(AccountStatus::Frozen), ..NOTHING };

/// An authorized transfer of 40,000 from Aoi to Ren: Aoi's phone on the wire, the same session elsewhere, and its id.
async fn authorized(on: &Setting) -> (Client, Client, String) {
    let phone = on.there.client(&on.aoi, "s1");
    let id = phone.authorized(&on.there, &key("one"), &transfer(&on.aoi, &on.ren, 40_000)).await.id();
    on.wire.take(TRANSACTION);
    (phone, on.bank.client(&on.aoi, "s1"), id)
}

/// Authorizes the instruction anew, by the code of the next step.
async fn authorize_anew(bank: &Bank, client: &Client, id: &str) {
    bank.next_step();
    let hash = client.status(id).await.text("content_hash").to_owned();
    let again = client.authorize(id, &bank.code(&client.user, 0), &hash).await;
    assert_eq!((again.status, again.is_replayed()), (200, false), "{}", again.body);
}

#[tokio::test]
async fn a_confirm_that_saw_only_conflicts_answers_with_the_transfer_that_another_posted() {
    let on = setting().await;
    let (phone, elsewhere, id) = authorized(&on).await;
    on.wire.always(TRANSACTION, CONFLICT);
    let hurried = Hurried { client: &phone, writing_ms: WRITING_MS };
    let (answer, ()) = tokio::join!(hurried.confirm(&id), async {
        while on.wire.take(TRANSACTION).is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(elsewhere.confirm(&id).await.status, 200);
    });
    // Not TR017: nothing was posted by this call, but the last look shows what is true.
    assert_eq!((answer.status, answer.is_replayed()), (200, true), "{}", answer.body);
    assert_eq!(answer.text("result"), "FINANCIAL_COMMITTED");
    assert_eq!((on.bank.balance(&on.aoi).await, on.bank.balance(&on.ren).await), (860_000, 40_000));
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn an_old_confirm_does_not_consume_the_authorization_that_replaced_its_own() {
    for (session, reason) in [("s1", "stale"), ("s2", "other-session")] {
        let on = setting().await;
        let (phone, _, id) = authorized(&on).await;
        let anew = on.bank.client(&on.aoi, session);
        on.wire.always(TRANSACTION, Fault::Gate);
        let (old, ()) = tokio::join!(phone.confirm(&id), async {
            on.wire.held().await;
            authorize_anew(&on.bank, &anew, &id).await;
            on.wire.open_gate();
        });
        assert_eq!((old.status, old.code(), old.text("reason")), (403, "AU005", reason), "{}", old.body);
        assert_eq!((old.text("retry_with"), &old.body["money_moved"]), ("new-authorization", &"unknown".into()));
        on.bank.assert_transfers(0).await;
        assert_eq!(anew.status(&id).await.text("state"), "AUTHORIZED");

        assert_eq!(anew.confirm(&id).await.status, 200);
        let books = on.bank.assert_transfers(1).await;
        let steps: Vec<_> = books.journals.iter().filter_map(|journal| journal.step).collect();
        assert_eq!(steps, [step_at(on.bank.now())], "the new authorization's, and no other");
    }
}

#[tokio::test]
async fn a_posting_that_arrives_after_a_new_authorization_moves_nothing() {
    let on = setting().await;
    let (phone, elsewhere, id) = authorized(&on).await;
    on.wire.next(TRANSACTION, [Fault::Late]);
    on.wire.always(TRANSACTION, Fault::LoseRequest);
    let answer = Hurried { client: &phone, writing_ms: WRITING_MS }.confirm(&id).await;
    assert_eq!((answer.status, answer.code()), (202, "TR018"), "{}", answer.body);
    authorize_anew(&on.bank, &elsewhere, &id).await;

    on.wire.deliver_late().await;

    on.bank.assert_transfers(0).await;
    assert_eq!(elsewhere.status(&id).await.text("state"), "AUTHORIZED");
    let confirmed = elsewhere.confirm(&id).await;
    assert_eq!((confirmed.status, confirmed.is_replayed()), (200, false), "{}", confirmed.body);
    assert_eq!(on.bank.balance(&on.ren).await, 40_000);
    on.bank.assert_transfers(1).await;
}

/// Which of the two accounts is changed, how, and the refusal that follows.
type Row = (&'static [(bool, AccountChange)], &'static str);

#[tokio::test]
async fn an_account_that_is_frozen_while_a_posting_is_on_its_way_is_not_posted_to() {
    const SOURCE: bool = true;
    const DESTINATION: bool = false;
    const REVOKE: AccountChange = AccountChange { identity_verified: Some(false), ..NOTHING };
    const CLOSE: AccountChange = AccountChange { status: Some(AccountStatus::Closed), ..NOTHING };
    let rows: [Row; 5] = [
        (&[(SOURCE, FREEZE)], "TR006"),
        (&[(DESTINATION, FREEZE)], "TR005"),
        (&[(DESTINATION, FREEZE), (SOURCE, FREEZE)], "TR006"),
        (&[(DESTINATION, CLOSE), (SOURCE, REVOKE)], "TR007"),
        (&[(DESTINATION, CLOSE)], "TR005"),
    ];
    for (changes, code) in rows {
        let on = setting().await;
        let (phone, elsewhere, id) = authorized(&on).await;
        on.wire.next(TRANSACTION, [Fault::Gate]);
        on.wire.always(TRANSACTION, Fault::Gate);
        let (answer, ()) = tokio::join!(phone.confirm(&id), async {
            on.wire.held().await;
            for (is_source, change) in changes {
                on.bank.change(if *is_source { &on.aoi } else { &on.ren }, *change).await;
            }
            on.wire.open_gate();
        });
        assert_eq!((answer.status, answer.code()), (422, code), "{}", answer.body);
        assert_eq!((answer.text("result"), &answer.body["money_moved"]), ("NO_POSTING_CONFIRMED", &false.into()));
        let books = on.bank.assert_transfers(0).await;
        assert_eq!(books.instructions[0].state, State::Failed, "{code}");
        assert_eq!(elsewhere.confirm(&id).await.code(), "TR010", "a refusal sticks");
        assert_eq!((on.bank.balance(&on.aoi).await, on.bank.balance(&on.ren).await), (900_000, 0));
    }
}

#[tokio::test]
async fn a_freeze_that_a_posting_overtakes_comes_after_it() {
    for freezes_source in [true, false] {
        let on = setting().await;
        let (_, elsewhere, id) = authorized(&on).await;
        let frozen: &Person = if freezes_source { &on.aoi } else { &on.ren };
        on.wire.always(UPDATE, Fault::Gate);
        tokio::join!(on.there.change(frozen, FREEZE), async {
            on.wire.held().await;
            assert_eq!(elsewhere.confirm(&id).await.status, 200);
            on.wire.open_gate();
        });
        assert_eq!(on.bank.account(frozen).await.status, AccountStatus::Frozen);
        assert_eq!((on.bank.balance(&on.aoi).await, on.bank.balance(&on.ren).await), (860_000, 40_000));
        let left = on.bank.account(&on.aoi).await.left_on(on.bank.app.zone.day(on.bank.now()));
        assert_eq!((left.amount_minor, left.count), (960_000, 99), "the posting's use of the day is kept");
        assert!(elsewhere.confirm(&id).await.is_replayed(), "what is posted stays posted");
        on.bank.assert_transfers(1).await;
    }
}
