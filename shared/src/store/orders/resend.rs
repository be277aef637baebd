//! Sending a notification once more, by order: what the provider may have accepted is then accepted again.

use super::{Answer, Committed, Facts, Order, facts};
use crate::{
    domain::{
        event::EventId,
        notification::{Channel, NotificationState, PENDING_OLD_S},
    },
    store::{
        Store, StoreError,
        deadline::{Backoff, Deadline},
        deliver::{NotificationRow, read_row},
        item::{number, text, time},
        legs::update,
        schema::*,
        transact::Leg,
    },
};
use jiff::{SignedDuration, Timestamp};

impl Store {
    /// Makes an UNKNOWN or FAILED notification PENDING again, with all of its attempts before it. One that is PENDING is
    /// unchanged; one that is SENT, or that somebody is sending, is refused. Its event has to be put on the queue
    /// afterwards; if that fails, the sweeper does it within half an hour.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended.
    pub async fn order_resend(
        &self,
        event: &EventId,
        channel: Channel,
        order: &Order,
        deadline: Deadline,
    ) -> Result<Answer<NotificationRow>, StoreError> {
        let key = Key::notification(event, channel);
        let table = &self.tables.notifications;
        let mut backoff = Backoff::until(deadline);
        loop {
            let Some(item) = self.get(table, &key, deadline).await? else { return Ok(Answer::Missing) };
            let read = read_row(&item)?;
            match read.state {
                NotificationState::Unknown | NotificationState::Failed => {}
                NotificationState::Pending => return Ok(Answer::Unchanged(read)),
                NotificationState::Sending | NotificationState::Sent => {
                    return Ok(Answer::Refused(format!(
                        "{} on {} is {}",
                        event.as_str(),
                        channel.as_str(),
                        read.state.as_str()
                    )));
                }
            }
            let due_at = order.at.checked_add(SignedDuration::from_secs(PENDING_OLD_S)).unwrap_or(Timestamp::MAX);
            let change = update(Leg::Notification, table, &key, |leg| {
                // Without its claim, no earlier holder can speak for the row any more.
                leg.update_expression(format!(
                    "SET {NOTIFICATION_STATE} = :pending, {ATTEMPTS} = :zero, {DUE_AT} = :due, {DUE_SHARD} = :shard \
                     REMOVE {CLAIM_ID}, {LEASE_UNTIL}"
                ))
                .condition_expression(format!("{NOTIFICATION_STATE} = :read AND {ATTEMPTS} = :attempts"))
                .expression_attribute_values(":pending", text(NotificationState::Pending.as_str()))
                .expression_attribute_values(":zero", number(0))
                .expression_attribute_values(":due", time(due_at))
                .expression_attribute_values(":shard", text(due_shard(event.as_str())))
                .expression_attribute_values(":read", text(read.state.as_str()))
                .expression_attribute_values(":attempts", number(read.attempts))
            })?;
            let after =
                NotificationRow { state: NotificationState::Pending, attempts: 0, lease_until: None, ..read.clone() };
            let target = format!("{} {}", event.as_str(), channel.as_str());
            let trail = self.trail_leg(order, &target, &row_facts(&read), &row_facts(&after))?;
            if let Committed::Done = self.commit(vec![change, trail], deadline).await? {
                return Ok(Answer::Done { before: Some(read), after });
            }
            if !backoff.wait().await {
                return Err(StoreError::Contended);
            }
        }
    }
}

fn row_facts(row: &NotificationRow) -> Facts {
    facts([("state", row.state.as_str().to_owned()), ("attempts", row.attempts.to_string())])
}
