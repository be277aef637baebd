//! `ops outbox republish`.

use crate::{
    answer::{Answer, Fault},
    ops::Ops,
    progress::Progress,
    values::Since,
};
use jiff::Timestamp;
use serde_json::json;
use shared::{queue::to_cloud_event, store::orders::facts};

/// What a republishing did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Republished {
    /// Postings and failures since then.
    pub records: u64,
    /// Events put on the queue.
    pub sent: u64,
    /// Events left out, since their inbox is open.
    pub told: u64,
}

/// Puts the events since then on the queue again.
///
/// # Errors
/// [`Fault`]. Events may have been sent before it; sending them again does no harm.
pub async fn run(ops: &Ops, since: Since, missing_only: bool) -> Result<Answer, Fault> {
    let since = since.at(ops.now());
    let order = ops.order("outbox republish")?;
    let details = facts([("since", format!("{since:.3}")), ("missing_only", missing_only.to_string())]);
    ops.store.note(&order, "outbox", &details, ops.deadline()).await?;
    let done = republish(ops, since, missing_only).await?;
    let json = json!({
        "since": format!("{since:.3}"),
        "missing_only": missing_only,
        "records": done.records,
        "events_sent": done.sent,
        "events_left_out": done.told,
    });
    let left_out = if missing_only { format!(", {} left out that have an inbox", done.told) } else { String::new() };
    let text =
        format!("{} events sent, of {} postings and failures since {since:.3}{left_out}", done.sent, done.records);
    Ok(Answer::good(json, text))
}

/// Sends the events since `since`, the oldest first.
///
/// # Errors
/// [`Fault`].
pub async fn republish(ops: &Ops, since: Timestamp, missing_only: bool) -> Result<Republished, Fault> {
    let queue = ops.queue()?;
    let bar = Progress::of_tables(&ops.store, &[&ops.store.tables().outbox]).await;
    let mut records = ops.store.outbox_records(&mut |table, items| bar.advance(table, items)).await?;
    bar.end();
    records.retain(|record| record.at >= since);
    records.sort_by(|one, other| (one.at, &one.transfer).cmp(&(other.at, &other.transfer)));
    let bar = Progress::of(records.len());
    let mut done = Republished::default();
    for record in &records {
        for event in record.events() {
            if missing_only && ops.store.has_inbox(&event.id, ops.deadline()).await? {
                done.told = done.told.saturating_add(1);
                continue;
            }
            queue.send(to_cloud_event(&event)).await?;
            done.sent = done.sent.saturating_add(1);
        }
        done.records = done.records.saturating_add(1);
        bar.advance("sent", 1);
    }
    bar.end();
    Ok(done)
}
