//! `ops dlq redrive`.

use super::outbox::{Republished, republish};
use crate::{
    answer::{Answer, Fault},
    dead_letters::{DeadLetters, Letter},
    ops::Ops,
    progress::Progress,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use shared::{
    queue::{Queue, from_cloud_event},
    store::orders::facts,
};
use std::collections::BTreeSet;

/// The most that one receipt gives.
const RECEIPT_MAX: u32 = 10;
/// How much earlier than its arrival in the stream a record may have been written.
const STREAM_DELAY_S: i64 = 5 * 60;

/// What became of the letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Redriven {
    /// Put on the main queue, and deleted from the dead-letter queue.
    pub moved: u64,
    /// Put on the main queue, and not deleted: they may come a second time, which the inbox absorbs.
    pub doubled: u64,
    /// Left where they were, since they are no events.
    pub left: u64,
}

/// Moves up to `max` letters of each queue.
///
/// # Errors
/// [`Fault`]. No letter is deleted before what it stands for is on the main queue.
pub async fn run(ops: &Ops, max: u32) -> Result<Answer, Fault> {
    let (queue, order) = (ops.queue()?, ops.order("dlq redrive")?);
    let (dead, lost) = (ops.dead_letters.as_deref(), ops.lost_positions.as_deref());
    if dead.is_none() && lost.is_none() {
        return Err(Fault::Usage("say which queue: --dlq-url or --on-failure-url".to_owned()));
    }
    let details = facts([
        ("dlq", dead.is_some().to_string()),
        ("on_failure", lost.is_some().to_string()),
        ("max", max.to_string()),
    ]);
    ops.store.note(&order, "queues", &details, ops.deadline()).await?;
    let (mut json, mut lines, mut is_good) = (serde_json::Map::new(), Vec::new(), true);
    if let Some(letters) = dead {
        let done = redrive(letters, queue, max).await?;
        is_good &= done.left == 0;
        json.insert("dlq".to_owned(), json!({ "moved": done.moved, "doubled": done.doubled, "left": done.left }));
        lines.push(format!(
            "{} moved, {} of them may come twice",
            done.moved.saturating_add(done.doubled),
            done.doubled
        ));
        if done.left > 0 {
            lines.push(format!("{} left in the queue: they are no events of furikomi's", done.left));
        }
    }
    if let Some(letters) = lost {
        let recovered = recover(ops, letters, max).await?;
        is_good &= recovered.left == 0;
        let (positions, left, sent) = (recovered.positions, recovered.left, recovered.republished.sent);
        json.insert("on_failure".to_owned(), json!({ "positions": positions, "left": left, "events_sent": sent }));
        lines.push(format!("{positions} lost positions, {sent} events sent from the outbox"));
        if left > 0 {
            lines.push(format!("{left} left in the queue: they are no positions of a stream"));
        }
    }
    Ok(Answer { json: Value::Object(json), text: lines.join("\n"), is_good })
}

/// Moves letters that are events to `queue`: received, sent, and only then deleted. Ends when `max` were seen, or when
/// the queue gives nothing new.
///
/// # Errors
/// [`Fault::Queue`] at the first letter that could not be sent; it stays where it is.
pub async fn redrive(letters: &dyn DeadLetters, queue: &dyn Queue, max: u32) -> Result<Redriven, Fault> {
    let mut done = Redriven::default();
    let mut reading = Reading::of(letters, max);
    while let Some(page) = reading.next().await? {
        for letter in page {
            if from_cloud_event(&letter.body).is_err() {
                done.left = done.left.saturating_add(1);
                continue;
            }
            queue.send(letter.body.clone()).await?;
            match letters.delete(&letter).await {
                Ok(()) => done.moved = done.moved.saturating_add(1),
                Err(_) => done.doubled = done.doubled.saturating_add(1),
            }
        }
    }
    reading.bar.end();
    Ok(done)
}

/// What became of the lost positions.
struct Recovered {
    positions: u64,
    left: u64,
    republished: Republished,
}

/// Sends from the outbox what the stream's positions stand for, from the earliest of them on, and then deletes them.
async fn recover(ops: &Ops, letters: &dyn DeadLetters, max: u32) -> Result<Recovered, Fault> {
    let (mut found, mut left, mut since) = (Vec::new(), 0_u64, Timestamp::MAX);
    let mut reading = Reading::of(letters, max);
    while let Some(page) = reading.next().await? {
        for letter in page {
            match arrival(&letter.body) {
                Some(at) => {
                    since = since.min(at);
                    found.push(letter);
                }
                None => left = left.saturating_add(1),
            }
        }
    }
    reading.bar.end();
    let mut recovered = Recovered { positions: 0, left, republished: Republished::default() };
    if found.is_empty() {
        return Ok(recovered);
    }
    let since = since.checked_sub(SignedDuration::from_secs(STREAM_DELAY_S)).unwrap_or(since);
    recovered.republished = republish(ops, since, true).await?;
    for letter in &found {
        letters.delete(letter).await?;
        recovered.positions = recovered.positions.saturating_add(1);
    }
    Ok(recovered)
}

/// When the first record of a failed batch arrived in its stream, as Lambda tells the on-failure queue.
fn arrival(body: &str) -> Option<Timestamp> {
    let body: Value = serde_json::from_str(body).ok()?;
    body["DDBStreamBatchInfo"]["approximateArrivalOfFirstRecord"].as_str()?.parse().ok()
}

/// A queue's letters, each once: those that are left come back after a while.
struct Reading<'a> {
    letters: &'a dyn DeadLetters,
    seen: BTreeSet<String>,
    left: u32,
    bar: Progress,
}

impl<'a> Reading<'a> {
    fn of(letters: &'a dyn DeadLetters, max: u32) -> Self {
        Self {
            letters,
            seen: BTreeSet::new(),
            left: max,
            bar: Progress::of(usize::try_from(max).unwrap_or(usize::MAX)),
        }
    }

    /// The next letters; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Letter>>, Fault> {
        let wanted = i32::try_from(self.left.min(RECEIPT_MAX)).unwrap_or(1);
        if wanted == 0 {
            return Ok(None);
        }
        let mut page = self.letters.receive(wanted).await?;
        page.retain(|letter| self.seen.insert(letter.id.clone()));
        self.left = self.left.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        self.bar.advance("letters", page.len());
        Ok(if page.is_empty() { None } else { Some(page) })
    }
}
