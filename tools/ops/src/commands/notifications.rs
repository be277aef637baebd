//! `ops notifications`.

use super::table;
use crate::{
    answer::{Answer, Fault},
    cli::Notifications,
    ops::Ops,
    progress::Progress,
};
use serde_json::json;
use shared::{
    domain::{
        event::{Event, EventId},
        notification::{Channel, NotificationState},
    },
    queue::to_cloud_event,
    store::orders,
};

/// Does what `command` says.
///
/// # Errors
/// [`Fault`].
pub async fn run(ops: &Ops, command: Notifications) -> Result<Answer, Fault> {
    match command {
        Notifications::List { state } => list(ops, &state).await,
        Notifications::Resend { event, channel } => resend(ops, &event, channel).await,
    }
}

async fn list(ops: &Ops, states: &[NotificationState]) -> Result<Answer, Fault> {
    let table_name = &ops.store.tables().notifications;
    let bar = Progress::of_tables(&ops.store, &[table_name]).await;
    let mut rows = ops.store.notifications(&mut |table, items| bar.advance(table, items)).await?;
    bar.end();
    rows.retain(|row| states.contains(&row.state));
    rows.sort_by(|one, other| (&one.event, one.channel).cmp(&(&other.event, other.channel)));
    let json = rows.iter().map(|row| {
        json!({
            "event_id": row.event.as_str(),
            "channel": row.channel.as_str(),
            "state": row.state.as_str(),
            "attempts": row.attempts,
            "user_id": row.recipient.as_str(),
        })
    });
    let json = json!({ "notifications": json.collect::<Vec<_>>() });
    if rows.is_empty() {
        let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        return Ok(Answer::good(json, format!("no notification is {}", states.join(" or "))));
    }
    let rows = rows.iter().map(|row| {
        [
            row.event.as_str().to_owned(),
            row.channel.as_str().to_owned(),
            row.state.as_str().to_owned(),
            row.attempts.to_string(),
            row.recipient.to_string(),
        ]
    });
    Ok(Answer::good(json, table(["event", "channel", "state", "attempts", "user"], rows).to_string()))
}

async fn resend(ops: &Ops, id: &EventId, channel: Channel) -> Result<Answer, Fault> {
    let (queue, order) = (ops.queue()?, ops.order("notifications resend")?);
    // Without its outbox item nothing could be sent, and the row would wait for ever.
    let event = event(ops, id).await?;
    let name = format!("{} on {}", id.as_str(), channel.as_str());
    let has_changed = match ops.store.order_resend(id, channel, &order, ops.deadline()).await? {
        orders::Answer::Done { .. } => true,
        orders::Answer::Unchanged(_) => false,
        orders::Answer::Refused(why) => return Err(Fault::Refused(why)),
        orders::Answer::Missing => return Err(Fault::Refused(format!("there is no notification {name}"))),
    };
    queue.send(to_cloud_event(&event)).await?;
    let said = if has_changed { "is PENDING" } else { "was PENDING already" };
    let json = json!({
        "event_id": id.as_str(),
        "channel": channel.as_str(),
        "state": NotificationState::Pending.as_str(),
        "changed": has_changed,
        "queued": true,
    });
    Ok(Answer::good(json, format!("{name} {said}, and its event is on the queue")))
}

/// The event, from the outbox.
async fn event(ops: &Ops, id: &EventId) -> Result<Event, Fault> {
    let gone = || Fault::Refused(format!("the outbox does not hold {} any more: it cannot be sent", id.as_str()));
    let (_, transfer, _) = EventId::parse(id.as_str()).ok_or_else(gone)?;
    let record = ops.store.outbox(&transfer, ops.deadline()).await?;
    record.and_then(|record| record.events().into_iter().find(|event| event.id == *id)).ok_or_else(gone)
}
