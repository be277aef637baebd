//! What is told to whom when money moved or failed to.
//!
//! A posting has two recipients and therefore two events: what is deduplicated is (event, channel), and a payer's
//! notice must never drop a payee's.

use crate::domain::{
    account::stored_words,
    error::Refusal,
    id::{AccountId, TransferId, UserId},
    money::{Amount, Currency},
};
use jiff::Timestamp;

stored_words!(
    /// What happened, from its recipient's side.
    EventKind {
        /// The recipient paid.
        Sent = "furikomi.transfer.sent.v1",
        /// The recipient was paid.
        Received = "furikomi.transfer.received.v1",
        /// The recipient's transfer failed.
        Failed = "furikomi.transfer.failed.v1",
    }
);

impl EventKind {
    const fn id_part(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Failed => "failed",
        }
    }
}

/// The id of an event: `ev_`, the suffix of its transfer, and what happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(String);

impl EventId {
    /// The one id of this event of this transfer.
    #[must_use]
    pub fn derive(transfer: &TransferId, kind: EventKind) -> Self {
        Self(format!("ev_{}_{}", transfer.suffix(), kind.id_part()))
    }

    /// Takes the id apart again.
    #[must_use]
    pub fn parse(raw: &str) -> Option<(Self, TransferId, EventKind)> {
        let (suffix, part) = raw.strip_prefix("ev_")?.split_once('_')?;
        let kind = EventKind::ALL.iter().copied().find(|kind| kind.id_part() == part)?;
        let transfer = TransferId::parse(&format!("tr_{suffix}")).ok()?;
        Some((Self(raw.to_owned()), transfer, kind))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The facts of one posting or failure, as the outbox keeps them: each of its events is made from these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRecord {
    /// The transfer, or the one that the failed instruction would have become.
    pub transfer: TransferId,
    /// When it was posted or refused.
    pub at: Timestamp,
    /// How much.
    pub amount: Amount,
    /// Of what.
    pub currency: Currency,
    /// The owner of the source account.
    pub payer: UserId,
    /// The source account.
    pub source: AccountId,
    /// The name that the payer gave.
    pub payer_name: String,
    /// The owner of the destination account.
    pub payee: UserId,
    /// The destination account.
    pub destination: AccountId,
    /// The name of its holder.
    pub payee_name: String,
    /// Why it failed; `None` if it was posted.
    pub refusal: Option<Refusal>,
}

/// One event for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// What happened.
    pub kind: EventKind,
    /// The transfer.
    pub transfer: TransferId,
    /// Who is told.
    pub recipient: UserId,
    /// When it happened.
    pub at: Timestamp,
    /// How much.
    pub amount: Amount,
    /// Of what.
    pub currency: Currency,
    /// The recipient's own account, masked.
    pub account_masked: String,
    /// The name of the other side.
    pub counterparty_name: String,
    /// The code of a failure.
    pub failure_code: Option<Refusal>,
}

impl OutboxRecord {
    /// The events of this record: two for a posting, one for a failure.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let kinds: &[EventKind] =
            if self.refusal.is_some() { &[EventKind::Failed] } else { &[EventKind::Sent, EventKind::Received] };
        kinds.iter().map(|kind| self.event(*kind)).collect()
    }

    fn event(&self, kind: EventKind) -> Event {
        let (recipient, account, counterparty_name) = match kind {
            EventKind::Sent | EventKind::Failed => (&self.payer, &self.source, &self.payee_name),
            EventKind::Received => (&self.payee, &self.destination, &self.payer_name),
        };
        Event {
            id: EventId::derive(&self.transfer, kind),
            kind,
            transfer: self.transfer.clone(),
            recipient: recipient.clone(),
            at: self.at,
            amount: self.amount,
            currency: self.currency,
            account_masked: account.masked(),
            counterparty_name: counterparty_name.clone(),
            failure_code: self.refusal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_posting_tells_two_people_and_a_failure_one() -> Result<(), Box<dyn std::error::Error>> {
        let transfer = TransferId::parse("tr_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")?;
        let mut record = OutboxRecord {
            transfer: transfer.clone(),
            at: "2026-12-01T00:00:00Z".parse()?,
            amount: Amount::parse(40_000)?,
            currency: Currency::parse("JPY")?,
            payer: UserId::parse("aoi")?,
            source: AccountId::parse("ac_11111111")?,
            payer_name: "Aoi".to_owned(),
            payee: UserId::parse("ren")?,
            destination: AccountId::parse("ac_22222222")?,
            payee_name: "Ren".to_owned(),
            refusal: None,
        };
        let told: Vec<_> = record
            .events()
            .into_iter()
            .map(|e| (e.kind, e.recipient.to_string(), e.account_masked, e.counterparty_name))
            .collect();
        let row =
            |kind, who: &str, account: &str, other: &str| (kind, who.to_owned(), account.to_owned(), other.to_owned());
        assert_eq!(
            told,
            [row(EventKind::Sent, "aoi", "****1111", "Ren"), row(EventKind::Received, "ren", "****2222", "Aoi")]
        );
        record.refusal = Some(Refusal::InsufficientFunds);
        let failed = record.events();
        assert_eq!(failed.len(), 1);
        assert_eq!((failed[0].kind, failed[0].recipient.as_str()), (EventKind::Failed, "aoi"));
        Ok(())
    }

    #[test]
    fn an_event_id_says_which_transfer_and_what() -> Result<(), Box<dyn std::error::Error>> {
        let transfer = TransferId::parse("tr_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")?;
        for kind in EventKind::ALL {
            let id = EventId::derive(&transfer, *kind);
            assert_eq!(EventId::parse(id.as_str()), Some((id, transfer.clone(), *kind)));
        }
        for raw in ["", "ev_", "ev_a_sent", "ev_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_lost"] {
            assert_eq!(EventId::parse(raw), None, "{raw}");
        }
        Ok(())
    }
}
