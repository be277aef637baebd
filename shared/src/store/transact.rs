//! Writes, and what is known of their outcome.
//!
//! **Architecture Invariant**: a write whose outcome is not known is [`Outcome::Unknown`] and never a failure. What the
//! SDK does and does not retry: TransactionCanceled and TransactionConflict never; in progress, throttling and 5xx by
//! default with the same token; a 200 with a cut body after the commit never. So its retries are off for writes.

use crate::store::{
    Store, StoreError,
    deadline::{Backoff, Deadline},
    schema::Item,
};
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    operation::{
        transact_write_items::TransactWriteItemsError,
        update_item::{UpdateItemError, builders::UpdateItemFluentBuilder},
    },
    types::{CancellationReason, TransactWriteItem},
};

/// A write's source of failure, for the log.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The parts of a transaction, by what they do. Transactions list them in the order in which refusals are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leg {
    /// The instruction's own state.
    Instruction,
    /// The user's admissions of the last minute.
    Admission,
    /// The user's TOTP record.
    Totp,
    /// The source account.
    Debit,
    /// The destination account.
    Credit,
    /// The posting record.
    Journal,
    /// The debit's line in the statement.
    DebitEntry,
    /// The credit's line in the statement.
    CreditEntry,
    /// What is to be told.
    Outbox,
    /// The inbox of an event.
    Inbox,
    /// A notification.
    Notification,
    /// An account that is opened.
    Account,
    /// The link from its owner to it.
    AccountLink,
    /// How a user is reached.
    Contact,
    /// The line of the operators' trail.
    Audit,
}

/// A leg whose condition failed, with the item as it was, if there was one.
#[derive(Debug)]
pub struct FailedLeg {
    /// Which.
    pub leg: Leg,
    /// The old item (`ALL_OLD`).
    pub old: Option<Item>,
}

/// What is known of a write after one send, or after its last resubmission.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Committed,
    /// It was cancelled, and the conditions of these legs failed. Other legs may have conflicted.
    Refused {
        /// The legs whose conditions failed.
        failed: Vec<FailedLeg>,
        /// Whether another leg conflicted or was throttled, so that the refusal is not the whole story.
        contended: bool,
    },
    /// It was definitively cancelled by a conflict or by throttling alone.
    Contended,
    /// It may have been done, may be done later, or may never be done.
    Unknown(Cause),
}

/// The outcome of an attempt over all of its sends.
#[derive(Debug)]
pub struct Attempt {
    /// What the last send said.
    pub outcome: Outcome,
    /// Whether an earlier send's outcome stayed unknown: then a cancelled later send does not say that nothing was, or
    /// will be, written.
    pub doubtful: bool,
}

impl Store {
    /// Sends a transaction, and sends it again under the same token, byte for byte, as long as its outcome is unknown
    /// and the deadline allows. The token is an optimisation; the legs' conditions are the guard.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if DynamoDB refused the request itself and no earlier send is in doubt.
    pub(crate) async fn transact(
        &self,
        legs: Vec<(Leg, TransactWriteItem)>,
        deadline: Deadline,
    ) -> Result<Attempt, StoreError> {
        let (names, items): (Vec<Leg>, Vec<TransactWriteItem>) = legs.into_iter().unzip();
        let token = crate::random::name();
        let mut backoff = Backoff::until(deadline);
        let mut doubtful = false;
        loop {
            let send = self
                .writes
                .transact_write_items()
                .set_transact_items(Some(items.clone()))
                .client_request_token(&token)
                .send();
            let outcome = match deadline.run(send).await {
                None => Outcome::Unknown("the deadline came before the answer".into()),
                Some(Ok(_)) => Outcome::Committed,
                Some(Err(error)) => match classify_transaction(error, &names) {
                    Ok(outcome) => outcome,
                    Err(StoreError::Rejected(cause)) if doubtful => Outcome::Unknown(cause),
                    Err(rejected) => return Err(rejected),
                },
            };
            // A conflict may well be with our own first send, which is still at work: then it says nothing.
            let outcome = match outcome {
                Outcome::Contended if doubtful => Outcome::Unknown("an earlier send is still in doubt".into()),
                other => other,
            };
            let unknown = matches!(outcome, Outcome::Unknown(_));
            doubtful |= unknown;
            if !unknown || !backoff.wait().await {
                return Ok(Attempt { outcome, doubtful });
            }
        }
    }

