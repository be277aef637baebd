//! `POST /v1/transfers/{request_id}/confirmation`: posting, its refusals, and the authorization that it consumes.

use crate::{
    bank::{Bank, Person, soon},
    client::{Answer, key, transfer},
    look::{aoi_and_ren, requested, text},
};
use serde_json::{Value, json};
use shared::{
    domain::{
        account::{Account, AccountKind, AccountStatus},
        id::{AccountId, RequestId, TransferId, UserId},
        money::{Amount, MAX_MINOR},
    },
    store::accounts::AccountChange,
};

#[tokio::test]
async fn a_confirmed_transfer_moves_the_money_once() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;

    let confirmed = phone.confirm(&authorized.id()).await;

    assert_eq!(confirmed.status, 200, "{:?}", confirmed.body);
    assert_eq!(confirmed.text("result"), "FINANCIAL_COMMITTED");
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (30_000, 40_000));
    bank.assert_transfers(1).await;

    let again = phone.confirm(&authorized.id()).await;
    assert_eq!(again.status, 200);
    assert!(again.is_replayed() && !confirmed.is_replayed());
    assert_eq!(again.body, confirmed.body);
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (30_000, 40_000));
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_posted_instruction_tells_its_transfer_and_its_history() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let answer = requested(&phone, &aoi, &ren, 40_000).await;
    bank.advance_ms(1_500);
    let code = bank.code(&aoi.user, 0);
    let authorized = bank.client(&aoi, "s2").authorize(&answer.id(), &code, answer.text("content_hash")).await;
    bank.advance_ms(1_500);
    let confirmed = bank.client(&aoi, "s2").confirm(&answer.id()).await;

    let mut expected = authorized.body.clone();
    let sessions = [expected["history"][0]["session"].clone(), expected["history"][1]["session"].clone()];
    assert_ne!(sessions[0], sessions[1]);
    let step = |at: &str, step: &str, session| json!({ "at": at, "step": step, "session": session, "code": null });
    expected["history"] = json!([
        step("2026-12-01T03:00:00.000Z", "AWAITING_AUTHORIZATION", &sessions[0]),
        step("2026-12-01T03:00:01.500Z", "AUTHORIZED", &sessions[1]),
        step("2026-12-01T03:00:03.000Z", "COMPLETED", &sessions[1]),
    ]);
    expected["state"] = json!("COMPLETED");
    expected["result"] = json!("FINANCIAL_COMMITTED");
    expected["authorized_until"] = Value::Null;
    expected["posted_at"] = json!("2026-12-01T03:00:03.000Z");
    expected["transfer_id"] = json!(answer.id().replace("ti_", "tr_"));
    assert_eq!(confirmed.body, expected);
    assert_eq!(confirmed.header("location"), format!("/v1/transfers/{}", answer.id()));
    assert_eq!(confirmed.header("cache-control"), "no-store");
    assert_eq!(phone.status(&answer.id()).await.body, expected);
    let books = bank.assert_transfers(1).await;
    let transfer = RequestId::parse(&answer.id()).unwrap().transfer_id();
    assert_eq!(books.outbox[&transfer].len(), 2, "sent and received");
}

#[tokio::test]
async fn the_body_of_a_confirmation_is_empty() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
    let path = format!("/v1/transfers/{}/confirmation", authorized.id());
    let before = bank.snapshot().await;
    let json = ("content-type", "application/json");
    let rows = [
        (&[json][..], r#"{"amount_minor":1}"#, 400),
        (&[json], "[]", 400),
        (&[json], "null", 400),
        (&[json], " ", 400),
        (&[], "{}", 415),
        (&[json], &" ".repeat(16 * 1024 + 1), 413),
    ];
    for (headers, body, status) in rows {
        let refused = phone.send("POST", &path, headers, body.as_bytes()).await;
        refused.assert_problem(status, "TR003", body);
        assert_eq!(refused.body["money_moved"], "unknown", "an authorized one may be on its way");
    }
    bank.assert_unchanged(&before, "a refused confirmation").await;
    assert_eq!(phone.post(&path, &[], &json!({})).await.status, 200);
    assert_eq!(phone.send("POST", &path, &[], b"").await.status, 200);
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn what_is_not_yours_cannot_be_confirmed() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
    let foreign = bank.client(&ren, "s1").confirm(&authorized.id()).await;
    foreign.assert_problem(404, "TR004", "a foreign id");
    for id in [format!("ti_{}", "a".repeat(32)), authorized.id().replace("ti_", "tr_"), "x".to_owned()] {
        assert_eq!(phone.confirm(&id).await.untraced(), foreign.untraced(), "{id}");
    }
    bank.assert_transfers(0).await;
}

/// Breaks a rule of posting after the payer's approval.
async fn break_rule(code: &str, bank: &Bank, aoi: &Person, ren: &Person) {
    let none = AccountChange::default();
    match code {
        "TR006" => bank.change(aoi, AccountChange { status: Some(AccountStatus::Frozen), ..none }).await,
        "TR007" => bank.change(aoi, AccountChange { identity_verified: Some(false), ..none }).await,
        "TR005" => bank.change(ren, AccountChange { status: Some(AccountStatus::Frozen), ..none }).await,
        "TR016" => bank.change(aoi, AccountChange { per_transfer_minor: Some(39_999), ..none }).await,
        "TR012" => bank.change(aoi, AccountChange { daily_amount_minor: Some(39_999), ..none }).await,
        "TR013" => bank.change(aoi, AccountChange { daily_count: Some(0), ..none }).await,
        _ => {}
    }
}

