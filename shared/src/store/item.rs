//! Between items and domain values. An item that cannot be read is an error that names it, never a default.

use crate::{
    domain::{
        account::{Account, AccountKind, AccountStatus, Allowance, Limits},
        authorization::{Authorization, KIND_TRANSFER},
        day::Day,
        error::Refusal,
        event::{EventId, OutboxRecord},
        id::{AccountId, RequestId, SessionId, TransferId, UserId},
        idempotency::{ContentHash, Fingerprint},
        instruction::{Content, Failure, Instruction, State, Step},
        invariants::{Entry, Journal},
        money::{Amount, Currency},
        notification::{Channel, Contact, Locale},
    },
    store::{StoreError, schema::*},
};
use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap};

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

pub(crate) fn history_step(step: &Step) -> AttributeValue {
    let mut map =
        HashMap::from([(STEP_AT.to_owned(), time(step.at)), (STEP_STATE.to_owned(), text(step.state.as_str()))]);
    if let Some(session) = &step.session {
        map.insert(STEP_SESSION.to_owned(), text(session));
    }
    if let Some(code) = &step.code {
        map.insert(STEP_CODE.to_owned(), text(code));
    }
    AttributeValue::M(map)
}

fn read_step(value: &AttributeValue, reader: &Reader<'_>) -> Result<Step, StoreError> {
    let map = value.as_m().map_err(|_| reader.corrupt(HISTORY))?;
    let step = Reader(map);
    Ok(Step {
        at: step.time(STEP_AT)?,
        state: step.word(STEP_STATE, State::parse)?,
        session: step.optional(STEP_SESSION, Reader::text)?.map(str::to_owned),
        code: step.optional(STEP_CODE, Reader::text)?.map(str::to_owned),
    })
}