    /// Sends a transaction whose conditions alone decide, again and again as long as it is contended: nothing if it is
    /// done, else the legs whose conditions failed.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome stayed unknown, the items contended, or DynamoDB refused the request itself.
    pub(crate) async fn transact_decided(
        &self,
        legs: Vec<(Leg, TransactWriteItem)>,
        deadline: Deadline,
    ) -> Result<Result<(), Vec<FailedLeg>>, StoreError> {
        let mut backoff = Backoff::until(deadline);
        loop {
            match self.transact(legs.clone(), deadline).await?.outcome {
                Outcome::Committed => return Ok(Ok(())),
                Outcome::Refused { failed, .. } => return Ok(Err(failed)),
                Outcome::Unknown(cause) => return Err(StoreError::Unavailable(cause)),
                Outcome::Contended if backoff.wait().await => {}
                Outcome::Contended => return Err(StoreError::Contended),
            }
        }
    }

    /// Sends a conditional update once and says what is known; a refused one gives the old item.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if DynamoDB refused the request itself.
    pub(crate) async fn update_once(
        &self,
        update: UpdateItemFluentBuilder,
        deadline: Deadline,
    ) -> Result<Updated, StoreError> {
        match deadline.run(update.send()).await {
            None => Ok(Updated::Unknown("the deadline came before the answer".into())),
            Some(Ok(output)) => Ok(Updated::Done(output.attributes.unwrap_or_default())),
            Some(Err(error)) => classify_update(error),
        }
    }

    /// Sends a conditional update until its outcome is known. For updates that are safe to repeat: the second send of
    /// one that was done is refused, and its old item shows that it was.
    ///
    /// # Errors
    /// [`StoreError::Rejected`]; [`StoreError::Contended`] or [`StoreError::Unavailable`] when the time ran out.
    pub(crate) async fn update(
        &self,
        update: &UpdateItemFluentBuilder,
        deadline: Deadline,
    ) -> Result<Result<Item, Option<Item>>, StoreError> {
        let mut backoff = Backoff::until(deadline);
        let mut doubtful = None;
        loop {
            match self.update_once(update.clone(), deadline).await? {
                Updated::Done(new) => return Ok(Ok(new)),
                Updated::Refused(old) => return Ok(Err(old)),
                Updated::Contended => {}
                Updated::Unknown(cause) => doubtful = Some(cause),
            }
            if !backoff.wait().await {
                return Err(doubtful.map_or(StoreError::Contended, StoreError::Unavailable));
            }
        }
    }
}

/// What is known of a conditional update after one send.
#[derive(Debug)]
pub(crate) enum Updated {
    /// It is done; the attributes that were asked for.
    Done(Item),
    /// Its condition failed on this item, or on none.
    Refused(Option<Item>),
    /// A transaction held the item, or it was throttled; nothing was written.
    Contended,
    /// Unknown.
    Unknown(Cause),
}

const THROTTLED: [&str; 3] = ["ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"];

/// Whether DynamoDB answered that it refuses the request: a 4xx with a code. Everything else after a send is unknown.
fn is_refusal<E>(error: &SdkError<E, HttpResponse>, code: Option<&str>) -> bool {
    let status = error.raw_response().map(|response| response.status().as_u16());
    code.is_some() && status.is_some_and(|status| (400..500).contains(&status))
}

fn classify_transaction(
    error: SdkError<TransactWriteItemsError, HttpResponse>,
    legs: &[Leg],
) -> Result<Outcome, StoreError> {
    use TransactWriteItemsError as E;
    if matches!(error, SdkError::ConstructionFailure(_)) {
        return Err(StoreError::Rejected(error.into()));
    }
    match error.as_service_error() {
        Some(E::TransactionCanceledException(cancelled)) => {
            return Ok(match outcome_of(legs, cancelled.cancellation_reasons()) {
                Some(outcome) => outcome,
                None => Outcome::Unknown(error.into()),
            });
        }
        Some(E::TransactionInProgressException(_) | E::IdempotentParameterMismatchException(_)) => {
            return Ok(Outcome::Unknown(error.into()));
        }
        _ => {}
    }
    let code = error.as_service_error().and_then(|e| e.code());
    match code {
        Some(code) if THROTTLED.contains(&code) => Ok(Outcome::Contended),
        _ if is_refusal(&error, code) => Err(StoreError::Rejected(error.into())),
        _ => Ok(Outcome::Unknown(error.into())),
    }
}

