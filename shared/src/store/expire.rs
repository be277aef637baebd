//! Expiring: the sweeper fences instructions whose time has passed.

use crate::{
    domain::{
        id::{RequestId, UserId},
        instruction::{FENCE_GRACE_S, State, Step},
    },
    store::{
        Store, StoreError,
        deadline::Deadline,
        instructions::in_time,
        item::{Reader, number, text, time},
        schema::*,
        transact::read_error,
    },
};
use jiff::{SignedDuration, Timestamp};

/// An open instruction whose time has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    user: UserId,
    id: RequestId,
}

/// Items that one look into a shard of the due index gives at most.
pub const DUE_PAGE_MAX: usize = 100;

impl Store {
    /// Open instructions of `shard` that passed their time and the grace before `now`, the oldest first.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn expired_instructions(
        &self,
        shard: u8,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Vec<Due>, StoreError> {
        let items = self.due_items(&self.tables.core, shard, fence_before(now), deadline).await?;
        items
            .iter()
            .map(|item| {
                let reader = Reader(item);
                let user = UserId::parse(reader.key_part(PK, USER_PREFIX)?).map_err(|_| reader.corrupt(PK))?;
                let id = RequestId::parse(reader.key_part(SK, INSTRUCTION_PREFIX)?).map_err(|_| reader.corrupt(SK))?;
                Ok(Due { user, id })
            })
            .collect()
    }

    /// Fences one instruction, if it is still open and past its time and the grace: EXPIRED. Says whether it did.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended: the next sweep meets it again.
    pub async fn expire(&self, due: &Due, now: Timestamp, deadline: Deadline) -> Result<bool, StoreError> {
        let step = Step { at: now, state: State::Expired, session: None, code: None };
        let update = self
            .closing_update(&Key::instruction(&due.user, &due.id), &step)
            .condition_expression(format!("{OPEN} AND {EXPIRES_AT} <= :before"))
            .expression_attribute_values(":before", time(fence_before(now)));
        Ok(self.update(&update, deadline).await?.is_ok())
    }

    /// The keys in `shard` of a table's due index whose time is at or before `before`, the oldest first.
    pub(crate) async fn due_items(
        &self,
        table: &str,
        shard: u8,
        before: Timestamp,
        deadline: Deadline,
    ) -> Result<Vec<Item>, StoreError> {
        let send = self
            .reads
            .query()
            .table_name(table)
            .index_name(DUE_INDEX)
            .key_condition_expression(format!("{DUE_SHARD} = :shard AND {DUE_AT} <= :before"))
            .expression_attribute_values(":shard", text(shard_name(shard)))
            .expression_attribute_values(":before", number(before.as_millisecond()))
            .limit(i32::try_from(DUE_PAGE_MAX).unwrap_or(i32::MAX))
            .send();
        let output = in_time(deadline, send).await?.map_err(read_error)?;
        Ok(output.items.unwrap_or_default())
    }
}

fn fence_before(now: Timestamp) -> Timestamp {
    now.checked_sub(SignedDuration::from_secs(FENCE_GRACE_S)).unwrap_or(Timestamp::MIN)
}
