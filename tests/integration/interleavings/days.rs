//! Postings that stall while a limit is lowered, while the day turns, and both.

use crate::{
    bank::{Bank, Person},
    client::{Answer, Client, key, transfer},
    faults::{Setting, TRANSACTION, UPDATE, hurried::Hurried, setting, wire::Fault},
};
use shared::{domain::day::Day, store::accounts::AccountChange};

/// Half a minute before midnight in Japan: an authorization of now still serves on the other side.
const BEFORE_MIDNIGHT: &str = "2026-12-01T14:59:40Z";

async fn limit(bank: &Bank, person: &Person, daily_amount_minor: i64) {
    bank.change(person, limited(daily_amount_minor)).await;
}

fn limited(daily_amount_minor: i64) -> AccountChange {
    AccountChange { daily_amount_minor: Some(daily_amount_minor), ..AccountChange::default() }
}

/// Requests and authorizes a transfer from Aoi to Ren, in a step of its own.
async fn ready(on: &Setting, client: &Client, name: &str, amount_minor: i64) -> String {
    client.authorized(&on.bank, &key(name), &transfer(&on.aoi, &on.ren, amount_minor)).await.id()
}

/// Pays, on no wire; the instruction's id.
async fn pay(on: &Setting, name: &str, amount_minor: i64) {
    on.bank.next_step();
    let client = on.bank.client(&on.aoi, "s1");
    let id = ready(on, &client, name, amount_minor).await;
    let paid = client.confirm(&id).await;
    assert_eq!(paid.status, 200, "{}", paid.body);
}

/// What is left of each day that Aoi's account keeps.
async fn left(on: &Setting) -> Vec<(String, i64)> {
    let account = on.bank.account(&on.aoi).await;
    account.allowances.iter().map(|(day, left)| (day.to_string(), left.amount_minor)).collect()
}

fn day(text: &str, amount_minor: i64) -> (String, i64) {
    (Day::parse(text).unwrap().to_string(), amount_minor)
}

fn assert_over_the_limit(answer: &Answer, resets_at: &str) {
    assert_eq!((answer.status, answer.code()), (422, "TR012"), "{}", answer.body);
    assert_eq!(answer.text("resets_at"), resets_at);
}

#[tokio::test]
async fn a_confirm_that_stalls_over_midnight_cannot_use_its_day_twice() {
    let on = setting().await;
    limit(&on.bank, &on.aoi, 100_000).await;
    on.bank.set_clock("2026-11-30T03:00:00Z");
    pay(&on, "two-days-before", 10_000).await;
    on.bank.set_clock("2026-12-01T03:00:00Z");
    pay(&on, "by-day", 60_000).await;
    on.bank.set_clock(BEFORE_MIDNIGHT);
    let phone = on.there.client(&on.aoi, "s1");
    let stalled = ready(&on, &phone, "stalled", 50_000).await;

    on.wire.always(TRANSACTION, Fault::Gate);
    let (answer, ()) = tokio::join!(phone.confirm(&stalled), async {
        on.wire.held().await;
        // The first of the new day cleans up what is two days old, and not the day that the stalled one was frozen on.
        pay(&on, "after-midnight", 70_000).await;
        assert_eq!(left(&on).await, [day("20261201", 40_000), day("20261202", 30_000)]);
        on.wire.open_gate();
    });

    // It fits neither into what its own day had left, nor into the new day.
    assert_over_the_limit(&answer, "2026-12-03T00:00:00+09:00");
    assert_eq!(left(&on).await, [day("20261201", 40_000), day("20261202", 30_000)]);
    assert_eq!(on.bank.balance(&on.ren).await, 140_000);
    on.bank.assert_transfers(3).await;
}

#[tokio::test]
async fn a_confirm_that_stalls_over_midnight_uses_what_its_day_had_left_or_the_new_day() {
    // 40,000 are left of the old day when it arrives, 95,000 of the new one.
    for (amount, expected) in [
        (40_000, [day("20261201", 0), day("20261202", 95_000)]),
        (50_000, [day("20261201", 40_000), day("20261202", 45_000)]),
    ] {
        let on = setting().await;
        limit(&on.bank, &on.aoi, 100_000).await;
        pay(&on, "by-day", 60_000).await;
        on.bank.set_clock(BEFORE_MIDNIGHT);
        let phone = on.there.client(&on.aoi, "s1");
        let stalled = ready(&on, &phone, "stalled", amount).await;
        on.wire.always(TRANSACTION, Fault::Gate);
        let (answer, ()) = tokio::join!(phone.confirm(&stalled), async {
            on.wire.held().await;
            pay(&on, "after-midnight", 5_000).await;
            on.wire.open_gate();
        });
        assert_eq!((answer.status, answer.is_replayed()), (200, false), "{}", answer.body);
        assert_eq!(left(&on).await, expected);
        assert_eq!(on.bank.balance(&on.ren).await, 65_000 + amount);
        on.bank.assert_transfers(3).await;
    }
}

