//! `POST /v1/totp` and `POST /v1/totp/activation`.

use crate::{
    bank::{Bank, Person},
    client::{Answer, Client, key, transfer},
    look::{aoi_and_ren, requested},
};
use data_encoding::BASE32_NOPAD;
use serde_json::json;
use shared::domain::{
    id::{AccountId, UserId},
    totp::{STEP_S, TotpSecret, step_at},
};

/// Somebody without an account or a secret.
async fn newcomer() -> (Bank, Person, Client) {
    let bank = Bank::new().await;
    let mio = Person { user: UserId::parse("mio").unwrap(), account: AccountId::parse("ac_mio").unwrap() };
    let phone = bank.client(&mio, "s1");
    (bank, mio, phone)
}

/// The secret that an enrolment showed.
fn secret_in(answer: &Answer) -> TotpSecret {
    assert_eq!(answer.status, 201, "{}", answer.body);
    let (_, query) = answer.text("otpauth_uri").split_once('?').unwrap();
    let secret = query.split('&').find_map(|pair| pair.strip_prefix("secret=")).unwrap();
    TotpSecret::new(&BASE32_NOPAD.decode(secret.as_bytes()).unwrap(), "furikomi", "x").unwrap()
}

/// The code of `secret`, `offset` steps from now.
fn code(bank: &Bank, secret: &TotpSecret, offset: i64) -> String {
    secret.code_at(step_at(bank.now()) + offset).to_string()
}

/// A code of none of the secrets near now.
fn wrong(bank: &Bank, secrets: &[&TotpSecret]) -> String {
    let is_near = |text: &String| (-3..=3).any(|n| secrets.iter().any(|secret| code(bank, secret, n) == *text));
    (0..100).map(|n| format!("{n:06}")).find(|text| !is_near(text)).unwrap()
}

async fn begin(phone: &Client, code: Option<&str>) -> Answer {
    let body = code.map_or_else(|| json!({}), |code| json!({ "totp_code": code }));
    phone.post("/v1/totp", &[], &body).await
}

async fn activate(phone: &Client, code: &str) -> Answer {
    phone.post("/v1/totp/activation", &[], &json!({ "totp_code": code })).await
}

#[tokio::test]
async fn a_first_enrolment_is_shown_once_and_waits_for_its_code() {
    let (bank, _, phone) = newcomer().await;
    let shown = phone.send("POST", "/v1/totp", &[], b"").await;
    assert_eq!((shown.status, shown.text("status")), (201, "PENDING"));
    assert_eq!(shown.header("cache-control"), "no-store");
    let uri = shown.text("otpauth_uri");
    assert!(uri.starts_with("otpauth://totp/"), "{uri}");
    assert!(uri.contains("issuer=") && uri.contains("mio"), "{uri}");
    assert!(shown.text("qr_svg").contains("<svg"), "{}", shown.text("qr_svg"));
    assert_eq!(shown.body.as_object().unwrap().len(), 3);
    let secret = secret_in(&shown);

    let activated = activate(&phone, &code(&bank, &secret, 0)).await;
    assert_eq!((activated.status, activated.body), (200, json!({ "status": "ACTIVE" })));
    let before = bank.snapshot().await;
    bank.next_step();
    // A double click, or a repeat after a lost reply.
    let again = activate(&phone, &code(&bank, &secret, -1)).await;
    assert_eq!((again.status, again.body), (200, json!({ "status": "ACTIVE" })));
    bank.assert_unchanged(&before, "a repeated activation").await;
    // Any other code has nothing to activate: it is a guess.
    activate(&phone, &code(&bank, &secret, 0)).await.assert_problem(403, "AU002", "another code");
}

#[tokio::test]
async fn a_second_call_replaces_what_is_pending() {
    let (bank, mio, phone) = newcomer().await;
    let first = secret_in(&begin(&phone, None).await);
    let second = secret_in(&begin(&phone, None).await);
    assert_ne!(first.as_bytes(), second.as_bytes());
    let refused = activate(&phone, &code(&bank, &first, 0)).await;
    refused.assert_problem(403, "AU002", "the replaced secret");
    assert_eq!(bank.totp_number(&mio, "failure_count").await, 1);
    assert_eq!(activate(&phone, &code(&bank, &second, 0)).await.status, 200);
    assert_eq!(bank.totp_number(&mio, "failure_count").await, 0);
}