/// A new instruction as an item; it carries the due index's attributes as long as it is open.
pub(crate) fn instruction_item(instruction: &Instruction) -> Item {
    let content = &instruction.content;
    let mut item = Key::instruction(&instruction.user, &instruction.request_id).to_item();
    item.extend(
        [
            (STATE, text(instruction.state.as_str())),
            (SOURCE, text(content.source.as_str())),
            (DESTINATION, text(content.destination.as_str())),
            (DESTINATION_NAME, text(&instruction.destination_name)),
            (DESTINATION_OWNER, text(instruction.destination_owner.as_str())),
            (AMOUNT, number(content.amount.minor())),
            (CURRENCY, text(content.currency.code())),
            (REQUESTER_NAME, text(&content.requester_name)),
            (MEMO, text(&content.memo)),
            (FINGERPRINT, bytes(instruction.fingerprint.as_bytes())),
            (CONTENT_HASH, text(instruction.content_hash.as_str())),
            (CREATED_AT, time(instruction.created_at)),
            (EXPIRES_AT, time(instruction.expires_at)),
            (HISTORY, AttributeValue::L(instruction.history.iter().map(history_step).collect())),
            (DUE_SHARD, text(due_shard(instruction.request_id.as_str()))),
            (DUE_AT, time(instruction.expires_at)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    if !instruction.stale_days.is_empty() {
        let days = instruction.stale_days.iter().map(|day| text(day.to_string())).collect();
        item.insert(STALE_DAYS.to_owned(), AttributeValue::L(days));
    }
    item
}

pub(crate) fn read_instruction(item: &Item) -> Result<Instruction, StoreError> {
    let reader = Reader(item);
    let steps = reader.list(HISTORY)?;
    Ok(Instruction {
        request_id: RequestId::parse(reader.key_part(SK, INSTRUCTION_PREFIX)?).map_err(|_| reader.corrupt(SK))?,
        user: UserId::parse(reader.key_part(PK, USER_PREFIX)?).map_err(|_| reader.corrupt(PK))?,
        content: read_content(&reader)?,
        destination_name: reader.text(DESTINATION_NAME)?.to_owned(),
        destination_owner: reader.parsed(DESTINATION_OWNER, UserId::parse)?,
        fingerprint: Fingerprint::from_bytes(reader.bytes(FINGERPRINT)?).ok_or_else(|| reader.corrupt(FINGERPRINT))?,
        content_hash: ContentHash::from_stored(reader.text(CONTENT_HASH)?),
        created_at: reader.time(CREATED_AT)?,
        expires_at: reader.time(EXPIRES_AT)?,
        state: reader.word(STATE, State::parse)?,
        authorization: reader.optional(AUTH_AT, |reader, _| read_authorization(reader))?.flatten(),
        posted_at: reader.optional(POSTED_AT, Reader::time)?,
        failure: reader.optional(FAILED_AT, |reader, name| {
            Ok(Failure { refusal: reader.word(FAILURE_CODE, Refusal::from_code)?, at: reader.time(name)? })
        })?,
        history: steps.iter().map(|step| read_step(step, &reader)).collect::<Result<_, _>>()?,
        stale_days: reader.optional(STALE_DAYS, |reader, name| reader.words(name, Day::parse))?.unwrap_or_default(),
    })
}

fn read_content(reader: &Reader<'_>) -> Result<Content, StoreError> {
    Ok(Content {
        source: reader.parsed(SOURCE, AccountId::parse)?,
        destination: reader.parsed(DESTINATION, AccountId::parse)?,
        amount: reader.amount(AMOUNT)?,
        currency: reader.parsed(CURRENCY, Currency::parse)?,
        requester_name: reader.text(REQUESTER_NAME)?.to_owned(),
        memo: reader.text(MEMO)?.to_owned(),
    })
}

/// An authorization of another kind than a transfer's is none.
fn read_authorization(reader: &Reader<'_>) -> Result<Option<Authorization>, StoreError> {
    if reader.text(AUTH_KIND)? != KIND_TRANSFER {
        return Ok(None);
    }
    Ok(Some(Authorization {
        session: reader.parsed(AUTH_SESSION, SessionId::parse)?,
        content_hash: ContentHash::from_stored(reader.text(AUTH_HASH)?),
        at: reader.time(AUTH_AT)?,
        step: reader.number(AUTH_STEP)?,
    }))
}

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

pub(crate) fn outbox_item(record: &OutboxRecord) -> Item {
    let mut item = Key::outbox(&record.transfer).to_item();
    let ids = record.events().iter().map(|event| text(event.id.as_str())).collect();
    item.extend(
        [
            (TRANSFER_ID, text(record.transfer.as_str())),
            (EVENT_IDS, AttributeValue::L(ids)),
            (CREATED_AT, time(record.at)),
            (AMOUNT, number(record.amount.minor())),
            (CURRENCY, text(record.currency.code())),
            (PAYER, text(record.payer.as_str())),
            (SOURCE, text(record.source.as_str())),
            (PAYER_NAME, text(&record.payer_name)),
            (PAYEE, text(record.payee.as_str())),
            (DESTINATION, text(record.destination.as_str())),
            (PAYEE_NAME, text(&record.payee_name)),
            (OUTBOX_TTL, number(record.at.as_second().saturating_add(OUTBOX_KEPT_S))),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    if let Some(refusal) = record.refusal {
        item.insert(FAILURE_CODE.to_owned(), text(refusal.code()));
    }
    item
}

/// Reads an outbox item, from the table or from a stream's new image.
pub(crate) fn read_outbox(item: &Item) -> Result<OutboxRecord, StoreError> {
    let reader = Reader(item);
    Ok(OutboxRecord {
        transfer: reader.parsed(TRANSFER_ID, TransferId::parse)?,
        at: reader.time(CREATED_AT)?,
        amount: reader.amount(AMOUNT)?,
        currency: reader.parsed(CURRENCY, Currency::parse)?,
        payer: reader.parsed(PAYER, UserId::parse)?,
        source: reader.parsed(SOURCE, AccountId::parse)?,
        payer_name: reader.text(PAYER_NAME)?.to_owned(),
        payee: reader.parsed(PAYEE, UserId::parse)?,
        destination: reader.parsed(DESTINATION, AccountId::parse)?,
        payee_name: reader.text(PAYEE_NAME)?.to_owned(),
        refusal: reader.optional(FAILURE_CODE, |reader, name| reader.word(name, Refusal::from_code))?,
    })
}

pub(crate) fn read_outbox_event_ids(item: &Item) -> Result<Vec<EventId>, StoreError> {
    Reader(item).words(EVENT_IDS, |id| EventId::parse(id).map(|(id, _, _)| id))
}

pub(crate) fn contact_item(user: &UserId, contact: &Contact) -> Item {
    let mut item = Key::contact(user).to_item();
    item.insert(LOCALE.to_owned(), text(contact.locale.as_str()));
    let channels = contact.addresses.iter().map(|(channel, _)| text(channel.as_str())).collect();
    item.insert(CHANNELS.to_owned(), AttributeValue::L(channels));
    for (channel, address) in &contact.addresses {
        item.insert(address_name(*channel).to_owned(), text(address));
    }
    item
}

/// The contact; a channel that is wanted and has no address is an error, since it would leave somebody out.
pub(crate) fn read_contact(item: &Item) -> Result<Contact, StoreError> {
    let reader = Reader(item);
    let channels = reader.words(CHANNELS, Channel::parse)?;
    let addresses = channels
        .into_iter()
        .map(|channel| Ok((channel, reader.text(address_name(channel))?.to_owned())))
        .collect::<Result<_, StoreError>>()?;
    Ok(Contact { locale: reader.word(LOCALE, Locale::parse)?, addresses })
}

const fn address_name(channel: Channel) -> &'static str {
    match channel {
        Channel::Email => EMAIL_ADDRESS,
        Channel::Push => PUSH_ADDRESS,
    }
}
