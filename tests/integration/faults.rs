//! What becomes of calls whose sends to the database go wrong: the outcome rules of the store, proved on a wire that
//! loses requests and replies, answers with errors, and delivers late.

mod confirm;
mod entry;
pub(crate) mod hurried;
mod limits;
mod notify;
mod refusal;
pub(crate) mod wire;

use crate::bank::{Bank, Person};
use std::sync::Arc;
use wire::{Fault, Wire};

pub(crate) const TRANSACTION: &str = "TransactWriteItems";
pub(crate) const UPDATE: &str = "UpdateItem";
pub(crate) const READ: &str = "GetItem";
pub(crate) const BATCH_READ: &str = "BatchGetItem";

/// A bank with two people, and a process of it that is connected by a wire.
pub(crate) struct Setting {
    /// For looking at what is true.
    pub(crate) bank: Bank,
    /// For the calls of the test.
    pub(crate) there: Bank,
    pub(crate) wire: Arc<Wire>,
    pub(crate) aoi: Person,
    pub(crate) ren: Person,
}

pub(crate) async fn setting() -> Setting {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", 900_000).await, bank.person("ren", 0).await);
    let wire = Wire::to(&bank.endpoint).await;
    let there = bank.through(&wire.endpoint).await;
    Setting { bank, there, wire, aoi, ren }
}

/// Single faults of a transaction of `LEGS` legs after which a call must go on and succeed.
fn passing_faults(legs: usize) -> Vec<Fault> {
    let mut faults = vec![
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::CutReply,
        Fault::Answer(500, "InternalServerError"),
        Fault::Answer(503, "ServiceUnavailable"),
        Fault::ForwardThenAnswer(500, "InternalServerError"),
        Fault::Answer(400, "TransactionInProgressException"),
        Fault::ForwardThenAnswer(400, "TransactionInProgressException"),
        Fault::Answer(400, "ProvisionedThroughputExceededException"),
        Fault::Answer(400, "ThrottlingException"),
        Fault::Answer(400, "RequestLimitExceeded"),
    ];
    for reason in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"] {
        faults.extend((0..legs).map(|leg| Fault::Cancel { legs, leg, reason }));
    }
    faults
}
