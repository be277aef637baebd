//! The tables: their keys, attributes, indexes and creation. No other file names a key or an attribute.

use crate::domain::{
    day::Day,
    event::EventId,
    id::{AccountId, RequestId, TransferId, UserId},
    notification::Channel,
};
use aws_sdk_dynamodb::{
    Client,
    operation::create_table::CreateTableError,
    types::{
        AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
        ProjectionType, ScalarAttributeType, StreamSpecification, StreamViewType,
    },
};
use std::collections::HashMap;

/// An item as DynamoDB gives and takes it.
pub type Item = HashMap<String, AttributeValue>;

/// The names of the four tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Instructions, admissions, TOTP secrets, contacts and the links from users to accounts.
    pub core: String,
    /// Accounts, entries and journals.
    pub ledger: String,
    /// One item per posting or failure; the only streamed table.
    pub outbox: String,
    /// The inbox of events and one item per (event, channel).
    pub notifications: String,
}

pub(crate) const PK: &str = "pk";
pub(crate) const SK: &str = "sk";

/// The sparse index of items that wait for a time: open instructions by `expires_at`, unfinished notifications by the
/// time at which somebody must look at them. Sharded, so that no key carries all of them.
pub const DUE_INDEX: &str = "due";
pub(crate) const DUE_SHARD: &str = "due_shard";
pub(crate) const DUE_AT: &str = "due_at";
/// Shards of the index in each table.
pub const DUE_SHARDS: u8 = 8;

// core: instructions
pub(crate) const STATE: &str = "instruction_state";
pub(crate) const SOURCE: &str = "source_account_id";
pub(crate) const DESTINATION: &str = "destination_account_id";
pub(crate) const DESTINATION_NAME: &str = "destination_name";
pub(crate) const DESTINATION_OWNER: &str = "destination_owner_id";
pub(crate) const AMOUNT: &str = "amount_minor";
pub(crate) const CURRENCY: &str = "currency_code";
pub(crate) const REQUESTER_NAME: &str = "requester_name";
pub(crate) const MEMO: &str = "memo";
pub(crate) const FINGERPRINT: &str = "fingerprint";
pub(crate) const CONTENT_HASH: &str = "content_hash";
pub(crate) const CREATED_AT: &str = "created_at";
pub(crate) const EXPIRES_AT: &str = "expires_at";
pub(crate) const POSTED_AT: &str = "posted_at";
pub(crate) const FAILURE_CODE: &str = "failure_code";
pub(crate) const FAILED_AT: &str = "failed_at";
pub(crate) const HISTORY: &str = "history_steps";
pub(crate) const STEP_AT: &str = "at";
pub(crate) const STEP_STATE: &str = "to";
pub(crate) const STEP_SESSION: &str = "by";
pub(crate) const STEP_CODE: &str = "why";
pub(crate) const STALE_DAYS: &str = "stale_days";
pub(crate) const AUTH_KIND: &str = "auth_kind";
pub(crate) const AUTH_SESSION: &str = "auth_session";
pub(crate) const AUTH_HASH: &str = "auth_content_hash";
pub(crate) const AUTH_AT: &str = "auth_at";
pub(crate) const AUTH_STEP: &str = "auth_step";

// core: admission, as a shift register from the newest to the fifth-last
pub(crate) const ADMISSIONS: [&str; 5] = ["admitted_1", "admitted_2", "admitted_3", "admitted_4", "admitted_5"];

// core: TOTP
pub(crate) const SECRET: &str = "secret_sealed";
pub(crate) const SECRET_VERSION: &str = "secret_version";
pub(crate) const PENDING: &str = "pending_sealed";
pub(crate) const PENDING_VERSION: &str = "pending_version";
pub(crate) const ACTIVATED_STEP: &str = "activated_step";
pub(crate) const FAILURES: &str = "failure_count";
pub(crate) const LOCKED_UNTIL: &str = "locked_until";
pub(crate) const LAST_STEP: &str = "last_step";
pub(crate) const GUESS_ID: &str = "guess_id";

// core: contact
pub(crate) const LOCALE: &str = "contact_locale";
pub(crate) const EMAIL_ADDRESS: &str = "email_address";
pub(crate) const PUSH_ADDRESS: &str = "push_address";
pub(crate) const CHANNELS: &str = "contact_channels";

// ledger: accounts
pub(crate) const OWNER: &str = "owner_id";
pub(crate) const HOLDER_NAME: &str = "holder_name";
pub(crate) const STATUS: &str = "account_status";
pub(crate) const VERIFIED: &str = "identity_verified";
pub(crate) const BALANCE: &str = "balance_minor";
pub(crate) const DAILY_AMOUNT: &str = "daily_amount_limit_minor";
pub(crate) const DAILY_COUNT: &str = "daily_count_limit";
pub(crate) const PER_TRANSFER: &str = "per_transfer_limit_minor";
pub(crate) const KIND: &str = "account_kind";

