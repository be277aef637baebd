//! `GET /v1/transfers/{request_id}` and `GET /v1/transfers?idempotency_key=…`.

use crate::{
    bank::Bank,
    client::{Client, key, transfer},
    look::{aoi_and_ren, number, requested, text},
};
use serde_json::json;

/// The status of `id` and by `key`, which must agree, and leave no trace.
async fn result_of(bank: &Bank, phone: &Client, id: &str, key: &str) -> (String, String) {
    let before = bank.snapshot().await;
    let (by_id, by_key) = (phone.status(id).await, phone.status_by_key(key).await);
    assert_eq!((by_id.status, by_key.status), (200, 200), "{}", by_id.body);
    assert_eq!(by_id.body, by_key.body);
    assert_eq!(by_id.header("location"), format!("/v1/transfers/{id}"));
    assert_eq!(by_id.header("cache-control"), "no-store");
    assert!(!by_id.is_replayed());
    bank.assert_unchanged(&before, "status never writes").await;
    (by_id.text("state").to_owned(), by_id.text("result").to_owned())
}

#[tokio::test]
async fn every_state_has_its_result() {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", 70_000).await, bank.person("ren", 0).await);
    let phone = bank.client(&aoi, "s1");
    let seen = async |answer: &crate::client::Answer, name: &str| {
        let (state, result) = result_of(&bank, &phone, &answer.id(), &key(name)).await;
        format!("{state} {result}")
    };
    let open = phone.request(&key("open"), &transfer(&aoi, &ren, 1)).await;
    assert_eq!(seen(&open, "open").await, "AWAITING_AUTHORIZATION INSTRUCTION_ACKNOWLEDGED");
    let authorized = phone.authorized(&bank, &key("authorized"), &transfer(&aoi, &ren, 2)).await;
    assert_eq!(seen(&authorized, "authorized").await, "AUTHORIZED INSTRUCTION_ACKNOWLEDGED");
    bank.next_step();
    let posted = phone.authorized(&bank, &key("posted"), &transfer(&aoi, &ren, 40_000)).await;
    phone.confirm(&posted.id()).await;
    assert_eq!(seen(&posted, "posted").await, "COMPLETED FINANCIAL_COMMITTED");
    bank.next_step();
    let failed = phone.authorized(&bank, &key("failed"), &transfer(&aoi, &ren, 40_000)).await;
    assert_eq!(phone.confirm(&failed.id()).await.code(), "TR008");
    assert_eq!(seen(&failed, "failed").await, "FAILED NO_POSTING_CONFIRMED");
    let cancelled = phone.request(&key("cancelled"), &transfer(&aoi, &ren, 3)).await;
    phone.cancel(&cancelled.id()).await;
    assert_eq!(seen(&cancelled, "cancelled").await, "CANCELLED NO_POSTING_CONFIRMED");

    // 60 s were used by the steps of the codes.
    bank.advance_ms(539_999);
    assert_eq!(seen(&open, "open").await, "AWAITING_AUTHORIZATION INSTRUCTION_ACKNOWLEDGED");
    bank.advance_ms(1); // past its time, and nobody fenced it
    assert_eq!(seen(&open, "open").await, "AWAITING_AUTHORIZATION RESULT_UNKNOWN");
    assert_eq!(seen(&authorized, "authorized").await, "AUTHORIZED RESULT_UNKNOWN");
    bank.advance_ms(59_999);
    assert_eq!(bank.sweep().await.expired, 0);
    bank.advance_ms(1);
    assert_eq!(bank.sweep().await.expired, 2);
    assert_eq!(seen(&open, "open").await, "EXPIRED NO_POSTING_CONFIRMED");
    assert_eq!(seen(&authorized, "authorized").await, "EXPIRED NO_POSTING_CONFIRMED");
    assert_eq!(seen(&posted, "posted").await, "COMPLETED FINANCIAL_COMMITTED");
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_key_is_looked_up_in_its_canonical_form() {
    let (_, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let body = transfer(&aoi, &ren, 1_000);
    // Quotes, a backslash, and everything that means something in a query.
    let admitted = phone.request(r#""a\"b\\c+d&e=f%g#h;i/j?k""#, &body).await;
    assert_eq!(admitted.status, 201);
    let found = phone.status_by_key("a%22b%5Cc%2Bd%26e%3Df%25g%23h%3Bi%2Fj%3Fk").await;
    assert_eq!((found.status, found.body), (200, admitted.body));
    // The quoted form is a header's syntax; as a parameter it is another key.
    let plain = phone.request("0123456789abcdef", &body).await;
    assert_eq!(phone.status_by_key("0123456789abcdef").await.id(), plain.id());
    phone.status_by_key("%220123456789abcdef%22").await.assert_problem(404, "TR004", "quoted");
}

#[tokio::test]
async fn exactly_one_way_to_name_an_instruction_is_taken() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let admitted = phone.request("0123456789abcdef", &transfer(&aoi, &ren, 1_000)).await;
    let (id, before) = (admitted.id(), bank.snapshot().await);
    let long = "k".repeat(256);
    let rows: Vec<(String, Vec<&str>)> = vec![
        ("/v1/transfers".to_owned(), vec!["?idempotency_key"]),
        ("/v1/transfers?".to_owned(), vec!["?idempotency_key"]),
        ("/v1/transfers?idempotency_key=".to_owned(), vec!["?idempotency_key"]),
        ("/v1/transfers?idempotency_key=0123456789abcde".to_owned(), vec!["?idempotency_key"]),
        (format!("/v1/transfers?idempotency_key={long}"), vec!["?idempotency_key"]),
        ("/v1/transfers?idempotency_key=0123456789+abcdef".to_owned(), vec!["?idempotency_key"]),
        ("/v1/transfers?idempotency_key=0123456789%C3%A9bcdef".to_owned(), vec!["?idempotency_key"]),
        (
            "/v1/transfers?idempotency_key=0123456789abcdef&idempotency_key=0123456789abcdef".to_owned(),
            vec!["?idempotency_key"],
        ),
        ("/v1/transfers?idempotency_key=0123456789abcdef&limit=1".to_owned(), vec!["?limit"]),
        ("/v1/transfers?Idempotency_Key=0123456789abcdef".to_owned(), vec!["?Idempotency_Key"]),
        (format!("/v1/transfers?request_id={id}"), vec!["?request_id"]),
        (format!("/v1/transfers/{id}?idempotency_key=0123456789abcdef"), vec!["?idempotency_key"]),
        (format!("/v1/transfers/{id}?b=1&a=1"), vec!["?a", "?b"]),
    ];
    for (path, places) in rows {
        let refused = phone.get(&path).await;
        refused.assert_problem(400, "TR003", &path);
        let mut found = refused.places();
        found.sort();
        assert_eq!(found, places, "{path}");
    }
    bank.assert_unchanged(&before, "a refused look-up").await;
}

#[tokio::test]
async fn what_is_unknown_and_what_is_not_yours_look_alike() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let admitted = phone.request(&key("one"), &transfer(&aoi, &ren, 1_000)).await;
    let other = bank.client(&ren, "s1");
    let foreign = other.status(&admitted.id()).await;
    foreign.assert_problem(404, "TR004", "a foreign id");
    assert_eq!(foreign.body["money_moved"], false);
    let suffix = "a".repeat(32);
    for path in [
        format!("/v1/transfers/ti_{suffix}"),
        format!("/v1/transfers/tr_{suffix}"),
        format!("/v1/transfers/{}", admitted.id().to_uppercase()),
        "/v1/transfers/ti_".to_owned(),
        "/v1/transfers/%20".to_owned(),
        format!("/v1/transfers?idempotency_key={}", key("one")),
        format!("/v1/transfers?idempotency_key={}", key("two")),
    ] {
        let unknown = other.get(&path).await;
        assert_eq!((unknown.status, &unknown.headers), (404, &foreign.headers), "{path}");
        assert_eq!(unknown.untraced(), foreign.untraced(), "{path}");
    }
}

#[tokio::test]
async fn a_posting_whose_journal_does_not_agree_is_unknown() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let posted = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
    phone.confirm(&posted.id()).await;
    let pk = format!("TRANSFER#{}", posted.id().replace("ti_", "tr_"));
    let journal = bank.item("ledger", &pk, "JOURNAL").await;
    let (other_id, other_transfer) = (format!("ti_{}", "a".repeat(32)), format!("tr_{}", "a".repeat(32)));
    for (attribute, value) in [
        ("amount_minor", number(40_001)),
        ("currency_code", text("USD")),
        ("source_account_id", text("ac_emi")),
        ("destination_account_id", text("ac_emi")),
        ("request_id", text(&other_id)),
        ("transfer_id", text(&other_transfer)),
    ] {
        bank.set_attribute("ledger", &pk, "JOURNAL", attribute, value).await;
        let seen = result_of(&bank, &phone, &posted.id(), &key("one")).await;
        assert_eq!(seen, ("COMPLETED".to_owned(), "RESULT_UNKNOWN".to_owned()), "{attribute}");
        bank.put_item("ledger", journal.clone()).await;
    }
    bank.remove_attribute("ledger", &pk, "JOURNAL", "request_id").await;
    assert_eq!(result_of(&bank, &phone, &posted.id(), &key("one")).await.1, "RESULT_UNKNOWN");
    bank.remove_item("ledger", &pk, "JOURNAL").await;
    assert_eq!(result_of(&bank, &phone, &posted.id(), &key("one")).await.1, "RESULT_UNKNOWN");
    bank.put_item("ledger", journal).await;
    assert_eq!(result_of(&bank, &phone, &posted.id(), &key("one")).await.1, "FINANCIAL_COMMITTED");
}

