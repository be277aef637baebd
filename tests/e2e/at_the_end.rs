//! What is looked at when all is done: the books, and the logs.

use crate::{Suite, delivery::queue_is_empty, scenes::couple, stack::Stack};
use serde_json::Value;
use std::sync::Arc;

/// The functions, all of which ran.
const FUNCTIONS: [&str; 10] =
    ["accounts", "authorize", "cancel", "confirm", "enroll", "notifier", "relay", "request", "status", "sweeper"];

pub(crate) fn add(suite: &mut Suite) {
    suite.alone("the_books_are_in_order", books);
    suite.alone("logs_name_what_they_are_about_and_no_secret", logs);
}

async fn books(stack: Arc<Stack>) {
    queue_is_empty(&stack).await;
    let (code, said) = stack.ops(&["verify", "--strict"]).await;
    assert_eq!((code, &said["violations"]), (0, &serde_json::json!([])), "{said}");
}

async fn logs(stack: Arc<Stack>) {
    let (aoi, ren) = couple(&stack, 70_000).await;
    let client = stack.login(&aoi, "phone");
    let done = stack.pay(&client, &aoi, &ren, 40_000).await;
    client.cancel(done.id()).await.expect("409 TR010");
    client.post("/v1/totp", &[], &serde_json::json!({ "totp_code": "000000" })).await.expect("403 AU002");
    crate::scenes::told_once(&stack, done.text("transfer_id"), 4).await;
    let secrets = stack.secrets();
    assert!(secrets.len() > 10, "{}", secrets.len());
    for function in FUNCTIONS {
        let log = stack.script(&["logs", function, "--since", "120"]).await;
        assert!(log.lines().count() > 1, "{function} has logged nothing");
        for secret in &secrets {
            assert!(!has(&log, secret), "the log of {function} has {secret:?}");
        }
    }
    let log = stack.script(&["logs", "confirm", "--since", "10"]).await;
    let posted = |line: &Value| line.to_string().contains(done.text("transfer_id"));
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(posted).collect();
    let line = lines.first().unwrap_or_else(|| panic!("confirm has not logged {}", done.text("transfer_id")));
    let text = line.to_string();
    for name in ["requestId", "trace_id", "request_id", "transfer_id"] {
        assert!(text.contains(name), "no {name} in {text}");
    }
}

/// Whether a log has the secret as a word of its own: six digits stand in many a number.
fn has(log: &str, secret: &str) -> bool {
    log.match_indices(secret).any(|(at, _)| {
        let before = log.get(..at).and_then(|text| text.chars().next_back());
        let after = log.get(at + secret.len()..).and_then(|text| text.chars().next());
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}
