//! `POST /v1/transfers`: keys, replays, and the order of refusals.

use crate::{
    bank::{Bank, Person},
    client::{key, transfer},
    look::aoi_and_ren,
};
use serde_json::{Value, json};
use shared::{domain::account::AccountStatus, store::accounts::AccountChange};

#[tokio::test]
async fn an_admitted_instruction_is_shown_whole() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;

    let admitted = phone.request(&key("one"), &transfer(&aoi, &ren, 40_000)).await;

    assert_eq!(admitted.status, 201);
    assert!(!admitted.is_replayed());
    assert_eq!(admitted.header("content-type"), "application/json");
    assert_eq!(admitted.header("cache-control"), "no-store");
    assert_eq!(admitted.header("location"), format!("/v1/transfers/{}", admitted.id()));
    let (hash, session) = (admitted.text("content_hash"), admitted.body["history"][0]["session"].clone());
    assert!(admitted.id().starts_with("ti_") && admitted.id().len() == 35, "{}", admitted.id());
    assert!(hash.starts_with("v1:") && hash.len() == 67, "{hash}");
    assert!(session.as_str().is_some_and(|masked| !masked.is_empty() && masked != "s1"), "{session}");
    assert_eq!(
        admitted.body,
        json!({
            "request_id": admitted.id(),
            "result": "INSTRUCTION_ACKNOWLEDGED",
            "state": "AWAITING_AUTHORIZATION",
            "source_account_id": "ac_aoi",
            "destination_account_id": "ac_ren",
            "destination_name": "ren",
            "amount_minor": 40_000,
            "currency": "JPY",
            "requester_name": "Aoi",
            "memo": "rent",
            "content_hash": hash,
            "created_at": "2026-12-01T03:00:00.000Z",
            "expires_at": "2026-12-01T03:10:00.000Z",
            "authorized_until": null,
            "transfer_id": null,
            "posted_at": null,
            "failure": null,
            "history": [{
                "at": "2026-12-01T03:00:00.000Z",
                "step": "AWAITING_AUTHORIZATION",
                "session": session,
                "code": null,
            }],
        })
    );
    let books = bank.assert_transfers(0).await;
    assert_eq!(books.instructions.len(), 1);
    assert_eq!(bank.balance(&aoi).await, 70_000);
}

#[tokio::test]
async fn a_replay_answers_the_stored_instruction_and_writes_nothing() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let body = transfer(&aoi, &ren, 40_000);
    let admitted = phone.request(&key("one"), &body).await;
    let before = bank.snapshot().await;
    bank.advance_s(5);

    for session in ["s1", "s2"] {
        let replayed = bank.client(&aoi, session).request(&key("one"), &body).await;
        assert_eq!((replayed.status, replayed.is_replayed()), (200, true));
        assert_eq!(replayed.body, admitted.body);
        assert_eq!(replayed.header("location"), admitted.header("location"));
        assert_eq!(replayed.header("cache-control"), "no-store");
    }

    bank.assert_unchanged(&before, "a replay").await;
}

#[tokio::test]
async fn a_key_belongs_to_its_user() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    bank.deposit(&ren, 70_000).await;
    let of_aoi = phone.request(&key("one"), &transfer(&aoi, &ren, 1_000)).await;
    let of_ren = bank.client(&ren, "s1").request(&key("one"), &transfer(&ren, &aoi, 1_000)).await;
    assert_eq!((of_aoi.status, of_ren.status), (201, 201));
    assert_ne!(of_aoi.id(), of_ren.id());
    assert_eq!(bank.assert_transfers(0).await.instructions.len(), 2);
}