// ledger: journals and entries
pub(crate) const TRANSFER_ID: &str = "transfer_id";
pub(crate) const REQUEST_ID: &str = "request_id";
pub(crate) const JOURNAL_KIND: &str = "journal_kind";
pub(crate) const USER: &str = "user_id";
pub(crate) const DIRECTION: &str = "direction";
pub(crate) const COUNTERPARTY: &str = "counterparty_name";

// outbox
pub(crate) const PAYER: &str = "payer_id";
pub(crate) const PAYER_NAME: &str = "payer_name";
pub(crate) const PAYEE: &str = "payee_id";
pub(crate) const PAYEE_NAME: &str = "payee_name";
pub(crate) const EVENT_IDS: &str = "event_ids";
/// When DynamoDB may delete an outbox item, in epoch seconds.
pub const OUTBOX_TTL: &str = "delete_after_s";
/// How long an outbox item is kept, in seconds: 30 days.
pub(crate) const OUTBOX_KEPT_S: i64 = 30 * 24 * 60 * 60;

// notifications
pub(crate) const NOTIFICATION_STATE: &str = "notification_state";
pub(crate) const RECIPIENT: &str = "recipient_id";
pub(crate) const ADDRESS: &str = "address";
pub(crate) const ATTEMPTS: &str = "attempt_count";
pub(crate) const LEASE_UNTIL: &str = "lease_until";
pub(crate) const CLAIM_ID: &str = "claim_id";
pub(crate) const PLAN: &str = "planned_channels";

// core: the operators' trail
pub(crate) const OPERATOR: &str = "operator_name";
pub(crate) const COMMAND: &str = "command_name";
pub(crate) const TARGET: &str = "target_name";
pub(crate) const BEFORE: &str = "values_before";
pub(crate) const AFTER: &str = "values_after";

pub(crate) const INSTRUCTION_PREFIX: &str = "INSTRUCTION#";
pub(crate) const ACCOUNT_PREFIX: &str = "ACCOUNT#";
pub(crate) const ENTRY_PREFIX: &str = "ENTRY#";
pub(crate) const CHANNEL_PREFIX: &str = "CHANNEL#";
pub(crate) const USER_PREFIX: &str = "USER#";
pub(crate) const EVENT_PREFIX: &str = "EVENT#";
pub(crate) const AUDIT_PREFIX: &str = "AUDIT#";
pub(crate) const ACCOUNT: &str = "ACCOUNT";
pub(crate) const JOURNAL: &str = "JOURNAL";
pub(crate) const INBOX: &str = "INBOX";

/// The condition that an instruction exists and is open.
pub(crate) const OPEN: &str = "instruction_state IN (:awaiting, :authorized)";

/// The condition under which a code may still be accepted: not locked, and of a later step than the last one.
pub(crate) const ACCEPTS_STEP: &str = "(attribute_not_exists(locked_until) OR locked_until <= :now) \
                                       AND (attribute_not_exists(last_step) OR last_step < :step)";

/// The name of the attribute that holds what may still be debited on `day`.
pub(crate) fn left_name(day: Day) -> String {
    format!("{LEFT_PREFIX}{day}")
}

/// The name of the attribute that holds how many transfers may still be made on `day`.
pub(crate) fn count_name(day: Day) -> String {
    format!("{COUNT_PREFIX}{day}")
}

pub(crate) const LEFT_PREFIX: &str = "left_";
pub(crate) const COUNT_PREFIX: &str = "count_";

/// The two parts of an item's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub(crate) pk: String,
    pub(crate) sk: String,
}

impl Key {
    fn new(pk: String, sk: impl Into<String>) -> Self {
        Self { pk, sk: sk.into() }
    }

    pub(crate) fn instruction(user: &UserId, id: &RequestId) -> Self {
        Self::new(format!("{USER_PREFIX}{user}"), format!("{INSTRUCTION_PREFIX}{id}"))
    }

    pub(crate) fn admission(user: &UserId) -> Self {
        Self::new(format!("{USER_PREFIX}{user}"), "ADMISSION")
    }

    pub(crate) fn totp(user: &UserId) -> Self {
        Self::new(format!("{USER_PREFIX}{user}"), "TOTP")
    }

    pub(crate) fn contact(user: &UserId) -> Self {
        Self::new(format!("{USER_PREFIX}{user}"), "CONTACT")
    }

