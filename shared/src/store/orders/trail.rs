//! The operators' trail: who changed what, and from what to what.

use super::{Committed, Facts, Order};
use crate::{
    domain::day::Day,
    store::{
        Store, StoreError,
        deadline::Deadline,
        instructions::in_time,
        item::{Reader, text},
        legs::{NamedLeg, put_new},
        schema::*,
        transact::{Leg, read_error},
    },
};
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;

/// One line of the trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailLine {
    /// When, to the millisecond.
    pub at: Timestamp,
    /// Who.
    pub operator: String,
    /// What was ordered.
    pub command: String,
    /// On what.
    pub target: String,
    /// The values that changed, as they were.
    pub before: Facts,
    /// The values that changed, as they became.
    pub after: Facts,
}

impl Store {
    /// The line of `order` on `target`: what changed between `before` and `after`.
    pub(super) fn trail_leg(
        &self,
        order: &Order,
        target: &str,
        before: &Facts,
        after: &Facts,
    ) -> Result<NamedLeg, StoreError> {
        let mut item = Key::audit(order.day, order.at, &order.id).to_item();
        item.extend(
            [
                (OPERATOR, text(&order.operator)),
                (COMMAND, text(&order.command)),
                (TARGET, text(target)),
                (BEFORE, fact_map(before, after)),
                (AFTER, fact_map(after, before)),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        put_new(Leg::Audit, &self.tables.core, item)
    }

    /// Writes a line of the trail alone: for what an operator does outside of the tables.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the item stayed contended.
    pub async fn note(
        &self,
        order: &Order,
        target: &str,
        details: &Facts,
        deadline: Deadline,
    ) -> Result<(), StoreError> {
        let legs = vec![self.trail_leg(order, target, &Facts::new(), details)?];
        match self.commit(legs, deadline).await? {
            Committed::Done => Ok(()),
            Committed::Refused(_) => Err(StoreError::Contended),
        }
    }

    /// The trail of a day, the oldest line first.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn trail(&self, day: Day, deadline: Deadline) -> Result<Vec<TrailLine>, StoreError> {
        let (mut lines, mut start) = (Vec::new(), None);
        loop {
            let send = self
                .reads
                .query()
                .table_name(&self.tables.core)
                .key_condition_expression(format!("{PK} = :day"))
                .expression_attribute_values(":day", text(format!("{AUDIT_PREFIX}{day}")))
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .send();
            let output = in_time(deadline, send).await?.map_err(read_error)?;
            for item in output.items() {
                lines.push(read_line(item)?);
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(lines);
            }
        }
    }
}

/// The facts of `of` that are not the same in `other`.
fn fact_map(of: &Facts, other: &Facts) -> AttributeValue {
    let changed = of.iter().filter(|(name, value)| other.get(*name) != Some(*value));
    AttributeValue::M(changed.map(|(name, value)| (name.clone(), text(value))).collect())
}

fn read_line(item: &Item) -> Result<TrailLine, StoreError> {
    let reader = Reader(item);
    let facts = |name: &str| -> Result<Facts, StoreError> {
        let map = item.get(name).and_then(|v| v.as_m().ok()).ok_or_else(|| reader.corrupt(name))?;
        map.keys().map(|key| Ok((key.clone(), Reader(map).text(key)?.to_owned()))).collect()
    };
    let at = reader.text(SK)?.split_once('#').and_then(|(at, _)| at.parse().ok());
    Ok(TrailLine {
        at: at.ok_or_else(|| reader.corrupt(SK))?,
        operator: reader.text(OPERATOR)?.to_owned(),
        command: reader.text(COMMAND)?.to_owned(),
        target: reader.text(TARGET)?.to_owned(),
        before: facts(BEFORE)?,
        after: facts(AFTER)?,
    })
}
