//! The daily limits at confirmation: days of the bank's zone, what is left of them, and changes of limits.

use crate::{
    bank::{Bank, Person},
    client::{Client, key, transfer},
    look::aoi_and_ren,
};
use shared::store::accounts::AccountChange;

const NOTHING: AccountChange = AccountChange {
    status: None,
    identity_verified: None,
    daily_amount_minor: None,
    daily_count: None,
    per_transfer_minor: None,
};

/// The days whose allowances an account keeps.
async fn days(bank: &Bank, person: &Person) -> Vec<String> {
    bank.account(person).await.allowances.keys().map(ToString::to_string).collect()
}

/// Requests, authorizes and confirms now; the answer's status and code.
async fn pay(bank: &Bank, phone: &Client, from: &Person, to: &Person, amount: i64) -> (u16, String) {
    bank.next_step();
    let name = key(&format!("{}-{amount}", bank.now()));
    let authorized = phone.authorized(bank, &name, &transfer(from, to, amount)).await;
    let answer = phone.confirm(&authorized.id()).await;
    (answer.status, answer.code().to_owned())
}

#[tokio::test]
async fn a_days_limits_begin_anew_at_midnight_in_japan() {
    let amount = AccountChange { daily_amount_minor: Some(50_000), ..NOTHING };
    let count = AccountChange { daily_count: Some(1), ..NOTHING };
    for (limit, code) in [(amount, "TR012"), (count, "TR013")] {
        let (bank, aoi, ren, phone) = aoi_and_ren(200_000).await;
        bank.change(&aoi, limit).await;
        bank.set_clock("2026-12-01T14:59:40Z"); // 23:59:40 in Japan
        let ids = bank.ready(&phone, &[30_000, 30_001, 30_002].map(|a| transfer(&aoi, &ren, a)), "day").await;
        bank.set_clock("2026-12-01T14:59:59.999Z");
        assert_eq!(phone.confirm(&ids[0]).await.status, 200);
        let refused = phone.confirm(&ids[1]).await;
        refused.assert_problem(422, code, code);
        assert_eq!(refused.text("resets_at"), "2026-12-02T00:00:00+09:00");
        bank.advance_ms(1);
        let posted = phone.confirm(&ids[2]).await;
        assert_eq!((posted.status, posted.text("posted_at")), (200, "2026-12-01T15:00:00.000Z"), "{}", posted.body);
        assert_eq!(days(&bank, &aoi).await, ["20261201", "20261202"]);
        // A refusal of the new day resets at its own end.
        let (_, again) = pay(&bank, &phone, &aoi, &ren, 30_003).await;
        assert_eq!(again, code);
        assert_eq!(bank.balance(&ren).await, 60_002);
        bank.assert_transfers(2).await;
    }
}

#[tokio::test]
async fn a_limit_is_used_up_to_its_last_yen_and_its_last_transfer() {
    let (bank, aoi, ren, phone) = aoi_and_ren(200_000).await;
    bank.change(&aoi, AccountChange { daily_amount_minor: Some(50_000), daily_count: Some(3), ..NOTHING }).await;
    for (amount, expected) in [
        (50_001, (422, "TR012")),
        (30_000, (200, "")),
        (20_001, (422, "TR012")),
        (19_999, (200, "")),
        (1, (200, "")),
        (1, (422, "TR012")),
    ] {
        let (status, code) = pay(&bank, &phone, &aoi, &ren, amount).await;
        assert_eq!((status, code.as_str()), expected, "{amount}");
        bank.next_step();
    }
    // With both used up the amount comes first; with the amount raised, the count is what is left to refuse.
    bank.change(&aoi, AccountChange { daily_amount_minor: Some(60_000), ..NOTHING }).await;
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 1).await, (422, "TR013".to_owned()));
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (150_000, 50_000));
    bank.assert_transfers(3).await;
}

#[tokio::test]
async fn refused_transfers_use_up_no_limit() {
    let (bank, aoi, ren, phone) = aoi_and_ren(40_000).await;
    bank.change(&aoi, AccountChange { daily_count: Some(1), daily_amount_minor: Some(50_000), ..NOTHING }).await;
    for _ in 0..3 {
        assert_eq!(pay(&bank, &phone, &aoi, &ren, 40_001).await, (422, "TR008".to_owned()));
    }
    assert!(days(&bank, &aoi).await.is_empty());
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 40_000).await.0, 200);
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn what_is_received_uses_up_no_limit() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    bank.change(&ren, AccountChange { daily_count: Some(1), daily_amount_minor: Some(10), ..NOTHING }).await;
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 40_000).await.0, 200);
    assert_eq!(pay(&bank, &bank.client(&ren, "s1"), &ren, &aoi, 10).await.0, 200);
    assert_eq!(days(&bank, &aoi).await, ["20261201"]);
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (30_010, 39_990));
    bank.assert_transfers(2).await;
}

