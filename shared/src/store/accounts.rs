//! Accounts: opening, changing, funding and reading them.

use crate::{
    domain::{
        account::{Account, AccountKind, AccountStatus, Allowance, Limits},
        day::Day,
        id::{AccountId, TransferId, UserId},
        invariants::Journal,
        money::Amount,
    },
    store::{
        Store, StoreError,
        deadline::{Backoff, Deadline},
        instructions::in_time,
        item::{CREDIT, DEBIT, Reader, account_item, entry_item, journal_item, number, read_account, read_entry, text},
        legs::{NamedLeg, put_new, update},
        schema::*,
        transact::{Leg, read_error},
    },
};
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use jiff::Timestamp;

/// What an operator changes about an account; `None` leaves it as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountChange {
    /// Freeze, unfreeze or close.
    pub status: Option<AccountStatus>,
    /// Verify or revoke the holder's identity.
    pub identity_verified: Option<bool>,
    /// The limit of a day, in minor units.
    pub daily_amount_minor: Option<i64>,
    /// The number of transfers of a day.
    pub daily_count: Option<i64>,
    /// The limit of one transfer, in minor units.
    pub per_transfer_minor: Option<i64>,
}

/// One line of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementLine {
    /// The transfer.
    pub transfer: TransferId,
    /// `DEBIT` or `CREDIT`.
    pub is_debit: bool,
    /// In minor units, positive.
    pub amount_minor: i64,
    /// The currency's code.
    pub currency: String,
    /// The other side.
    pub counterparty_name: String,
    /// The payer's note.
    pub memo: String,
    /// When.
    pub posted_at: Timestamp,
}

impl Store {
    /// Opens an account with a zero balance, and links it to its owner. Says whether it did: `false` if one with its id
    /// exists.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended.
    pub async fn open_account(&self, account: &Account, deadline: Deadline) -> Result<bool, StoreError> {
        Ok(self.transact_decided(self.opening_legs(account)?, deadline).await?.is_ok())
    }

    /// A new account with a zero balance, and the link from its owner to it.
    pub(crate) fn opening_legs(&self, account: &Account) -> Result<Vec<NamedLeg>, StoreError> {
        let opened = Account { balance_minor: 0, ..account.clone() };
        let mut legs = vec![put_new(Leg::Account, &self.tables.ledger, account_item(&opened))?];
        if account.kind == AccountKind::Customer {
            let link = Key::account_link(&account.owner, &account.id).to_item();
            legs.push(put_new(Leg::AccountLink, &self.tables.core, link)?);
        }
        Ok(legs)
    }

