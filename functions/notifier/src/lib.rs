//! The queue → the recipients: one notification per (event, channel), however often the event arrives.

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::Error;
use shared::{
    app::App,
    batch::sqs_failures,
    channel::{Delivery, DeliveryFault, Provider},
    domain::{
        event::Event,
        notification::{ATTEMPTS_MAX, NotificationState, render},
    },
    queue::from_cloud_event,
    store::{
        StoreError,
        deadline::Deadline,
        deliver::{Claim, NotificationRow},
    },
    telemetry::chain,
};
use std::time::Duration;

/// What a provider's answer and its record take at most.
const SEND_TIME_MAX: Duration = Duration::from_secs(9);

/// Handles a batch. A message that is not done is named, to come again; its neighbours are not touched by it.
///
/// # Errors
/// If a message that is not done has no id: then the whole batch has to come again.
pub async fn handle(
    app: &App,
    providers: &[Box<dyn Provider>],
    batch: SqsEvent,
    deadline: Deadline,
) -> Result<SqsBatchResponse, Error> {
    let mut failed = Vec::new();
    for message in batch.records {
        let body = message.body.unwrap_or_default();
        if !is_done(app, providers, &body, deadline).await {
            failed.push(message.message_id.ok_or("a message that is not done has no id")?);
        }
    }
    Ok(sqs_failures(failed))
}

/// Whether every notification of the message's event is terminal.
async fn is_done(app: &App, providers: &[Box<dyn Provider>], body: &str, deadline: Deadline) -> bool {
    let event = match from_cloud_event(body) {
        Ok(event) => event,
        Err(fault) => {
            tracing::error!(alarm = "poison", error = %chain(&fault), "a message is no event");
            return false;
        }
    };
    match deliver(app, providers, &event, deadline).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(event_id = event.id.as_str(), error = %chain(&error), "an event was not delivered");
            false
        }
    }
}

async fn deliver(
    app: &App,
    providers: &[Box<dyn Provider>],
    event: &Event,
    deadline: Deadline,
) -> Result<bool, StoreError> {
    let contact = app.store.contact(&event.recipient, deadline).await?;
    if contact.is_none() {
        tracing::error!(alarm = "no-contact", event_id = event.id.as_str(), "the recipient cannot be reached");
    }
    let rows = app.store.open_inbox(&event.id, &event.recipient, contact.as_ref(), app.now(), deadline).await?;
    let mut done = true;
    for row in &rows {
        // One channel's failure must not keep the others from being sent.
        match notify(app, providers, event, row, deadline).await {
            Ok(terminal) => done &= terminal,
            Err(error) => {
                let (event_id, channel) = (event.id.as_str(), row.channel.as_str());
                tracing::error!(event_id, channel, error = %chain(&error), "a notification is not settled");
                done = false;
            }
        }
    }
    Ok(done)
}

/// Brings one row as far as it goes now; whether it is terminal.
async fn notify(
    app: &App,
    providers: &[Box<dyn Provider>],
    event: &Event,
    row: &NotificationRow,
    deadline: Deadline,
) -> Result<bool, StoreError> {
    if row.state.is_terminal() {
        return Ok(true);
    }
    // A claim that the function does not live to settle would make the row UNKNOWN for nothing.
    if !deadline.has(SEND_TIME_MAX) {
        return Ok(false);
    }
    match app.store.claim(row, app.now(), deadline).await? {
        Claim::Terminal => Ok(true),
        Claim::Held => Ok(false),
        Claim::Undecidable => {
            let given_up = app.store.give_up(row, app.now(), deadline).await?;
            alarm_unknown(row);
            Ok(given_up)
        }
        Claim::Ours { id, attempts } => {
            let state = send(providers, event, row, attempts).await;
            let written = app.store.settle(row, &id, state, app.now(), deadline).await?;
            Ok(written && state.is_terminal())
        }
    }
}

/// Hands the message to the channel's provider, and says what that makes of the row.
async fn send(
    providers: &[Box<dyn Provider>],
    event: &Event,
    row: &NotificationRow,
    attempts: i64,
) -> NotificationState {
    let (event_id, channel) = (row.event.as_str(), row.channel.as_str());
    let Some(provider) = providers.iter().find(|provider| provider.channel() == row.channel) else {
        tracing::error!(alarm = "no-provider", event_id, channel);
        return NotificationState::Failed;
    };
    let delivery = Delivery {
        idempotency_key: format!("{event_id}/{channel}"),
        address: row.address.clone(),
        message: render(event, row.locale),
    };
    match provider.deliver(&delivery).await {
        Ok(()) => {
            tracing::info!(event_id, channel, "sent");
            NotificationState::Sent
        }
        Err(fault @ DeliveryFault::Undecided(_)) => {
            tracing::error!(event_id, channel, error = %chain(&fault));
            alarm_unknown(row);
            NotificationState::Unknown
        }
        Err(fault @ DeliveryFault::Refused(_)) if attempts >= ATTEMPTS_MAX => {
            tracing::error!(alarm = "notification-failed", event_id, channel, attempts, error = %chain(&fault));
            NotificationState::Failed
        }
        Err(fault @ DeliveryFault::Refused(_)) => {
            tracing::warn!(event_id, channel, attempts, error = %chain(&fault), "refused, to be tried again");
            NotificationState::Pending
        }
    }
}

fn alarm_unknown(row: &NotificationRow) {
    let (event_id, channel) = (row.event.as_str(), row.channel.as_str());
    tracing::error!(alarm = "notification-unknown", event_id, channel, "whether it was sent cannot be known");
}
