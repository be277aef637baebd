//! Recording a business refusal: FAILED, its code and its event, in a transaction that can only succeed while the
//! instruction is unposted. It is a fence: after it, no posting of this instruction can commit.

use crate::{
    domain::{
        authorization::Authorization,
        error::Refusal,
        id::SessionId,
        instruction::{Failure, Instruction, State, Step},
    },
    store::{
        Store, StoreError,
        deadline::{Backoff, Deadline},
        item::{history_step, number, outbox_item, read_instruction, text, time},
        legs::{NamedLeg, put_new, update},
        post::{Confirmation, Verdict, outbox_record},
        schema::*,
        transact::{Leg, Outcome},
    },
};
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;

/// A refusal that is about to be recorded.
pub(crate) struct Record<'a> {
    pub(crate) instruction: &'a Instruction,
    pub(crate) authorization: &'a Authorization,
    pub(crate) refusal: Refusal,
    pub(crate) at: Timestamp,
}

impl Store {
    /// Records the refusal and says what a confirm may then answer. Only a committed record is a refusal; one that was
    /// refused shows what became of the instruction instead; one that stays unknown is unknown.
    pub(crate) async fn record_refusal(
        &self,
        record: &Record<'_>,
        session: &SessionId,
        clock: &(dyn Fn() -> Timestamp + Send + Sync),
        mut doubtful: bool,
        deadline: Deadline,
    ) -> Result<Confirmation, StoreError> {
        let writing = deadline.for_writing();
        let mut backoff = Backoff::until(writing);
        loop {
            let attempt = match self.transact(self.refusal_legs(record)?, writing).await {
                Ok(attempt) => attempt,
                Err(StoreError::Rejected(_)) if doubtful => break,
                Err(error) => return Err(error),
            };
            doubtful |= attempt.doubtful;
            match attempt.outcome {
                Outcome::Committed => return Ok(Verdict::Refused(record.refusal).on(record.failed())),
                Outcome::Refused { failed, .. } => {
                    let own = failed.iter().find(|f| f.leg == Leg::Instruction).and_then(|f| f.old.as_ref());
                    if let Some(old) = own {
                        return Ok(refused_record(record, read_instruction(old)?));
                    }
                    tracing::error!(alarm = "result-unknown", request_id = %record.instruction.request_id, "an outbox item exists without its failed instruction");
                    doubtful = true;
                    break;
                }
                Outcome::Contended => {}
                Outcome::Unknown(cause) => {
                    tracing::warn!(error = %cause, request_id = %record.instruction.request_id, "the outcome of recording a refusal is unknown");
                }
            }
            if !backoff.wait().await {
                break;
            }
        }
        let last = self.last_word(record.instruction.clone(), session, clock, doubtful, deadline).await?;
        Ok(if last.instruction.failure == Some(record.failure()) {
            Verdict::Refused(record.refusal).on(*last.instruction) // our own record, whose reply was lost
        } else {
            last
        })
    }

    fn refusal_legs(&self, record: &Record<'_>) -> Result<Vec<NamedLeg>, StoreError> {
        let instruction = record.instruction;
        let key = Key::instruction(&instruction.user, &instruction.request_id);
        let own = update(Leg::Instruction, &self.tables.core, &key, |leg| {
            leg.update_expression(format!(
                "SET {STATE} = :failed, {FAILURE_CODE} = :code, {FAILED_AT} = :at, \
                 {HISTORY} = list_append({HISTORY}, :steps) REMOVE {DUE_SHARD}, {DUE_AT}"
            ))
            .condition_expression(format!("{STATE} = :authorized AND {AUTH_STEP} = :step"))
            .expression_attribute_values(":failed", text(State::Failed.as_str()))
            .expression_attribute_values(":authorized", text(State::Authorized.as_str()))
            .expression_attribute_values(":code", text(record.refusal.code()))
            .expression_attribute_values(":at", time(record.at))
            .expression_attribute_values(":step", number(record.authorization.step))
            .expression_attribute_values(":steps", AttributeValue::L(vec![history_step(&record.step())]))
        })?;
        let told = outbox_item(&outbox_record(instruction, record.at, Some(record.refusal)));
        Ok(vec![own, put_new(Leg::Outbox, &self.tables.outbox, told)?])
    }
}

impl Record<'_> {
    fn step(&self) -> Step {
        Step {
            at: self.at,
            state: State::Failed,
            session: Some(self.authorization.session.masked().to_owned()),
            code: Some(self.refusal.code().to_owned()),
        }
    }

    fn failure(&self) -> Failure {
        Failure { refusal: self.refusal, at: self.at }
    }

    fn failed(&self) -> Instruction {
        let mut failed = self.instruction.clone();
        failed.state = State::Failed;
        failed.failure = Some(self.failure());
        failed.history.push(self.step());
        failed
    }
}

/// The record was refused: what the instruction became meanwhile is the answer. Our own record, sent before and thought
/// lost, is a refusal like any other.
fn refused_record(record: &Record<'_>, current: Instruction) -> Confirmation {
    use crate::domain::authorization::AuthorizationFault::Stale;
    let ours = Some(record.failure());
    match current.state {
        State::Completed => Verdict::Replayed.on(current),
        State::Failed if current.failure == ours => Verdict::Refused(record.refusal).on(current),
        State::Failed | State::Cancelled | State::Expired => Verdict::Closed.on(current),
        State::AwaitingAuthorization | State::Authorized => Verdict::NotAuthorized(Stale).on(current),
    }
}
