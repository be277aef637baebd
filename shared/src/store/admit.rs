//! Admitting an instruction: its item and its place among the last five of its user, in one transaction.

use crate::{
    domain::{admission, id::UserId, instruction::Instruction},
    store::{
        Store, StoreError,
        deadline::Deadline,
        item::{Reader, instruction_item, read_instruction, time},
        legs::{NamedLeg, put_new, update},
        schema::{ADMISSIONS, Item, Key},
        transact::{Leg, Outcome},
    },
};
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;

/// What became of one attempt to admit.
#[derive(Debug)]
pub enum Admission {
    /// It is admitted.
    Admitted,
    /// There is one already: of an earlier send, or of one that raced with this.
    Exists(Box<Instruction>),
    /// The user sent too many; whole seconds to wait.
    TooMany {
        /// Until another one can be admitted.
        retry_after_s: i64,
    },
    /// Nothing was written; a fresh attempt may succeed.
    Contended,
}

impl Store {
    /// Makes one attempt to admit `instruction`, whose `created_at` is the admission's time.
    ///
    /// An instruction that exists beats a full window, also when it came into being during this attempt.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the outcome stayed unknown: the send may be repeated as it is.
    pub async fn admit(&self, instruction: &Instruction, deadline: Deadline) -> Result<Admission, StoreError> {
        let attempt = self.transact(self.admission_legs(instruction)?, deadline).await?;
        let failed = match attempt.outcome {
            Outcome::Committed => return Ok(Admission::Admitted),
            Outcome::Contended => return Ok(Admission::Contended),
            Outcome::Unknown(cause) => return Err(StoreError::Unavailable(cause)),
            Outcome::Refused { failed, .. } => failed,
        };
        if let Some(old) = failed.iter().find(|f| f.leg == Leg::Instruction).and_then(|f| f.old.as_ref()) {
            return Ok(Admission::Exists(Box::new(read_instruction(old)?)));
        }
        // The reasons need not name every failed condition: look before saying "too many".
        let (user, id) = (&instruction.user, &instruction.request_id);
        if let Some(existing) = self.instruction(user, id, deadline).await? {
            return Ok(Admission::Exists(Box::new(existing)));
        }
        let window = failed.iter().find(|f| f.leg == Leg::Admission).and_then(|f| f.old.as_ref());
        Ok(Admission::TooMany { retry_after_s: retry_after_s(window, instruction.created_at)? })
    }

    fn admission_legs(&self, instruction: &Instruction) -> Result<Vec<NamedLeg>, StoreError> {
        let now = instruction.created_at;
        Ok(vec![
            put_new(Leg::Instruction, &self.tables.core, instruction_item(instruction))?,
            self.admission_leg(&instruction.user, now)?,
        ])
    }

    /// Shifts the register: each time moves one place on, and `now` becomes the first. Places that are still empty
    /// take a time that has left every window.
    fn admission_leg(&self, user: &UserId, now: Timestamp) -> Result<NamedLeg, StoreError> {
        let [first, .., fifth] = ADMISSIONS;
        let shifts: Vec<String> =
            ADMISSIONS.windows(2).map(|pair| format!("{} = if_not_exists({}, :zero)", pair[1], pair[0])).collect();
        update(Leg::Admission, &self.tables.core, &Key::admission(user), |leg| {
            leg.update_expression(format!("SET {first} = :now, {}", shifts.join(", ")))
                .condition_expression(format!("attribute_not_exists({fifth}) OR {fifth} <= :window_start"))
                .expression_attribute_values(":now", time(now))
                .expression_attribute_values(":window_start", time(admission::window_start(now)))
                .expression_attribute_values(":zero", AttributeValue::N("0".to_owned()))
        })
    }
}

fn retry_after_s(window: Option<&Item>, now: Timestamp) -> Result<i64, StoreError> {
    let [.., fifth] = ADMISSIONS;
    let fifth_last = window.map(|item| Reader(item).time(fifth)).transpose()?;
    Ok(fifth_last.map_or(admission::WINDOW_S, |at| admission::retry_after_s(at, now)))
}
