//! `GET /v1/accounts`, `GET /v1/accounts/{id}` and `GET /v1/accounts/{id}/entries`.

use crate::{
    bank::{Bank, Person, soon},
    client::{Client, key, transfer},
    look::aoi_and_ren,
};
use serde_json::{Value, json};
use shared::{
    domain::{
        account::{Account, AccountStatus},
        id::AccountId,
        money::Currency,
    },
    store::accounts::AccountChange,
};

fn shown(id: &str, name: &str, balance: i64, left: (i64, i64)) -> Value {
    json!({
        "account_id": id,
        "holder_name": name,
        "currency": "JPY",
        "balance_minor": balance,
        "status": "ACTIVE",
        "limits": {
            "daily_amount_limit_minor": 1_000_000,
            "daily_count_limit": 100,
            "per_transfer_limit_minor": 500_000,
        },
        "left_today": { "amount_minor": left.0, "count": left.1 },
    })
}

/// Posts `amounts` from one person to another, each in its own second.
async fn pay(bank: &Bank, phone: &Client, from: &Person, to: &Person, amounts: impl IntoIterator<Item = i64>) {
    for amount in amounts {
        bank.next_step();
        let name = key(&format!("{amount}-{}", bank.now()));
        let authorized = phone.authorized(bank, &name, &transfer(from, to, amount)).await;
        assert_eq!(phone.confirm(&authorized.id()).await.status, 200);
    }
}

#[tokio::test]
async fn own_accounts_are_listed_and_shown() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let first = shown("ac_aoi", "aoi", 70_000, (1_000_000, 100));
    let listed = phone.get("/v1/accounts").await;
    assert_eq!((listed.status, listed.header("cache-control")), (200, "no-store"));
    assert_eq!(listed.body, json!({ "accounts": [first] }));
    assert_eq!(phone.get("/v1/accounts/ac_aoi").await.body, first);

    let second = Account {
        id: AccountId::parse("ac_aoi-2").unwrap(),
        currency: Currency::parse("USD").unwrap(),
        ..bank.account(&aoi).await
    };
    assert!(bank.app.store.open_account(&second, soon()).await.unwrap());
    bank.change(&aoi, AccountChange { status: Some(AccountStatus::Frozen), ..Default::default() }).await;
    let accounts = phone.get("/v1/accounts").await.body["accounts"].clone();
    let facts = |account: &Value| {
        ["account_id", "currency", "status"].map(|member| account[member].as_str().unwrap().to_owned())
    };
    let listed: Vec<_> = accounts.as_array().unwrap().iter().map(facts).collect();
    assert_eq!(listed, [["ac_aoi", "JPY", "FROZEN"], ["ac_aoi-2", "USD", "ACTIVE"]]);
    assert_eq!(bank.client(&ren, "s1").get("/v1/accounts").await.body["accounts"].as_array().unwrap().len(), 1);
    let stranger = shared::domain::id::UserId::parse("nobody").unwrap();
    assert_eq!(bank.client_of(&stranger, "s1").get("/v1/accounts").await.body, json!({ "accounts": [] }));
}

#[tokio::test]
async fn what_is_left_of_today_shrinks_with_each_debit_and_grows_back_at_midnight() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    pay(&bank, &phone, &aoi, &ren, [10_000, 20_000]).await;
    assert_eq!(phone.get("/v1/accounts/ac_aoi").await.body, shown("ac_aoi", "aoi", 40_000, (970_000, 98)));
    let of_ren = bank.client(&ren, "s1").get("/v1/accounts/ac_ren").await;
    assert_eq!(of_ren.body, shown("ac_ren", "ren", 30_000, (1_000_000, 100)));
    bank.set_clock("2026-12-01T14:59:59.999Z");
    assert_eq!(phone.get("/v1/accounts/ac_aoi").await.body["left_today"]["count"], 98);
    bank.advance_ms(1);
    assert_eq!(phone.get("/v1/accounts/ac_aoi").await.body["left_today"]["count"], 100);
    // Lowered below what was used yesterday, today is untouched by that.
    let lowered = AccountChange { daily_amount_minor: Some(5), daily_count: Some(1), ..Default::default() };
    bank.change(&aoi, lowered).await;
    assert_eq!(phone.get("/v1/accounts/ac_aoi").await.body["left_today"], json!({ "amount_minor": 5, "count": 1 }));
    bank.set_clock("2026-12-01T14:59:59.999Z");
    assert_eq!(
        phone.get("/v1/accounts/ac_aoi").await.body["left_today"],
        json!({ "amount_minor": 0, "count": 0 }),
        "nothing is left, and not less"
    );
}

