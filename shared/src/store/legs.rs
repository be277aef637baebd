//! The building blocks of transactions.

use crate::store::{
    StoreError,
    schema::{Item, Key, PK},
    transact::Leg,
};
use aws_sdk_dynamodb::{
    error::BuildError,
    types::{Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update, builders::UpdateBuilder},
};

/// A part of a transaction with its name.
pub(crate) type NamedLeg = (Leg, TransactWriteItem);

/// Puts `item` unless there is one with its key.
pub(crate) fn put_new(leg: Leg, table: &str, item: Item) -> Result<NamedLeg, StoreError> {
    let put = Put::builder()
        .table_name(table)
        .set_item(Some(item))
        .condition_expression(format!("attribute_not_exists({PK})"))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(malformed)?;
    Ok((leg, TransactWriteItem::builder().put(put).build()))
}

/// Updates the item at `key` by what `describe` adds: an update, a condition and their values.
pub(crate) fn update(
    leg: Leg,
    table: &str,
    key: &Key,
    describe: impl FnOnce(UpdateBuilder) -> UpdateBuilder,
) -> Result<NamedLeg, StoreError> {
    let update = describe(Update::builder())
        .table_name(table)
        .set_key(Some(key.to_item()))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(malformed)?;
    Ok((leg, TransactWriteItem::builder().update(update).build()))
}

/// Puts `item` in place of `old`, if the attributes `names` of what is stored are still those of `old`.
pub(crate) fn replace(
    leg: Leg,
    table: &str,
    item: Item,
    old: Option<&Item>,
    names: &[&str],
) -> Result<NamedLeg, StoreError> {
    let Some(old) = old else { return put_new(leg, table, item) };
    let mut put = Put::builder()
        .table_name(table)
        .set_item(Some(item))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let mut conditions = vec![format!("attribute_exists({PK})")];
    for (index, name) in names.iter().enumerate() {
        match old.get(*name) {
            Some(value) => {
                conditions.push(format!("{name} = :old{index}"));
                put = put.expression_attribute_values(format!(":old{index}"), value.clone());
            }
            None => conditions.push(format!("attribute_not_exists({name})")),
        }
    }
    let put = put.condition_expression(conditions.join(" AND ")).build().map_err(malformed)?;
    Ok((leg, TransactWriteItem::builder().put(put).build()))
}

/// A request that the SDK would not even build: a mistake in the code that describes it.
pub(crate) fn malformed(error: BuildError) -> StoreError {
    StoreError::Rejected(error.into())
}
