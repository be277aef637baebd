//! Accounts, identities, limits and deposits, through the binary.

use crate::stand::{Stand, run};

#[tokio::test]
async fn an_account_is_opened_verified_funded_and_shown() {
    let stand = Stand::new().await;
    let opened = stand.done("accounts open ac_aoi --owner aoi --name Aoi --currency JPY --per-transfer 300000").await;
    assert_eq!(opened["changed"], true);
    assert_eq!(opened["account"]["identity_verified"], false);
    assert_eq!(stand.done("identity verify ac_aoi").await["account"]["identity_verified"], true);
    let deposit = stand.done("deposit ac_aoi 100000 --reference payroll").await;
    assert_eq!((deposit["posted"].as_bool(), deposit["balance_minor"].as_i64()), (Some(true), Some(100_000)));

    let shown = stand.done("accounts show ac_aoi").await;
    assert_eq!(shown["balance_minor"], 100_000);
    assert_eq!(shown["limits"]["per_transfer_limit_minor"], 300_000);
    assert_eq!(shown["owner_id"], "aoi");
    let text = stand.run("accounts show ac_aoi").await;
    assert!(text.out.contains("JPY 100,000") && text.out.contains("verified"), "{text:?}");
    assert_eq!(stand.done("accounts show internal-JPY").await["balance_minor"], -100_000);
    assert_eq!(stand.done("identity revoke ac_aoi").await["account"]["identity_verified"], false);
}

#[tokio::test]
async fn what_is_so_already_changes_nothing_and_other_facts_are_refused() {
    let stand = Stand::new().await;
    let open = "accounts open ac_aoi --owner aoi --name Aoi --currency JPY";
    assert_eq!(stand.done(open).await["changed"], true);
    assert_eq!(stand.done(open).await["changed"], false);
    assert!(stand.refused("accounts open ac_aoi --owner ren --name Aoi --currency JPY").await.contains("other facts"));
    assert_eq!(stand.done("accounts freeze ac_aoi").await["changed"], true);
    assert_eq!(stand.done("accounts freeze ac_aoi").await["changed"], false);
    let trail = stand.done("trail").await;
    assert_eq!(trail["lines"].as_array().unwrap().len(), 2, "what changed nothing leaves no line: {trail}");
}

#[tokio::test]
async fn a_deposit_is_posted_once_per_reference() {
    let stand = Stand::new().await;
    stand.done("accounts open ac_aoi --owner aoi --name Aoi --currency JPY").await;
    let first = stand.done("deposit ac_aoi 500 --reference r1").await;
    let again = stand.done("deposit ac_aoi 500 --reference r1").await;
    assert_eq!((again["posted"].as_bool(), &again["transfer_id"]), (Some(false), &first["transfer_id"]));
    assert_eq!(again["balance_minor"], 500);
    assert!(stand.refused("deposit ac_aoi 501 --reference r1").await.contains("the reference was used for JPY 500"));
    assert_eq!(stand.done("deposit ac_aoi 500 --reference r2").await["balance_minor"], 1_000);
    assert!(stand.refused("deposit ac_ren 500 --reference r1").await.contains("no account ac_ren"));
    assert!(stand.refused("deposit internal-JPY 500 --reference r1").await.contains("bank's own"));
    let verified = stand.done("verify").await;
    assert_eq!(verified["counts"]["deposits"], 2);
}

#[tokio::test]
async fn racing_deposits_under_one_reference_post_once() {
    let stand = Stand::new().await;
    stand.done("accounts open ac_aoi --owner aoi --name Aoi --currency JPY").await;
    let commands = || stand.run("deposit ac_aoi 700 --reference race --json");
    let (one, two, three) = tokio::join!(commands(), commands(), commands());
    let runs = [one, two, three];
    assert!(runs.iter().all(|run| run.code == 0), "{runs:?}");
    assert_eq!(runs.iter().filter(|run| run.json()["posted"] == true).count(), 1, "{runs:?}");
    assert_eq!(stand.done("accounts show ac_aoi").await["balance_minor"], 700);
    assert_eq!(stand.done("verify").await["ok"], true);
}

#[tokio::test]
async fn an_account_with_a_balance_is_not_closed_and_a_closed_one_stays_closed() {
    let stand = Stand::new().await;
    stand.customer("aoi", 5).await;
    stand.customer("ren", 0).await;
    assert!(stand.refused("accounts close ac_aoi").await.contains("JPY 5"));
    stand.transfer("aoi", "ren", 5, 0).await;
    assert_eq!(stand.done("accounts close ac_aoi").await["account"]["status"], "CLOSED");
    for line in [
        "accounts unfreeze ac_aoi",
        "accounts freeze ac_aoi",
        "identity verify ac_aoi",
        "accounts limits ac_aoi --daily-count 1",
        "deposit ac_aoi 1 --reference late",
    ] {
        assert!(stand.refused(line).await.contains("CLOSED"), "{line}");
    }
    assert!(stand.refused("accounts close internal-JPY").await.contains("bank's own"));
    assert!(stand.refused("accounts close ac_nobody").await.contains("no account"));
    assert_eq!(stand.done("verify").await["ok"], true);
}