#[tokio::test]
async fn a_statement_shows_the_newest_first_with_the_other_side() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let of_ren = bank.client(&ren, "s1");
    pay(&bank, &phone, &aoi, &ren, [40_000]).await;
    pay(&bank, &of_ren, &ren, &aoi, [15_000]).await;
    let page = phone.get("/v1/accounts/ac_aoi/entries").await;
    assert_eq!((page.status, page.header("cache-control")), (200, "no-store"));
    assert_eq!(page.body["next_cursor"], Value::Null);
    let entries = page.body["entries"].as_array().unwrap();
    let line = |entry: &Value, direction: &str, amount: i64, name: &str, memo: &str, at: &str| {
        assert!(entry["transfer_id"].as_str().is_some_and(|id| id.starts_with("tr_")), "{entry}");
        let expected = json!({
            "transfer_id": entry["transfer_id"],
            "direction": direction,
            "amount_minor": amount,
            "currency": "JPY",
            "counterparty_name": name,
            "memo": memo,
            "posted_at": at,
        });
        assert_eq!(*entry, expected);
    };
    assert_eq!(entries.len(), 3);
    line(&entries[0], "CREDIT", 15_000, "Aoi", "rent", "2026-12-01T03:01:00.000Z");
    line(&entries[1], "DEBIT", 40_000, "ren", "rent", "2026-12-01T03:00:30.000Z");
    line(&entries[2], "CREDIT", 70_000, "furikomi", "", "2026-12-01T03:00:00.000Z");
    assert_ne!(entries[0]["transfer_id"], entries[1]["transfer_id"]);
    let of_ren = of_ren.get("/v1/accounts/ac_ren/entries").await;
    assert_eq!(of_ren.body["entries"][1]["transfer_id"], entries[1]["transfer_id"], "two legs of one transfer");
    assert_eq!(of_ren.body["entries"].as_array().unwrap().len(), 2);
}

/// The pages of Aoi's statement at a limit, each as the amounts of its entries.
async fn pages(phone: &Client, limit: usize) -> Vec<Vec<i64>> {
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = phone.get(&format!("/v1/accounts/ac_aoi/entries?limit={limit}{cursor}")).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let amount = |entry: &Value| entry["amount_minor"].as_i64().unwrap();
        pages.push(page.body["entries"].as_array().unwrap().iter().map(amount).collect());
        let Some(next) = page.body["next_cursor"].as_str() else { return pages };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn a_statement_is_paged_without_gap_or_repeat() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    // Six entries of one millisecond, whose order is told by their ids, and two later ones.
    for amount in [1, 2, 3, 4, 5] {
        bank.deposit(&aoi, amount).await;
    }
    bank.advance_s(1);
    pay(&bank, &phone, &aoi, &ren, [100, 200]).await;
    let all = pages(&phone, 100).await.remove(0);
    assert_eq!((all.len(), &all[..2]), (8, &[200, 100][..]));
    for limit in [1, 2, 3, 5, 7, 8] {
        let pages = pages(&phone, limit).await;
        assert_eq!(pages.concat(), all, "at {limit}");
        assert_eq!(pages.len(), 8_usize.div_ceil(limit), "no page is empty at {limit}: {pages:?}");
        assert!(pages.iter().all(|page| page.len() <= limit && !page.is_empty()), "{pages:?}");
    }
}

#[tokio::test]
async fn a_page_holds_twenty_unless_it_is_told() {
    let (bank, aoi, _, phone) = aoi_and_ren(70_000).await;
    for amount in 1..=20 {
        bank.deposit(&aoi, amount).await;
    }
    let page = phone.get("/v1/accounts/ac_aoi/entries").await;
    assert_eq!(page.body["entries"].as_array().unwrap().len(), 20);
    let cursor = page.text("next_cursor");
    // What is posted meanwhile is newer, and shifts nothing.
    bank.advance_s(1);
    bank.deposit(&aoi, 21).await;
    let rest = phone.get(&format!("/v1/accounts/ac_aoi/entries?cursor={cursor}")).await;
    assert_eq!(rest.body["entries"].as_array().unwrap().len(), 1);
    assert_eq!(rest.body["next_cursor"], Value::Null);
}