#[tokio::test]
async fn without_an_enrolment_there_is_nothing_to_prove() {
    let (bank, _, phone) = newcomer().await;
    let before = bank.snapshot().await;
    activate(&phone, "123456").await.assert_problem(409, "AU004", "nothing pending");
    begin(&phone, Some("123456")).await.assert_problem(409, "AU004", "nothing active");
    bank.assert_unchanged(&before, "nothing to prove").await;
}

#[tokio::test]
async fn malformed_codes_are_refused_and_not_counted() {
    let (bank, aoi, _, phone) = aoi_and_ren(70_000).await;
    let before = bank.snapshot().await;
    for body in [
        json!({ "totp_code": "12345" }),
        json!({ "totp_code": "1234567" }),
        json!({ "totp_code": "１２３４５６" }),
        json!({ "totp_code": 123_456 }),
        json!({ "totp_code": null }),
    ] {
        for path in ["/v1/totp", "/v1/totp/activation"] {
            let refused = phone.post(path, &[], &body).await;
            refused.assert_problem(400, "TR003", &format!("{path} {body}"));
            assert_eq!(refused.places(), ["/totp_code"]);
            assert_eq!(refused.body["money_moved"], false);
        }
    }
    let both = phone.post("/v1/totp", &[], &json!({ "totp_code": "x", "user": "ren" })).await;
    assert_eq!((both.problem(), both.places()), ((400, "TR003"), vec!["/totp_code".to_owned(), "/user".to_owned()]));
    for body in ["", "{}"] {
        let json = ("content-type", "application/json");
        let missing = phone.send("POST", "/v1/totp/activation", &[json], body.as_bytes()).await;
        missing.assert_problem(400, "TR003", body);
    }
    bank.assert_unchanged(&before, "a malformed code").await;
    assert_eq!(bank.totp_number(&aoi, "failure_count").await, 0);
}

#[tokio::test]
async fn replacing_needs_a_code_of_the_secret_in_force() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    for body in [&b""[..], b"{}"] {
        let before = bank.snapshot().await;
        let missing = phone.send("POST", "/v1/totp", &[("content-type", "application/json")], body).await;
        missing.assert_problem(400, "TR003", "no code");
        assert_eq!(missing.places(), ["/totp_code"]);
        bank.assert_unchanged(&before, "no code").await;
    }
    begin(&phone, Some(&bank.wrong_code(&aoi.user))).await.assert_problem(403, "AU002", "a wrong code");
    assert_eq!(bank.totp_number(&aoi, "failure_count").await, 1);
    let used = bank.code(&aoi.user, 0);
    let new = secret_in(&begin(&phone, Some(&used)).await);
    assert_eq!(bank.totp_number(&aoi, "failure_count").await, 0);
    // The step is burned: for this, and for everything else.
    begin(&phone, Some(&used)).await.assert_problem(403, "AU002", "burned");
    let hash = instruction.text("content_hash");
    phone.authorize(&instruction.id(), &used, hash).await.assert_problem(403, "AU002", "burned");
    // The old secret stays in force until the new one is activated.
    bank.next_step();
    let by_new = phone.authorize(&instruction.id(), &code(&bank, &new, 0), hash).await;
    by_new.assert_problem(403, "AU002", "not yet in force");
    assert_eq!(phone.authorize(&instruction.id(), &bank.code(&aoi.user, 0), hash).await.status, 200);
    bank.next_step();
    assert_eq!(activate(&phone, &code(&bank, &new, 0)).await.status, 200);
    bank.next_step();
    phone.authorize(&instruction.id(), &bank.code(&aoi.user, 0), hash).await.assert_problem(403, "AU002", "replaced");
    assert_eq!(phone.authorize(&instruction.id(), &code(&bank, &new, 0), hash).await.status, 200);
    assert_eq!(phone.confirm(&instruction.id()).await.status, 200);
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn the_counter_the_lock_and_the_last_step_survive_a_replacement() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let (id, hash) = (instruction.id(), instruction.text("content_hash"));
    let new = secret_in(&begin(&phone, Some(&bank.code(&aoi.user, 1))).await);
    let burned = bank.totp_number(&aoi, "last_step").await;
    assert_eq!(burned, step_at(bank.now()) + 1);
    // The new secret's codes of steps up to the burned one do not count either.
    let bad = [code(&bank, &new, 0), code(&bank, &new, 1)];
    for (index, code) in bad.iter().enumerate() {
        activate(&phone, code).await.assert_problem(403, "AU002", code);
        assert_eq!(bank.totp_number(&aoi, "failure_count").await, i64::try_from(index).unwrap() + 1);
    }
    bank.advance_s(STEP_S);
    let activated = activate(&phone, &code(&bank, &new, 1)).await;
    assert_eq!(activated.status, 200);
    assert_eq!(bank.totp_number(&aoi, "last_step").await, burned + 1);
    // What is in force now goes on from there.
    for _ in 0..3 {
        let guess = wrong(&bank, &[&new]);
        assert_eq!(phone.authorize(&id, &guess, hash).await.code(), "AU002");
    }
    bank.next_step();
    let next = secret_in(&begin(&phone, Some(&code(&bank, &new, 1))).await);
    for _ in 0..5 {
        activate(&phone, &wrong(&bank, &[&new, &next])).await.assert_problem(403, "AU002", "one of five");
    }
    bank.next_step();
    for answer in [
        activate(&phone, &code(&bank, &next, 1)).await,
        begin(&phone, Some(&code(&bank, &new, 1))).await,
        phone.authorize(&id, &code(&bank, &new, 1), hash).await,
    ] {
        answer.assert_problem(429, "AU003", "locked on every route");
        assert_eq!(answer.body["retry_after_s"], 870);
    }
    bank.advance_s(870);
    assert_eq!(activate(&phone, &code(&bank, &next, 0)).await.status, 200);
}

