//! Recording an authorization and burning its TOTP step, in one transaction.

use crate::{
    domain::{
        authorization::{Authorization, KIND_TRANSFER},
        instruction::{HISTORY_MAX, Instruction, State, Step},
    },
    store::{
        Store, StoreError,
        deadline::Deadline,
        item::{history_step, number, text, time},
        legs::{NamedLeg, update},
        schema::*,
        totp::{Decided, Sealed},
        transact::{Leg, Outcome},
    },
};
use aws_sdk_dynamodb::types::AttributeValue;

impl Store {
    /// Makes `instruction` authorized by `authorization`, if the instruction is still open, the user is not locked, the
    /// secret is still `secret` and no code of that step or a later one was accepted.
    ///
    /// `Changed` says that one of these no longer holds, or that the items were contended, and nothing was written by
    /// the last send: read and decide again. That reading also shows whether an earlier send was done after all.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the outcome stayed unknown: the call may be repeated as it is.
    pub async fn authorize(
        &self,
        instruction: &Instruction,
        authorization: &Authorization,
        secret: &Sealed,
        deadline: Deadline,
    ) -> Result<Decided, StoreError> {
        let legs = vec![
            self.authorized_leg(instruction, authorization)?,
            update(Leg::Totp, &self.tables.core, &Key::totp(&instruction.user), |leg| {
                leg.update_expression(format!("SET {LAST_STEP} = :step, {FAILURES} = :zero"))
                    .condition_expression(format!("{ACCEPTS_STEP} AND {SECRET_VERSION} = :version"))
                    .expression_attribute_values(":step", number(authorization.step))
                    .expression_attribute_values(":zero", number(0))
                    .expression_attribute_values(":version", text(&secret.version))
                    .expression_attribute_values(":now", time(authorization.at))
            })?,
        ];
        let attempt = self.transact(legs, deadline).await?;
        match attempt.outcome {
            Outcome::Committed => Ok(Decided::Written),
            Outcome::Refused { .. } if attempt.doubtful => Ok(Decided::InDoubt),
            Outcome::Refused { .. } | Outcome::Contended => Ok(Decided::Changed),
            Outcome::Unknown(cause) => Err(StoreError::Unavailable(cause)),
        }
    }

    fn authorized_leg(&self, instruction: &Instruction, authorization: &Authorization) -> Result<NamedLeg, StoreError> {
        let key = Key::instruction(&instruction.user, &instruction.request_id);
        let step = authorized_step(authorization);
        // A full history keeps its beginning and loses the middle: the last place is written over.
        let history = if instruction.history.len() < HISTORY_MAX {
            format!("{HISTORY} = list_append({HISTORY}, :steps)")
        } else {
            format!("{HISTORY}[{}] = :step_taken", HISTORY_MAX.saturating_sub(1))
        };
        let taken = if instruction.history.len() < HISTORY_MAX {
            (":steps", AttributeValue::L(vec![history_step(&step)]))
        } else {
            (":step_taken", history_step(&step))
        };
        update(Leg::Instruction, &self.tables.core, &key, |leg| {
            leg.update_expression(format!(
                "SET {STATE} = :authorized, {AUTH_KIND} = :kind, {AUTH_SESSION} = :session, {AUTH_HASH} = :hash, \
                 {AUTH_AT} = :at, {AUTH_STEP} = :step, {history}"
            ))
            .condition_expression(format!(
                "{STATE} IN (:awaiting, :authorized) AND {EXPIRES_AT} > :at AND {CONTENT_HASH} = :hash"
            ))
            .expression_attribute_values(":awaiting", text(State::AwaitingAuthorization.as_str()))
            .expression_attribute_values(":authorized", text(State::Authorized.as_str()))
            .expression_attribute_values(":kind", text(KIND_TRANSFER))
            .expression_attribute_values(":session", text(authorization.session.as_str()))
            .expression_attribute_values(":hash", text(authorization.content_hash.as_str()))
            .expression_attribute_values(":at", time(authorization.at))
            .expression_attribute_values(":step", number(authorization.step))
            .expression_attribute_values(taken.0, taken.1)
        })
    }
}

/// The history's line for an authorization.
#[must_use]
pub fn authorized_step(authorization: &Authorization) -> Step {
    Step {
        at: authorization.at,
        state: State::Authorized,
        session: Some(authorization.session.masked().to_owned()),
        code: None,
    }
}
