//! The server as people meet it: its command line, what it prints, and the development routes.

mod common;

use common::{Client, Fallible, Process, is_terminal, run};
use serde_json::{Value, json};
use std::process::Command;

/// The names of an object's members.
fn members(object: &Value) -> Vec<&str> {
    object.as_object().map(|members| members.keys().map(String::as_str).collect()).unwrap_or_default()
}

async fn patch(client: &Client, user: &str, body: Value) -> Fallible<(u16, Value)> {
    client.send(client.http.patch(format!("{}/dev/users/{user}", client.base)).json(&body)).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_demo_keeps_every_promise() -> Fallible {
    let output = run(&["demo"])?;
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}{}", text(&output.stderr));
    assert!(table.contains("PASS") && !table.contains("FAIL"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert_eq!(text(&output.stderr), "");
    Ok(())
}

#[test]
fn what_cannot_be_started_says_why_in_one_line() -> Fallible {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("foreign.db"), "something else")?;
    let data = path("bank.db");
    let server = Process::start(Some(data.as_ref()))?;
    let port = server.base.rsplit(':').next().ok_or("no port")?;
    for (arguments, why) in [
        (vec!["--port", port], "--port"),
        (vec!["--port", "0", "--data", &data], "in use"),
        (vec!["--port", "0", "--data", &path("foreign.db")], "not usable"),
        (vec!["--port", "0", "--data", &path("no/such/folder.db")], "cannot be used"),
        (vec!["--port", "0", "--data", &folder.path().to_string_lossy()], "not a file"),
    ] {
        let output = run(&arguments)?;
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("local: ") && said.contains(why) && said.lines().count() == 1, "{said}");
    }
    let mut found: Vec<_> =
        std::fs::read_dir(folder.path())?.map(|entry| Ok(entry?.file_name())).collect::<Fallible<_>>()?;
    found.retain(|name| !name.to_string_lossy().starts_with("bank.db"));
    assert_eq!(found, ["foreign.db"], "nothing is left beside what is not ours");
    Ok(())
}

#[cfg(unix)]
#[test]
fn the_keys_are_their_owners_alone() -> Fallible {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("bank.db");
    let mut server = Process::start(Some(&data))?;
    let keys = folder.path().join("bank.db.keys");
    assert_eq!(std::fs::metadata(&keys)?.permissions().mode() & 0o777, 0o600);
    assert_eq!(server.terminate()?, Some(0));
    std::fs::write(&keys, "{}")?;
    let output = run(&["--port", "0", "--data", &data.to_string_lossy()])?;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("damaged"));
    Ok(())
}

#[tokio::test]
async fn the_printed_walk_works_when_pasted() -> Fallible {
    let server = Process::start(None)?;
    let walk = server.welcome.lines().skip_while(|line| !line.starts_with("API=")).take_while(|line| !line.is_empty());
    let script: String = walk.map(|line| format!("{line}\n")).collect();
    assert!(script.contains("/confirmation"), "{}", server.welcome);
    let output = tokio::task::spawn_blocking(move || Command::new("sh").arg("-euc").arg(script).output()).await??;
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("FINANCIAL_COMMITTED"), "{said}");
    let client = server.client()?;
    assert_eq!(client.user("aoi").await?["balance_minor"], 69_000);
    assert_eq!(client.user("ren").await?["balance_minor"], 1_000);
    Ok(())
}