/// What the reasons of a cancelled transaction say; `None` if they do not fit its legs or name a cause that is neither a
/// condition, a conflict nor throttling.
fn outcome_of(legs: &[Leg], reasons: &[CancellationReason]) -> Option<Outcome> {
    if reasons.len() != legs.len() {
        return None;
    }
    let (mut failed, mut contended) = (Vec::new(), false);
    for (leg, reason) in legs.iter().zip(reasons) {
        match reason.code() {
            None | Some("None") => {}
            Some("ConditionalCheckFailed") => failed.push(FailedLeg { leg: *leg, old: reason.item.clone() }),
            Some("TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded") => contended = true,
            Some(_) => return None,
        }
    }
    match (failed.is_empty(), contended) {
        (false, _) => Some(Outcome::Refused { failed, contended }),
        (true, true) => Some(Outcome::Contended),
        (true, false) => None,
    }
}

fn classify_update(error: SdkError<UpdateItemError, HttpResponse>) -> Result<Updated, StoreError> {
    if matches!(error, SdkError::ConstructionFailure(_)) {
        return Err(StoreError::Rejected(error.into()));
    }
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
            return Ok(Updated::Refused(refused.item.clone()));
        }
        Some(UpdateItemError::TransactionConflictException(_)) => return Ok(Updated::Contended),
        _ => {}
    }
    let code = error.as_service_error().and_then(|e| e.code());
    match code {
        Some(code) if THROTTLED.contains(&code) => Ok(Updated::Contended),
        _ if is_refusal(&error, code) => Err(StoreError::Rejected(error.into())),
        _ => Ok(Updated::Unknown(error.into())),
    }
}

/// A read that failed: a refusal of the request itself, or no answer.
pub(crate) fn read_error<E>(error: SdkError<E, HttpResponse>) -> StoreError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code);
    let throttled = code.is_some_and(|code| THROTTLED.contains(&code));
    if matches!(error, SdkError::ConstructionFailure(_)) || !throttled && is_refusal(&error, code) {
        return StoreError::Rejected(error.into());
    }
    StoreError::Unavailable(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(codes: &[&str]) -> Vec<CancellationReason> {
        codes.iter().map(|code| CancellationReason::builder().code(*code).build()).collect()
    }

    #[test]
    fn reasons_are_read_all_together_and_by_position() {
        const LEGS: [Leg; 3] = [Leg::Instruction, Leg::Debit, Leg::Credit];
        let read = |codes: &[&str]| match outcome_of(&LEGS, &reasons(codes)) {
            Some(Outcome::Refused { failed, contended }) => {
                format!("{:?} {contended}", failed.iter().map(|f| f.leg).collect::<Vec<_>>())
            }
            Some(Outcome::Contended) => "contended".to_owned(),
            Some(_) => "other".to_owned(),
            None => "unknown".to_owned(),
        };
        for (codes, expected) in [
            (&["ConditionalCheckFailed", "None", "None"][..], "[Instruction] false"),
            (&["None", "ConditionalCheckFailed", "ConditionalCheckFailed"], "[Debit, Credit] false"),
            (&["None", "TransactionConflict", "None"], "contended"),
            (&["None", "None", "ThrottlingError"], "contended"),
            (&["ConditionalCheckFailed", "TransactionConflict", "None"], "[Instruction] true"),
            (&["None", "None", "None"], "unknown"),
            (&["None", "ValidationError", "ConditionalCheckFailed"], "unknown"),
            (&["ConditionalCheckFailed"], "unknown"),
        ] {
            assert_eq!(read(codes), expected, "{codes:?}");
        }
    }
}