    /// Moves `amount` from an internal account to a customer's: a journal of kind `deposit` with its two entries. A
    /// repeat under the same transfer id posts nothing. Says whether this call posted.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known, the items stayed contended, or the accounts cannot take it.
    pub async fn deposit(
        &self,
        transfer: TransferId,
        internal: &Account,
        customer: &Account,
        amount: Amount,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<bool, StoreError> {
        let legs = self.deposit_legs(transfer, internal, customer, amount, now)?;
        match self.transact_decided(legs, deadline).await? {
            Ok(()) => Ok(true),
            Err(failed) if failed.iter().any(|f| f.leg == Leg::Journal) => Ok(false),
            Err(_) => Err(StoreError::Rejected("an account of the deposit cannot take it".into())),
        }
    }

    /// The journal of a deposit, both balances and both entries.
    pub(crate) fn deposit_legs(
        &self,
        transfer: TransferId,
        internal: &Account,
        customer: &Account,
        amount: Amount,
        now: Timestamp,
    ) -> Result<Vec<NamedLeg>, StoreError> {
        let journal = Journal {
            transfer,
            request_id: None,
            user: internal.owner.clone(),
            source: internal.id.clone(),
            destination: customer.id.clone(),
            amount_minor: amount.minor(),
            currency: customer.currency.code().to_owned(),
            posted_at: now,
            step: None,
        };
        let ledger = &self.tables.ledger;
        let lowest = crate::domain::money::INTERNAL_LOWEST_MINOR.saturating_add(amount.minor());
        Ok(vec![
            put_new(Leg::Journal, ledger, journal_item(&journal))?,
            self.deposit_leg(Leg::Debit, internal, "-", (">=", lowest), amount)?,
            self.deposit_leg(Leg::Credit, customer, "+", ("<=", amount.highest_creditable_balance()), amount)?,
            put_new(Leg::DebitEntry, ledger, entry_item(&journal, DEBIT, &customer.holder_name, ""))?,
            put_new(Leg::CreditEntry, ledger, entry_item(&journal, CREDIT, &internal.holder_name, ""))?,
        ])
    }

    fn deposit_leg(
        &self,
        leg: Leg,
        account: &Account,
        sign: &str,
        (comparison, bound): (&str, i64),
        amount: Amount,
    ) -> Result<NamedLeg, StoreError> {
        update(leg, &self.tables.ledger, &Key::account(&account.id), |update| {
            update
                .update_expression(format!("SET {BALANCE} = {BALANCE} {sign} :amount"))
                .condition_expression(format!(
                    "{CURRENCY} = :currency AND {KIND} = :kind AND {STATUS} <> :closed AND {BALANCE} {comparison} :bound"
                ))
                .expression_attribute_values(":amount", number(amount.minor()))
                .expression_attribute_values(":currency", text(account.currency.code()))
                .expression_attribute_values(":kind", text(account.kind.as_str()))
                .expression_attribute_values(":closed", text(AccountStatus::Closed.as_str()))
                .expression_attribute_values(":bound", number(bound))
        })
    }

    /// Changes an account. A new limit moves what is left of every day with it, in one update that is conditional on
    /// the values read, so that a transfer posted meanwhile is not forgotten. `today` is the bank's day: a posting now
    /// under way belongs to it or to a neighbour. `None` if there is no such account.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended.
    pub async fn change_account(
        &self,
        id: &AccountId,
        change: AccountChange,
        today: Day,
        deadline: Deadline,
    ) -> Result<Option<Account>, StoreError> {
        let mut backoff = Backoff::until(deadline);
        loop {
            let Some(item) = self.get(&self.tables.ledger, &Key::account(id), deadline).await? else {
                return Ok(None);
            };
            let read = read_account(&item)?;
            let changed = changed_account(&read, change);
            let (sets, conditions, values) = account_diff(&read, &changed, today);
            let update = self
                .writes
                .update_item()
                .table_name(&self.tables.ledger)
                .set_key(Some(Key::account(id).to_item()))
                .update_expression(format!("SET {}", sets.join(", ")))
                .condition_expression(conditions.join(" AND "))
                .set_expression_attribute_values(Some(values))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            if let Ok(new) = self.update(&update, deadline).await? {
                return read_account(&new).map(Some);
            }
            if !backoff.wait().await {
                return Err(StoreError::Contended);
            }
        }
    }

    /// The accounts of a user, with their balances, read strongly, in the order of their ids.
    ///
    /// # Errors
    /// [`StoreError`] if there is no whole answer.
    pub async fn accounts_of(&self, user: &UserId, deadline: Deadline) -> Result<Vec<Account>, StoreError> {
        let send = self
            .reads
            .query()
            .table_name(&self.tables.core)
            .key_condition_expression(format!("{PK} = :user AND begins_with({SK}, :account)"))
            .expression_attribute_values(":user", text(format!("{USER_PREFIX}{user}")))
            .expression_attribute_values(":account", text(ACCOUNT_PREFIX))
            .consistent_read(true)
            .limit(ACCOUNTS_PER_USER_MAX)
            .send();
        let output = in_time(deadline, send).await?.map_err(read_error)?;
        let ids = output
            .items()
            .iter()
            .map(|item| {
                let reader = Reader(item);
                AccountId::parse(reader.key_part(SK, ACCOUNT_PREFIX)?).map_err(|_| reader.corrupt(SK))
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        self.accounts_by_id(&ids, deadline).await
    }

    /// An account, whoever's it is.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn account(&self, id: &AccountId, deadline: Deadline) -> Result<Option<Account>, StoreError> {
        let item = self.get(&self.tables.ledger, &Key::account(id), deadline).await?;
        item.as_ref().map(read_account).transpose()
    }

    /// Up to `limit` lines of an account's statement, the newest first, after the position `after`; and the position
    /// after them, if there are more.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn statement(
        &self,
        id: &AccountId,
        limit: i32,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<(Vec<StatementLine>, Option<String>), StoreError> {
        let pk = Key::account(id).pk;
        let start = after.map(|sk| Key { pk: pk.clone(), sk: sk.to_owned() }.to_item());
        let send = self
            .reads
            .query()
            .table_name(&self.tables.ledger)
            .key_condition_expression(format!("{PK} = :account AND begins_with({SK}, :entry)"))
            .expression_attribute_values(":account", text(pk))
            .expression_attribute_values(":entry", text(ENTRY_PREFIX))
            .consistent_read(true)
            .scan_index_forward(false)
            // One more than is shown: DynamoDB names a last key also where nothing comes after it.
            .limit(limit.saturating_add(1))
            .set_exclusive_start_key(start)
            .send();
        let output = in_time(deadline, send).await?.map_err(read_error)?;
        let shown = output.items().iter().take(usize::try_from(limit).unwrap_or(0));
        let has_more = output.last_evaluated_key.is_some() || output.items().len() > shown.len();
        let next = shown.clone().next_back().filter(|_| has_more).map(|item| Reader(item).text(SK).map(str::to_owned));
        Ok((shown.map(read_line).collect::<Result<_, _>>()?, next.transpose()?))
    }
}

/// Accounts that one user's list shows at most: as many as one batch read takes.
const ACCOUNTS_PER_USER_MAX: i32 = 100;

fn read_line(item: &Item) -> Result<StatementLine, StoreError> {
    let (reader, entry) = (Reader(item), read_entry(item)?);
    Ok(StatementLine {
        transfer: entry.transfer,
        is_debit: entry.signed_minor < 0,
        amount_minor: reader.number(AMOUNT)?,
        currency: entry.currency,
        counterparty_name: reader.text(COUNTERPARTY)?.to_owned(),
        memo: reader.text(MEMO)?.to_owned(),
        posted_at: entry.posted_at,
    })
}

/// Whether `position` is the position of a statement's line.
#[must_use]
pub fn is_statement_position(position: &str) -> bool {
    let parts = position.strip_prefix(ENTRY_PREFIX).and_then(|rest| rest.split_once('#'));
    let Some((posted_at, transfer)) = parts else { return false };
    let at: Option<Timestamp> = posted_at.parse().ok();
    at.is_some_and(|at| format!("{at:.3}") == posted_at) && TransferId::parse(transfer).is_ok()
}

pub(crate) fn changed_account(read: &Account, change: AccountChange) -> Account {
    let mut changed = read.clone();
    changed.status = change.status.unwrap_or(read.status);
    changed.identity_verified = change.identity_verified.unwrap_or(read.identity_verified);
    changed.limits = Limits {
        daily_amount_minor: change.daily_amount_minor.unwrap_or(read.limits.daily_amount_minor),
        daily_count: change.daily_count.unwrap_or(read.limits.daily_count),
        per_transfer_minor: change.per_transfer_minor.unwrap_or(read.limits.per_transfer_minor),
    };
    let amount_moves = changed.limits.daily_amount_minor.saturating_sub(read.limits.daily_amount_minor);
    let count_moves = changed.limits.daily_count.saturating_sub(read.limits.daily_count);
    for left in changed.allowances.values_mut() {
        *left = Allowance {
            amount_minor: left.amount_minor.saturating_add(amount_moves),
            count: left.count.saturating_add(count_moves),
        };
    }
    changed
}

pub(crate) type Values = std::collections::HashMap<String, AttributeValue>;

/// The assignments from `read` to `changed`, the conditions that what was read is still so, and the values of both.
/// The allowances are part of the condition: a day that appears, moves or goes makes the change start again. That a day
/// appeared must be asked for by its name, since a balance may be back where it was.
pub(crate) fn account_diff(read: &Account, changed: &Account, today: Day) -> (Vec<String>, Vec<String>, Values) {
    let facts = |account: &Account| {
        let mut facts = vec![
            (STATUS.to_owned(), text(account.status.as_str())),
            (VERIFIED.to_owned(), AttributeValue::Bool(account.identity_verified)),
            (DAILY_AMOUNT.to_owned(), number(account.limits.daily_amount_minor)),
            (DAILY_COUNT.to_owned(), number(account.limits.daily_count)),
            (PER_TRANSFER.to_owned(), number(account.limits.per_transfer_minor)),
        ];
        for (day, left) in &account.allowances {
            facts.push((left_name(*day), number(left.amount_minor)));
            facts.push((count_name(*day), number(left.count)));
        }
        facts
    };
    let (mut sets, mut conditions, mut values) = (Vec::new(), Vec::new(), Values::new());
    for (index, ((name, old), (_, new))) in facts(read).into_iter().zip(facts(changed)).enumerate() {
        conditions.push(format!("{name} = :old{index}"));
        values.insert(format!(":old{index}"), old);
        sets.push(format!("{name} = :new{index}"));
        values.insert(format!(":new{index}"), new);
    }
    let unread = today.with_neighbours().into_iter().filter(|day| !read.allowances.contains_key(day));
    conditions.extend(unread.map(|day| format!("attribute_not_exists({})", left_name(day))));
    (sets, conditions, values)
}
