//! What is told, and how people are reached, as items.

use super::{Reader, number, text, time};
use crate::{
    domain::{
        error::Refusal,
        event::{EventId, OutboxRecord},
        id::{AccountId, TransferId, UserId},
        money::Currency,
        notification::{Channel, Contact, Locale},
    },
    store::{StoreError, schema::*},
};
use aws_sdk_dynamodb::types::AttributeValue;

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
