//! The invariants of the bank, checked over all of its items at rest.
//!
//! Every test ring, the embedded server and the operator's `verify` hand the same lists to [`violations`].

use crate::domain::{
    account::{Account, AccountKind},
    day::{BankZone, Day},
    event::EventId,
    id::{AccountId, RequestId, TransferId, UserId},
    instruction::{Content, Instruction, State},
    money::{INTERNAL_LOWEST_MINOR, MAX_MINOR},
};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// One leg of a journal, as its item says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The account.
    pub account: AccountId,
    /// The transfer.
    pub transfer: TransferId,
    /// Negative for a debit, positive for a credit, in minor units.
    pub signed_minor: i64,
    /// The currency's code.
    pub currency: String,
    /// When.
    pub posted_at: Timestamp,
}

/// A posting record, as its item says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The transfer.
    pub transfer: TransferId,
    /// Its instruction; `None` for a deposit.
    pub request_id: Option<RequestId>,
    /// Who ordered it.
    pub user: UserId,
    /// The account debited.
    pub source: AccountId,
    /// The account credited.
    pub destination: AccountId,
    /// How much, in minor units.
    pub amount_minor: i64,
    /// The currency's code.
    pub currency: String,
    /// When.
    pub posted_at: Timestamp,
    /// The TOTP step of the authorization that it consumed; `None` for a deposit.
    pub step: Option<i64>,
}

impl Journal {
    /// Whether this journal and an instruction name each other and agree on accounts, amount and currency.
    #[must_use]
    pub fn agrees_with(&self, request_id: &RequestId, content: &Content) -> bool {
        self.request_id.as_ref() == Some(request_id)
            && self.transfer == request_id.transfer_id()
            && self.source == content.source
            && self.destination == content.destination
            && self.amount_minor == content.amount.minor()
            && self.currency == content.currency.code()
    }
}

/// Everything that the invariants speak of.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// All accounts, internal ones included.
    pub accounts: Vec<Account>,
    /// All instructions.
    pub instructions: Vec<Instruction>,
    /// All journals.
    pub journals: Vec<Journal>,
    /// All entries.
    pub entries: Vec<Entry>,
    /// The transfers (posted or failed) that have an outbox item, with the events that it holds.
    pub outbox: BTreeMap<TransferId, Vec<EventId>>,
    /// Outbox items of what happened before this may have been deleted by their age; `None` if all are kept.
    pub outbox_since: Option<Timestamp>,
}

impl Books {
    /// The sum of all balances, per currency, in minor units.
    #[must_use]
    pub fn balance_sums(&self) -> BTreeMap<String, i128> {
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        for account in &self.accounts {
            let sum = sums.entry(account.currency.code().to_owned()).or_default();
            *sum = sum.saturating_add(i128::from(account.balance_minor));
        }
        sums
    }
}

/// What a violation is about: what has to be read again before it is believed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An account and its entries.
    Account(AccountId),
    /// A transfer: its instruction, journal, entries and outbox item.
    Transfer(TransferId),
    /// All accounts of a currency.
    Currency(String),
    /// Journals alone, which never change: reading them again says nothing new.
    Journals,
}

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// What it is about.
    pub subject: Subject,
    /// What is wrong, in words that name the items.
    pub text: String,
}

/// The violations found so far.
#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    fn on_account(&mut self, id: &AccountId, fault: impl std::fmt::Display) {
        self.0.push(Violation { subject: Subject::Account(id.clone()), text: format!("{id} {fault}") });
    }

    /// `name` is the id by which the transfer is known where it is wrong.
    fn on_transfer(&mut self, id: &TransferId, name: impl std::fmt::Display, fault: impl std::fmt::Display) {
        self.0.push(Violation { subject: Subject::Transfer(id.clone()), text: format!("{name} {fault}") });
    }
}

/// Every violation, in words that name the items; empty if the books are in order. Days are those of `zone`.
#[must_use]
pub fn violations(books: &Books, zone: &BankZone) -> Vec<String> {
    examine(books, zone).into_iter().map(|violation| violation.text).collect()
}

