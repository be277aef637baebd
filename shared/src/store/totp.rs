//! A user's TOTP record: one failure counter, one lock and one last accepted step for every route that tests a code.

use crate::{
    domain::{
        id::UserId,
        totp::{count_failure, locked_for_s},
    },
    store::{
        Store, StoreError,
        deadline::Deadline,
        item::{Reader, bytes, number, text, time},
        schema::*,
    },
};
use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemFluentBuilder,
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use jiff::Timestamp;

/// A secret as it is stored: sealed by the cipher, with a random version that changes with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The ciphertext.
    pub ciphertext: Vec<u8>,
    /// Its version.
    pub version: String,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({})", self.version)
    }
}

/// The record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TotpRecord {
    /// The secret in force.
    pub active: Option<Sealed>,
    /// A secret that waits for its activation.
    pub pending: Option<Sealed>,
    /// The step whose code activated the active secret.
    pub activated_step: Option<i64>,
    /// Wrong codes since the last right one.
    pub failures: i64,
    /// Until when no code is tested.
    pub locked_until: Option<Timestamp>,
    /// The last accepted step; 0 if there was none.
    pub last_step: i64,
}

impl TotpRecord {
    /// Whole seconds for which the user is still locked at `now`.
    #[must_use]
    pub fn locked_for_s(&self, now: Timestamp) -> Option<i64> {
        locked_for_s(self.locked_until, now)
    }
}

pub(crate) fn read_totp(item: &Item) -> Result<TotpRecord, StoreError> {
    let reader = Reader(item);
    let sealed = |secret, version| -> Result<Option<Sealed>, StoreError> {
        reader.optional(secret, |reader, name| {
            Ok(Sealed { ciphertext: reader.bytes(name)?.to_vec(), version: reader.text(version)?.to_owned() })
        })
    };
    Ok(TotpRecord {
        active: sealed(SECRET, SECRET_VERSION)?,
        pending: sealed(PENDING, PENDING_VERSION)?,
        activated_step: reader.optional(ACTIVATED_STEP, Reader::number)?,
        failures: reader.optional(FAILURES, Reader::number)?.unwrap_or(0),
        locked_until: reader.optional(LOCKED_UNTIL, Reader::time)?,
        last_step: reader.optional(LAST_STEP, Reader::number)?.unwrap_or(0),
    })
}

/// What became of a write that was decided on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// It is written.
    Written,
    /// The record is no longer the one that was decided on: read and decide again.
    Changed,
    /// As `Changed`, but an earlier send of the same write is in doubt: it may be what changed the record.
    InDoubt,
}

