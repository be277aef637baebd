//! What does not happen: no posting without its own approval, none after a door is closed, and nothing for strangers.

use crate::{
    Suite,
    client::key,
    scenes::couple,
    stack::{Stack, until},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) fn add(suite: &mut Suite) {
    suite.test("an_expired_instruction_is_fenced_by_the_sweeper", expired);
    suite.test("no_approval_but_its_own_posts_an_instruction", approvals);
    suite.test("what_is_cancelled_stays_cancelled", cancelled);
    suite.test("five_wrong_codes_lock_the_right_one_out", locked);
    suite.test("a_stranger_finds_nothing", stranger);
    suite.test("bad_input_is_named", bad_input);
    suite.test("an_account_that_is_frozen_or_not_verified_is_refused", accounts);
}

async fn approvals(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let (phone, laptop) = (stack.login(&aoi, "phone"), stack.login(&aoi, "laptop"));
    let one = stack.approved(&laptop, &aoi, &ren, 10_000).await;
    let other = phone.confirm(one.id()).await.expect("403 AU005 other-session");
    assert_eq!(other.text("retry_with"), "new-authorization");
    let code = aoi.code(&stack).await;
    let replaced = phone.authorize(one.id(), &code, one.text("content_hash")).await;
    let until_then: Timestamp =
        replaced.expect("200 INSTRUCTION_ACKNOWLEDGED").text("authorized_until").parse().unwrap();
    let two = stack.ask(&phone, &aoi, &ren, 20_000).await;
    phone.confirm(two.id()).await.expect("403 AU005 none");
    phone.authorize(two.id(), &code, two.text("content_hash")).await.expect("403 AU002");
    let fresh = aoi.code(&stack).await;
    phone.authorize(two.id(), &fresh, one.text("content_hash")).await.expect("422 AU006");
    until("the authorization is stale", async || (Timestamp::now() > until_then).then_some(())).await;
    phone.confirm(one.id()).await.expect("403 AU005 stale");
    assert_eq!((stack.balance(&aoi).await, stack.balance(&ren).await), (70_000, 0));
}

async fn expired(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let approved = stack.approved(&client, &aoi, &ren, 10_000).await;
    stack.age(&aoi.user, approved.id()).await;
    client.status(approved.id()).await.expect("200 RESULT_UNKNOWN");
    let refused = client.confirm(approved.id()).await.expect("409 TR010");
    assert_eq!((refused.text("result"), refused.text("retry_with")), ("RESULT_UNKNOWN", "same-key"));
    let fenced = until("the sweeper fences it", async || {
        Some(client.status(approved.id()).await).filter(|answer| answer.text("result") != "RESULT_UNKNOWN")
    });
    let fenced = fenced.await.expect("200 NO_POSTING_CONFIRMED");
    assert_eq!(fenced.text("state"), "EXPIRED");
    let refused = client.confirm(approved.id()).await.expect("409 TR010");
    assert_eq!((&refused.body["money_moved"], refused.text("retry_with")), (&Value::Bool(false), "new-key"));
    assert_eq!((stack.balance(&aoi).await, stack.balance(&ren).await), (70_000, 0));
}

async fn cancelled(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let approved = stack.approved(&client, &aoi, &ren, 10_000).await;
    client.cancel(approved.id()).await.expect("200 NO_POSTING_CONFIRMED");
    client.cancel(approved.id()).await.expect("200 NO_POSTING_CONFIRMED");
    client.confirm(approved.id()).await.expect("409 TR010");
    let done = stack.pay(&client, &aoi, &ren, 20_000).await;
    let refused = client.cancel(done.id()).await.expect("409 TR010");
    assert_eq!(refused.body["money_moved"], true);
    assert_eq!((stack.balance(&aoi).await, stack.balance(&ren).await), (50_000, 20_000));
}

