//! Cancelling: moves an open instruction to CANCELLED, past its time too. It is a fence.

use crate::{
    domain::{
        id::{RequestId, SessionId, UserId},
        instruction::{Instruction, State, Step},
    },
    store::{
        Store, StoreError,
        deadline::Deadline,
        item::{history_step, read_instruction, text},
        schema::*,
    },
};
use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemFluentBuilder,
    types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use jiff::Timestamp;

/// What became of closing an instruction.
#[derive(Debug)]
pub enum Closing {
    /// It is closed by this call.
    Closed(Instruction),
    /// It was no longer open; this is what it is.
    NotOpen(Instruction),
    /// There is no such instruction.
    Missing,
}

impl Store {
    /// Moves the instruction to CANCELLED if it is open, whatever the time.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended: the call may be repeated.
    pub async fn cancel(
        &self,
        user: &UserId,
        id: &RequestId,
        session: &SessionId,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Closing, StoreError> {
        let step = Step { at: now, state: State::Cancelled, session: Some(session.masked().to_owned()), code: None };
        let update = self.closing_update(&Key::instruction(user, id), &step).condition_expression(OPEN);
        match self.update(&update, deadline).await? {
            Ok(new) => Ok(Closing::Closed(read_instruction(&new)?)),
            Err(Some(old)) => Ok(Closing::NotOpen(read_instruction(&old)?)),
            Err(None) => Ok(Closing::Missing),
        }
    }

    /// The update that closes an open instruction and takes it out of the due index; its condition is to be added.
    pub(crate) fn closing_update(&self, key: &Key, step: &Step) -> UpdateItemFluentBuilder {
        self.writes
            .update_item()
            .table_name(&self.tables.core)
            .set_key(Some(key.to_item()))
            .update_expression(format!(
                "SET {STATE} = :closed, {HISTORY} = list_append({HISTORY}, :steps) REMOVE {DUE_SHARD}, {DUE_AT}"
            ))
            .expression_attribute_values(":closed", text(step.state.as_str()))
            .expression_attribute_values(":awaiting", text(State::AwaitingAuthorization.as_str()))
            .expression_attribute_values(":authorized", text(State::Authorized.as_str()))
            .expression_attribute_values(":steps", AttributeValue::L(vec![history_step(step)]))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }
}