/// Asserts that `refused` is a recorded refusal with `code`: the instruction failed, visibly and for good.
async fn assert_recorded(bank: &Bank, aoi: &Person, refused: &Answer, id: &str, code: &str) {
    refused.assert_problem(422, code, code);
    assert_eq!(refused.text("result"), "NO_POSTING_CONFIRMED", "{code}");
    assert_eq!((&refused.body["money_moved"], refused.text("retry_with")), (&json!(false), "new-key"), "{code}");
    let is_daily = ["TR012", "TR013"].contains(&code);
    assert_eq!(refused.text("resets_at"), if is_daily { "2026-12-02T00:00:00+09:00" } else { "" }, "{code}");
    let phone = bank.client(aoi, "s1");
    let status = phone.status(id).await;
    assert_eq!((status.text("state"), status.text("result")), ("FAILED", "NO_POSTING_CONFIRMED"), "{code}");
    assert_eq!(status.body["failure"]["code"], code);
    assert!(status.body["failure"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    let last = status.body["history"].as_array().unwrap().last().unwrap().clone();
    let session = status.body["history"][1]["session"].clone();
    let at = "2026-12-01T03:00:00.000Z";
    assert_eq!(last, json!({ "at": at, "step": "FAILED", "session": session, "code": code }));
    let books = bank.assert_transfers(0).await;
    let transfer = RequestId::parse(id).unwrap().transfer_id();
    assert_eq!(books.outbox[&transfer].len(), 1, "the failure is told: {code}");
}

#[tokio::test]
async fn posting_refuses_in_its_documented_order_and_the_refusal_sticks() {
    const ORDER: [&str; 7] = ["TR006", "TR007", "TR005", "TR016", "TR008", "TR012", "TR013"];
    for (first, code) in ORDER.into_iter().enumerate() {
        // Each row breaks its own rule and every later one, so the order shows. Funds are broken from the start.
        let broken = &ORDER[first..];
        let balance = if broken.contains(&"TR008") { 39_999 } else { 70_000 };
        let (bank, aoi, ren, phone) = aoi_and_ren(balance).await;
        let body = transfer(&aoi, &ren, 40_000);
        let authorized = phone.authorized(&bank, &key("one"), &body).await;
        for later in broken {
            break_rule(later, &bank, &aoi, &ren).await;
        }
        let id = authorized.id();

        let refused = phone.confirm(&id).await;

        assert_recorded(&bank, &aoi, &refused, &id, code).await;
        // Mending what was broken does not bring it back.
        let mended = AccountChange {
            status: Some(AccountStatus::Active),
            identity_verified: Some(true),
            daily_amount_minor: Some(1_000_000),
            daily_count: Some(100),
            per_transfer_minor: Some(500_000),
        };
        bank.change(&aoi, mended).await;
        bank.change(&ren, mended).await;
        bank.deposit(&aoi, 70_000).await;
        bank.next_step();
        let before = bank.snapshot().await;
        let hash = authorized.text("content_hash");
        for answer in [
            phone.confirm(&id).await,
            phone.request(&key("one"), &body).await,
            phone.authorize(&id, &bank.code(&aoi.user, 0), hash).await,
            phone.cancel(&id).await,
        ] {
            answer.assert_problem(409, "TR010", code);
            assert_eq!((answer.text("result"), answer.text("retry_with")), ("NO_POSTING_CONFIRMED", "new-key"));
        }
        bank.assert_unchanged(&before, code).await;
        let retried = phone.authorized(&bank, &key("two"), &body).await;
        assert_eq!(phone.confirm(&retried.id()).await.status, 200);
        bank.assert_transfers(1).await;
    }
}

#[tokio::test]
async fn a_closed_account_takes_no_part_in_a_posting() {
    for (of_payer, code) in [(true, "TR006"), (false, "TR005")] {
        let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
        let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
        let closed = AccountChange { status: Some(AccountStatus::Closed), ..Default::default() };
        bank.change(if of_payer { &aoi } else { &ren }, closed).await;
        let refused = phone.confirm(&authorized.id()).await;
        assert_recorded(&bank, &aoi, &refused, &authorized.id(), code).await;
        assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (70_000, 0));
    }
}

#[tokio::test]
async fn a_balance_is_filled_to_its_ceiling_and_no_further() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    // One internal account cannot go low enough to fill two customers' accounts.
    let customer = bank.account(&ren).await;
    let internal = Account {
        id: AccountId::parse("internal-2").unwrap(),
        owner: UserId::parse("bank").unwrap(),
        kind: AccountKind::Internal,
        ..customer.clone()
    };
    let (store, amount) = (&bank.app.store, Amount::parse(MAX_MINOR - 40_000).unwrap());
    store.open_account(&internal, soon()).await.unwrap();
    let deposit = TransferId::of_deposit(&ren.account, "nearly all");
    assert!(store.deposit(deposit, &internal, &customer, amount, bank.now(), soon()).await.unwrap());
    let bodies = [transfer(&aoi, &ren, 40_001), transfer(&aoi, &ren, 40_000), transfer(&aoi, &ren, 1)];
    let ids = bank.ready(&phone, &bodies, "ceiling").await;

    let refused = phone.confirm(&ids[0]).await;
    assert_recorded(&bank, &aoi, &refused, &ids[0], "TR005").await;
    assert_eq!(phone.confirm(&ids[1]).await.status, 200);
    assert_eq!(bank.balance(&ren).await, MAX_MINOR);
    assert_eq!(phone.confirm(&ids[2]).await.problem(), (422, "TR005"));
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (30_000, MAX_MINOR));
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn without_a_usable_authorization_nothing_happens_and_the_instruction_stays_open() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let answer = requested(&phone, &aoi, &ren, 40_000).await;
    let (id, hash) = (answer.id(), answer.text("content_hash"));
    let refuse = async |session: &str, reason: &str, money_moved: Value| {
        let before = bank.snapshot().await;
        let refused = bank.client(&aoi, session).confirm(&id).await;
        refused.assert_problem(403, "AU005", reason);
        assert_eq!((refused.text("reason"), refused.text("retry_with")), (reason, "new-authorization"));
        assert_eq!(refused.text("result"), "INSTRUCTION_ACKNOWLEDGED");
        assert_eq!(refused.body["money_moved"], money_moved, "{reason}");
        bank.assert_unchanged(&before, reason).await;
    };
    refuse("s1", "none", json!(false)).await;
    assert_eq!(phone.authorize(&id, &bank.code(&aoi.user, 0), hash).await.status, 200);
    refuse("s2", "other-session", json!("unknown")).await;
    bank.advance_ms(60_001);
    refuse("s1", "stale", json!("unknown")).await;
    refuse("s2", "other-session", json!("unknown")).await;
    // A fresh code, and exactly a minute to use it.
    assert_eq!(phone.authorize(&id, &bank.code(&aoi.user, 0), hash).await.status, 200);
    bank.advance_ms(60_000);
    assert_eq!(phone.confirm(&id).await.status, 200);
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn an_authorization_of_other_content_or_another_kind_posts_nothing() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
    let (user, item) = (format!("USER#{}", aoi.user), format!("INSTRUCTION#{}", authorized.id()));
    let whole = bank.item("core", &user, &item).await;
    bank.set_attribute("core", &user, &item, "auth_content_hash", text("v1:other")).await;
    let refused = phone.confirm(&authorized.id()).await;
    assert_eq!((refused.problem(), refused.text("reason")), ((403, "AU005"), "content-changed"));
    bank.assert_transfers(0).await;
    // One that was made for something else is never taken for a transfer's.
    bank.put_item("core", whole).await;
    bank.set_attribute("core", &user, &item, "auth_kind", text("other")).await;
    assert_ne!(phone.confirm(&authorized.id()).await.status, 200);
    bank.assert_transfers(0).await;
}

