//! Scenes about telling: everybody once, on every channel; and what the books say at the end.

use crate::demo::{Played, Stage, report::Scene};
use serde_json::json;

/// (e) An event that arrives again tells nobody again.
pub(crate) async fn five_times(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let (aoi, ren) = client.couple("e", 70_000, 0).await?;
    stage.settled().await?;
    let before = stage.deliveries();
    client.dev_post("/dev/faults", json!({ "deliver_events_times": 5 })).await?;
    let done = client.transfer(&aoi, &ren, 40_000, "demo-e-five-times").await?;
    scene.check("confirm 40,000", "200 FINANCIAL_COMMITTED", done.short());
    // With the first row of an event all of its copies are on the queue, so what is done when all is settled is all.
    client.told(&done, 4).await?;
    stage.settled().await?;
    client.dev_post("/dev/faults", json!({ "deliver_events_times": 1 })).await?;
    scene.check("count the deliveries of both events", 10, stage.deliveries().saturating_sub(before));
    let told = "aoi-e EMAIL SENT ×1\naoi-e PUSH SENT ×1\nren-e EMAIL SENT ×1\nren-e PUSH SENT ×1";
    scene.check("see how often a provider was called", told, client.told(&done, 4).await?);
    Ok(scene)
}

/// The invariants, over everything that the scenes left behind.
pub(crate) async fn books(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    stage.settled().await?;
    let ledger = client.dev_get("/dev/ledger").await?;
    scene.check("check the invariants", "[]", &ledger["violations"]);
    scene.check("add all balances up", json!({ "JPY": 0 }), &ledger["balance_sum_minor"]);
    let number = |name: &str| ledger[name].as_u64().unwrap_or(0);
    let (transfers, journals, entries) = (number("transfers"), number("journals"), number("entries"));
    let expected = format!("{transfers} transfers, {transfers} journals, {} entries", transfers.saturating_mul(2));
    let happened = format!("{transfers} transfers, {journals} journals, {entries} entries");
    scene.check("count the books", expected, happened);
    let shown = client.dev_get("/dev/notifications").await?;
    let rows = shown["notifications"].as_array().ok_or("no notifications")?;
    let once = rows.iter().filter(|row| row["state"] == "SENT" && row["provider_calls"] == 1).count();
    let all = rows.len();
    scene.check("count the notifications", format!("{all} sent once"), format!("{once} sent once"));
    Ok(scene)
}
