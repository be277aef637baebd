//! A scene about the day: limits hold until midnight in Japan, and not a second longer.

use crate::demo::{
    Played, Stage,
    client::{Client, Failed},
    money::balances,
    report::Scene,
};
use jiff::{Timestamp, ToSpan, ZonedDateTime, tz::TimeZone};
use serde_json::json;

/// (i) The limit of a day is reached at 23:59:59, and free again at 00:00:00.
pub(crate) async fn midnight(stage: &Stage) -> Played {
    let (mut scene, client) = (Scene::default(), &stage.client);
    let options = json!({ "daily_amount_limit_minor": 50_000 });
    let aoi = client.newcomer("aoi-i", "Aoi", 200_000, options).await?;
    let ren = client.newcomer("ren-i", "Ren", 0, json!({})).await?;
    let midnight = next_midnight(client).await?;
    set(client, &midnight.checked_sub(2.minutes())?).await?;
    let done = client.transfer(&aoi, &ren, 40_000, "demo-i-within-the-limit").await?;
    scene.check("send 40,000 of a daily 50,000", "200 FINANCIAL_COMMITTED", done.short());
    let late = client.ask(&aoi, &ren, 40_000, "demo-i-at-23-59-59").await?;
    let early = client.ask(&aoi, &ren, 40_000, "demo-i-at-00-00-00").await?;
    for asked in [&late, &early] {
        client.advance(30).await?;
        client.approve(&aoi, asked).await?;
    }
    set(client, &midnight.checked_sub(1.second())?).await?;
    let answer = client.confirm(&aoi, &late).await?;
    let expected = format!("422 TR012, until {}", midnight.strftime("%Y-%m-%dT%H:%M:%S%:z"));
    let happened = format!("{}, until {}", answer.short(), answer.text("resets_at"));
    scene.check("confirm another at 23:59:59", expected, happened);
    set(client, &midnight).await?;
    let answer = client.confirm(&aoi, &early).await?;
    scene.check("confirm a third at 00:00:00", "200 FINANCIAL_COMMITTED", answer.short());
    scene.check("look at the accounts", "120000 and 80000", balances(client, &aoi, &ren).await?);
    Ok(scene)
}

/// The next midnight in Japan that is far enough away to prepare for.
async fn next_midnight(client: &Client) -> Result<ZonedDateTime, Failed> {
    let shown = client.dev_get("/dev/clock").await?;
    let now: Timestamp = shown["now"].as_str().ok_or("no time")?.parse()?;
    let ready = now.to_zoned_datetime(TimeZone::get("Asia/Tokyo")?).checked_add(10.minutes())?;
    Ok(ready.tomorrow()?.start_of_day()?)
}

async fn set(client: &Client, to: &ZonedDateTime) -> Result<(), Failed> {
    let to = to.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    client.dev_post("/dev/clock", json!({ "set": to })).await.map(drop)
}