#[tokio::test]
async fn limits_move_what_is_left_of_today() {
    let stand = Stand::new().await;
    stand.customer("aoi", 1_000).await;
    stand.customer("ren", 0).await;
    stand.transfer("aoi", "ren", 300, 0).await;
    let changed = stand.done("accounts limits ac_aoi --daily-amount 500 --daily-count 3").await;
    let account = &changed["account"];
    assert_eq!(account["left_today"], serde_json::json!({ "amount_minor": 200, "count": 2 }));
    assert_eq!(account["limits"]["per_transfer_limit_minor"], 1_000_000, "what is not named stays");
    let lowered = stand.done("accounts limits ac_aoi --daily-amount 100").await;
    assert_eq!(lowered["account"]["left_today"]["amount_minor"], -200);
    assert_eq!(stand.done("verify").await["ok"], true, "the allowances are still what the debits explain");
    assert_eq!(stand.run("accounts limits ac_aoi").await.code, 2);
    assert_eq!(stand.run("accounts limits ac_aoi --daily-count -1").await.code, 2);
}

#[tokio::test]
async fn every_change_says_who_made_it_and_from_what_to_what() {
    let stand = Stand::new().await;
    stand.customer("aoi", 10).await;
    let frozen = run(&mut stand.command(&["accounts", "freeze", "ac_aoi", "--operator", "mei"])).await;
    assert_eq!(frozen.code, 0, "{frozen:?}");
    let trail = stand.done("trail").await;
    let lines = trail["lines"].as_array().unwrap();
    let commands: Vec<&str> = lines.iter().map(|line| line["command"].as_str().unwrap()).collect();
    assert_eq!(
        commands,
        [
            "accounts open",
            "identity verify",
            "totp enroll",
            "deposit: open the internal account",
            "deposit",
            "accounts freeze"
        ]
    );
    let last = lines.last().unwrap();
    assert_eq!(last["operator"], "mei");
    assert_eq!(last["target"], "ac_aoi");
    assert_eq!(last["before"], serde_json::json!({ "status": "ACTIVE" }));
    assert_eq!(last["after"], serde_json::json!({ "status": "FROZEN" }));
    assert_eq!(lines[0]["operator"], "hana", "by the login name where none is given");
    assert!(stand.run("trail").await.out.contains("ACTIVE → FROZEN"));
}

#[tokio::test]
async fn nobody_orders_without_a_name() {
    let stand = Stand::new().await;
    let unnamed = run(stand.command(&["accounts", "freeze", "ac_aoi"]).env_remove("USER")).await;
    assert_eq!(unnamed.code, 2, "{unnamed:?}");
    assert!(unnamed.err.contains("--operator"), "{unnamed:?}");
}

#[tokio::test]
async fn the_configuration_names_every_fault_in_one_line() {
    let stand = Stand::new().await;
    let mut command = stand.command(&["outbox", "republish", "--since", "1h"]);
    command.env_remove("FURIKOMI_CORE_TABLE").env_remove("AWS_REGION").env("FURIKOMI_COLOUR", "red");
    let refused = run(command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY")).await;
    assert_eq!((refused.code, refused.err.lines().count()), (2, 1), "{refused:?}");
    for fault in ["FURIKOMI_CORE_TABLE", "FURIKOMI_QUEUE_URL", "FURIKOMI_COLOUR", "AWS_REGION", "credentials"] {
        assert!(refused.err.contains(fault), "{fault}: {refused:?}");
    }
    assert_eq!(stand.run("accounts").await.code, 2);
    assert_eq!(stand.run("deposit ac_aoi 0 --reference r").await.code, 2);
    assert_eq!(stand.run("accounts show a/b").await.code, 2);
    assert!(stand.run("--help").await.out.contains("FURIKOMI_LEDGER_TABLE"));
}

#[tokio::test]
async fn no_answer_is_neither_a_refusal_nor_done() {
    let stand = Stand::new().await;
    let dead =
        run(stand.command(&["accounts", "show", "ac_aoi", "--json"]).env("AWS_ENDPOINT_URL", "http://127.0.0.1:9"))
            .await;
    assert_eq!(dead.code, 3, "{dead:?}");
    assert_eq!(dead.json()["error"]["kind"], "unknown");
    let elsewhere = run(stand.command(&["accounts", "show", "ac_aoi"]).env("FURIKOMI_LEDGER_TABLE", "nowhere")).await;
    assert_eq!(elsewhere.code, 3, "{elsewhere:?}");
}
