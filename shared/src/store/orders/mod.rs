//! What operators order.
//!
//! **Architecture Invariant**: an order is one transaction: the change, conditional on what it was decided on, and a line
//! of the operators' trail. No change without its line, no line without its change, and no secret in either.

mod accounts;
mod contact;
mod deposit;
mod resend;
mod totp;
mod trail;

pub use deposit::Funding;
pub use trail::TrailLine;

use crate::{
    domain::day::{BankZone, Day},
    store::{
        Store, StoreError,
        deadline::Deadline,
        legs::NamedLeg,
        transact::{FailedLeg, Leg},
    },
};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Values by their names, as the trail keeps them.
pub type Facts = BTreeMap<String, String>;

/// Facts from their parts.
pub fn facts<const N: usize>(parts: [(&str, String); N]) -> Facts {
    parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Who orders what, and when.
#[derive(Debug, Clone)]
pub struct Order {
    operator: String,
    command: String,
    at: Timestamp,
    day: Day,
    /// Names the line of the trail: whoever finds it there has been done already.
    id: String,
}

impl Order {
    /// An order that `operator` gives at `at`; `command` says what it is, without its arguments.
    #[must_use]
    pub fn new(operator: &str, command: &str, at: Timestamp, zone: &BankZone) -> Self {
        Self {
            operator: operator.to_owned(),
            command: command.to_owned(),
            at,
            day: zone.day(at),
            id: crate::random::name(),
        }
    }
}

/// What became of an order on one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// Done by this order; `before` is `None` where there was nothing.
    Done {
        /// As it was.
        before: Option<T>,
        /// As it is now.
        after: T,
    },
    /// It was so already: nothing was written.
    Unchanged(T),
    /// A rule speaks against it: nothing was written.
    Refused(String),
    /// There is no such item.
    Missing,
}

/// What became of the transaction of an order.
enum Committed {
    /// It is done.
    Done,
    /// These conditions failed: what it was decided on is no longer so.
    Refused(Vec<FailedLeg>),
}

impl Store {
    /// Sends the legs of an order, the last of which is its line in the trail, until their outcome is known.
    async fn commit(&self, legs: Vec<NamedLeg>, deadline: Deadline) -> Result<Committed, StoreError> {
        Ok(match self.transact_decided(legs, deadline).await? {
            Ok(()) => Committed::Done,
            // The line carries a random name of this order: only an earlier send can have written it.
            Err(failed) if failed.iter().any(|failed| failed.leg == Leg::Audit) => Committed::Done,
            Err(failed) => Committed::Refused(failed),
        })
    }
}
