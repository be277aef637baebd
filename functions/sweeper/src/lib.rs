//! Every minute: fences instructions whose time has passed, and sees to notifications that nobody holds any more.

use lambda_runtime::Error;
use serde::Serialize;
use shared::{
    app::App,
    domain::{event::EventId, notification::NotificationState},
    queue::{Queue, to_cloud_event},
    store::{StoreError, deadline::Deadline, deliver::NotificationRow, expire::DUE_PAGE_MAX, schema::DUE_SHARDS},
    telemetry::chain,
};

/// What one sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Instructions fenced.
    pub expired: u64,
    /// Notifications called UNKNOWN.
    pub unknown: u64,
    /// Events put on the queue again.
    pub requeued: u64,
}

/// Sweeps every shard of both indexes. What one item or shard fails at is logged and met again by the next sweep; it
/// keeps no other from being swept.
///
/// # Errors
/// None.
pub async fn handle(app: &App, queue: &dyn Queue, deadline: Deadline) -> Result<Swept, Error> {
    let mut swept = Swept::default();
    for shard in 0..DUE_SHARDS {
        if let Err(error) = sweep_instructions(app, shard, &mut swept, deadline).await {
            tracing::error!(alarm = "sweeper", shard, error = %chain(&error), "instructions were not swept");
        }
        if let Err(error) = sweep_notifications(app, queue, shard, &mut swept, deadline).await {
            tracing::error!(alarm = "sweeper", shard, error = %chain(&error), "notifications were not swept");
        }
    }
    tracing::info!(expired = swept.expired, unknown = swept.unknown, requeued = swept.requeued, "swept");
    Ok(swept)
}

/// Page by page, as long as pages are full and something is fenced: the index follows its table a little later, so a
/// page may show again what was just fenced.
async fn sweep_instructions(app: &App, shard: u8, swept: &mut Swept, deadline: Deadline) -> Result<(), StoreError> {
    loop {
        let before = swept.expired;
        let page = app.store.expired_instructions(shard, app.now(), deadline).await?;
        for due in &page {
            match app.store.expire(due, app.now(), deadline).await {
                Ok(true) => swept.expired = swept.expired.saturating_add(1),
                Ok(false) => {}
                Err(error) => tracing::warn!(error = %chain(&error), "an instruction was not fenced"),
            }
        }
        if page.len() < DUE_PAGE_MAX || swept.expired == before {
            return Ok(());
        }
    }
}

async fn sweep_notifications(
    app: &App,
    queue: &dyn Queue,
    shard: u8,
    swept: &mut Swept,
    deadline: Deadline,
) -> Result<(), StoreError> {
    for row in app.store.due_notifications(shard, app.now(), deadline).await? {
        match row.state {
            NotificationState::Sending => {
                if app.store.give_up(&row, app.now(), deadline).await? {
                    swept.unknown = swept.unknown.saturating_add(1);
                    let (event_id, channel) = (row.event.as_str(), row.channel.as_str());
                    tracing::error!(alarm = "notification-unknown", event_id, channel, "its holder never said");
                }
            }
            NotificationState::Pending => {
                if requeue(app, queue, &row, deadline).await? {
                    swept.requeued = swept.requeued.saturating_add(1);
                }
            }
            NotificationState::Sent | NotificationState::Failed | NotificationState::Unknown => {}
        }
    }
    Ok(())
}

/// Puts the event of an old PENDING row on the queue again, from the outbox, and looks at the row again later.
async fn requeue(app: &App, queue: &dyn Queue, row: &NotificationRow, deadline: Deadline) -> Result<bool, StoreError> {
    let Some((id, transfer, _)) = EventId::parse(row.event.as_str()) else {
        return Err(StoreError::Corrupt("a notification names no event".to_owned()));
    };
    let record = app.store.outbox(&transfer, deadline).await?;
    let event = record.and_then(|record| record.events().into_iter().find(|event| event.id == id));
    let Some(event) = event else {
        tracing::error!(alarm = "outbox-gone", event_id = id.as_str(), "a notification outlived its outbox item");
        return Ok(false);
    };
    if let Err(error) = queue.send(to_cloud_event(&event)).await {
        tracing::error!(alarm = "sweeper", event_id = id.as_str(), error = %chain(&error), "an event was not requeued");
        return Ok(false);
    }
    app.store.postpone(row, app.now(), deadline).await?;
    Ok(true)
}