/// Every violation with its subject.
#[must_use]
pub fn examine(books: &Books, zone: &BankZone) -> Vec<Violation> {
    let mut found = Found::default();
    check_instructions(books, &mut found);
    check_journals(books, &mut found);
    check_balances(books, &mut found);
    check_sums(books, &mut found);
    check_allowances(books, zone, &mut found);
    check_authorizations(books, &mut found);
    found.0
}

/// The violations of accounts alone, where `books` hold these and all of their entries.
#[must_use]
pub fn examine_accounts(books: &Books, zone: &BankZone) -> Vec<Violation> {
    let mut found = Found::default();
    check_balances(books, &mut found);
    check_allowances(books, zone, &mut found);
    found.0
}

/// The violations of transfers alone, where `books` hold all that belongs to these.
#[must_use]
pub fn examine_transfers(books: &Books) -> Vec<Violation> {
    let mut found = Found::default();
    check_instructions(books, &mut found);
    check_journals(books, &mut found);
    found.0
}

/// Invariants 1, 5 and 6: completed means one journal and an outbox item; closed otherwise means no journal.
fn check_instructions(books: &Books, found: &mut Found) {
    let journals: BTreeMap<&TransferId, &Journal> = books.journals.iter().map(|j| (&j.transfer, j)).collect();
    for instruction in &books.instructions {
        let (id, transfer) = (&instruction.request_id, instruction.request_id.transfer_id());
        let state = instruction.state;
        let journal = journals.get(&transfer);
        let has_outbox = books.outbox.contains_key(&transfer);
        match (state, journal) {
            (State::Completed, None) => found.on_transfer(&transfer, id, "is COMPLETED without a journal"),
            (State::Completed, Some(journal)) => {
                if !journal.agrees_with(id, &instruction.content) || instruction.posted_at != Some(journal.posted_at) {
                    found.on_transfer(&transfer, id, "and its journal do not agree");
                }
            }
            (state, Some(_)) => {
                found.on_transfer(&transfer, id, format_args!("is {} and has a journal", state.as_str()));
            }
            (_, None) => {}
        }
        let told = matches!(state, State::Completed | State::Failed);
        if told != has_outbox && !(told && is_outbox_forgotten(books, instruction)) {
            let fault = format_args!("is {} and has outbox item: {has_outbox}", state.as_str());
            found.on_transfer(&transfer, id, fault);
        }
        let has_failure = instruction.failure.is_some();
        if (state == State::Failed) != has_failure {
            found.on_transfer(&transfer, id, format_args!("is {} and has failure: {has_failure}", state.as_str()));
        }
    }
}

/// Whether the instruction's end is so long ago that its outbox item may have been deleted.
fn is_outbox_forgotten(books: &Books, instruction: &Instruction) -> bool {
    let ended_at = instruction.posted_at.or(instruction.failure.map(|failure| failure.at));
    books.outbox_since.zip(ended_at).is_some_and(|(since, ended_at)| ended_at < since)
}

/// Invariant 1 from the other side: every journal has its instruction (or is a deposit) and exactly two entries.
fn check_journals(books: &Books, found: &mut Found) {
    let instructions: BTreeSet<&RequestId> = books.instructions.iter().map(|i| &i.request_id).collect();
    let mut legs: BTreeMap<&TransferId, Vec<&Entry>> = BTreeMap::new();
    for entry in &books.entries {
        legs.entry(&entry.transfer).or_default().push(entry);
    }
    for journal in &books.journals {
        let id = &journal.transfer;
        if journal.request_id.as_ref().is_some_and(|request_id| !instructions.contains(request_id)) {
            found.on_transfer(id, id, "has a journal and no instruction");
        }
        let mut legs = legs.remove(id).unwrap_or_default();
        legs.sort_by_key(|entry| entry.signed_minor);
        let expected =
            [(&journal.source, journal.amount_minor.saturating_neg()), (&journal.destination, journal.amount_minor)];
        let actual: Vec<_> = legs.iter().map(|entry| (&entry.account, entry.signed_minor)).collect();
        let same_facts = legs.iter().all(|e| e.currency == journal.currency && e.posted_at == journal.posted_at);
        if actual != expected || !same_facts || journal.source == journal.destination {
            found.on_transfer(id, id, "does not have exactly its debit and its credit");
        }
    }
    for id in legs.keys() {
        found.on_transfer(id, id, "has entries and no journal");
    }
}

