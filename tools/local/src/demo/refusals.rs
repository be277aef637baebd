//! Scenes about what does not happen: no posting without its own approval, and none after a door is closed.

use crate::demo::{
    Played, Stage,
    client::{Answer, Client, Failed, Person},
    money::balances,
    report::Scene,
};
use serde_json::json;

/// (f) Approvals from elsewhere, from earlier, for something else, and used ones.
pub(crate) async fn no_approval(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let (aoi, ren) = client.couple("f", 70_000, 0).await?;
    let elsewhere = client.login("aoi-f", "laptop").await?;
    let [_, journals_before, _] = client.counts().await?;
    let one = client.ask(&aoi, &ren, 10_000, "demo-f-the-first-one").await?;
    let two = client.ask(&aoi, &ren, 20_000, "demo-f-the-second-one").await?;
    client.advance(30).await?;
    client.approve(&elsewhere, &one).await?;
    let answer = client.confirm(&aoi, &one).await?;
    scene.check("confirm what another session approved", "403 AU005 other-session", answer.short());
    client.advance(30).await?;
    let code = client.approve(&aoi, &one).await?;
    let answer = client.confirm(&aoi, &two).await?;
    scene.check("confirm with the approval of another one", "403 AU005 none", answer.short());
    let answer = client.authorize(&aoi, &two, &code, two.text("content_hash")).await?;
    scene.check("use its code for this one", "403 AU002", answer.short());
    let fresh = client.code(&aoi).await?;
    let answer = client.authorize(&aoi, &two, &fresh, one.text("content_hash")).await?;
    scene.check("approve what was not shown", "422 AU006", answer.short());
    client.advance(61).await?;
    let answer = client.confirm(&aoi, &one).await?;
    scene.check("confirm 61 s after the approval", "403 AU005 stale", answer.short());
    let [_, journals, _] = client.counts().await?;
    let happened =
        format!("{}, {} journals", balances(client, &aoi, &ren).await?, journals.saturating_sub(journals_before));
    scene.check("see what moved", "70000 and 0, 0 journals", happened);
    Ok(scene)
}

/// (h) Expired, cancelled, failed.
pub(crate) async fn closed(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let (aoi, ren) = client.couple("h", 70_000, 0).await?;
    expiry(client, &aoi, &ren, &mut scene).await?;
    let cancelled = client.ask(&aoi, &ren, 10_000, "demo-h-cancelled-one").await?;
    let answer = client.cancel(&aoi, &cancelled).await?;
    scene.check("cancel another", "200 NO_POSTING_CONFIRMED", answer.short());
    let answer = client.confirm(&aoi, &cancelled).await?;
    scene.check("confirm it all the same", "409 TR010", answer.short());
    let failed = client.transfer(&aoi, &ren, 80_000, "demo-h-too-much-money").await?;
    scene.check("confirm 80,000", "422 TR008", failed.short());
    let failed = client.get(&aoi, "/v1/transfers?idempotency_key=demo-h-too-much-money").await?;
    scene.check("look it up", "200 NO_POSTING_CONFIRMED", failed.short());
    let told = "aoi-h EMAIL SENT ×1\naoi-h PUSH SENT ×1";
    scene.check("see who was told", told, client.told(&failed, 2).await?);
    scene.check("look at the accounts", "70000 and 0", balances(client, &aoi, &ren).await?);
    Ok(scene)
}

/// Past its time, an instruction is neither open nor known to be closed until it is fenced.
async fn expiry(client: &Client, aoi: &Person, ren: &Person, scene: &mut Scene) -> Result<(), Failed> {
    let asked: Answer = client.ask(aoi, ren, 10_000, "demo-h-expired-one").await?;
    client.advance(601).await?;
    let answer = client.status(aoi, &asked).await?;
    scene.check("let one expire, and look it up", "200 RESULT_UNKNOWN", answer.short());
    client.advance(60).await?;
    let swept = client.dev_post("/dev/sweep", json!({})).await?;
    let fenced = swept["expired"].as_i64().is_some_and(|expired| expired >= 1);
    scene.check("sweep a minute later", "fenced", if fenced { "fenced" } else { "not fenced" });
    let answer = client.status(aoi, &asked).await?;
    scene.check("look it up again", "200 NO_POSTING_CONFIRMED", answer.short());
    Ok(())
}