#[tokio::test]
async fn what_is_no_page_of_this_statement_is_refused() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    bank.deposit(&aoi, 1).await;
    bank.deposit(&ren, 1).await;
    bank.deposit(&ren, 1).await;
    let mine = phone.get("/v1/accounts/ac_aoi/entries?limit=1").await.text("next_cursor").to_owned();
    let of_ren = bank.client(&ren, "s1").get("/v1/accounts/ac_ren/entries?limit=1").await;
    let foreign = of_ren.text("next_cursor").to_owned();
    assert!(!mine.is_empty() && !foreign.is_empty());
    let (first, last) = (&mine[..1], &mine[mine.len() - 1..]);
    let other = |c: &str| if c == "A" { "B" } else { "A" };
    let cursors = [
        foreign,
        String::new(),
        "x".to_owned(),
        mine[1..].to_owned(),
        format!("{mine}A"),
        format!("{}{}", other(first), &mine[1..]),
        format!("{}{}", &mine[..mine.len() - 1], other(last)),
        format!("{mine}%3D"),
        "RU5UUlkj".to_owned(),
        "A".repeat(5_000),
    ];
    for cursor in cursors {
        let refused = phone.get(&format!("/v1/accounts/ac_aoi/entries?cursor={cursor}")).await;
        refused.assert_problem(400, "TR003", &cursor);
        assert_eq!(refused.places(), ["?cursor"], "{cursor}");
    }
    for limit in ["0", "101", "-1", "1.5", "1e1", "01", "+1", "%2B1", "", "x", "99999999999999999999", "%EF%BC%91"] {
        let refused = phone.get(&format!("/v1/accounts/ac_aoi/entries?limit={limit}")).await;
        refused.assert_problem(400, "TR003", limit);
        assert_eq!(refused.places(), ["?limit"], "{limit}");
    }
    for (query, places) in [
        ("limit=1&limit=1", vec!["?limit"]),
        (&format!("cursor={mine}&cursor={mine}"), vec!["?cursor"]),
        ("limit=0&cursor=x", vec!["?cursor", "?limit"]),
        ("offset=1&page=2", vec!["?offset", "?page"]),
    ] {
        let refused = phone.get(&format!("/v1/accounts/ac_aoi/entries?{query}")).await;
        refused.assert_problem(400, "TR003", query);
        let mut found = refused.places();
        found.sort();
        assert_eq!(found, places, "{query}");
    }
    for path in ["/v1/accounts?limit=1", "/v1/accounts/ac_aoi?limit=1"] {
        assert_eq!(phone.get(path).await.places(), ["?limit"], "{path}");
    }
    for limit in [1, 100] {
        assert_eq!(phone.get(&format!("/v1/accounts/ac_aoi/entries?limit={limit}")).await.status, 200);
    }
    assert_eq!(phone.get(&format!("/v1/accounts/ac_aoi/entries?cursor={mine}")).await.status, 200);
}

#[tokio::test]
async fn an_account_that_is_not_yours_is_not_there() {
    let (_, _, _, phone) = aoi_and_ren(70_000).await;
    for tail in ["", "/entries"] {
        let foreign = phone.get(&format!("/v1/accounts/ac_ren{tail}")).await;
        foreign.assert_problem(404, "TR004", tail);
        for id in ["ac_nobody", "internal-JPY", "x%20y", "%23", "ac_aoi%23ENTRY", &"a".repeat(65)] {
            let unknown = phone.get(&format!("/v1/accounts/{id}{tail}")).await;
            assert_eq!((unknown.status, &unknown.headers), (404, &foreign.headers), "{id}");
            assert_eq!(unknown.untraced(), foreign.untraced(), "{id}");
        }
    }
}

#[tokio::test]
async fn reading_accounts_writes_nothing() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    pay(&bank, &phone, &aoi, &ren, [1]).await;
    let before = bank.snapshot().await;
    for path in ["/v1/accounts", "/v1/accounts/ac_aoi", "/v1/accounts/ac_aoi/entries?limit=1"] {
        assert_eq!(phone.get(path).await.status, 200);
    }
    bank.assert_unchanged(&before, "a read").await;
}

#[tokio::test]
async fn an_account_may_be_called_like_a_part_of_a_route() {
    let bank = Bank::new().await;
    let aoi = bank.person("aoi", 70_000).await;
    let named = Account { id: AccountId::parse("entries").unwrap(), ..bank.account(&aoi).await };
    assert!(bank.app.store.open_account(&named, soon()).await.unwrap());
    let phone = bank.client(&aoi, "s1");
    assert_eq!(phone.get("/v1/accounts/entries").await.text("account_id"), "entries");
    assert_eq!(phone.get("/v1/accounts/entries/entries").await.body["entries"], json!([]));
}