/// Invariants 2 and 3: balances are the sums of entries, in the account's currency, and stay in their bounds.
fn check_balances(books: &Books, found: &mut Found) {
    let mut sums: BTreeMap<&AccountId, i128> = BTreeMap::new();
    let mut currencies: BTreeMap<&AccountId, BTreeSet<&str>> = BTreeMap::new();
    for entry in &books.entries {
        let sum = sums.entry(&entry.account).or_default();
        *sum = sum.saturating_add(i128::from(entry.signed_minor));
        currencies.entry(&entry.account).or_default().insert(&entry.currency);
    }
    for account in &books.accounts {
        let (id, balance) = (&account.id, account.balance_minor);
        let sum = sums.remove(id).unwrap_or(0);
        if sum != i128::from(balance) {
            found.on_account(id, format_args!("has balance {balance} and entries of {sum}"));
        }
        let lowest = if account.kind == AccountKind::Customer { 0 } else { INTERNAL_LOWEST_MINOR };
        if balance < lowest || balance > MAX_MINOR {
            found.on_account(id, format_args!("has balance {balance}, out of its bounds"));
        }
        for foreign in currencies.remove(id).unwrap_or_default() {
            if foreign != account.currency.code() {
                found.on_account(id, format_args!("is in {} and has entries in {foreign}", account.currency.code()));
            }
        }
    }
    for id in sums.keys() {
        found.on_account(id, "has entries and no account");
    }
}

/// Invariant 2 over all accounts of a currency.
fn check_sums(books: &Books, found: &mut Found) {
    for (currency, sum) in books.balance_sums() {
        if sum != 0 {
            let text = format!("balances in {currency} sum to {sum}");
            found.0.push(Violation { subject: Subject::Currency(currency), text });
        }
    }
}

/// Invariant 3, of days: what is left of a day is its limit less its debits. A change of a limit moves what is left with
/// it, so this holds at every time; a day whose allowance is gone has passed.
fn check_allowances(books: &Books, zone: &BankZone, found: &mut Found) {
    let mut debits: BTreeMap<(&AccountId, Day), (i64, i64)> = BTreeMap::new();
    for entry in books.entries.iter().filter(|entry| entry.signed_minor < 0) {
        let (amount, count) = debits.entry((&entry.account, zone.day(entry.posted_at))).or_default();
        *amount = amount.saturating_sub(entry.signed_minor);
        *count = count.saturating_add(1);
    }
    for account in &books.accounts {
        for (day, left) in &account.allowances {
            let (amount, count) = debits.get(&(&account.id, *day)).copied().unwrap_or_default();
            let limits = account.limits;
            if left.amount_minor != limits.daily_amount_minor.saturating_sub(amount)
                || left.count != limits.daily_count.saturating_sub(count)
            {
                found.on_account(&account.id, format_args!("has an allowance on {day} that its debits do not explain"));
            }
        }
    }
}

/// Invariant 4: an authorization, named by its user and step, was consumed by at most one posting.
fn check_authorizations(books: &Books, found: &mut Found) {
    let mut consumed: BTreeMap<(&UserId, i64), &TransferId> = BTreeMap::new();
    for journal in &books.journals {
        let Some(step) = journal.step else { continue };
        if let Some(other) = consumed.insert((&journal.user, step), &journal.transfer) {
            let text = format!("{} and {other} consumed one authorization", journal.transfer);
            found.0.push(Violation { subject: Subject::Journals, text });
        }
    }
}
