//! The server is killed in the middle of its work, and starts again on the same file: nothing is lost, nothing doubled.

#![expect(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test may stop at what it does not expect")]

mod common;

use common::{Client, Fallible, PATIENCE, Process, is_terminal};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// What the outside world was told before the line went dead.
#[derive(Default)]
struct Told {
    /// Instructions that were to be confirmed.
    asked: Mutex<Vec<Value>>,
    /// Of these, the transfers that were answered with FINANCIAL_COMMITTED.
    committed: Mutex<BTreeSet<String>>,
    confirmed: AtomicUsize,
}

const PAYERS: usize = 3;

/// Sends transfers until the line goes dead. `life` keeps the idempotency keys of one life of the server apart.
async fn send_transfers(client: Client, life: usize, payer: usize, told: Arc<Told>) -> Fallible {
    let (from, to) = (format!("payer-{payer}"), format!("payer-{}", (payer + 1) % PAYERS));
    for number in 0.. {
        let key = format!("restart-{life:02}-{payer:02}-{number:04}");
        let id = authorized(&client, &from, &to, &key).await?;
        told.asked.lock().unwrap().push(json!({ "user": from, "id": id }));
        let (status, body) = client.step(&from, &id, "confirmation", json!({})).await?;
        if status == 200 {
            assert_eq!(body["result"], "FINANCIAL_COMMITTED", "{body}");
            told.committed.lock().unwrap().insert(body["transfer_id"].as_str().ok_or("no id")?.to_owned());
        }
        told.confirmed.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// An instruction that is authorized. The payers share one clock, so a code may be used up or too old by the time that
/// it arrives; then the next one is tried.
async fn authorized(client: &Client, from: &str, to: &str, key: &str) -> Fallible<Value> {
    loop {
        client.post("/dev/clock", json!({ "advance_s": 30 })).await?;
        let (status, asked) = client.request(from, to, 10, key).await?;
        if status == 429 {
            continue;
        }
        let code = client.get(&format!("/dev/totp?user_id={from}")).await?;
        let approval = json!({ "totp_code": code["totp_code"], "content_hash": asked["content_hash"] });
        let (status, _) = client.step(from, &asked["request_id"], "authorization", approval).await?;
        match status {
            200 => return Ok(asked["request_id"].clone()),
            // Too many codes came too late: the lock is waited for on the server's clock.
            429 => drop(client.post("/dev/clock", json!({ "advance_s": 900 })).await?),
            _ => {}
        }
    }
}

/// Waits for a fact, for a generous while.
async fn until(what: &str, fact: impl Fn() -> bool) -> Fallible {
    let end = Instant::now() + PATIENCE;
    while !fact() {
        if Instant::now() > end {
            return Err(format!("waited in vain: {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Everything that must be true once the server is up again and has settled.
async fn check(client: &Client, told: &Told) -> Fallible {
    // Half-delivered notifications end by their lease, which is waited for on the server's clock.
    client.post("/dev/clock", json!({ "advance_s": 61 })).await?;
    client.post("/dev/sweep", json!({})).await?;
    let ledger = client.get("/dev/ledger").await?;
    assert_eq!(ledger["violations"], json!([]), "{ledger}");
    assert_eq!(ledger["balance_sum_minor"], json!({ "JPY": 0 }));
    let transfers = usize::try_from(ledger["transfers"].as_u64().ok_or("no count")?)?;
    assert_eq!(ledger["journals"], json!(transfers));
    assert_eq!(ledger["entries"], json!(transfers * 2));

    // What was told is so; what was not told is one of the two, and can be looked up.
    let (asked, committed) = (told.asked.lock().unwrap().clone(), told.committed.lock().unwrap().clone());
    let mut posted = BTreeSet::new();
    for asked in &asked {
        let (user, id) = (asked["user"].as_str().ok_or("no user")?, asked["id"].as_str().ok_or("no id")?);
        let token = client.token(user).await?;
        let url = format!("{}/v1/transfers/{id}", client.base);
        let (status, found) = client.send(client.http.get(url).bearer_auth(token)).await?;
        assert_eq!(status, 200, "{found}");
        if found["result"] == "FINANCIAL_COMMITTED" {
            posted.insert(found["transfer_id"].as_str().ok_or("no transfer")?.to_owned());
        }
    }
    assert!(committed.is_subset(&posted), "a transfer that was told is gone");
    assert_eq!(posted.len(), transfers);

    // Every posted transfer is told to both, on both channels, at most once each.
    let rows = client.notifications_when(|rows| rows.len() == transfers * 4 && rows.iter().all(is_terminal)).await?;
    let names: BTreeSet<_> = rows.iter().map(|row| (row["event_id"].to_string(), row["channel"].to_string())).collect();
    assert_eq!(names.len(), transfers * 4);
    for row in &rows {
        let calls = row["provider_calls"].as_i64().ok_or("no count")?;
        assert!(row["state"] == "SENT" && calls == 1 || row["state"] == "UNKNOWN" && calls <= 1, "{row}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_transfers_nothing_is_lost_and_nothing_doubled() -> Fallible {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("bank.db");
    let told = Arc::new(Told::default());
    let mut server = Process::start(Some(&data))?;
    for payer in 0..PAYERS {
        let user = json!({ "user_id": format!("payer-{payer}"), "name": "Payer", "balance_minor": 100_000 });
        assert_eq!(server.client()?.post("/dev/users", user).await?.0, 201);
    }
    // Each life ends at another point: after so many confirms, and a little while that differs.
    for (life, confirms, while_us) in [(0, 3, 0), (1, 7, 900), (2, 5, 2_500), (3, 9, 6_000), (4, 4, 11_000)] {
        told.confirmed.store(0, Ordering::SeqCst);
        let senders: Vec<_> = (0..PAYERS)
            .map(|payer| tokio::spawn(send_transfers(server.client().unwrap(), life, payer, Arc::clone(&told))))
            .collect();
        until("transfers to be confirmed", || told.confirmed.load(Ordering::SeqCst) >= confirms).await?;
        tokio::time::sleep(Duration::from_micros(while_us)).await;
        server.kill()?;
        for sender in senders {
            assert!(sender.await?.is_err(), "a sender ended before the line went dead");
        }
        server = Process::start(Some(&data))?;
        check(&server.client()?, &told).await?;
    }
    assert_eq!(server.terminate()?, Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_send_and_record_the_send_is_not_repeated() -> Fallible {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("bank.db");
    let mut server = Process::start(Some(&data))?;
    let client = server.client()?;
    // The provider accepts, and the notifier dies before it writes that down; then the whole process does.
    assert_eq!(client.post("/dev/faults", json!({ "crash_after_send": 1 })).await?.0, 200);
    client.transfer("aoi", "ren", 1_000, "killed-between-send-and-record").await?;
    // Only what the crash left is under way when the process dies; the other sends are recorded.
    let stuck = |rows: &[Value]| {
        let count = |state: &str| rows.iter().filter(|row| row["state"] == state).count();
        rows.len() == 4 && count("SENT") == 3 && count("SENDING") == 1
    };
    client.notifications_when(stuck).await?;
    server.kill()?;
    let server = Process::start(Some(&data))?;
    let client = server.client()?;
    client.post("/dev/clock", json!({ "advance_s": 61 })).await?;
    client.post("/dev/sweep", json!({})).await?;
    let rows = client.notifications_when(|rows| rows.len() == 4 && rows.iter().all(is_terminal)).await?;
    assert_eq!(rows.iter().filter(|row| row["state"] == "UNKNOWN").count(), 1, "{rows:#?}");
    assert!(rows.iter().all(|row| row["provider_calls"] == 1 && row["subject"] != ""), "{rows:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_people_secrets_tokens_and_the_clock() -> Fallible {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("bank.db");
    let mut server = Process::start(Some(&data))?;
    let client = server.client()?;
    let (status, eve) =
        client.post("/dev/users", json!({ "user_id": "eve", "name": "Eve", "balance_minor": 5 })).await?;
    assert_eq!(status, 201);
    let token = client.token("eve").await?;
    client.post("/dev/clock", json!({ "advance_s": 86_400 })).await?;
    let before = client.get("/dev/clock").await?;
    client.transfer("aoi", "ren", 1_000, "before-the-restart").await?;
    assert_eq!(server.terminate()?, Some(0));

    let mut server = Process::start(Some(&data))?;
    let client = server.client()?;
    assert_eq!(client.user("eve").await?, eve);
    let accounts = client.http.get(format!("{}/v1/accounts", client.base)).bearer_auth(token);
    assert_eq!(client.send(accounts).await?.0, 200);
    assert!(client.get("/dev/clock").await?["now"].as_str() > before["now"].as_str());
    client.transfer("aoi", "ren", 1_000, "after-the-restart").await?;
    assert_eq!(client.user("aoi").await?["balance_minor"], 68_000);
    let ledger = client.get("/dev/ledger").await?;
    assert_eq!((&ledger["transfers"], &ledger["violations"]), (&json!(2), &json!([])));
    assert_eq!(server.terminate()?, Some(0));
    Ok(())
}