#[tokio::test]
async fn a_journal_beside_an_instruction_that_was_not_posted_is_unknown() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let posted = phone.authorized(&bank, &key("posted"), &transfer(&aoi, &ren, 40_000)).await;
    phone.confirm(&posted.id()).await;
    bank.next_step();
    let failed = phone.authorized(&bank, &key("failed"), &transfer(&aoi, &ren, 40_000)).await;
    assert_eq!(phone.confirm(&failed.id()).await.code(), "TR008");
    let cancelled = phone.request(&key("cancelled"), &transfer(&aoi, &ren, 40_000)).await;
    phone.cancel(&cancelled.id()).await;
    let open = phone.request(&key("open"), &transfer(&aoi, &ren, 40_000)).await;
    let suffix = |id: &str| id.replace("ti_", "tr_");
    let journal = bank.item("ledger", &format!("TRANSFER#{}", suffix(&posted.id())), "JOURNAL").await;
    for (answer, name, state) in [
        (&failed, "failed", "FAILED"),
        (&cancelled, "cancelled", "CANCELLED"),
        (&open, "open", "AWAITING_AUTHORIZATION"),
    ] {
        let mut stray = journal.clone();
        stray.insert("pk".to_owned(), text(&format!("TRANSFER#{}", suffix(&answer.id()))));
        stray.insert("transfer_id".to_owned(), text(&suffix(&answer.id())));
        stray.insert("request_id".to_owned(), text(&answer.id()));
        bank.put_item("ledger", stray).await;
        let seen = result_of(&bank, &phone, &answer.id(), &key(name)).await;
        assert_eq!(seen, (state.to_owned(), "RESULT_UNKNOWN".to_owned()));
    }
}

#[tokio::test]
async fn a_look_up_tells_no_more_than_the_resource() {
    let (_, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let answer = requested(&phone, &aoi, &ren, 40_000).await;
    let seen = phone.status(&answer.id()).await;
    assert_eq!(seen.body, answer.body);
    assert_eq!(seen.body.as_object().unwrap().len(), 18);
    assert_eq!(seen.body["code"], json!(null));
}