#[tokio::test]
async fn a_key_is_one_key_bare_and_quoted() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let body = transfer(&aoi, &ren, 1_000);
    for (index, (bare, quoted)) in [
        ("0123456789abcdef", r#""0123456789abcdef""#),
        (r#"0123456789"abcdef"#, r#""0123456789\"abcdef""#),
        (r"0123456789\abcdef", r#""0123456789\\abcdef""#),
    ]
    .into_iter()
    .enumerate()
    {
        let first = phone.request(bare, &body).await;
        let second = phone.request(quoted, &body).await;
        assert_eq!((first.status, second.status), (201, 200), "{bare}");
        assert_eq!(first.id(), second.id(), "{bare}");
        assert_eq!(bank.books().await.instructions.len(), index + 1);
    }
}

#[tokio::test]
async fn a_missing_malformed_or_repeated_key_is_refused() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let (body, before) = (transfer(&aoi, &ren, 1_000), bank.snapshot().await);
    let (long, longest_quoted) = ("k".repeat(256), format!("\"{}\"", "k".repeat(256)));
    let rows: &[(&[&str], &str)] = &[
        (&[], "TR001"),
        (&[""], "TR002"),
        (&["   "], "TR002"),
        (&["0123456789abcde"], "TR002"),
        (&[&long], "TR002"),
        (&[&longest_quoted], "TR002"),
        (&["\"0123456789abcde\""], "TR002"),
        (&["0123456789 abcdef"], "TR002"),
        (&["0123456789\tabcdef"], "TR002"),
        (&["0123456789abcdéf"], "TR002"),
        (&["\"0123456789abcdef"], "TR002"),
        (&["\"0123456789abcdef\"x"], "TR002"),
        (&["\"0123456789\"abcdef\""], "TR002"),
        (&[r#""0123456789\abcdef""#], "TR002"),
        (&[r#""0123456789abcdef\"#], "TR002"),
        (&["\"0123456789abcdef\";p=1"], "TR002"),
        (&["0123456789abcdef", "0123456789abcdef"], "TR002"),
        (&["0123456789abcdef", ""], "TR002"),
        (&["", ""], "TR002"),
    ];
    for (keys, code) in rows {
        let headers: Vec<(&str, &str)> = keys.iter().map(|key| ("idempotency-key", *key)).collect();
        let refused = phone.post("/v1/transfers", &headers, &body).await;
        refused.assert_problem(400, code, &format!("{keys:?}"));
        // An earlier send may have had the right key.
        assert_eq!(refused.body["money_moved"], "unknown", "{keys:?}");
        assert_eq!(refused.text("retry_with"), "same-key", "{keys:?}");
    }
    bank.assert_unchanged(&before, "a refused key").await;
}

#[tokio::test]
async fn the_shortest_and_the_longest_key_are_taken() {
    let (_, aoi, ren, phone) = aoi_and_ren(70_000).await;
    for length in [16, 255] {
        let key = "~".repeat(length);
        assert_eq!(phone.request(&key, &transfer(&aoi, &ren, 1_000)).await.status, 201, "{length}");
        assert_eq!(phone.request(&format!("\"{key}\""), &transfer(&aoi, &ren, 1_000)).await.status, 200, "{length}");
    }
}

#[tokio::test]
async fn a_key_with_other_content_is_refused_and_the_original_untouched() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let (emi, body) = (bank.person("emi", 0).await, transfer(&aoi, &ren, 40_000));
    let admitted = phone.request(&key("one"), &body).await;
    let before = bank.snapshot().await;
    for (member, value) in [
        ("source_account_id", json!(emi.account.as_str())),
        ("destination_account_id", json!(emi.account.as_str())),
        ("amount_minor", json!(40_001)),
        ("currency", json!("USD")),
        ("requester_name", json!("aoi")),
        ("memo", json!("rent!")),
        ("memo", Value::Null),
    ] {
        let mut other = body.clone();
        match value {
            Value::Null => drop(other.as_object_mut().unwrap().remove(member)),
            value => other[member] = value,
        }
        let refused = phone.request(&key("one"), &other).await;
        refused.assert_problem(422, "TR009", member);
        assert_eq!(refused.text("result"), "INSTRUCTION_ACKNOWLEDGED", "{member}");
        assert_eq!((&refused.body["money_moved"], refused.text("retry_with")), (&json!(false), "new-key"), "{member}");
    }
    bank.assert_unchanged(&before, "TR009").await;
    assert_eq!(phone.request(&key("one"), &body).await.body, admitted.body);
}

#[tokio::test]
async fn a_key_of_a_closed_instruction_says_so_and_asks_for_a_new_one() {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", 1_000).await, bank.person("ren", 0).await);
    let (phone, body) = (bank.client(&aoi, "s1"), transfer(&aoi, &ren, 40_000));
    let failed = phone.authorized(&bank, &key("failed"), &body).await;
    phone.confirm(&failed.id()).await.assert_problem(422, "TR008", "without funds");
    let cancelled = phone.request(&key("cancelled"), &body).await;
    assert_eq!(phone.cancel(&cancelled.id()).await.status, 200);
    assert_eq!(phone.request(&key("expired"), &body).await.status, 201);
    bank.advance_s(660);
    assert_eq!(bank.sweep().await.expired, 1);
    let before = bank.snapshot().await;

    for name in ["failed", "cancelled", "expired"] {
        let refused = phone.request(&key(name), &body).await;
        refused.assert_problem(409, "TR010", name);
        assert_eq!(refused.text("result"), "NO_POSTING_CONFIRMED", "{name}");
        assert_eq!((&refused.body["money_moved"], refused.text("retry_with")), (&json!(false), "new-key"), "{name}");
        phone.request(&key(name), &transfer(&aoi, &ren, 1)).await.assert_problem(422, "TR009", name);
    }
    bank.assert_unchanged(&before, "a closed key").await;
    bank.assert_transfers(0).await;
}

#[tokio::test]
async fn a_replay_tells_how_far_the_instruction_has_come() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let body = transfer(&aoi, &ren, 40_000);
    let authorized = phone.authorized(&bank, &key("posted"), &body).await;
    assert_eq!(phone.request(&key("posted"), &body).await.body, authorized.body);
    let posted = phone.confirm(&authorized.id()).await;
    let replayed = phone.request(&key("posted"), &body).await;
    assert_eq!((replayed.status, replayed.body), (200, posted.body));
    phone.request(&key("late"), &body).await;
    bank.advance_s(600);
    let late = phone.request(&key("late"), &body).await;
    assert_eq!((late.status, late.text("result")), (200, "RESULT_UNKNOWN"));
    let reused = phone.request(&key("posted"), &transfer(&aoi, &ren, 1)).await;
    assert_eq!((reused.code(), &reused.body["money_moved"]), ("TR009", &json!(true)));
    bank.assert_transfers(1).await;
}

/// Breaks one rule of admission, in the account or in the body.
async fn break_rule(code: &str, bank: &Bank, aoi: &Person, ren: &Person, body: &mut Value) {
    let phone = bank.client(aoi, "s1");
    match code {
        "TR004" => body["source_account_id"] = json!("ac_ren"),
        "TR006" => bank.change(aoi, AccountChange { status: Some(AccountStatus::Frozen), ..Default::default() }).await,
        "TR007" => bank.change(aoi, AccountChange { identity_verified: Some(false), ..Default::default() }).await,
        "TR014" => body["destination_account_id"] = body["source_account_id"].clone(),
        "TR005" => bank.change(ren, AccountChange { status: Some(AccountStatus::Closed), ..Default::default() }).await,
        "TR015" => body["currency"] = json!("USD"),
        "TR016" => body["amount_minor"] = json!(500_001),
        _ => {
            for index in 0..5 {
                assert_eq!(phone.request(&key(&format!("{index}")), &transfer(aoi, ren, 1)).await.status, 201);
            }
        }
    }
}

#[tokio::test]
async fn admission_refuses_in_its_documented_order() {
    const ORDER: [&str; 8] = ["TR004", "TR006", "TR007", "TR014", "TR005", "TR015", "TR016", "TR011"];
    for (first, code) in ORDER.into_iter().enumerate() {
        let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
        let mut body = transfer(&aoi, &ren, 40_000);
        // Each row breaks its own rule and every later one, so the order shows.
        for later in ORDER[first..].iter().rev() {
            break_rule(later, &bank, &aoi, &ren, &mut body).await;
        }
        let before = bank.snapshot().await;

        let refused = phone.request(&key("refused"), &body).await;

        let status = [404, 422, 429][usize::from(first > 0) + usize::from(code == "TR011")];
        refused.assert_problem(status, code, code);
        assert_eq!((&refused.body["money_moved"], &refused.body["result"]), (&json!(false), &Value::Null), "{code}");
        bank.assert_unchanged(&before, code).await;
    }
}

#[tokio::test]
async fn accounts_that_cannot_take_part_are_refused() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let abroad = bank.person_in("bob", 0, "USD").await;
    let internal = json!("internal-JPY");
    let before = bank.snapshot().await;
    for (member, value, code) in [
        ("source_account_id", json!("ac_nobody"), "TR004"),
        ("source_account_id", internal.clone(), "TR004"),
        ("destination_account_id", json!("ac_nobody"), "TR005"),
        ("destination_account_id", internal, "TR005"),
        ("destination_account_id", json!(abroad.account.as_str()), "TR015"),
        ("currency", json!("EUR"), "TR015"),
        ("amount_minor", json!(500_001), "TR016"),
        ("amount_minor", json!(9_007_199_254_740_991_i64), "TR016"),
    ] {
        let mut body = transfer(&aoi, &ren, 40_000);
        body[member] = value;
        let refused = phone.request(&key("one"), &body).await;
        assert_eq!(refused.code(), code, "{body}");
    }
    bank.assert_unchanged(&before, "a refused admission").await;
    // The key is still free: nothing was admitted under it.
    assert_eq!(phone.request(&key("one"), &transfer(&aoi, &ren, 500_000)).await.status, 201);
}

#[tokio::test]
async fn a_source_that_is_not_yours_looks_like_one_that_is_not_there() {
    let (_, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let mut answers = Vec::new();
    for source in ["ac_ren", "ac_nobody"] {
        let mut body = transfer(&aoi, &ren, 1);
        body["source_account_id"] = json!(source);
        let answer = phone.request(&key("one"), &body).await;
        answers.push((answer.status, answer.headers.clone(), answer.untraced()));
    }
    assert_eq!(answers[0], answers[1]);
}