    pub(crate) fn account_link(user: &UserId, account: &AccountId) -> Self {
        Self::new(format!("{USER_PREFIX}{user}"), format!("{ACCOUNT_PREFIX}{account}"))
    }

    pub(crate) fn account(account: &AccountId) -> Self {
        Self::new(format!("{ACCOUNT_PREFIX}{account}"), ACCOUNT)
    }

    /// `posted_at` is written with three decimals and `Z`, so that text order is time order.
    pub(crate) fn entry(account: &AccountId, posted_at: jiff::Timestamp, transfer: &TransferId) -> Self {
        Self::new(format!("{ACCOUNT_PREFIX}{account}"), format!("{ENTRY_PREFIX}{posted_at:.3}#{transfer}"))
    }

    pub(crate) fn journal(transfer: &TransferId) -> Self {
        Self::new(format!("TRANSFER#{transfer}"), JOURNAL)
    }

    /// One key for the posting and the failure of one instruction: it cannot have both.
    pub(crate) fn outbox(transfer: &TransferId) -> Self {
        Self::new(format!("TRANSFER#{transfer}"), "OUTBOX")
    }

    pub(crate) fn inbox(event: &EventId) -> Self {
        Self::new(format!("{EVENT_PREFIX}{}", event.as_str()), INBOX)
    }

    pub(crate) fn notification(event: &EventId, channel: Channel) -> Self {
        Self::new(format!("{EVENT_PREFIX}{}", event.as_str()), format!("{CHANNEL_PREFIX}{}", channel.as_str()))
    }

    /// A line of the operators' trail: by its day, in the order of time. `id` keeps two of one millisecond apart.
    pub(crate) fn audit(day: Day, at: jiff::Timestamp, id: &str) -> Self {
        Self::new(format!("{AUDIT_PREFIX}{day}"), format!("{at:.3}#{id}"))
    }

    pub(crate) fn to_item(&self) -> Item {
        HashMap::from([
            (PK.to_owned(), AttributeValue::S(self.pk.clone())),
            (SK.to_owned(), AttributeValue::S(self.sk.clone())),
        ])
    }
}

/// The shard of the due index that an item belongs to: by its key, so that every writer of it agrees.
pub(crate) fn due_shard(text: &str) -> String {
    let hash = crate::domain::hash::tagged("furikomi.shard.v1", &[text.as_bytes()]);
    shard_name(hash[0] % DUE_SHARDS)
}

pub(crate) fn shard_name(shard: u8) -> String {
    format!("DUE#{shard}")
}

/// Creates the tables that are not there yet, with their index and the outbox's stream.
///
/// # Errors
/// The first error of DynamoDB that is not "it exists already".
pub async fn create_tables(client: &Client, tables: &Tables) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    for (name, has_due_index, has_stream) in [
        (&tables.core, true, false),
        (&tables.ledger, false, false),
        (&tables.outbox, false, true),
        (&tables.notifications, true, false),
    ] {
        create_table(client, name, has_due_index, has_stream).await?;
    }
    Ok(())
}

async fn create_table(
    client: &Client,
    name: &str,
    has_due_index: bool,
    has_stream: bool,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut request = client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute(PK, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(SK, ScalarAttributeType::S)?)
        .key_schema(key(PK, KeyType::Hash)?)
        .key_schema(key(SK, KeyType::Range)?);
    if has_due_index {
        request = request
            .attribute_definitions(attribute(DUE_SHARD, ScalarAttributeType::S)?)
            .attribute_definitions(attribute(DUE_AT, ScalarAttributeType::N)?)
            .global_secondary_indexes(
                GlobalSecondaryIndex::builder()
                    .index_name(DUE_INDEX)
                    .key_schema(key(DUE_SHARD, KeyType::Hash)?)
                    .key_schema(key(DUE_AT, KeyType::Range)?)
                    .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
                    .build()?,
            );
    }
    if has_stream {
        request = request.stream_specification(
            StreamSpecification::builder().stream_enabled(true).stream_view_type(StreamViewType::NewImage).build()?,
        );
    }
    match request.send().await {
        Ok(_) => Ok(()),
        Err(error) => match error.into_service_error() {
            CreateTableError::ResourceInUseException(_) => Ok(()),
            other => Err(other.into()),
        },
    }
}

fn attribute(
    name: &str,
    kind: ScalarAttributeType,
) -> Result<AttributeDefinition, aws_sdk_dynamodb::error::BuildError> {
    AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()
}

fn key(name: &str, kind: KeyType) -> Result<KeySchemaElement, aws_sdk_dynamodb::error::BuildError> {
    KeySchemaElement::builder().attribute_name(name).key_type(kind).build()
}
