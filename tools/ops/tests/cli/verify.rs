//! `ops verify`: what it says of good books, of bad ones, and of books that are being written.

use crate::stand::Stand;
use aws_sdk_dynamodb::types::AttributeValue;
use ops::{cli::Verify, commands::verify::check, ops::Ops};
use serde_json::Value;
use shared::{domain::invariants::violations, store::survey::Survey};

const VERIFY: &str = "verify --settle 0 --json";

fn texts(report: &Value, name: &str) -> Vec<String> {
    report[name].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

impl Stand {
    /// Writes an attribute past all rules.
    async fn tamper(&self, table: &str, (pk, sk): (&str, &str), attribute: &str, value: AttributeValue) {
        let key = |text: &str| AttributeValue::S(text.to_owned());
        let update = self.client.update_item().table_name(table).key("pk", key(pk)).key("sk", key(sk));
        let update = update.update_expression("SET #name = :value").expression_attribute_names("#name", attribute);
        update.expression_attribute_values(":value", value).send().await.unwrap();
    }
}

fn number(value: &str) -> AttributeValue {
    AttributeValue::N(value.to_owned())
}

#[tokio::test]
async fn good_books_are_in_order() {
    let stand = Stand::new().await;
    assert_eq!(stand.done("verify").await["counts"]["accounts"], 0, "an empty bank too");
    stand.customer("aoi", 1_000).await;
    stand.customer("ren", 0).await;
    stand.transfer("aoi", "ren", 400, 1).await;
    stand.transfer("aoi", "ren", 5_000, 0).await;
    let report = stand.done("verify --grace 1h").await;
    assert_eq!(report["ok"], true);
    assert_eq!(report["balance_sum_minor"]["JPY"], 0);
    let counts = &report["counts"];
    assert_eq!((&counts["accounts"], &counts["instructions"]), (&Value::from(3), &Value::from(2)));
    assert_eq!((&counts["transfers"], &counts["deposits"]), (&Value::from(1), &Value::from(1)));
    assert_eq!((&counts["entries"], &counts["outbox_items"]), (&Value::from(4), &Value::from(2)));
    assert_eq!(report["events_without_inbox"], Value::from(Vec::<Value>::new()));
    let text = stand.run("verify --grace 1h").await;
    assert_eq!(text.code, 0);
    assert!(text.out.contains("the books are in order"), "{text:?}");
    assert_eq!(text.err, "", "no bar where there is no terminal");
}

#[tokio::test]
async fn a_tampered_balance_is_named() {
    let stand = Stand::new().await;
    stand.customer("aoi", 1_000).await;
    stand.customer("ren", 0).await;
    stand.tamper("ledger", ("ACCOUNT#ac_ren", "ACCOUNT"), "balance_minor", number("7")).await;
    let report = stand.run(VERIFY).await;
    assert_eq!(report.code, 1);
    let report = report.json();
    assert_eq!(report["ok"], false);
    assert_eq!(
        texts(&report, "violations"),
        ["ac_ren has balance 7 and entries of 0", "balances in JPY sum to 7"],
        "{report}"
    );
    let text = stand.run("verify --settle 0").await;
    assert!(text.code == 1 && text.out.contains("VIOLATION  ac_ren has balance 7"), "{text:?}");
}

#[tokio::test]
async fn a_lost_journal_a_lost_entry_and_a_lost_outbox_item_are_named() {
    let stand = Stand::new().await;
    stand.customer("aoi", 1_000).await;
    stand.customer("ren", 0).await;
    let transfer = stand.transfer("aoi", "ren", 1, 0).await;
    let id = transfer.request_id();
    for (table, sk, violations) in [
        ("outbox", "OUTBOX", vec![format!("{id} is COMPLETED and has outbox item: false")]),
        (
            "ledger",
            "JOURNAL",
            vec![
                format!("{id} is COMPLETED without a journal"),
                format!("{id} is COMPLETED and has outbox item: false"),
                format!("{transfer} has entries and no journal"),
            ],
        ),
    ] {
        let key = |text: String| AttributeValue::S(text);
        let delete = stand.client.delete_item().table_name(table).key("pk", key(format!("TRANSFER#{transfer}")));
        delete.key("sk", key(sk.to_owned())).send().await.unwrap();
        let report = stand.run(VERIFY).await;
        assert_eq!((report.code, texts(&report.json(), "violations")), (1, violations));
    }
}

#[tokio::test]
async fn an_outbox_item_that_was_deleted_by_its_age_is_no_violation() {
    let stand = Stand::new().await;
    stand.customer("aoi", 1_000).await;
    stand.customer("ren", 0).await;
    let transfer = stand.transfer("aoi", "ren", 1, 0).await;
    let (ops, _) = stand.ops();
    let books = ops.store.books().await.unwrap();
    let mut old = books.clone();
    old.outbox.clear();
    old.outbox_since = Some(ops.now());
    assert_eq!(violations(&old, &ops.zone), Vec::<String>::new());
    old.outbox_since = books.instructions[0].posted_at;
    let id = transfer.request_id();
    assert_eq!(violations(&old, &ops.zone), [format!("{id} is COMPLETED and has outbox item: false")]);
}

#[tokio::test]
async fn an_item_that_cannot_be_read_is_named_and_hides_no_other() {
    let stand = Stand::new().await;
    stand.customer("aoi", 1_000).await;
    stand.customer("ren", 0).await;
    stand.tamper("ledger", ("ACCOUNT#ac_aoi", "ACCOUNT"), "account_status", number("1")).await;
    stand.tamper("ledger", ("ACCOUNT#ac_ren", "ACCOUNT"), "balance_minor", number("7")).await;
    let report = stand.run(VERIFY).await;
    let violations = texts(&report.json(), "violations");
    assert_eq!(report.code, 1);
    assert!(violations.iter().any(|text| text.contains("ACCOUNT#ac_aoi") && text.contains("account_status")));
    assert!(violations.iter().any(|text| text.contains("ac_ren has balance 7")), "{violations:?}");
}

#[tokio::test]
async fn events_that_were_not_told_are_reported_once_they_are_late() {
    let stand = Stand::new().await;
    stand.customer("aoi", 1_000).await;
    stand.customer("ren", 0).await;
    let told = stand.transfer("aoi", "ren", 1, 1).await;
    stand.tell(&told, "aoi", "ren").await;
    let untold = stand.transfer("aoi", "ren", 2, 0).await;
    let report = stand.done("verify --grace 0").await;
    let late = report["events_without_inbox"].as_array().unwrap();
    assert_eq!(late.len(), 2, "{report}");
    assert!(late.iter().all(|late| late["transfer_id"] == untold.as_str()));
    assert_eq!(stand.done("verify").await["events_without_inbox"].as_array().unwrap().len(), 0, "a minute's grace");
    assert_eq!(stand.run("verify --grace 0 --strict").await.code, 1);
}

#[tokio::test]
async fn a_torn_reading_is_read_again_and_only_what_is_still_wrong_is_a_violation() {
    let stand = Stand::new().await;
    for (user, balance) in [("aoi", 1_000), ("ren", 0), ("mei", 0)] {
        stand.customer(user, balance).await;
    }
    stand.tamper("ledger", ("ACCOUNT#ac_mei", "ACCOUNT"), "balance_minor", number("7")).await;
    stand.transfer("aoi", "ren", 1, 2).await;
    let (ops, _) = stand.ops();
    let before = [survey(&ops).await, survey(&ops).await];
    stand.transfer("aoi", "ren", 20, 1).await;
    stand.transfer("aoi", "ren", 5_000, 0).await;
    stand.done("deposit ac_ren 5 --reference late").await;
    let after = [survey(&ops).await, survey(&ops).await];
    // Instructions and accounts as they were before the postings, with journals and entries of after them; and the other
    // way round.
    let ([mut early, other_early], [mut late, other_late]) = (before, after);
    (early.books.accounts, early.books.instructions) = (other_late.books.accounts, other_late.books.instructions);
    (late.books.accounts, late.books.instructions) = (other_early.books.accounts, other_early.books.instructions);
    check_torn(&ops, early).await;
    check_torn(&ops, late).await;
    let (mut torn, other) = (survey(&ops).await, survey(&ops).await);
    torn.books.entries = other.books.entries.into_iter().skip(1).collect();
    check_torn(&ops, torn).await;
}

async fn survey(ops: &Ops) -> Survey {
    ops.store.survey(&mut |_, _| {}).await.unwrap()
}

/// Only the tampered balance is a violation, whatever looks wrong.
async fn check_torn(ops: &Ops, torn: Survey) {
    let suspicions = violations(&torn.books, &ops.zone);
    let report = check(ops, &Verify { grace: 60, settle: 0, strict: false }, torn).await.unwrap();
    assert!(suspicions.len() >= 4, "{suspicions:?}");
    assert_eq!(
        texts(&report.json, "violations"),
        ["ac_mei has balance 7 and entries of 0", "balances in JPY sum to 7"],
        "{suspicions:?}"
    );
    assert_eq!((report.is_good, texts(&report.json, "unsettled").len()), (false, 0));
}