#[tokio::test]
async fn a_confirm_whose_day_was_cleaned_up_meets_a_fence() {
    let on = setting().await;
    limit(&on.bank, &on.aoi, 100_000).await;
    pay(&on, "by-day", 100_000).await;
    on.bank.next_step();
    let phone = on.there.client(&on.aoi, "s1");
    let stalled = ready(&on, &phone, "stalled", 50_000).await;
    on.wire.next(TRANSACTION, [Fault::Late]);
    on.wire.always(TRANSACTION, Fault::LoseRequest);
    let answer = Hurried { client: &phone, writing_ms: 900 }.confirm(&stalled).await;
    assert_eq!((answer.status, answer.code()), (202, "TR018"), "{}", answer.body);

    // Two days later nothing is known of its day any more; but it was fenced long before.
    on.bank.advance_s(2 * 24 * 60 * 60);
    assert_eq!(on.bank.sweep().await.expired, 1);
    pay(&on, "two-days-later", 1_000).await;
    assert_eq!(left(&on).await, [day("20261203", 99_000)]);
    on.wire.deliver_late().await;

    assert_eq!(left(&on).await, [day("20261203", 99_000)]);
    assert_eq!(phone.status(&stalled).await.text("result"), "NO_POSTING_CONFIRMED");
    assert_eq!(on.bank.balance(&on.ren).await, 101_000);
    on.bank.assert_transfers(2).await;
}

#[tokio::test]
async fn a_limit_that_is_lowered_while_a_posting_is_on_its_way_holds_for_it() {
    for (amount, posted) in [(40_001, false), (40_000, true)] {
        let on = setting().await;
        let phone = on.there.client(&on.aoi, "s1");
        let id = ready(&on, &phone, "one", amount).await;
        on.wire.always(TRANSACTION, Fault::Gate);
        let (answer, ()) = tokio::join!(phone.confirm(&id), async {
            on.wire.held().await;
            limit(&on.bank, &on.aoi, 40_000).await;
            on.wire.open_gate();
        });
        if posted {
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert_eq!(left(&on).await, [day("20261201", 0)]);
        } else {
            assert_over_the_limit(&answer, "2026-12-02T00:00:00+09:00");
            assert_eq!(left(&on).await, []);
        }
        on.bank.assert_transfers(usize::from(posted)).await;
    }
}

#[tokio::test]
async fn a_limit_that_is_lowered_after_midnight_holds_for_a_posting_of_the_day_before() {
    for (amount, posted) in [(40_001, false), (40_000, true)] {
        let on = setting().await;
        on.bank.set_clock(BEFORE_MIDNIGHT);
        let phone = on.there.client(&on.aoi, "s1");
        let id = ready(&on, &phone, "one", amount).await;
        on.wire.always(TRANSACTION, Fault::Gate);
        let (answer, ()) = tokio::join!(phone.confirm(&id), async {
            on.wire.held().await;
            on.bank.advance_s(30);
            limit(&on.bank, &on.aoi, 40_000).await;
            on.wire.open_gate();
        });
        if posted {
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert_eq!(left(&on).await, [day("20261201", 0)], "the day that it was frozen on");
        } else {
            assert_over_the_limit(&answer, "2026-12-03T00:00:00+09:00");
            assert_eq!(left(&on).await, []);
        }
        on.bank.assert_transfers(usize::from(posted)).await;
    }
}

#[tokio::test]
async fn a_lowering_on_its_way_over_midnight_moves_the_day_that_began() {
    let on = setting().await;
    limit(&on.bank, &on.aoi, 100_000).await;
    pay(&on, "by-day", 10_000).await;
    on.bank.set_clock(BEFORE_MIDNIGHT);
    on.wire.always(UPDATE, Fault::Gate);
    tokio::join!(on.there.change(&on.aoi, limited(30_000)), async {
        on.wire.held().await;
        pay(&on, "after-midnight", 25_000).await;
        on.wire.open_gate();
    });
    assert_eq!(left(&on).await, [day("20261201", 20_000), day("20261202", 5_000)]);
    on.bank.assert_transfers(2).await;
}

#[tokio::test]
async fn a_lowering_moves_the_day_before_if_a_stalled_posting_brings_it_up_meanwhile() {
    let on = setting().await;
    limit(&on.bank, &on.aoi, 100_000).await;
    on.bank.set_clock(BEFORE_MIDNIGHT);
    let phone = on.there.client(&on.aoi, "s1");
    let id = ready(&on, &phone, "stalled", 60_000).await;
    on.wire.next(TRANSACTION, [Fault::Late]);
    on.wire.always(TRANSACTION, Fault::LoseRequest);
    let answer = Hurried { client: &phone, writing_ms: 900 }.confirm(&id).await;
    assert_eq!((answer.status, answer.code()), (202, "TR018"), "{}", answer.body);
    on.bank.advance_s(30);
    // The change has read an account that knows of no day; then the posting of the day before arrives.
    on.wire.always(UPDATE, Fault::Answer(400, "TransactionConflictException"));
    tokio::join!(on.there.change(&on.aoi, limited(70_000)), async {
        while on.wire.take(UPDATE).is_empty() {
            tokio::task::yield_now().await;
        }
        on.wire.deliver_late().await;
        on.wire.mend();
    });
    assert_eq!(left(&on).await, [day("20261201", 10_000)]);
    assert_eq!(phone.status(&id).await.text("result"), "FINANCIAL_COMMITTED");
    on.bank.assert_transfers(1).await;
}
