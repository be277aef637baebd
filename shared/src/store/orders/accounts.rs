//! Opening and changing accounts by order.

use super::{Answer, Committed, Facts, Order, facts};
use crate::{
    domain::{
        account::{Account, AccountStatus, Allowance},
        id::AccountId,
    },
    store::{
        Store, StoreError,
        accounts::{AccountChange, account_diff, changed_account},
        deadline::{Backoff, Deadline},
        item::{number, read_account},
        legs::update,
        schema::*,
        transact::Leg,
    },
};

impl Store {
    /// Opens `account` with a zero balance. One that is there already under the same facts is unchanged; under others it
    /// is refused.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended.
    pub async fn order_opening(
        &self,
        account: &Account,
        order: &Order,
        deadline: Deadline,
    ) -> Result<Answer<Account>, StoreError> {
        let mut legs = self.opening_legs(account)?;
        legs.push(self.trail_leg(order, account.id.as_str(), &Facts::new(), &account_facts(account))?);
        if let Committed::Done = self.commit(legs, deadline).await? {
            return Ok(Answer::Done { before: None, after: account.clone() });
        }
        Ok(match self.account(&account.id, deadline).await? {
            Some(old) if is_same_opening(&old, account) => Answer::Unchanged(old),
            Some(_) => Answer::Refused(format!("{} exists, under other facts", account.id)),
            None => Answer::Refused(format!("{} is linked to {} without an account", account.id, account.owner)),
        })
    }

    /// Changes an account as `decide` says of the account that was read. A new limit moves what is left of every day
    /// with it. The write is conditional on what was read, so that a transfer posted meanwhile makes the order start again
    /// instead of being forgotten.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended.
    pub async fn order_change(
        &self,
        id: &AccountId,
        decide: impl Fn(&Account) -> Result<AccountChange, String>,
        order: &Order,
        deadline: Deadline,
    ) -> Result<Answer<Account>, StoreError> {
        let mut backoff = Backoff::until(deadline);
        loop {
            let Some(item) = self.get(&self.tables.ledger, &Key::account(id), deadline).await? else {
                return Ok(Answer::Missing);
            };
            let read = read_account(&item)?;
            let changed = match decide(&read) {
                Ok(change) => changed_account(&read, change),
                Err(refusal) => return Ok(Answer::Refused(refusal)),
            };
            if changed == read {
                return Ok(Answer::Unchanged(read));
            }
            let (sets, mut conditions, mut values) = account_diff(&read, &changed, order.day);
            if changed.status == AccountStatus::Closed {
                // Closing is decided on the balance; everything else must not wait for a busy account to rest.
                conditions.push(format!("{BALANCE} = :balance"));
                values.insert(":balance".to_owned(), number(read.balance_minor));
            }
            let change = update(Leg::Account, &self.tables.ledger, &Key::account(id), |leg| {
                leg.update_expression(format!("SET {}", sets.join(", ")))
                    .condition_expression(conditions.join(" AND "))
                    .set_expression_attribute_values(Some(values))
            })?;
            let trail = self.trail_leg(order, id.as_str(), &account_facts(&read), &account_facts(&changed))?;
            if let Committed::Done = self.commit(vec![change, trail], deadline).await? {
                return Ok(Answer::Done { before: Some(read), after: changed });
            }
            if !backoff.wait().await {
                return Err(StoreError::Contended);
            }
        }
    }
}

/// Whether `old` was opened by the same order: what the order says, and not what happened since.
fn is_same_opening(old: &Account, new: &Account) -> bool {
    (&old.owner, &old.holder_name, old.currency, old.kind) == (&new.owner, &new.holder_name, new.currency, new.kind)
}

/// What the trail keeps of an account; of its holder, the id alone.
fn account_facts(account: &Account) -> Facts {
    let mut all = facts([
        ("owner", account.owner.to_string()),
        ("currency", account.currency.code().to_owned()),
        ("kind", account.kind.as_str().to_owned()),
        ("status", account.status.as_str().to_owned()),
        ("identity", if account.identity_verified { "verified" } else { "not verified" }.to_owned()),
        ("daily_amount", account.limits.daily_amount_minor.to_string()),
        ("daily_count", account.limits.daily_count.to_string()),
        ("per_transfer", account.limits.per_transfer_minor.to_string()),
    ]);
    for (day, Allowance { amount_minor, count }) in &account.allowances {
        all.insert(format!("left on {day}"), format!("{amount_minor} in {count}"));
    }
    all
}
