//! Accounts, journals and entries as items.

use super::{Reader, number, text, time};
use crate::{
    domain::{
        account::{Account, AccountKind, AccountStatus, Allowance, Limits},
        day::Day,
        id::{AccountId, RequestId, TransferId, UserId},
        invariants::{Entry, Journal},
        money::Currency,
    },
    store::{StoreError, schema::*},
};
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::BTreeMap;

/// A new account as an item, without allowances.
pub(crate) fn account_item(account: &Account) -> Item {
    let mut item = Key::account(&account.id).to_item();
    item.extend(
        [
            (OWNER, text(account.owner.as_str())),
            (HOLDER_NAME, text(&account.holder_name)),
            (CURRENCY, text(account.currency.code())),
            (STATUS, text(account.status.as_str())),
            (VERIFIED, AttributeValue::Bool(account.identity_verified)),
            (BALANCE, number(account.balance_minor)),
            (DAILY_AMOUNT, number(account.limits.daily_amount_minor)),
            (DAILY_COUNT, number(account.limits.daily_count)),
            (PER_TRANSFER, number(account.limits.per_transfer_minor)),
            (KIND, text(account.kind.as_str())),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    item
}

pub(crate) fn read_account(item: &Item) -> Result<Account, StoreError> {
    let reader = Reader(item);
    let mut allowances = BTreeMap::new();
    for name in item.keys() {
        let Some(day) = name.strip_prefix(LEFT_PREFIX).and_then(Day::parse) else { continue };
        let allowance = Allowance { amount_minor: reader.number(name)?, count: reader.number(&count_name(day))? };
        allowances.insert(day, allowance);
    }
    Ok(Account {
        id: AccountId::parse(reader.key_part(PK, ACCOUNT_PREFIX)?).map_err(|_| reader.corrupt(PK))?,
        owner: reader.parsed(OWNER, UserId::parse)?,
        holder_name: reader.text(HOLDER_NAME)?.to_owned(),
        currency: reader.parsed(CURRENCY, Currency::parse)?,
        status: reader.word(STATUS, AccountStatus::parse)?,
        identity_verified: reader.flag(VERIFIED)?,
        balance_minor: reader.number(BALANCE)?,
        limits: Limits {
            daily_amount_minor: reader.number(DAILY_AMOUNT)?,
            daily_count: reader.number(DAILY_COUNT)?,
            per_transfer_minor: reader.number(PER_TRANSFER)?,
        },
        kind: reader.word(KIND, AccountKind::parse)?,
        allowances,
    })
}

/// What a journal of a transfer between customers says it is.
const JOURNAL_TRANSFER: &str = "transfer";
/// What a journal of a deposit says it is.
const JOURNAL_DEPOSIT: &str = "deposit";

pub(crate) fn journal_item(journal: &Journal) -> Item {
    let mut item = Key::journal(&journal.transfer).to_item();
    let kind = if journal.request_id.is_some() { JOURNAL_TRANSFER } else { JOURNAL_DEPOSIT };
    item.extend(
        [
            (JOURNAL_KIND, text(kind)),
            (TRANSFER_ID, text(journal.transfer.as_str())),
            (USER, text(journal.user.as_str())),
            (SOURCE, text(journal.source.as_str())),
            (DESTINATION, text(journal.destination.as_str())),
            (AMOUNT, number(journal.amount_minor)),
            (CURRENCY, text(&journal.currency)),
            (POSTED_AT, time(journal.posted_at)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    if let Some(request_id) = &journal.request_id {
        item.insert(REQUEST_ID.to_owned(), text(request_id.as_str()));
    }
    if let Some(step) = journal.step {
        item.insert(AUTH_STEP.to_owned(), number(step));
    }
    item
}

pub(crate) fn read_journal(item: &Item) -> Result<Journal, StoreError> {
    let reader = Reader(item);
    Ok(Journal {
        transfer: reader.parsed(TRANSFER_ID, TransferId::parse)?,
        request_id: reader.optional(REQUEST_ID, |reader, name| reader.parsed(name, RequestId::parse))?,
        user: reader.parsed(USER, UserId::parse)?,
        source: reader.parsed(SOURCE, AccountId::parse)?,
        destination: reader.parsed(DESTINATION, AccountId::parse)?,
        amount_minor: reader.number(AMOUNT)?,
        currency: reader.text(CURRENCY)?.to_owned(),
        posted_at: reader.time(POSTED_AT)?,
        step: reader.optional(AUTH_STEP, Reader::number)?,
    })
}

/// What an entry's direction says.
pub(crate) const DEBIT: &str = "DEBIT";
/// What an entry's direction says.
pub(crate) const CREDIT: &str = "CREDIT";

/// One leg of `journal` as an item: its debit or its credit, with what the statement shows of the other side.
pub(crate) fn entry_item(journal: &Journal, direction: &str, counterparty_name: &str, memo: &str) -> Item {
    let account = if direction == DEBIT { &journal.source } else { &journal.destination };
    let mut item = Key::entry(account, journal.posted_at, &journal.transfer).to_item();
    item.extend(
        [
            (TRANSFER_ID, text(journal.transfer.as_str())),
            (DIRECTION, text(direction)),
            (AMOUNT, number(journal.amount_minor)),
            (CURRENCY, text(&journal.currency)),
            (COUNTERPARTY, text(counterparty_name)),
            (MEMO, text(memo)),
            (POSTED_AT, time(journal.posted_at)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    item
}

pub(crate) fn read_entry(item: &Item) -> Result<Entry, StoreError> {
    let reader = Reader(item);
    let amount = reader.number(AMOUNT)?;
    Ok(Entry {
        account: AccountId::parse(reader.key_part(PK, ACCOUNT_PREFIX)?).map_err(|_| reader.corrupt(PK))?,
        transfer: reader.parsed(TRANSFER_ID, TransferId::parse)?,
        signed_minor: if reader.text(DIRECTION)? == DEBIT { amount.saturating_neg() } else { amount },
        currency: reader.text(CURRENCY)?.to_owned(),
        posted_at: reader.time(POSTED_AT)?,
    })
}
