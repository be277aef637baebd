//! Delivering an event: its inbox and one row per channel, claims, and what became of each.

use crate::{
    domain::{
        event::EventId,
        id::UserId,
        notification::{Channel, Contact, LEASE_S, Locale, NotificationState, PENDING_OLD_S},
    },
    store::{
        Store, StoreError,
        deadline::Deadline,
        instructions::in_time,
        item::{Reader, contact_item, number, read_contact, text, time},
        legs::put_new,
        schema::*,
        transact::{Leg, read_error},
    },
};
use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemFluentBuilder,
    types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use jiff::{SignedDuration, Timestamp};

/// One notification as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationRow {
    /// The event.
    pub event: EventId,
    /// The channel.
    pub channel: Channel,
    /// Who is told.
    pub recipient: UserId,
    /// Where: as the contact was when the event arrived.
    pub address: String,
    /// In which language.
    pub locale: Locale,
    /// How far it has come.
    pub state: NotificationState,
    /// Claims so far.
    pub attempts: i64,
    /// Until when its holder may send.
    pub lease_until: Option<Timestamp>,
}

/// What a claim came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is ours until the lease ends.
    Ours {
        /// The name of the claim.
        id: String,
        /// The how manieth.
        attempts: i64,
    },
    /// Somebody else holds it, within the lease.
    Held,
    /// Somebody held it past the lease: whether it was sent cannot be known.
    Undecidable,
    /// Nothing is to be done any more.
    Terminal,
}

