//! `ops verify`.

use crate::{
    answer::{Answer, Fault},
    cli::Verify,
    ops::Ops,
    progress::Progress,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use shared::{
    domain::{
        event::EventId,
        id::{TransferId, UserId},
        invariants::{Books, Entry, Subject, Violation, examine, examine_accounts, examine_transfers},
        notification::NotificationState,
    },
    store::{StoreError, survey::Survey},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long the outbox keeps its items at least, in seconds: less than their age at deletion.
const OUTBOX_KEPT_S: i64 = 29 * 24 * 60 * 60;

/// What the check found.
#[derive(Debug, Default)]
struct Findings {
    /// What is wrong, each naming its items.
    violations: Vec<String>,
    /// What looked wrong and could not be read as of one moment.
    unsettled: Vec<String>,
    /// How many things looked wrong at first and were read again.
    read_again: usize,
    /// Events that were not told in time.
    late: Vec<Late>,
}

/// An event without an inbox.
#[derive(Debug)]
struct Late {
    event: EventId,
    transfer: TransferId,
    at: Timestamp,
}

/// Reads everything and checks it.
///
/// # Errors
/// [`Fault`] if it could not be read: that says nothing of the books.
pub async fn run(ops: &Ops, verify: &Verify) -> Result<Answer, Fault> {
    let bar = Progress::of_tables(&ops.store, &ops.store.surveyed_tables()).await;
    let survey = ops.store.survey(&mut |table, items| bar.advance(table, items)).await?;
    bar.end();
    check(ops, verify, survey).await
}

/// Checks what was read, and reads again what looks wrong.
///
/// # Errors
/// [`Fault`] if it could not be read again.
pub async fn check(ops: &Ops, verify: &Verify, mut survey: Survey) -> Result<Answer, Fault> {
    let checked_at = ops.now();
    survey.books.outbox_since = checked_at.checked_sub(SignedDuration::from_secs(OUTBOX_KEPT_S)).ok();
    let mut findings = Findings { violations: survey.unreadable.clone(), ..Findings::default() };
    findings.violations.extend(rows_without_inbox(&survey));
    let suspicions = examine(&survey.books, &ops.zone);
    if !suspicions.is_empty() {
        tokio::time::sleep(Duration::from_secs(u64::try_from(verify.settle).unwrap_or(0))).await;
        confirm(ops, &survey.books, suspicions, &mut findings).await?;
    }
    let before = checked_at.checked_sub(SignedDuration::from_secs(verify.grace)).unwrap_or(Timestamp::MIN);
    late_events(ops, &survey, before, &mut findings).await?;
    let is_good = findings.violations.is_empty() && (findings.late.is_empty() || !verify.strict);
    Ok(Answer {
        json: report_json(checked_at, &survey, &findings, is_good),
        text: report_text(&survey, &findings),
        is_good,
    })
}

/// Both are written in one transaction, and a scan meets the inbox after its rows.
fn rows_without_inbox(survey: &Survey) -> Vec<String> {
    let events: BTreeSet<&EventId> = survey.rows.iter().map(|row| &row.event).collect();
    let lost = events.into_iter().filter(|event| !survey.inboxes.contains(*event));
    lost.map(|event| format!("{} has notifications and no inbox", event.as_str())).collect()
}

/// Reads again what looked wrong, each as of one moment, and keeps what is still wrong.
async fn confirm(ops: &Ops, books: &Books, suspicions: Vec<Violation>, findings: &mut Findings) -> Result<(), Fault> {
    let mut by_subject: BTreeMap<Subject, Vec<String>> = BTreeMap::new();
    for suspicion in suspicions {
        by_subject.entry(suspicion.subject).or_default().push(suspicion.text);
    }
    findings.read_again = by_subject.len();
    let seen = Seen::of(books, by_subject.keys());
    let bar = Progress::of(by_subject.len());
    for (subject, texts) in &by_subject {
        match read_again(ops, &seen, subject, books.outbox_since).await {
            Ok(Reading::Settled(violations)) => findings.violations.extend(violations),
            // An item that cannot be read is a violation itself, and what it explains would be guessing.
            Ok(Reading::AsItWas) | Err(StoreError::Corrupt(_)) => findings.violations.extend(texts.iter().cloned()),
            Ok(Reading::Unsettled) => findings.unsettled.extend(texts.iter().cloned()),
            Err(error) => return Err(error.into()),
        }
        bar.advance("read again", 1);
    }
    bar.end();
    Ok(())
}

/// What a second reading says.
enum Reading {
    /// As of one moment, this is wrong.
    Settled(Vec<String>),
    /// It never changes.
    AsItWas,
    /// It kept changing.
    Unsettled,
}

async fn read_again(
    ops: &Ops,
    seen: &Seen<'_>,
    subject: &Subject,
    outbox_since: Option<Timestamp>,
) -> Result<Reading, StoreError> {
    let texts = |found: Vec<Violation>| Reading::Settled(found.into_iter().map(|violation| violation.text).collect());
    Ok(match subject {
        Subject::Account(id) => match ops.store.account_books(id, ops.deadline()).await? {
            Some(books) => texts(examine_accounts(&books, &ops.zone)),
            None => Reading::Unsettled,
        },
        Subject::Transfer(id) => {
            let owner = seen.owners.get(id).copied();
            let known = seen.entries.get(id).map(Vec::as_slice).unwrap_or_default();
            match ops.store.transfer_books(id, owner, known, ops.deadline()).await? {
                Some(books) => texts(examine_transfers(&Books { outbox_since, ..books })),
                None => Reading::Unsettled,
            }
        }
        Subject::Currency(currency) => match ops.store.settled_accounts(ops.deadline()).await? {
            Some(accounts) => {
                let sum = Books { accounts, ..Books::default() }.balance_sums().remove(currency).unwrap_or(0);
                let wrong = (sum != 0).then(|| format!("balances in {currency} sum to {sum}"));
                Reading::Settled(wrong.into_iter().collect())
            }
            None => Reading::Unsettled,
        },
        Subject::Journals => Reading::AsItWas,
    })
}

/// Where the parts of suspicious transfers are.
struct Seen<'a> {
    owners: BTreeMap<&'a TransferId, &'a UserId>,
    entries: BTreeMap<&'a TransferId, Vec<Entry>>,
}

impl<'a> Seen<'a> {
    fn of(books: &'a Books, subjects: impl Iterator<Item = &'a Subject>) -> Self {
        let mut seen = Self { owners: BTreeMap::new(), entries: BTreeMap::new() };
        let transfers: BTreeMap<&str, &TransferId> = subjects
            .filter_map(|subject| match subject {
                Subject::Transfer(id) => Some((id.suffix(), id)),
                Subject::Account(_) | Subject::Currency(_) | Subject::Journals => None,
            })
            .collect();
        for instruction in &books.instructions {
            if let Some(id) = transfers.get(instruction.request_id.suffix()) {
                seen.owners.insert(id, &instruction.user);
            }
        }
        for entry in &books.entries {
            if let Some(id) = transfers.get(entry.transfer.suffix()) {
                seen.entries.entry(id).or_default().push(entry.clone());
            }
        }
        seen
    }
}

/// The events of what happened before `before` that have no inbox, each looked up again.
async fn late_events(ops: &Ops, survey: &Survey, before: Timestamp, findings: &mut Findings) -> Result<(), Fault> {
    let events = survey.books.outbox.iter().flat_map(|(transfer, events)| events.iter().map(move |id| (transfer, id)));
    let missing: Vec<_> = events.filter(|(_, event)| !survey.inboxes.contains(*event)).collect();
    let bar = Progress::of(missing.len());
    for (transfer, event) in missing {
        bar.advance("events looked up", 1);
        let record = match ops.store.outbox(transfer, ops.deadline()).await {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(fault @ StoreError::Corrupt(_)) => {
                findings.violations.push(format!("the outbox item of {transfer}: {fault}"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if record.at < before && !ops.store.has_inbox(event, ops.deadline()).await? {
            findings.late.push(Late { event: event.clone(), transfer: transfer.clone(), at: record.at });
        }
    }
    bar.end();
    findings.late.sort_by(|one, other| (one.at, &one.event).cmp(&(other.at, &other.event)));
    Ok(())
}

/// How many notifications are in each state.
fn states(survey: &Survey) -> BTreeMap<&'static str, usize> {
    let mut states: BTreeMap<_, usize> = NotificationState::ALL.iter().map(|state| (state.as_str(), 0)).collect();
    for row in &survey.rows {
        let count = states.entry(row.state.as_str()).or_default();
        *count = count.saturating_add(1);
    }
    states
}

/// A sum as a JSON number, or as text where it is beyond one.
fn sum_json(sum: i128) -> Value {
    i64::try_from(sum).map_or_else(|_| Value::from(sum.to_string()), Value::from)
}

fn report_json(checked_at: Timestamp, survey: &Survey, findings: &Findings, is_good: bool) -> Value {
    let books = &survey.books;
    let transfers = books.journals.iter().filter(|journal| journal.request_id.is_some()).count();
    let sums = books.balance_sums().into_iter().map(|(currency, sum)| (currency, sum_json(sum)));
    let late = findings.late.iter().map(|late| {
        json!({
            "event_id": late.event.as_str(),
            "transfer_id": late.transfer.as_str(),
            "at": format!("{:.3}", late.at),
        })
    });
    json!({
        "ok": is_good,
        "checked_at": format!("{checked_at:.3}"),
        "counts": {
            "accounts": books.accounts.len(),
            "instructions": books.instructions.len(),
            "transfers": transfers,
            "deposits": books.journals.len().saturating_sub(transfers),
            "journals": books.journals.len(),
            "entries": books.entries.len(),
            "outbox_items": books.outbox.len(),
            "inboxes": survey.inboxes.len(),
            "notifications": states(survey),
        },
        "balance_sum_minor": sums.collect::<serde_json::Map<_, _>>(),
        "violations": findings.violations,
        "unsettled": findings.unsettled,
        "read_again": findings.read_again,
        "events_without_inbox": late.collect::<Vec<_>>(),
    })
}

fn report_text(survey: &Survey, findings: &Findings) -> String {
    let books = &survey.books;
    let mut lines = vec![format!(
        "{} accounts, {} instructions, {} journals, {} entries, {} outbox items, {} notifications",
        books.accounts.len(),
        books.instructions.len(),
        books.journals.len(),
        books.entries.len(),
        books.outbox.len(),
        survey.rows.len()
    )];
    lines.extend(books.balance_sums().iter().map(|(currency, sum)| format!("balances in {currency} sum to {sum}")));
    if findings.read_again > 0 {
        lines.push(format!("{} suspicions were read again", findings.read_again));
    }
    let states = states(survey);
    for word in [NotificationState::Unknown, NotificationState::Failed].map(NotificationState::as_str) {
        if let Some(count) = states.get(word).filter(|count| **count > 0) {
            lines.push(format!("{count} notifications are {word}: ops notifications list"));
        }
    }
    lines.extend(findings.unsettled.iter().map(|text| format!("UNSETTLED  {text} (it kept changing)")));
    lines.extend(findings.late.iter().map(|late| {
        format!("NOT TOLD   {} of {:.3} has no inbox: ops outbox republish", late.event.as_str(), late.at)
    }));
    lines.extend(findings.violations.iter().map(|text| format!("VIOLATION  {text}")));
    lines.push(match findings.violations.len() {
        0 => "the books are in order".to_owned(),
        count => format!("{count} violations"),
    });
    lines.join("\n")
}
