//! Scenes about money: once, never twice, never less than nothing, and never unaccounted for.

use crate::demo::{
    Played, Stage,
    client::{Answer, Client, Failed, Person},
    report::Scene,
};
use futures_util::future::{join_all, try_join_all};
use serde_json::json;

/// Transfers of each direction in the scene that goes both ways.
const EACH_WAY: usize = 50;
/// Of them, those that are confirmed at the same time: as many as one payer can have authorized.
const AT_ONCE: usize = 2;

/// (a) One transfer and its four notifications.
pub(crate) async fn one_transfer(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let (aoi, ren) = (client.login("aoi", "phone").await?, client.login("ren", "phone").await?);
    let before = (client.balance(&aoi).await?, client.balance(&ren).await?);
    scene.check("look at the accounts", "70000 and 0", format!("{} and {}", before.0, before.1));
    let done = client.transfer(&aoi, &ren, 10_000, "demo-a-one-transfer").await?;
    scene.check("request, authorize and confirm 10,000", "200 FINANCIAL_COMMITTED", done.short());
    scene.check("look again", "60000 and 10000", balances(client, &aoi, &ren).await?);
    let told = "aoi EMAIL SENT ×1\naoi PUSH SENT ×1\nren EMAIL SENT ×1\nren PUSH SENT ×1";
    scene.check("see who was told", told, client.told(&done, 4).await?);
    Ok(scene)
}

/// (b) The same instruction, sent again and again.
pub(crate) async fn double_click(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let (aoi, ren) = client.couple("b", 70_000, 0).await?;
    let key = "demo-b-double-click";
    let [before, ..] = client.counts().await?;
    let sends = (0..20).map(|_| client.request(&aoi, &ren, 40_000, key));
    let answers = try_join_all(sends).await?;
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    let first = answers.first().ok_or("no answers")?;
    let same = answers.iter().all(|answer| answer.text("request_id") == first.text("request_id"));
    let happened = format!("{} × 201, {} × 200, {} id", count(201), count(200), if same { "one" } else { "not one" });
    scene.check("send one key 20 times at once", "1 × 201, 19 × 200, one id", happened);
    let [after, ..] = client.counts().await?;
    scene.check("count the instructions", 1, after.saturating_sub(before));
    let other = client.request(&aoi, &ren, 50_000, key).await?;
    scene.check("send the key with 50,000", "422 TR009", other.short());
    let original = client.status(&aoi, first).await?;
    let happened = format!("{} {}", original.short(), original.body["amount_minor"]);
    scene.check("look the original up", "200 INSTRUCTION_ACKNOWLEDGED 40000", happened);
    Ok(scene)
}

/// (c) Two genuine transfers, and a balance for one.
pub(crate) async fn race(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let (aoi, ren) = client.couple("c", 70_000, 0).await?;
    let one = client.ask(&aoi, &ren, 40_000, "demo-c-the-first-one").await?;
    let two = client.ask(&aoi, &ren, 40_000, "demo-c-the-second-one").await?;
    for asked in [&one, &two] {
        client.advance(30).await?;
        client.approve(&aoi, asked).await?;
    }
    let answers = try_join_all([client.confirm(&aoi, &one), client.confirm(&aoi, &two)]).await?;
    let mut shown: Vec<String> = answers.iter().map(Answer::short).collect();
    shown.sort();
    scene.check("confirm twice 40,000 at once", "200 FINANCIAL_COMMITTED\n422 TR008", shown.join("\n"));
    scene.check("look at the accounts", "30000 and 40000", balances(client, &aoi, &ren).await?);
    Ok(scene)
}

/// (d) It was posted, and nobody was told.
pub(crate) async fn lost_reply(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let (aoi, ren) = client.couple("d", 70_000, 0).await?;
    let before = client.counts().await?;
    let key = "demo-d-lost-reply";
    let asked = client.ask(&aoi, &ren, 40_000, key).await?;
    client.advance(30).await?;
    client.approve(&aoi, &asked).await?;
    client.dev_post("/dev/faults", json!({ "drop_confirm_replies": 1 })).await?;
    let lost = client.confirm(&aoi, &asked).await;
    let happened = lost.map_or_else(|_| "no answer".to_owned(), |answer| answer.short());
    scene.check("confirm, and cut the line after the commit", "no answer", happened);
    let by_id = client.status(&aoi, &asked).await?;
    scene.check("look it up by its id", "200 FINANCIAL_COMMITTED", by_id.short());
    let by_key = client.get(&aoi, &format!("/v1/transfers?idempotency_key={key}")).await?;
    scene.check("look it up by its key", "200 FINANCIAL_COMMITTED", by_key.short());
    let again = client.confirm(&aoi, &asked).await?;
    let same = again.replayed && again.text("transfer_id") == by_id.text("transfer_id");
    let happened = format!("{}, {} transfer", again.short(), if same { "the same" } else { "another" });
    scene.check("confirm again", "200 FINANCIAL_COMMITTED, the same transfer", happened);
    let after = client.counts().await?;
    let [_, journals, entries] = [0, 1, 2].map(|index: usize| {
        after.get(index).copied().unwrap_or(-1).saturating_sub(before.get(index).copied().unwrap_or(-1))
    });
    scene.check("count the books", "1 journal, 2 entries", format!("{journals} journal, {entries} entries"));
    scene.check("look at the accounts", "30000 and 40000", balances(client, &aoi, &ren).await?);
    Ok(scene)
}

/// (g) Fifty each way, in opposite directions at the same time.
pub(crate) async fn both_ways(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let (aoi, ren) = client.couple("g", 70_000, 70_000).await?;
    let mut committed: usize = 0;
    for round in 0..EACH_WAY.div_euclid(AT_ONCE) {
        let mut ready: Vec<(&Person, Answer)> = Vec::new();
        for number in 0..AT_ONCE {
            client.advance(30).await?;
            for (from, to, amount) in [(&aoi, &ren, 700), (&ren, &aoi, 500)] {
                let key = format!("demo-g-{}-{round:02}-{number:02}", from.user);
                let asked = client.ask(from, to, amount, &key).await?;
                client.approve(from, &asked).await?;
                ready.push((from, asked));
            }
        }
        let confirms = join_all(ready.iter().map(|(from, asked)| client.confirm(from, asked))).await;
        let done = confirms.into_iter().flatten().filter(|answer| answer.text("result") == "FINANCIAL_COMMITTED");
        committed = committed.saturating_add(done.count());
    }
    scene.check("confirm 50 × 700 and 50 × 500", "100 committed", format!("{committed} committed"));
    scene.check("look at the accounts", "60000 and 80000", balances(client, &aoi, &ren).await?);
    Ok(scene)
}

/// Both balances, as a table can show them.
pub(crate) async fn balances(client: &Client, aoi: &Person, ren: &Person) -> Result<String, Failed> {
    Ok(format!("{} and {}", client.balance(aoi).await?, client.balance(ren).await?))
}