impl Store {
    /// How to reach a user, if the bank knows.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn contact(&self, user: &UserId, deadline: Deadline) -> Result<Option<Contact>, StoreError> {
        let item = self.get(&self.tables.core, &Key::contact(user), deadline).await?;
        item.as_ref().map(read_contact).transpose()
    }

    /// Replaces how to reach a user.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn put_contact(&self, user: &UserId, contact: &Contact, deadline: Deadline) -> Result<(), StoreError> {
        let item = contact_item(user, contact);
        let send = self.writes.put_item().table_name(&self.tables.core).set_item(Some(item)).send();
        in_time(deadline, send).await?.map_err(read_error)?;
        Ok(())
    }

    /// Opens the inbox of an event: its INBOX and a PENDING row per channel of the recipient's plan, all or nothing,
    /// once. If it is open already the rows of then are given, and no others are made.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended: the event comes again.
    pub async fn open_inbox(
        &self,
        event: &EventId,
        recipient: &UserId,
        contact: Option<&Contact>,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Vec<NotificationRow>, StoreError> {
        let rows = planned_rows(event, recipient, contact);
        let mut legs = vec![put_new(Leg::Inbox, &self.tables.notifications, inbox_item(event, recipient, &rows, now))?];
        for row in &rows {
            legs.push(put_new(Leg::Notification, &self.tables.notifications, row_item(row, now))?);
        }
        match self.transact_decided(legs, deadline).await? {
            Ok(()) => Ok(rows),
            Err(_) => self.notification_rows(event, deadline).await,
        }
    }

    /// The rows of an event whose inbox is open.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn notification_rows(
        &self,
        event: &EventId,
        deadline: Deadline,
    ) -> Result<Vec<NotificationRow>, StoreError> {
        let send = self
            .reads
            .query()
            .table_name(&self.tables.notifications)
            .key_condition_expression(format!("{PK} = :event AND begins_with({SK}, :channel)"))
            .expression_attribute_values(":event", text(Key::inbox(event).pk))
            .expression_attribute_values(":channel", text(CHANNEL_PREFIX))
            .consistent_read(true)
            .send();
        let output = in_time(deadline, send).await?.map_err(read_error)?;
        output.items().iter().map(read_row).collect()
    }

    /// Claims a PENDING row until its lease ends: PENDING → SENDING, one attempt more than was read. A send of it that
    /// arrives late, when its holder has put the row back, finds another count, and does not hold it for nobody.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended.
    pub async fn claim(&self, row: &NotificationRow, now: Timestamp, deadline: Deadline) -> Result<Claim, StoreError> {
        let claim_id = crate::random::name();
        let until = after(now, LEASE_S);
        let update = self
            .row_update(row)
            .update_expression(format!(
                "SET {NOTIFICATION_STATE} = :sending, {CLAIM_ID} = :claim, {LEASE_UNTIL} = :until, \
                 {DUE_AT} = :until, {ATTEMPTS} = {ATTEMPTS} + :one"
            ))
            .condition_expression(format!("{NOTIFICATION_STATE} = :pending AND {ATTEMPTS} = :attempts"))
            .expression_attribute_values(":attempts", number(row.attempts))
            .expression_attribute_values(":sending", text(NotificationState::Sending.as_str()))
            .expression_attribute_values(":pending", text(NotificationState::Pending.as_str()))
            .expression_attribute_values(":claim", text(&claim_id))
            .expression_attribute_values(":until", time(until))
            .expression_attribute_values(":one", number(1));
        let (item, ours) = match self.update(&update, deadline).await? {
            Ok(new) => (new, true),
            Err(Some(old)) => {
                let ours = Reader(&old).text(CLAIM_ID).is_ok_and(|id| id == claim_id);
                (old, ours)
            }
            Err(None) => return Err(StoreError::Corrupt("a notification that was just read is gone".to_owned())),
        };
        let current = read_row(&item)?;
        Ok(match current.state {
            NotificationState::Sending if ours => Claim::Ours { id: claim_id, attempts: current.attempts },
            NotificationState::Sending if current.lease_until.is_some_and(|until| until > now) => Claim::Held,
            NotificationState::Sending => Claim::Undecidable,
            NotificationState::Pending => Claim::Held,
            _ => Claim::Terminal,
        })
    }

    /// What the holder of `claim` found out: SENT, FAILED, UNKNOWN, or PENDING for another try. SENT may still be said
    /// after the sweeper has called the row UNKNOWN. Says whether it was written.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known: the row then becomes UNKNOWN when its lease ends.
    pub async fn settle(
        &self,
        row: &NotificationRow,
        claim: &str,
        state: NotificationState,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<bool, StoreError> {
        let (index, due) = if state.is_terminal() {
            (format!("REMOVE {DUE_SHARD}, {DUE_AT}"), None)
        } else {
            (format!(", {DUE_AT} = :due, {DUE_SHARD} = :shard"), Some(after(now, PENDING_OLD_S)))
        };
        // Once the sweeper has called the row UNKNOWN, an operator may have decided: only SENT is still news.
        let late = if state == NotificationState::Sent { ", :unknown" } else { "" };
        let mut update = self
            .row_update(row)
            .update_expression(format!("SET {NOTIFICATION_STATE} = :state {index}"))
            .condition_expression(format!("{CLAIM_ID} = :claim AND {NOTIFICATION_STATE} IN (:sending{late})"))
            .expression_attribute_values(":state", text(state.as_str()))
            .expression_attribute_values(":claim", text(claim))
            .expression_attribute_values(":sending", text(NotificationState::Sending.as_str()));
        if !late.is_empty() {
            update = update.expression_attribute_values(":unknown", text(NotificationState::Unknown.as_str()));
        }
        if let Some(due) = due {
            update = update
                .expression_attribute_values(":due", time(due))
                .expression_attribute_values(":shard", text(due_shard(row.event.as_str())));
        }
        Ok(match self.update(&update, deadline).await? {
            Ok(_) => true,
            // Our own first write, met again.
            Err(Some(old)) => {
                let old = Reader(&old);
                old.text(CLAIM_ID).is_ok_and(|id| id == claim)
                    && old.text(NOTIFICATION_STATE).is_ok_and(|word| word == state.as_str())
            }
            Err(None) => false,
        })
    }

    /// Calls a row UNKNOWN whose lease has passed without word from its holder. Says whether it did.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended.
    pub async fn give_up(&self, row: &NotificationRow, now: Timestamp, deadline: Deadline) -> Result<bool, StoreError> {
        let update = self
            .row_update(row)
            .update_expression(format!("SET {NOTIFICATION_STATE} = :unknown REMOVE {DUE_SHARD}, {DUE_AT}"))
            .condition_expression(format!("{NOTIFICATION_STATE} = :sending AND {LEASE_UNTIL} <= :now"))
            .expression_attribute_values(":unknown", text(NotificationState::Unknown.as_str()))
            .expression_attribute_values(":sending", text(NotificationState::Sending.as_str()))
            .expression_attribute_values(":now", time(now));
        Ok(self.update(&update, deadline).await?.is_ok())
    }

    /// Moves the time at which the sweeper looks at a PENDING row again, once its event is back on the queue. Says
    /// whether it did.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended.
    pub async fn postpone(
        &self,
        row: &NotificationRow,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<bool, StoreError> {
        let update = self
            .row_update(row)
            .update_expression(format!("SET {DUE_AT} = :due"))
            .condition_expression(format!("{NOTIFICATION_STATE} = :pending AND {DUE_AT} <= :now"))
            .expression_attribute_values(":pending", text(NotificationState::Pending.as_str()))
            .expression_attribute_values(":due", time(after(now, PENDING_OLD_S)))
            .expression_attribute_values(":now", time(now));
        Ok(self.update(&update, deadline).await?.is_ok())
    }

    /// The rows of `shard` whose time has come: SENDING past their lease, PENDING for too long.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn due_notifications(
        &self,
        shard: u8,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Vec<NotificationRow>, StoreError> {
        let table = &self.tables.notifications;
        let mut rows = Vec::new();
        for item in self.due_items(table, shard, now, deadline).await? {
            let reader = Reader(&item);
            let key = Key { pk: reader.text(PK)?.to_owned(), sk: reader.text(SK)?.to_owned() };
            if let Some(item) = self.get(table, &key, deadline).await? {
                rows.push(read_row(&item)?);
            }
        }
        Ok(rows)
    }

    fn row_update(&self, row: &NotificationRow) -> UpdateItemFluentBuilder {
        self.writes
            .update_item()
            .table_name(&self.tables.notifications)
            .set_key(Some(Key::notification(&row.event, row.channel).to_item()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }
}

fn after(now: Timestamp, seconds: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

fn planned_rows(event: &EventId, recipient: &UserId, contact: Option<&Contact>) -> Vec<NotificationRow> {
    let Some(contact) = contact else { return Vec::new() };
    let row = |(channel, address): &(Channel, String)| NotificationRow {
        event: event.clone(),
        channel: *channel,
        recipient: recipient.clone(),
        address: address.clone(),
        locale: contact.locale,
        state: NotificationState::Pending,
        attempts: 0,
        lease_until: None,
    };
    contact.addresses.iter().map(row).collect()
}

fn inbox_item(event: &EventId, recipient: &UserId, rows: &[NotificationRow], now: Timestamp) -> Item {
    let mut item = Key::inbox(event).to_item();
    let plan = rows.iter().map(|row| text(row.channel.as_str())).collect();
    item.insert(RECIPIENT.to_owned(), text(recipient.as_str()));
    item.insert(PLAN.to_owned(), AttributeValue::L(plan));
    item.insert(CREATED_AT.to_owned(), time(now));
    item
}

fn row_item(row: &NotificationRow, now: Timestamp) -> Item {
    let mut item = Key::notification(&row.event, row.channel).to_item();
    item.extend(
        [
            (RECIPIENT, text(row.recipient.as_str())),
            (ADDRESS, text(&row.address)),
            (LOCALE, text(row.locale.as_str())),
            (NOTIFICATION_STATE, text(row.state.as_str())),
            (ATTEMPTS, number(row.attempts)),
            (CREATED_AT, time(now)),
            (DUE_SHARD, text(due_shard(row.event.as_str()))),
            (DUE_AT, time(after(now, PENDING_OLD_S))),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    item
}

pub(crate) fn read_row(item: &Item) -> Result<NotificationRow, StoreError> {
    let reader = Reader(item);
    let (event, _, _) = EventId::parse(reader.key_part(PK, EVENT_PREFIX)?).ok_or_else(|| reader.corrupt(PK))?;
    Ok(NotificationRow {
        event,
        channel: Channel::parse(reader.key_part(SK, CHANNEL_PREFIX)?).ok_or_else(|| reader.corrupt(SK))?,
        recipient: reader.parsed(RECIPIENT, UserId::parse)?,
        address: reader.text(ADDRESS)?.to_owned(),
        locale: reader.word(LOCALE, Locale::parse)?,
        state: reader.word(NOTIFICATION_STATE, NotificationState::parse)?,
        attempts: reader.number(ATTEMPTS)?,
        lease_until: reader.optional(LEASE_UNTIL, Reader::time)?,
    })
}
