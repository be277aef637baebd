//! Reading everything for an operator, and reading again what looked wrong.
//!
//! A scan is not of one moment: under load it shows halves of postings. What it finds is only a suspicion; each item
//! named is then read again in a way that is of one moment.

use crate::{
    domain::{
        account::Account,
        event::{EventId, OutboxRecord},
        id::{AccountId, TransferId, UserId},
        instruction::Instruction,
        invariants::{Books, Entry},
    },
    store::{
        Store, StoreError,
        audit::add_notification,
        deadline::{Backoff, Deadline},
        deliver::NotificationRow,
        instructions::in_time,
        item::{read_account, read_entry, read_outbox, text},
        schema::*,
        transact::read_error,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// All that the tables hold, as far as it can be read.
#[derive(Debug, Default)]
pub struct Survey {
    /// Accounts, instructions, journals, entries and outbox items.
    pub books: Books,
    /// The events whose inbox is open.
    pub inboxes: BTreeSet<EventId>,
    /// All notifications.
    pub rows: Vec<NotificationRow>,
    /// Items that cannot be read, by table and key, and what is wrong with them.
    pub unreadable: Vec<String>,
}

/// Readings of one thing before it is left alone: each takes a few round trips, and a posting in between spoils it.
const READINGS_MAX: u32 = 20;

impl Store {
    /// The four tables, in the order in which they are surveyed.
    #[must_use]
    pub fn surveyed_tables(&self) -> [&str; 4] {
        [&self.tables.core, &self.tables.ledger, &self.tables.outbox, &self.tables.notifications]
    }

    /// Reads everything, strongly, page by page; `progress` hears the table and how many items each page had. An item
    /// that cannot be read is noted and keeps no other from being read.
    ///
    /// # Errors
    /// [`StoreError`] if a page cannot be read.
    pub async fn survey(&self, progress: &mut (dyn FnMut(&str, usize) + Send)) -> Result<Survey, StoreError> {
        let mut survey = Survey::default();
        for (table, add) in self.parts_of_books() {
            self.scan_pages(table, |page| {
                progress(table, page.len());
                for item in page {
                    if let Err(fault) = add(&mut survey.books, &item) {
                        survey.unreadable.push(unreadable(table, &item, &fault));
                    }
                }
            })
            .await?;
        }
        let table = &self.tables.notifications;
        self.scan_pages(table, |page| {
            progress(table, page.len());
            for item in page {
                if let Err(fault) = add_notification(&mut survey.inboxes, &mut survey.rows, &item) {
                    survey.unreadable.push(unreadable(table, &item, &fault));
                }
            }
        })
        .await?;
        Ok(survey)
    }

    /// All notifications; `progress` hears how many items each page had.
    ///
    /// # Errors
    /// [`StoreError`] if a page or an item cannot be read.
    pub async fn notifications(
        &self,
        progress: &mut (dyn FnMut(&str, usize) + Send),
    ) -> Result<Vec<NotificationRow>, StoreError> {
        let (table, mut inboxes, mut rows) = (&self.tables.notifications, BTreeSet::new(), Vec::new());
        let mut read = Ok(());
        self.scan_pages(table, |page| {
            progress(table, page.len());
            for item in page {
                let added = add_notification(&mut inboxes, &mut rows, &item);
                if read.is_ok() {
                    read = added;
                }
            }
        })
        .await?;
        read.map(|()| rows)
    }

    /// What the outbox has to tell; `progress` hears how many items each page had.
    ///
    /// # Errors
    /// [`StoreError`] if a page or an item cannot be read.
    pub async fn outbox_records(
        &self,
        progress: &mut (dyn FnMut(&str, usize) + Send),
    ) -> Result<Vec<OutboxRecord>, StoreError> {
        let (table, mut records) = (&self.tables.outbox, Vec::new());
        self.scan_pages(table, |page| {
            progress(table, page.len());
            records.extend(page.iter().map(read_outbox));
        })
        .await?;
        records.into_iter().collect()
    }

    /// About how many items a table has: DynamoDB counts every few hours. `None` if it does not say.
    pub async fn approximate_items(&self, table: &str) -> Option<u64> {
        let described = self.reads.describe_table().table_name(table).send().await.ok()?;
        described.table?.item_count.and_then(|count| u64::try_from(count).ok())
    }

    /// An account with all of its entries, as of one moment; `None` if postings kept spoiling the reading.
    ///
    /// The account is read before and after its entries. If it is the same, nothing was posted in between: credits alone
    /// only raise its balance, and a debit lowers the number of transfers that are left of a day.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn account_books(&self, id: &AccountId, deadline: Deadline) -> Result<Option<Books>, StoreError> {
        let mut before = self.account(id, deadline).await?;
        let mut backoff = Backoff::until(deadline);
        for _ in 0..READINGS_MAX {
            let entries = self.entries_of(id, deadline).await?;
            let after = self.account(id, deadline).await?;
            if before == after {
                return Ok(Some(Books { accounts: after.into_iter().collect(), entries, ..Books::default() }));
            }
            before = after;
            if !backoff.wait().await {
                break;
            }
        }
        Ok(None)
    }

    async fn entries_of(&self, id: &AccountId, deadline: Deadline) -> Result<Vec<Entry>, StoreError> {
        let (mut entries, mut start) = (Vec::new(), None);
        loop {
            let send = self
                .reads
                .query()
                .table_name(&self.tables.ledger)
                .key_condition_expression(format!("{PK} = :account AND begins_with({SK}, :entry)"))
                .expression_attribute_values(":account", text(Key::account(id).pk))
                .expression_attribute_values(":entry", text(ENTRY_PREFIX))
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .send();
            let output = in_time(deadline, send).await?.map_err(read_error)?;
            for item in output.items() {
                entries.push(read_entry(item)?);
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(entries);
            }
        }
    }

    /// All that belongs to one transfer, as of one moment; `None` if its instruction kept changing. `known` are its
    /// entries as far as they were seen; `owner` is its instruction's user, if one was seen.
    ///
    /// The instruction is read before and after the rest. If it is the same, the rest is what goes with it: a posting or a
    /// failure changes the instruction in the same transaction.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn transfer_books(
        &self,
        transfer: &TransferId,
        owner: Option<&UserId>,
        known: &[Entry],
        deadline: Deadline,
    ) -> Result<Option<Books>, StoreError> {
        let owner = match owner {
            Some(owner) => Some(owner.clone()),
            None => self.journal(transfer, deadline).await?.map(|journal| journal.user),
        };
        let mut before = self.instruction_of(transfer, owner.as_ref(), deadline).await?;
        let mut backoff = Backoff::until(deadline);
        for _ in 0..READINGS_MAX {
            let mut books = self.posting_books(transfer, known, deadline).await?;
            let after = self.instruction_of(transfer, owner.as_ref(), deadline).await?;
            if before == after {
                books.instructions = after.into_iter().collect();
                return Ok(Some(books));
            }
            before = after;
            if !backoff.wait().await {
                break;
            }
        }
        Ok(None)
    }

    async fn instruction_of(
        &self,
        transfer: &TransferId,
        owner: Option<&UserId>,
        deadline: Deadline,
    ) -> Result<Option<Instruction>, StoreError> {
        match owner {
            Some(owner) => self.instruction(owner, &transfer.request_id(), deadline).await,
            None => Ok(None),
        }
    }

    /// A transfer's journal, outbox item and entries: those that were seen, and those that its journal calls for.
    async fn posting_books(
        &self,
        transfer: &TransferId,
        known: &[Entry],
        deadline: Deadline,
    ) -> Result<Books, StoreError> {
        let mut books = Books::default();
        let mut keys: BTreeMap<String, Key> = BTreeMap::new();
        let mut add = |account: &AccountId, posted_at| {
            let key = Key::entry(account, posted_at, transfer);
            keys.insert(format!("{} {}", key.pk, key.sk), key);
        };
        if let Some(journal) = self.journal(transfer, deadline).await? {
            add(&journal.source, journal.posted_at);
            add(&journal.destination, journal.posted_at);
            books.journals.push(journal);
        }
        known.iter().for_each(|entry| add(&entry.account, entry.posted_at));
        for key in keys.values() {
            if let Some(item) = self.get(&self.tables.ledger, key, deadline).await? {
                books.entries.push(read_entry(&item)?);
            }
        }
        if let Some(record) = self.outbox(transfer, deadline).await? {
            let events = record.events().into_iter().map(|event| event.id).collect();
            books.outbox.insert(transfer.clone(), events);
        }
        Ok(books)
    }

    /// All accounts as of one moment: the same in two readings, one after the other, so that they were so in between.
    /// `None` if postings kept spoiling it.
    ///
    /// # Errors
    /// [`StoreError`] if a page or an item cannot be read.
    pub async fn settled_accounts(&self, deadline: Deadline) -> Result<Option<Vec<Account>>, StoreError> {
        let mut before = self.all_accounts().await?;
        let mut backoff = Backoff::until(deadline);
        for _ in 0..READINGS_MAX {
            let after = self.all_accounts().await?;
            if before == after {
                return Ok(Some(after.into_values().collect()));
            }
            before = after;
            if !backoff.wait().await {
                break;
            }
        }
        Ok(None)
    }

    async fn all_accounts(&self) -> Result<BTreeMap<AccountId, Account>, StoreError> {
        let (mut accounts, mut start) = (BTreeMap::new(), None);
        loop {
            let send = self
                .reads
                .scan()
                .table_name(&self.tables.ledger)
                .filter_expression(format!("{SK} = :account"))
                .expression_attribute_values(":account", text(ACCOUNT))
                .consistent_read(true)
                .set_exclusive_start_key(start);
            let output = send.send().await.map_err(read_error)?;
            for item in output.items() {
                let account = read_account(item)?;
                accounts.insert(account.id.clone(), account);
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(accounts);
            }
        }
    }

    /// Whether an event's inbox is open, read strongly.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn has_inbox(&self, event: &EventId, deadline: Deadline) -> Result<bool, StoreError> {
        let item = self.get(&self.tables.notifications, &Key::inbox(event), deadline).await?;
        Ok(item.is_some())
    }
}

/// For the operator, who has to find the item: the key names it.
fn unreadable(table: &str, item: &Item, fault: &StoreError) -> String {
    let part = |name| item.get(name).and_then(|v| v.as_s().ok()).map_or("?", String::as_str);
    format!("{table}: {} / {}: {fault}", part(PK), part(SK))
}