impl Store {
    /// The record, read strongly.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn totp(&self, user: &UserId, deadline: Deadline) -> Result<Option<TotpRecord>, StoreError> {
        let item = self.get(&self.tables.core, &Key::totp(user), deadline).await?;
        item.as_ref().map(read_totp).transpose()
    }

    /// Counts one wrong code against the state that it was judged on, exactly once: the fifth in a row locks. Parallel
    /// guesses meet each other's count here, so no more than five are ever answered as wrong.
    ///
    /// # Errors
    /// [`StoreError`] if it could not be counted; then the guess must not be answered as wrong.
    pub async fn count_wrong_code(
        &self,
        user: &UserId,
        judged: &TotpRecord,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Decided, StoreError> {
        let guess_id = crate::random::name();
        let (failures, locked_until) = count_failure(judged.failures, now);
        let lock = if locked_until.is_some() { format!(", {LOCKED_UNTIL} = :until") } else { String::new() };
        let mut update = self
            .totp_update(user)
            .update_expression(format!("SET {FAILURES} = :failures, {GUESS_ID} = :guess{lock}"))
            .condition_expression(format!(
                "(attribute_not_exists({LOCKED_UNTIL}) OR {LOCKED_UNTIL} <= :now) \
                 AND ({FAILURES} = :judged OR attribute_not_exists({FAILURES}) AND :judged = :zero) \
                 AND (attribute_not_exists({LAST_STEP}) OR {LAST_STEP} <= :last_step)"
            ))
            .expression_attribute_values(":failures", number(failures))
            .expression_attribute_values(":judged", number(judged.failures))
            .expression_attribute_values(":zero", number(0))
            .expression_attribute_values(":last_step", number(judged.last_step))
            .expression_attribute_values(":guess", text(&guess_id))
            .expression_attribute_values(":now", time(now));
        if let Some(until) = locked_until {
            update = update.expression_attribute_values(":until", time(until));
        }
        self.decide(&update, deadline, |old| Reader(old).text(GUESS_ID).is_ok_and(|id| id == guess_id)).await
    }

    /// Stores a pending secret in place of `replaced`, the one that was read. Another one there is newer than this
    /// decision, and was shown to somebody: a send that arrives late must not replace it. Where `proof` names the step of
    /// a code of the active secret, the step is burned in the same write.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended.
    pub async fn put_pending_secret(
        &self,
        user: &UserId,
        pending: &Sealed,
        replaced: Option<&Sealed>,
        proof: Option<(&Sealed, i64)>,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Decided, StoreError> {
        let set = format!("SET {PENDING} = :sealed, {PENDING_VERSION} = :version");
        let mut update = self
            .totp_update(user)
            .expression_attribute_values(":sealed", bytes(&pending.ciphertext))
            .expression_attribute_values(":version", text(&pending.version));
        let as_read = match replaced {
            None => format!("attribute_not_exists({PENDING_VERSION})"),
            Some(replaced) => {
                update = update.expression_attribute_values(":replaced", text(&replaced.version));
                format!("{PENDING_VERSION} = :replaced")
            }
        };
        let update = match proof {
            None => update
                .update_expression(set)
                .condition_expression(format!("attribute_not_exists({SECRET}) AND {as_read}")),
            Some((active, step)) => update
                .update_expression(format!("{set}, {LAST_STEP} = :step, {FAILURES} = :zero"))
                .condition_expression(format!("{ACCEPTS_STEP} AND {SECRET_VERSION} = :active AND {as_read}"))
                .expression_attribute_values(":active", text(&active.version))
                .expression_attribute_values(":step", number(step))
                .expression_attribute_values(":zero", number(0))
                .expression_attribute_values(":now", time(now)),
        };
        self.decide(&update, deadline, |old| Reader(old).text(PENDING_VERSION).is_ok_and(|v| v == pending.version))
            .await
    }

    /// Puts the pending secret in force, burning the step of the code that proved it.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended.
    pub async fn activate_pending_secret(
        &self,
        user: &UserId,
        pending: &Sealed,
        step: i64,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Decided, StoreError> {
        let update = self
            .totp_update(user)
            .update_expression(format!(
                "SET {SECRET} = :sealed, {SECRET_VERSION} = :version, {LAST_STEP} = :step, {ACTIVATED_STEP} = :step, \
                 {FAILURES} = :zero REMOVE {PENDING}, {PENDING_VERSION}"
            ))
            .condition_expression(format!("{ACCEPTS_STEP} AND {PENDING_VERSION} = :version"))
            .expression_attribute_values(":sealed", bytes(&pending.ciphertext))
            .expression_attribute_values(":version", text(&pending.version))
            .expression_attribute_values(":step", number(step))
            .expression_attribute_values(":zero", number(0))
            .expression_attribute_values(":now", time(now));
        self.decide(&update, deadline, |old| Reader(old).text(SECRET_VERSION).is_ok_and(|v| v == pending.version)).await
    }

    fn totp_update(&self, user: &UserId) -> UpdateItemFluentBuilder {
        self.writes
            .update_item()
            .table_name(&self.tables.core)
            .set_key(Some(Key::totp(user).to_item()))
            .return_values(ReturnValue::None)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    /// Sends `update`; a refusal whose old item is `ours` was caused by our own first send.
    async fn decide(
        &self,
        update: &UpdateItemFluentBuilder,
        deadline: Deadline,
        ours: impl Fn(&Item) -> bool,
    ) -> Result<Decided, StoreError> {
        Ok(match self.update(update, deadline).await? {
            Ok(_) => Decided::Written,
            Err(Some(old)) if ours(&old) => Decided::Written,
            Err(_) => Decided::Changed,
        })
    }
}
