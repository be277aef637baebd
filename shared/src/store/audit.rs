//! Reading everything, for the check of the invariants: tests, the embedded server and operators, never a function.

use crate::domain::{event::EventId, id::TransferId};
use crate::{
    domain::invariants::Books,
    store::{
        Store, StoreError,
        deliver::{NotificationRow, read_row},
        item::{Reader, read_account, read_entry, read_instruction, read_journal, read_outbox_event_ids},
        schema::*,
        transact::read_error,
    },
};
use std::collections::BTreeSet;

impl Store {
    /// All accounts, instructions, journals, entries and outbox items. At rest the books are of one moment; under load
    /// they may be torn, and a violation is to be read again before it is believed.
    ///
    /// # Errors
    /// [`StoreError`] if a page cannot be read or an item is not one of furikomi's.
    pub async fn books(&self) -> Result<Books, StoreError> {
        let mut books = Books::default();
        for (table, add) in self.parts_of_books() {
            for item in self.scan(table).await? {
                add(&mut books, &item)?;
            }
        }
        Ok(books)
    }

    /// The tables that the books are read from, and how an item of each goes into them.
    pub(crate) fn parts_of_books(&self) -> [(&str, AddToBooks); 3] {
        let tables = &self.tables;
        [(&tables.core, add_core), (&tables.ledger, add_ledger), (&tables.outbox, add_outbox)]
    }

    /// All notifications, and the events whose inbox is open.
    ///
    /// # Errors
    /// [`StoreError`] as for [`Store::books`].
    pub async fn all_notifications(&self) -> Result<(BTreeSet<EventId>, Vec<NotificationRow>), StoreError> {
        let (mut inboxes, mut rows) = (BTreeSet::new(), Vec::new());
        for item in self.scan(&self.tables.notifications).await? {
            add_notification(&mut inboxes, &mut rows, &item)?;
        }
        Ok((inboxes, rows))
    }

    /// All items of a table, read strongly, page by page.
    ///
    /// # Errors
    /// [`StoreError`] if a page cannot be read.
    pub async fn scan(&self, table: &str) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        self.scan_pages(table, |page| items.extend(page)).await?;
        Ok(items)
    }

    /// Hands every page of a table to `take`, read strongly.
    pub(crate) async fn scan_pages(&self, table: &str, mut take: impl FnMut(Vec<Item>)) -> Result<(), StoreError> {
        let mut start = None;
        loop {
            let output = self
                .reads
                .scan()
                .table_name(table)
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(read_error)?;
            take(output.items.unwrap_or_default());
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(());
            }
        }
    }
}

/// Reads an item into the books.
pub(crate) type AddToBooks = fn(&mut Books, &Item) -> Result<(), StoreError>;

fn add_core(books: &mut Books, item: &Item) -> Result<(), StoreError> {
    if Reader(item).text(SK)?.starts_with(INSTRUCTION_PREFIX) {
        books.instructions.push(read_instruction(item)?);
    }
    Ok(())
}

fn add_ledger(books: &mut Books, item: &Item) -> Result<(), StoreError> {
    match Reader(item).text(SK)? {
        ACCOUNT => books.accounts.push(read_account(item)?),
        JOURNAL => books.journals.push(read_journal(item)?),
        _ => books.entries.push(read_entry(item)?),
    }
    Ok(())
}

fn add_outbox(books: &mut Books, item: &Item) -> Result<(), StoreError> {
    books.outbox.insert(Reader(item).parsed(TRANSFER_ID, TransferId::parse)?, read_outbox_event_ids(item)?);
    Ok(())
}

/// Reads an item of the notifications' table: an inbox or a row.
pub(crate) fn add_notification(
    inboxes: &mut BTreeSet<EventId>,
    rows: &mut Vec<NotificationRow>,
    item: &Item,
) -> Result<(), StoreError> {
    let reader = Reader(item);
    if reader.text(SK)? == INBOX {
        let id = reader.key_part(PK, EVENT_PREFIX)?;
        inboxes.insert(EventId::parse(id).ok_or_else(|| reader.corrupt(PK))?.0);
    } else {
        rows.push(read_row(item)?);
    }
    Ok(())
}
