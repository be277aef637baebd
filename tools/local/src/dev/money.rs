//! `/dev/notifications` and `/dev/ledger`: what became of it all.

use crate::{bank::Bank, dev::error::DevError};
use axum::{Json, extract::State};
use serde_json::{Value, json};
use shared::domain::{
    instruction::State as InstructionState,
    invariants::{Books, violations},
};
use std::{collections::BTreeSet, sync::Arc};

/// `GET /dev/notifications`: one object per (event, channel), in the order of their names.
pub(crate) async fn notifications(State(bank): State<Arc<Bank>>) -> Result<Json<Value>, DevError> {
    let (_, mut rows) = bank.app.store.all_notifications().await?;
    rows.sort_by(|one, other| (&one.event, one.channel).cmp(&(&other.event, other.channel)));
    let calls = bank.keep.calls().await.map_err(DevError::Internal)?;
    let shown: Vec<Value> = rows
        .iter()
        .map(|row| {
            let (event_id, channel) = (row.event.as_str(), row.channel.as_str());
            let seen = calls.get(&format!("{event_id}/{channel}")).cloned().unwrap_or_default();
            json!({
                "event_id": event_id,
                "channel": channel,
                "user_id": row.recipient.as_str(),
                "state": row.state.as_str(),
                "provider_calls": seen.count,
                "subject": seen.subject,
                "body": seen.body,
            })
        })
        .collect();
    Ok(Json(json!({ "notifications": shown })))
}

/// `GET /dev/ledger`: counted from the items. `transfers` are completed instructions; `journals` and `entries` are
/// those of transfers: the deposits that opened accounts are not counted there, but are part of the sums and of the
/// check. Nothing moves while the items are read.
pub(crate) async fn ledger(State(bank): State<Arc<Bank>>) -> Result<Json<Value>, DevError> {
    let books = {
        let _still = bank.books.write().await;
        bank.app.store.books().await?
    };
    Ok(Json(ledger_json(&books, violations(&books, &bank.app.zone))))
}

fn ledger_json(books: &Books, violations: Vec<String>) -> Value {
    let deposits: BTreeSet<_> =
        books.journals.iter().filter(|journal| journal.request_id.is_none()).map(|journal| &journal.transfer).collect();
    let completed = |state: InstructionState| state == InstructionState::Completed;
    json!({
        "instructions": books.instructions.len(),
        "transfers": books.instructions.iter().filter(|instruction| completed(instruction.state)).count(),
        "journals": books.journals.len().saturating_sub(deposits.len()),
        "entries": books.entries.iter().filter(|entry| !deposits.contains(&entry.transfer)).count(),
        "balance_sum_minor": books.balance_sums(),
        "violations": violations,
    })
}