#[tokio::test]
async fn what_is_closed_or_past_its_time_is_not_confirmed() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let cancelled = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 1)).await;
    phone.cancel(&cancelled.id()).await;
    let late = requested(&phone, &aoi, &ren, 2).await;
    bank.advance_ms(599_999);
    let code = bank.code(&aoi.user, 0);
    assert_eq!(phone.authorize(&late.id(), &code, late.text("content_hash")).await.status, 200);
    bank.advance_ms(1);
    let before = bank.snapshot().await;
    for (answer, result, money_moved, retry_with) in [
        (&cancelled, "NO_POSTING_CONFIRMED", json!(false), "new-key"),
        (&late, "RESULT_UNKNOWN", json!("unknown"), "same-key"),
    ] {
        let refused = phone.confirm(&answer.id()).await;
        refused.assert_problem(409, "TR010", result);
        let said = (refused.text("result"), &refused.body["money_moved"], refused.text("retry_with"));
        assert_eq!(said, (result, &money_moved, retry_with));
    }
    bank.assert_unchanged(&before, "closed").await;
    bank.assert_transfers(0).await;
}

#[tokio::test]
async fn the_last_millisecond_of_an_instruction_still_posts() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let answer = requested(&phone, &aoi, &ren, 40_000).await;
    bank.advance_ms(599_999);
    let code = bank.code(&aoi.user, 0);
    assert_eq!(phone.authorize(&answer.id(), &code, answer.text("content_hash")).await.status, 200);
    assert_eq!(phone.confirm(&answer.id()).await.status, 200);
    // A posted one is replayed for ever.
    bank.advance_s(100_000);
    let again = phone.confirm(&answer.id()).await;
    assert_eq!((again.status, again.is_replayed(), again.text("result")), (200, true, "FINANCIAL_COMMITTED"));
    assert_eq!(bank.client(&aoi, "s9").confirm(&answer.id()).await.body, again.body);
    bank.assert_transfers(1).await;
}
