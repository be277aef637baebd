//! What the stand-ins have to remember over a restart, in a table of their own beside the bank's: the calls of each
//! provider, and how far the clock was set.

use aws_sdk_dynamodb::{
    Client,
    operation::create_table::CreateTableError,
    types::{AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};
use shared::domain::notification::Message;
use std::collections::HashMap;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TABLE: &str = "furikomi-local";
const NAME: &str = "name";
const CALLS: &str = "calls";
const SUBJECT: &str = "subject";
const BODY: &str = "body";
const OFFSET_MS: &str = "offset_ms";
const CLOCK_NAME: &str = "CLOCK";
const CALL_PREFIX: &str = "CALL#";

/// What a provider saw of one (event, channel).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    /// How often it was called, refused calls included.
    pub(crate) count: i64,
    /// The subject that it accepted; empty if it accepted none.
    pub(crate) subject: String,
    /// The text that it accepted; empty if it accepted none.
    pub(crate) body: String,
}

/// The table.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    client: Client,
}

impl Keep {
    /// The table, created if it is not there.
    pub(crate) async fn open(client: Client) -> Fallible<Self> {
        let name =
            AttributeDefinition::builder().attribute_name(NAME).attribute_type(ScalarAttributeType::S).build()?;
        let created = client
            .create_table()
            .table_name(TABLE)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(name)
            .key_schema(KeySchemaElement::builder().attribute_name(NAME).key_type(KeyType::Hash).build()?)
            .send()
            .await;
        match created.map_err(aws_sdk_dynamodb::error::SdkError::into_service_error) {
            Ok(_) | Err(CreateTableError::ResourceInUseException(_)) => Ok(Self { client }),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes one call of a provider, and what it accepted, if it did.
    pub(crate) async fn note_call(&self, idempotency_key: &str, accepted: Option<&Message>) -> Fallible<()> {
        let mut update = self
            .client
            .update_item()
            .table_name(TABLE)
            .key(NAME, AttributeValue::S(format!("{CALL_PREFIX}{idempotency_key}")))
            .expression_attribute_names("#calls", CALLS)
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
        if let Some(message) = accepted {
            update = update
                .update_expression("ADD #calls :one SET #subject = :subject, #body = :body")
                .expression_attribute_names("#subject", SUBJECT)
                .expression_attribute_names("#body", BODY)
                .expression_attribute_values(":subject", AttributeValue::S(message.subject.clone()))
                .expression_attribute_values(":body", AttributeValue::S(message.body.clone()));
        } else {
            update = update.update_expression("ADD #calls :one");
        }
        update.send().await?;
        Ok(())
    }

    /// Every (event, channel) that a provider was called for, by the idempotency key.
    pub(crate) async fn calls(&self) -> Fallible<HashMap<String, Calls>> {
        let mut found = HashMap::new();
        let mut pages = self.client.scan().table_name(TABLE).consistent_read(true).into_paginator().items().send();
        while let Some(item) = pages.next().await {
            let item = item?;
            let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
            if let Some(key) = text(NAME).strip_prefix(CALL_PREFIX) {
                let calls = Calls { count: number(&item, CALLS), subject: text(SUBJECT), body: text(BODY) };
                found.insert(key.to_owned(), calls);
            }
        }
        Ok(found)
    }

    /// Notes how far the clock is ahead of the system's. Without it a restart would turn the time back, and codes and
    /// leases of the time before would lie in the future.
    pub(crate) async fn note_offset(&self, offset_ms: i64) -> Fallible<()> {
        self.client
            .put_item()
            .table_name(TABLE)
            .item(NAME, AttributeValue::S(CLOCK_NAME.to_owned()))
            .item(OFFSET_MS, AttributeValue::N(offset_ms.to_string()))
            .send()
            .await?;
        Ok(())
    }

    /// How far the clock was ahead of the system's.
    pub(crate) async fn offset(&self) -> Fallible<i64> {
        let read = self
            .client
            .get_item()
            .table_name(TABLE)
            .key(NAME, AttributeValue::S(CLOCK_NAME.to_owned()))
            .consistent_read(true)
            .send()
            .await?;
        Ok(read.item.map_or(0, |item| number(&item, OFFSET_MS)))
    }
}

fn number(item: &HashMap<String, AttributeValue>, name: &str) -> i64 {
    item.get(name).and_then(|value| value.as_n().ok()).and_then(|text| text.parse().ok()).unwrap_or(0)
}
