//! The scenes of the demonstration, through API Gateway with tokens of a real issuer, on the clock that everybody has.

use crate::{
    Suite,
    client::key,
    people::{Person, letters, secret_of},
    stack::{Stack, until},
};
use futures_util::future::join_all;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use serde_json::{Value, json};
use shared::domain::{
    notification::{Channel, NotificationState},
    totp::step_at,
};
use std::sync::Arc;

pub(crate) fn add(suite: &mut Suite) {
    suite.test("a_transfer_is_told_to_both_on_both_channels", one_transfer);
    suite.test("a_key_sent_twenty_times_is_one_instruction", double_click);
    suite.test("of_two_transfers_for_one_balance_one_is_posted", race);
    suite.test("opposite_directions_at_once_all_end", both_ways);
    suite.test("limits_of_a_day_hold_until_midnight_in_japan", limits);
    suite.test("a_refusal_is_recorded_and_told", failed);
    suite.test("an_authenticator_is_enrolled_over_the_api", enrolment);
    suite.test("a_statement_is_paged", statement);
}

/// The couple of most scenes.
pub(crate) async fn couple(stack: &Stack, balance_minor: i64) -> (Person, Person) {
    (Person::new(stack, "aoi", balance_minor).await, Person::new(stack, "ren", 0).await)
}

/// Waits until all notifications of a transfer are SENT, and asserts that the providers took each once.
pub(crate) async fn told_once(stack: &Stack, transfer: &str, expected: usize) {
    let events = until("the outbox item is there", async || {
        Some(stack.events(transfer).await).filter(|events| !events.is_empty())
    });
    let (mut count, events) = (0, events.await);
    for (event, _) in &events {
        let rows = until("every notification is sent", async || {
            let rows = stack.rows(event).await;
            (!rows.is_empty() && rows.iter().all(|row| row.state == NotificationState::Sent)).then_some(rows)
        });
        for row in rows.await {
            let operation = if row.channel == Channel::Email { "SendEmail" } else { "Publish" };
            let (asked, accepted) = stack.gate.count(operation, &row.address);
            assert_eq!((asked, accepted), (1, 1), "{operation} to {}", row.address);
            count += 1;
        }
    }
    assert_eq!(count, expected, "notifications of {transfer}");
}

async fn one_transfer(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let accounts = client.get("/v1/accounts").await;
    assert_eq!(accounts.body["accounts"][0]["balance_minor"], 70_000, "{}", accounts.body);
    let asked = stack.ask(&client, &aoi, &ren, 40_000).await;
    assert_eq!(asked.headers["location"], format!("/v1/transfers/{}", asked.id()).as_str());
    assert_eq!(asked.headers["cache-control"], "no-store");
    assert_eq!(asked.text("destination_name"), ren.name);
    let code = aoi.code(&stack).await;
    client.authorize(asked.id(), &code, asked.text("content_hash")).await.expect("200 INSTRUCTION_ACKNOWLEDGED");
    let done = client.confirm(asked.id()).await.expect("200 FINANCIAL_COMMITTED");
    let again = client.confirm(asked.id()).await.expect("200 FINANCIAL_COMMITTED");
    assert!(!done.is_replayed() && again.is_replayed());
    assert_eq!(done.text("transfer_id"), again.text("transfer_id"));
    assert_eq!((stack.balance(&aoi).await, stack.balance(&ren).await), (30_000, 40_000));
    told_once(&stack, done.text("transfer_id"), 4).await;
    let inbox = if stack.is_ministack { "/_ministack/ses/messages" } else { "/_aws/ses" };
    let mail = stack.http.get(format!("{}{inbox}", stack.endpoint)).send().await.unwrap().text().await.unwrap();
    for person in [&aoi, &ren] {
        assert!(mail.contains(&person.email), "{} is in the engine's outgoing mail", person.email);
    }
}

async fn double_click(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let (client, key, body) = (stack.login(&aoi, "phone"), key(), stack.transfer(&aoi, &ren, 40_000));
    let answers = join_all((0..20).map(|_| client.request(&key, &body))).await;
    let of = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((of(201), of(200)), (1, 19), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.id() == answers[0].id()));
    client.request(&key, &stack.transfer(&aoi, &ren, 50_000)).await.expect("422 TR009");
    let original = client.status_by_key(&key).await.expect("200 INSTRUCTION_ACKNOWLEDGED");
    assert_eq!(original.body["amount_minor"], 40_000);
    // Replays use no quota: four more are admitted, and then no more.
    for _ in 0..4 {
        stack.ask(&client, &aoi, &ren, 1_000).await;
    }
    let refused = client.request(&crate::client::key(), &stack.transfer(&aoi, &ren, 1_000)).await.expect("429 TR011");
    assert!((1..=60).contains(&refused.body["retry_after_s"].as_i64().unwrap()), "{}", refused.body);
}

async fn race(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let one = stack.approved(&client, &aoi, &ren, 40_000).await;
    let two = stack.approved(&client, &aoi, &ren, 40_000).await;
    let answers = join_all([client.confirm(one.id()), client.confirm(two.id())]).await;
    let mut shown: Vec<String> = answers.iter().map(crate::client::Answer::short).collect();
    shown.sort();
    assert_eq!(shown, ["200 FINANCIAL_COMMITTED", "422 TR008"]);
    assert_eq!((stack.balance(&aoi).await, stack.balance(&ren).await), (30_000, 40_000));
}

