//! What the last process left undone: events that were not relayed, notifications that are half delivered.

use crate::bank::Bank;
use shared::{
    domain::event::EventId,
    queue::{Queue, to_cloud_event},
    store::outbox::from_image,
};
use std::collections::BTreeSet;

/// Puts every event of the outbox on the queue that has no inbox, or a row that is not finished. The inbox absorbs what
/// the stream brings a second time. Says how many events they were.
///
/// # Errors
/// If the tables cannot be read.
pub(crate) async fn requeue(bank: &Bank) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let store = &bank.app.store;
    let (inboxes, rows) = store.all_notifications().await?;
    let unfinished: BTreeSet<&EventId> =
        rows.iter().filter(|row| !row.state.is_terminal()).map(|row| &row.event).collect();
    let mut requeued: u64 = 0;
    for item in store.scan(&store.tables().outbox).await? {
        for event in from_image(&item)?.events() {
            if !inboxes.contains(&event.id) || unfinished.contains(&event.id) {
                bank.queue.send(to_cloud_event(&event)).await?;
                requeued = requeued.saturating_add(1);
            }
        }
    }
    Ok(requeued)
}
