//! Funding an account by order.

use super::{Committed, Order, facts};
use crate::{
    domain::{
        account::{Account, AccountStatus},
        id::TransferId,
        invariants::Journal,
        money::Amount,
    },
    store::{
        Store, StoreError,
        deadline::Deadline,
        item::{read_account, read_journal},
        schema::*,
        transact::{FailedLeg, Leg},
    },
};

/// What became of an ordered deposit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Funding {
    /// Posted by this order.
    Posted(Journal),
    /// Posted before, under the same reference and with the same amount: nothing was written.
    Repeated(Journal),
    /// Nothing was written, and why.
    Refused(String),
}

impl Store {
    /// Posts `amount` from `internal` to `customer` once per `transfer`, whose id derives from the operator's reference.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended: repeat it under the same reference.
    pub async fn order_deposit(
        &self,
        transfer: TransferId,
        (internal, customer): (&Account, &Account),
        amount: Amount,
        order: &Order,
        deadline: Deadline,
    ) -> Result<Funding, StoreError> {
        if let Some(journal) = self.journal(&transfer, deadline).await? {
            return Ok(repeated(journal, internal, amount));
        }
        let mut legs = self.deposit_legs(transfer.clone(), internal, customer, amount, order.at)?;
        let details = facts([
            ("transfer_id", transfer.to_string()),
            ("from", internal.id.to_string()),
            ("amount_minor", amount.minor().to_string()),
            ("currency", customer.currency.code().to_owned()),
        ]);
        legs.push(self.trail_leg(order, customer.id.as_str(), &super::Facts::new(), &details)?);
        let failed = match self.commit(legs, deadline).await? {
            Committed::Done => Vec::new(),
            Committed::Refused(failed) => failed,
        };
        let journal = self.journal(&transfer, deadline).await?;
        match journal {
            Some(journal) if failed.is_empty() => Ok(Funding::Posted(journal)),
            Some(journal) => Ok(repeated(journal, internal, amount)),
            None if failed.is_empty() => Err(StoreError::Corrupt(format!("the journal of {transfer} is gone"))),
            None => Ok(Funding::Refused(refusal(&failed, internal, customer)?)),
        }
    }

    /// The journal of a transfer, read strongly.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn journal(&self, transfer: &TransferId, deadline: Deadline) -> Result<Option<Journal>, StoreError> {
        let item = self.get(&self.tables.ledger, &Key::journal(transfer), deadline).await?;
        item.as_ref().map(read_journal).transpose()
    }
}

fn repeated(journal: Journal, internal: &Account, amount: Amount) -> Funding {
    if journal.amount_minor == amount.minor() && journal.source == internal.id {
        return Funding::Repeated(journal);
    }
    Funding::Refused(format!(
        "the reference was used for {} {} from {} on {}",
        journal.currency, journal.amount_minor, journal.source, journal.posted_at
    ))
}

/// Why the accounts could not take it, from their old items.
fn refusal(failed: &[FailedLeg], internal: &Account, customer: &Account) -> Result<String, StoreError> {
    for leg in failed {
        let account = if leg.leg == Leg::Debit { internal } else { customer };
        let Some(old) = &leg.old else { return Ok(format!("there is no account {}", account.id)) };
        if matches!(leg.leg, Leg::Debit | Leg::Credit) {
            let old = read_account(old)?;
            return Ok(match old.status {
                AccountStatus::Closed => format!("{} is CLOSED", old.id),
                _ => format!("the balance of {} would pass its bound", old.id),
            });
        }
    }
    Ok("an entry of this moment is there already: repeat it".to_owned())
}