#[tokio::test]
async fn people_are_listed_added_and_changed() -> Fallible {
    let server = Process::start(None)?;
    let client = server.client()?;
    let names = ["account_id", "balance_minor", "name", "totp_secret_base32", "user_id"];
    let users = client.get("/dev/users").await?;
    let shown: Vec<_> = users["users"].as_array().ok_or("no users")?.iter().collect();
    assert_eq!(shown.iter().map(|user| members(user)).collect::<Vec<_>>(), [names, names]);
    let facts: Vec<_> = shown.iter().map(|user| (&user["user_id"], &user["name"], &user["balance_minor"])).collect();
    assert_eq!(facts, [(&json!("aoi"), &json!("Aoi"), &json!(70_000)), (&json!("ren"), &json!("Ren"), &json!(0))]);

    let eve = json!({
        "user_id": "eve", "name": "Eve", "balance_minor": 500, "status": "ACTIVE", "identity_verified": false,
        "daily_amount_limit_minor": 300, "daily_count_limit": 2, "per_transfer_limit_minor": 200, "locale": "en",
        "channels": ["PUSH"], "currency": "USD", "enrolled": false,
    });
    let (status, added) = client.post("/dev/users", eve.clone()).await?;
    assert_eq!((status, members(&added)), (201, names.to_vec()));
    assert_eq!((&added["balance_minor"], &added["totp_secret_base32"]), (&json!(500), &Value::Null));
    assert_eq!(client.post("/dev/users", eve).await?.0, 409);
    let again = json!({ "user_id": "ren", "name": "Ren", "balance_minor": 9 });
    assert_eq!(client.post("/dev/users", again).await?.0, 409);
    assert_eq!(client.user("ren").await?["balance_minor"], 0);

    let token = client.token("eve").await?;
    let accounts = client.http.get(format!("{}/v1/accounts", client.base)).bearer_auth(&token);
    let (_, accounts) = client.send(accounts).await?;
    let account = &accounts["accounts"][0];
    assert_eq!((&account["currency"], &account["status"]), (&json!("USD"), &json!("ACTIVE")));
    assert_eq!(client.get("/dev/totp?user_id=eve").await.map_err(|error| error.to_string().contains("409")), Err(true));

    let (status, changed) =
        patch(&client, "eve", json!({ "status": "FROZEN", "enrolled": true, "locale": "ja" })).await?;
    assert_eq!((status, members(&changed)), (200, names.to_vec()));
    assert!(changed["totp_secret_base32"].is_string(), "{changed}");
    let accounts = client.http.get(format!("{}/v1/accounts", client.base)).bearer_auth(&token);
    assert_eq!(client.send(accounts).await?.1["accounts"][0]["status"], "FROZEN");
    for unchangeable in [json!({ "currency": "JPY" }), json!({ "enrolled": false }), json!({ "balance_minor": 1 })] {
        let (status, body) = patch(&client, "eve", unchangeable).await?;
        assert_eq!(status, 400, "{body}");
    }
    assert_eq!(patch(&client, "nobody", json!({})).await?.0, 404);
    let ledger = client.get("/dev/ledger").await?;
    assert_eq!(ledger["balance_sum_minor"], json!({ "JPY": 0, "USD": 0 }));
    assert_eq!(ledger["violations"], json!([]));
    Ok(())
}