async fn both_ways(stack: Arc<Stack>) {
    let aoi = Person::new(&stack, "aoi", 70_000).await;
    let ren = Person::new(&stack, "ren", 70_000).await;
    let (of_aoi, of_ren) = (stack.login(&aoi, "phone"), stack.login(&ren, "phone"));
    let mut ready = Vec::new();
    for _ in 0..3 {
        ready.push((&of_aoi, stack.approved(&of_aoi, &aoi, &ren, 700).await));
        ready.push((&of_ren, stack.approved(&of_ren, &ren, &aoi, 500).await));
    }
    let answers = join_all(ready.iter().map(|(client, asked)| client.confirm(asked.id()))).await;
    for answer in answers {
        answer.expect("200 FINANCIAL_COMMITTED");
    }
    assert_eq!((stack.balance(&aoi).await, stack.balance(&ren).await), (69_400, 70_600));
}

async fn limits(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 200_000).await;
    let limits = ["--daily-amount", "50000", "--per-transfer", "45000"];
    stack.order(&[&["accounts", "limits", aoi.account.as_str()], limits.as_slice()].concat()).await;
    let client = stack.login(&aoi, "phone");
    let too_much = stack.transfer(&aoi, &ren, 45_001);
    client.request(&key(), &too_much).await.expect("422 TR016");
    let before = next_midnight();
    stack.pay(&client, &aoi, &ren, 40_000).await;
    let late = stack.approved(&client, &aoi, &ren, 40_000).await;
    let refused = client.confirm(late.id()).await;
    if before != next_midnight() {
        return; // The day turned on the way, and both may be posted.
    }
    let refused = refused.expect("422 TR012");
    assert_eq!(refused.text("resets_at"), before);
    let left = &client.get(&format!("/v1/accounts/{}", aoi.account)).await.body["left_today"];
    assert_eq!(left["amount_minor"], 10_000, "{left}");
}

/// The next midnight in Japan, as answers show it.
fn next_midnight() -> String {
    let now = Timestamp::now().to_zoned_datetime(TimeZone::get("Asia/Tokyo").unwrap());
    let midnight = now.checked_add(1.day()).unwrap().start_of_day().unwrap();
    midnight.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

async fn failed(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let approved = stack.approved(&client, &aoi, &ren, 80_000).await;
    let refused = client.confirm(approved.id()).await.expect("422 TR008");
    assert_eq!((&refused.body["money_moved"], refused.text("retry_with")), (&Value::Bool(false), "new-key"));
    let shown = client.status(approved.id()).await.expect("200 NO_POSTING_CONFIRMED");
    assert_eq!((shown.text("state"), &shown.body["failure"]["code"]), ("FAILED", &json!("TR008")));
    stack.order(&["deposit", aoi.account.as_str(), "20000", "--reference", "too late"]).await;
    client.confirm(approved.id()).await.expect("409 TR010");
    assert_eq!((stack.balance(&aoi).await, stack.balance(&ren).await), (90_000, 0));
    let transfer = format!("tr_{}", approved.id().trim_start_matches("ti_"));
    told_once(&stack, &transfer, 2).await;
}

async fn enrolment(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    stack.order(&["totp", "reset", aoi.user.as_str()]).await;
    let asked = stack.ask(&client, &aoi, &ren, 1_000).await;
    client.authorize(asked.id(), "000000", asked.text("content_hash")).await.expect("409 AU004");
    let shown = client.post("/v1/totp", &[], &json!({})).await;
    assert_eq!(shown.status, 201, "{}", shown.body);
    assert!(shown.body.to_string().contains("<svg"), "the QR code is a picture");
    let uri = shown.text("otpauth_uri");
    let base32 = uri.split(['?', '&']).find_map(|pair| pair.strip_prefix("secret=")).unwrap();
    stack.keep_secret(base32);
    let (secret, now) = (secret_of(base32), step_at(Timestamp::now()));
    let code = |step: i64| {
        let code = secret.code_at(step).to_string();
        stack.keep_secret(&code);
        json!({ "totp_code": code })
    };
    let activated = client.post("/v1/totp/activation", &[], &code(now)).await;
    assert_eq!(activated.status, 200, "{}", activated.body);
    let next = code(now + 1);
    let authorized = client.authorize(asked.id(), next["totp_code"].as_str().unwrap(), asked.text("content_hash"));
    authorized.await.expect("200 INSTRUCTION_ACKNOWLEDGED");
    client.confirm(asked.id()).await.expect("200 FINANCIAL_COMMITTED");
}

async fn statement(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    for amount in [100, 200, 300] {
        stack.pay(&client, &aoi, &ren, amount).await;
    }
    let path = format!("/v1/accounts/{}/entries?limit=2", aoi.account);
    let first = client.get(&path).await;
    let amounts = |page: &Value| -> Vec<i64> {
        page["entries"].as_array().unwrap().iter().map(|entry| entry["amount_minor"].as_i64().unwrap()).collect()
    };
    assert_eq!(amounts(&first.body), [300, 200]);
    let next = client.get(&format!("{path}&cursor={}", first.text("next_cursor"))).await;
    assert_eq!(amounts(&next.body), [100, 70_000], "{}", next.body);
    let forged = format!("{path}&cursor={}", letters(20));
    client.get(&forged).await.expect("400 TR003");
    let theirs = format!("/v1/accounts/{}/entries", ren.account);
    client.get(&theirs).await.expect("404 TR004");
}
