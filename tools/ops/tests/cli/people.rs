//! Contacts and TOTP secrets, through the binary.

use crate::stand::{Stand, ago, run};
use shared::{
    cipher::Cipher,
    domain::{
        id::UserId,
        totp::{TotpSecret, step_at},
    },
};

const ARN: &str = "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/app/1";

#[tokio::test]
async fn a_contact_is_changed_by_what_is_named() {
    let stand = Stand::new().await;
    assert!(stand.refused("contacts show aoi").await.contains("no contact"));
    let set = stand.done("contacts set aoi --email aoi@example.com").await;
    assert_eq!(set["contact"]["locale"], "ja");
    stand.done(&format!("contacts set aoi --locale en --push {ARN}")).await;
    let shown = stand.done("contacts show aoi").await;
    assert_eq!(shown["locale"], "en");
    assert_eq!(shown["channels"], serde_json::json!({ "EMAIL": "aoi@example.com", "PUSH": ARN }));
    assert_eq!(stand.done("contacts set aoi --locale en").await["changed"], false);
    let off = stand.done("contacts set aoi --no-email").await;
    assert_eq!(off["contact"]["channels"], serde_json::json!({ "PUSH": ARN }));
    assert_eq!(stand.run("contacts set aoi --email nowhere").await.code, 2);
    assert_eq!(stand.run("contacts set aoi --email a@b --no-email").await.code, 2);
    let trail = stand.done("trail").await;
    assert_eq!(trail["lines"].as_array().unwrap().len(), 3);
    assert_eq!(trail["lines"][2]["before"], serde_json::json!({ "EMAIL": "aoi@example.com" }));
}

#[tokio::test]
async fn an_enrolled_secret_is_shown_once_and_is_the_one_in_force() {
    let stand = Stand::new().await;
    assert_eq!(stand.run("totp enroll aoi").await.code, 2, "--show has to be said");
    let shown = stand.done("totp enroll aoi --show").await;
    let base32 = shown["totp_secret_base32"].as_str().unwrap();
    assert!(shown["otpauth_uri"].as_str().unwrap().contains(base32));
    let (ops, _) = stand.ops();
    let user = UserId::parse("aoi").unwrap();
    let record = ops.store.totp(&user, ops.deadline()).await.unwrap().unwrap();
    let cipher = Cipher::local(b"01234567890123456789012345678901").unwrap();
    let bytes = cipher.open(&user, &record.active.unwrap().ciphertext).await.unwrap();
    assert_eq!(TotpSecret::new(&bytes, "furikomi", "aoi").unwrap().to_base32().as_str(), base32);
    assert!(stand.refused("totp enroll aoi --show").await.contains("reset it first"));
    let trail = stand.run("trail --json").await.out;
    assert!(!trail.contains(base32), "no secret in the trail");
    let line = &["totp", "enroll", "ren", "--show"];
    let remote = run(stand.command(line).env("AWS_ENDPOINT_URL", "https://dynamodb.us-east-1.amazonaws.com")).await;
    assert_eq!(remote.code, 2, "{remote:?}");
    assert!(remote.err.contains("on this machine"), "{remote:?}");
    assert_eq!(run(stand.command(line).env_remove("FURIKOMI_LOCAL_KEY")).await.code, 2);
}

#[tokio::test]
async fn a_reset_takes_the_secrets_and_leaves_the_counter_the_lock_and_the_step() {
    let stand = Stand::new().await;
    assert!(stand.refused("totp reset aoi").await.contains("never enrolled"));
    stand.customer("aoi", 10).await;
    stand.customer("ren", 0).await;
    stand.transfer("aoi", "ren", 1, 0).await;
    let (ops, _) = stand.ops();
    let user = UserId::parse("aoi").unwrap();
    let now = ops.now();
    for _ in 0..5 {
        let record = ops.store.totp(&user, ops.deadline()).await.unwrap().unwrap();
        ops.store.count_wrong_code(&user, &record, now, ops.deadline()).await.unwrap();
    }
    let before = ops.store.totp(&user, ops.deadline()).await.unwrap().unwrap();
    assert!(before.locked_until.is_some() && before.last_step >= step_at(ago(60)));
    let reset = stand.done("totp reset aoi").await;
    assert_eq!(reset["enrolled"], false);
    assert!(reset["locked_for_s"].as_i64().unwrap() > 800, "{reset}");
    let after = ops.store.totp(&user, ops.deadline()).await.unwrap().unwrap();
    assert_eq!((after.active, after.pending, after.activated_step), (None, None, None));
    assert_eq!(
        (after.failures, after.locked_until, after.last_step),
        (before.failures, before.locked_until, before.last_step)
    );
    assert_eq!(stand.done("totp reset aoi").await["changed"], false);
    stand.done("totp enroll aoi --show").await;
    let enrolled = ops.store.totp(&user, ops.deadline()).await.unwrap().unwrap();
    assert_eq!((enrolled.locked_until, enrolled.last_step), (before.locked_until, before.last_step));
}