async fn locked(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let asked = stack.ask(&client, &aoi, &ren, 10_000).await;
    let right = aoi.code(&stack).await;
    // A code beside the right one is wrong, unless it is one of the two neighbours': then the next is.
    let number: u32 = right.parse().unwrap();
    let wrong: Vec<String> = (1..=5).map(|more| format!("{:06}", (number + more) % 1_000_000)).collect();
    for code in &wrong {
        client.authorize(asked.id(), code, asked.text("content_hash")).await.expect("403 AU002");
    }
    let refused = client.authorize(asked.id(), &right, asked.text("content_hash")).await.expect("429 AU003");
    assert!((1..=900).contains(&refused.body["retry_after_s"].as_i64().unwrap()), "{}", refused.body);
    client.post("/v1/totp", &[], &json!({ "totp_code": right })).await.expect("429 AU003");
    client.confirm(asked.id()).await.expect("403 AU005 none");
    assert_eq!(stack.balance(&aoi).await, 70_000);
}

async fn stranger(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let (owner, stranger) = (stack.login(&aoi, "phone"), stack.login(&ren, "phone"));
    let asked = stack.approved(&owner, &aoi, &ren, 10_000).await;
    let nobodys = format!("ti_{}", "a".repeat(asked.id().len() - 3));
    let nothing = stranger.status(&nobodys).await.expect("404 TR004").untraced();
    for answer in [
        stranger.status(asked.id()).await,
        stranger.confirm(asked.id()).await,
        stranger.cancel(asked.id()).await,
        stranger.authorize(asked.id(), "123456", asked.text("content_hash")).await,
        stranger.get(&format!("/v1/accounts/{}", aoi.account)).await,
        stranger.request(&key(), &stack.transfer(&aoi, &ren, 10_000)).await,
    ] {
        assert_eq!(answer.clone().expect("404 TR004").untraced(), nothing);
    }
    let nowhere = stranger.get("/v1/no/such/route").await;
    if stack.is_ministack {
        assert_eq!(nowhere.clone().expect("404 TR004").untraced(), nothing);
    } else {
        assert_eq!(nowhere.status, 404, "{nowhere:?}");
    }
    owner.confirm(asked.id()).await.expect("200 FINANCIAL_COMMITTED");
}

async fn bad_input(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let good = stack.transfer(&aoi, &ren, 10_000);
    let path = "/v1/transfers";
    client.post(path, &[], &good).await.expect("400 TR001");
    client.post(path, &[("idempotency-key", "short")], &good).await.expect("400 TR002");
    let two_keys = [("idempotency-key", "one-key-of-the-test"), ("idempotency-key", "two-key-of-the-test")];
    client.post(path, &two_keys, &good).await.expect("400 TR002");
    for (member, value) in [
        ("amount_minor", json!(0)),
        ("amount_minor", json!(1.5)),
        ("amount_minor", json!("100")),
        ("currency", json!("YEN")),
        ("requester_name", json!("Aoi\u{202e}")),
        ("unknown", json!(1)),
    ] {
        let mut body = good.clone();
        body[member] = value;
        let refused = client.request(&key(), &body).await.expect("400 TR003");
        assert_eq!(refused.body["errors"][0]["pointer"], format!("/{member}"), "{}", refused.body);
        assert_eq!(refused.headers["content-type"], "application/problem+json");
    }
    client.get(&format!("{path}?idempotency_key=x&more=1")).await.expect("400 TR003");
    client.request(&key(), &good).await.expect("201 INSTRUCTION_ACKNOWLEDGED");
}

async fn accounts(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let approved = stack.approved(&client, &aoi, &ren, 10_000).await;
    stack.order(&["identity", "revoke", aoi.account.as_str()]).await;
    client.request(&key(), &stack.transfer(&aoi, &ren, 1)).await.expect("422 TR007");
    stack.order(&["accounts", "freeze", aoi.account.as_str()]).await;
    client.request(&key(), &stack.transfer(&aoi, &ren, 1)).await.expect("422 TR006");
    // At posting, the state of the source comes before the identity, and a refusal is for good.
    client.confirm(approved.id()).await.expect("422 TR006");
    stack.order(&["accounts", "unfreeze", aoi.account.as_str()]).await;
    stack.order(&["identity", "verify", aoi.account.as_str()]).await;
    client.confirm(approved.id()).await.expect("409 TR010");
    stack.order(&["accounts", "freeze", ren.account.as_str()]).await;
    client.request(&key(), &stack.transfer(&aoi, &ren, 1)).await.expect("422 TR005");
    let (code, said) = stack.ops(&["accounts", "close", aoi.account.as_str()]).await;
    assert_eq!(code, 1, "an account with money is not closed: {said}");
}
