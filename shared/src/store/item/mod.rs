//! Between items and domain values. An item that cannot be read is an error that names it, never a default.

mod instruction;
mod ledger;
mod told;

pub(crate) use instruction::{history_step, instruction_item, read_instruction};
pub(crate) use ledger::{
    CREDIT, DEBIT, account_item, entry_item, journal_item, read_account, read_entry, read_journal,
};
pub(crate) use told::{contact_item, outbox_item, read_contact, read_outbox, read_outbox_event_ids};

use crate::{
    domain::money::Amount,
    store::{
        StoreError,
        schema::{Item, SK},
    },
};
use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use jiff::Timestamp;

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Times are kept in epoch milliseconds, so that conditions can compare them.
pub(crate) fn time(value: Timestamp) -> AttributeValue {
    number(value.as_millisecond())
}

pub(crate) fn bytes(value: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(value))
}

/// Typed reads of one item's attributes.
pub(crate) struct Reader<'a>(pub(crate) &'a Item);

impl<'a> Reader<'a> {
    pub(crate) fn corrupt(&self, name: &str) -> StoreError {
        let part = |key| self.0.get(key).and_then(|v| v.as_s().ok()).map_or("?", String::as_str);
        // The partition key of a person's item names the person; its sort key says enough.
        StoreError::Corrupt(format!("attribute {name} of item {}", part(SK)))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'a str, StoreError> {
        self.0.get(name).and_then(|v| v.as_s().ok()).map(String::as_str).ok_or_else(|| self.corrupt(name))
    }

    pub(crate) fn number(&self, name: &str) -> Result<i64, StoreError> {
        let text = self.0.get(name).and_then(|v| v.as_n().ok());
        text.and_then(|n| n.parse().ok()).ok_or_else(|| self.corrupt(name))
    }

    pub(crate) fn time(&self, name: &str) -> Result<Timestamp, StoreError> {
        Timestamp::from_millisecond(self.number(name)?).map_err(|_| self.corrupt(name))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, StoreError> {
        self.0.get(name).and_then(|v| v.as_bool().ok()).copied().ok_or_else(|| self.corrupt(name))
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<&'a [u8], StoreError> {
        self.0.get(name).and_then(|v| v.as_b().ok()).map(Blob::as_ref).ok_or_else(|| self.corrupt(name))
    }

    pub(crate) fn list(&self, name: &str) -> Result<&'a [AttributeValue], StoreError> {
        self.0.get(name).and_then(|v| v.as_l().ok()).map(Vec::as_slice).ok_or_else(|| self.corrupt(name))
    }

    /// What `read` makes of the attribute `name`, if the item has it.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        if self.has(name) { read(self, name).map(Some) } else { Ok(None) }
    }

    /// What `parse` makes of the text attribute `name`.
    pub(crate) fn parsed<T, E>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, StoreError> {
        parse(self.text(name)?).map_err(|_| self.corrupt(name))
    }

    /// What `parse` makes of the word in the text attribute `name`.
    pub(crate) fn word<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
        parse(self.text(name)?).ok_or_else(|| self.corrupt(name))
    }

    fn words<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, StoreError> {
        let read = |v: &AttributeValue| v.as_s().ok().and_then(|word| parse(word));
        self.list(name)?.iter().map(|v| read(v).ok_or_else(|| self.corrupt(name))).collect()
    }

    fn amount(&self, name: &str) -> Result<Amount, StoreError> {
        Amount::parse(self.number(name)?).map_err(|_| self.corrupt(name))
    }

    /// What follows `prefix` in the key attribute `name`.
    pub(crate) fn key_part(&self, name: &str, prefix: &str) -> Result<&'a str, StoreError> {
        self.text(name)?.strip_prefix(prefix).ok_or_else(|| self.corrupt(name))
    }
}