#[tokio::test]
async fn an_activation_burns_its_step_for_transfers_too() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let new = secret_in(&begin(&phone, Some(&bank.code(&aoi.user, 0))).await);
    bank.next_step();
    let used = code(&bank, &new, 0);
    assert_eq!(activate(&phone, &used).await.status, 200);
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let hash = instruction.text("content_hash");
    phone.authorize(&instruction.id(), &used, hash).await.assert_problem(403, "AU002", "used to activate");
    bank.next_step();
    assert_eq!(phone.authorize(&instruction.id(), &code(&bank, &new, 0), hash).await.status, 200);
}

#[tokio::test]
async fn an_authorization_by_the_old_secret_outlives_it() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let new = secret_in(&begin(&phone, Some(&bank.code(&aoi.user, -1))).await);
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
    assert_eq!(activate(&phone, &code(&bank, &new, 1)).await.status, 200);
    assert_eq!(phone.confirm(&authorized.id()).await.status, 200);
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_secret_is_nowhere_in_plain() {
    let (bank, mio, phone) = newcomer().await;
    let shown = begin(&phone, None).await;
    let secret = secret_in(&shown);
    activate(&phone, &code(&bank, &secret, 0)).await;
    let item = bank.item("core", "USER#mio", "TOTP").await;
    let sealed = item["secret_sealed"].as_b().unwrap().as_ref().to_vec();
    assert!(!sealed.windows(20).any(|window| window == secret.as_bytes()));
    // Sealed for its user: it does not open for another.
    assert!(bank.cipher.open(&mio.user, &sealed).await.is_ok());
    assert!(bank.cipher.open(&UserId::parse("ren").unwrap(), &sealed).await.is_err());
    let record = bank.app.store.totp(&mio.user, crate::bank::soon()).await.unwrap();
    let bytes = format!("{:?}", secret.as_bytes());
    for printed in [format!("{record:?}"), format!("{secret:?}"), format!("{:?}", bank.cipher)] {
        assert!(!printed.contains(secret.to_base32().as_str()), "{printed}");
        assert!(!printed.contains(bytes.trim_matches(['[', ']'])), "{printed}");
        assert!(!printed.contains(&format!("{sealed:?}")), "{printed}");
    }
}