#[tokio::test]
async fn allowances_two_days_old_are_removed_and_yesterdays_are_kept() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    for (at, kept) in [
        ("2026-12-01T03:00:00Z", vec!["20261201"]),
        ("2026-12-02T03:00:00Z", vec!["20261201", "20261202"]),
        ("2026-12-03T03:00:00Z", vec!["20261202", "20261203"]),
        ("2026-12-03T14:50:00Z", vec!["20261202", "20261203"]),
        ("2026-12-03T15:00:00Z", vec!["20261203", "20261204"]),
        ("2026-12-31T03:00:00Z", vec!["20261231"]),
    ] {
        bank.set_clock(at);
        assert_eq!(pay(&bank, &phone, &aoi, &ren, 100).await.0, 200, "{at}");
        assert_eq!(days(&bank, &aoi).await, kept, "{at}");
    }
    bank.assert_transfers(6).await;
}

#[tokio::test]
async fn a_changed_limit_moves_what_is_left_of_the_day() {
    let (bank, aoi, ren, phone) = aoi_and_ren(200_000).await;
    let amount = async |limit| bank.change(&aoi, AccountChange { daily_amount_minor: Some(limit), ..NOTHING }).await;
    let left = async || {
        let account = phone.get("/v1/accounts/ac_aoi").await;
        let left = &account.body["left_today"];
        (left["amount_minor"].as_i64().unwrap(), left["count"].as_i64().unwrap())
    };
    amount(100_000).await;
    assert_eq!(left().await, (100_000, 100));
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 60_000).await.0, 200);
    assert_eq!(left().await, (40_000, 99));
    amount(50_000).await; // below what was used: nothing is left, and not less
    assert_eq!(left().await, (0, 99));
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 1).await, (422, "TR012".to_owned()));
    amount(60_000).await;
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 1).await, (422, "TR012".to_owned()));
    bank.next_step();
    amount(70_000).await; // the debt of the lowering is not forgotten
    assert_eq!(left().await, (10_000, 99));
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 10_001).await, (422, "TR012".to_owned()));
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 10_000).await.0, 200);
    assert_eq!(left().await, (0, 98));
    bank.change(&aoi, AccountChange { daily_count: Some(1), daily_amount_minor: Some(100_000), ..NOTHING }).await;
    assert_eq!(left().await, (30_000, 0));
    bank.next_step();
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 1).await, (422, "TR013".to_owned()));
    bank.change(&aoi, AccountChange { daily_count: Some(3), ..NOTHING }).await;
    bank.next_step();
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 1).await.0, 200);
    assert_eq!(left().await, (29_999, 0));
    bank.assert_transfers(3).await;
}

#[tokio::test]
async fn a_limit_of_nothing_lets_nothing_through() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    bank.change(&aoi, AccountChange { daily_amount_minor: Some(0), daily_count: Some(0), ..NOTHING }).await;
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 1).await, (422, "TR012".to_owned()));
    bank.change(&aoi, AccountChange { daily_amount_minor: Some(1), ..NOTHING }).await;
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 1).await, (422, "TR013".to_owned()));
    bank.assert_transfers(0).await;
}

#[tokio::test]
async fn a_clock_that_goes_back_neither_forgets_a_day_nor_brings_an_authorization_from_the_future() {
    let (bank, aoi, ren, phone) = aoi_and_ren(10_000).await;
    bank.change(&aoi, AccountChange { daily_amount_minor: Some(1_000), ..NOTHING }).await;
    let first_day = bank.now().to_string();
    assert_eq!(pay(&bank, &phone, &aoi, &ren, 1_000).await.0, 200);
    bank.advance_s(2 * 24 * 60 * 60);
    let late = phone.authorized(&bank, &key("late"), &transfer(&aoi, &ren, 1_000)).await;
    bank.set_clock(&first_day);
    bank.advance_s(90);
    let refused = phone.confirm(&late.id()).await;
    assert_eq!((refused.status, refused.code(), refused.text("reason")), (403, "AU005", "stale"), "{:?}", refused.body);
    assert_eq!(bank.balance(&aoi).await, 9_000);
    bank.assert_transfers(1).await;
}