#[tokio::test]
async fn bad_input_is_refused_with_every_fault() -> Fallible {
    let server = Process::start(None)?;
    let client = server.client()?;
    for (path, body, faults) in [
        ("/dev/users", json!({}), 3),
        ("/dev/users", json!({ "user_id": "a b", "name": " ", "balance_minor": -1, "colour": "red" }), 4),
        ("/dev/users", json!({ "user_id": "x", "name": "X", "balance_minor": 1.5, "status": "LOST" }), 2),
        ("/dev/users", json!({ "user_id": "x", "name": "X", "balance_minor": 0, "channels": ["FAX"] }), 1),
        ("/dev/users", json!({ "user_id": "x", "name": "X", "balance_minor": 0, "channels": ["PUSH", "PUSH"] }), 1),
        ("/dev/users", json!({ "user_id": "x", "name": "X", "balance_minor": 0, "currency": "yen" }), 1),
        ("/dev/users", json!({ "user_id": "bank", "name": "X", "balance_minor": 0 }), 1),
        ("/dev/users", json!([]), 1),
        ("/dev/token", json!({ "user_id": "aoi" }), 1),
        ("/dev/token", json!({ "user_id": "aoi", "session_id": "" }), 1),
        ("/dev/clock", json!({}), 1),
        ("/dev/clock", json!({ "advance_s": -1 }), 1),
        ("/dev/clock", json!({ "advance_s": 1, "set": "2026-12-01T23:59:59+09:00" }), 1),
        ("/dev/clock", json!({ "set": "tomorrow" }), 1),
        ("/dev/clock", json!({ "set": "1970-01-01T00:00:00Z" }), 1),
        ("/dev/faults", json!({ "drop_confirm_replies": "two", "crash_after_send": -1 }), 2),
        ("/dev/faults", json!({ "fail_channel": "EMAIL" }), 1),
        ("/dev/faults", json!({ "fail_times": 2 }), 1),
        ("/dev/faults", json!({ "rain": 1 }), 1),
    ] {
        let (status, answer) = client.post(path, body.clone()).await?;
        assert_eq!(status, 400, "{path} {body}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error.len() > 10), "{answer}");
        assert_eq!(answer["errors"].as_array().map(Vec::len), Some(faults), "{path} {body}: {answer}");
    }
    let broken = client.http.post(format!("{}/dev/faults", client.base)).body("{");
    assert_eq!(client.send(broken).await?.0, 400);
    let nobody = json!({ "user_id": "nobody", "session_id": "s" });
    assert_eq!(client.post("/dev/token", nobody).await?.0, 404);
    assert_eq!(client.send(client.http.delete(format!("{}/dev/users", client.base))).await?.0, 405);
    let (status, body) = client.send(client.http.get(format!("{}/dev/nothing", client.base))).await?;
    assert_eq!((status, &body["code"]), (404, &json!("TR004")));
    let (status, body) = client.send(client.http.get(format!("{}/", client.base))).await?;
    assert_eq!((status, &body["code"]), (404, &json!("TR004")));
    let token = client.token("aoi").await?;
    for size in [20_000, 3_000_000] {
        let large = client.http.post(format!("{}/v1/transfers", client.base)).bearer_auth(&token);
        let large = large.header("idempotency-key", "a-body-that-is-too-large").body(vec![b' '; size]);
        // The server may answer and hang up before all of a very large body is sent.
        if let Ok((status, body)) = client.send(large).await {
            assert_eq!((status, &body["code"]), (413, &json!("TR003")));
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_clock_is_every_handlers() -> Fallible {
    let server = Process::start(None)?;
    let client = server.client()?;
    let (status, set) = client.post("/dev/clock", json!({ "set": "2030-12-01T23:59:50+09:00" })).await?;
    assert_eq!((status, members(&set)), (200, vec!["now"]));
    assert!(set["now"].as_str().is_some_and(|now| now.starts_with("2030-12-01T14:59:5")), "{set}");
    let done = client.transfer("aoi", "ren", 1_000, "in-the-year-2030").await?;
    assert!(done["posted_at"].as_str().is_some_and(|at| at.starts_with("2030-12-01T15:00:2")), "{done}");
    let (_, asked) = client.request("aoi", "ren", 1_000, "left-to-expire-in-2030").await?;
    assert_eq!(asked["result"], "INSTRUCTION_ACKNOWLEDGED");
    client.post("/dev/clock", json!({ "advance_s": 661 })).await?;
    let (status, swept) = client.post("/dev/sweep", json!({})).await?;
    assert_eq!((status, swept), (200, json!({ "expired": 1 })));
    Ok(())
}

#[tokio::test]
async fn faults_happen_and_are_survived() -> Fallible {
    let server = Process::start(None)?;
    let client = server.client()?;
    let none = json!({
        "drop_confirm_replies": 0, "deliver_events_times": 1, "fail_channel": null, "fail_times": 0,
        "crash_after_send": 0,
    });
    assert_eq!(client.post("/dev/faults", json!({})).await?, (200, none.clone()));
    let some =
        json!({ "drop_confirm_replies": 1, "deliver_events_times": 3, "fail_channel": "EMAIL", "fail_times": 2 });
    let (status, set) = client.post("/dev/faults", some).await?;
    assert_eq!((status, &set["fail_channel"], &set["fail_times"]), (200, &json!("EMAIL"), &json!(2)));

    let id = client.authorized("aoi", "ren", 1_000, "faults-happen-to-this").await?;
    assert!(client.step("aoi", &id, "confirmation", json!({})).await.is_err(), "the reply is lost");
    let (status, again) = client.step("aoi", &id, "confirmation", json!({})).await?;
    assert_eq!((status, &again["result"]), (200, &json!("FINANCIAL_COMMITTED")));
    let rows = client.notifications_when(|rows| rows.len() == 4 && rows.iter().all(is_terminal)).await?;
    let names = ["body", "channel", "event_id", "provider_calls", "state", "subject", "user_id"];
    assert!(rows.iter().all(|row| members(row) == names && row["state"] == "SENT"), "{rows:#?}");
    let calls = |channel: &str| -> i64 {
        rows.iter().filter(|row| row["channel"] == channel).filter_map(|row| row["provider_calls"].as_i64()).sum()
    };
    assert_eq!((calls("EMAIL"), calls("PUSH")), (4, 2), "two refusals, and each accepted once");
    let ledger = client.get("/dev/ledger").await?;
    let names = ["balance_sum_minor", "entries", "instructions", "journals", "transfers", "violations"];
    assert_eq!(members(&ledger), names);
    let counts = ["instructions", "transfers", "journals", "entries"].map(|name| ledger[name].clone());
    assert_eq!(counts, [json!(1), json!(1), json!(1), json!(2)]);
    let reset = json!({ "deliver_events_times": 0, "fail_channel": null });
    assert_eq!(client.post("/dev/faults", reset).await?, (200, none));
    Ok(())
}

#[tokio::test]
async fn a_crash_after_the_send_ends_unknown_and_spares_the_other_channel() -> Fallible {
    let server = Process::start(None)?;
    let client = server.client()?;
    client.post("/dev/faults", json!({ "crash_after_send": 1 })).await?;
    client.transfer("aoi", "ren", 1_000, "a-crash-after-the-send").await?;
    let stuck = |rows: &[Value]| {
        let count = |state: &str| rows.iter().filter(|row| row["state"] == state).count();
        rows.len() == 4 && count("SENT") == 3 && count("SENDING") == 1
    };
    client.notifications_when(stuck).await?;
    client.post("/dev/clock", json!({ "advance_s": 61 })).await?;
    client.post("/dev/sweep", json!({})).await?;
    let rows = client.notifications_when(|rows| rows.iter().all(is_terminal)).await?;
    assert!(rows.iter().all(|row| row["provider_calls"] == 1), "{rows:#?}");
    assert_eq!(rows.iter().filter(|row| row["state"] == "UNKNOWN").count(), 1);
    Ok(())
}

#[tokio::test]
async fn a_repeated_header_is_seen_over_http() -> Fallible {
    let server = Process::start(None)?;
    let client = server.client()?;
    let token = client.token("aoi").await?;
    let twice = |name: &str, value: &str| {
        let request = client.http.post(format!("{}/v1/transfers", server.base)).bearer_auth(&token).json(&json!({}));
        request.header(name, value).header(name, value)
    };
    for (name, value, status, code) in
        [("idempotency-key", "0123456789abcdef", 400, "TR002"), ("authorization", "Bearer other", 401, "AU001")]
    {
        let (answered, problem) = client.send(twice(name, value)).await?;
        assert_eq!((answered, problem["code"].as_str()), (status, Some(code)), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn the_bank_gives_out_more_than_one_account_holds() -> Fallible {
    let server = Process::start(None)?;
    let client = server.client()?;
    let most = 9_007_199_254_740_991_i64;
    for user in ["rich", "richer"] {
        let (status, body) =
            client.post("/dev/users", json!({ "user_id": user, "name": user, "balance_minor": most })).await?;
        assert_eq!((status, &body["balance_minor"]), (201, &json!(most)), "{body}");
    }
    let (_, large) = client.request("aoi", "rich", 1, "over-the-ceiling").await?;
    let code = client.get("/dev/totp?user_id=aoi").await?;
    let approval = json!({ "totp_code": code["totp_code"], "content_hash": large["content_hash"] });
    assert_eq!(client.step("aoi", &large["request_id"], "authorization", approval).await?.0, 200);
    let (status, refused) = client.step("aoi", &large["request_id"], "confirmation", json!({})).await?;
    assert_eq!((status, &refused["code"]), (422, &json!("TR005")));
    assert_eq!(client.get("/dev/ledger").await?["violations"], json!([]));
    Ok(())
}
