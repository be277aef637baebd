//! Posting: the one transaction that moves money, and reading what became of it.
//!
//! An *attempt* is one transaction with a frozen time, day and token, resubmitted byte for byte while its outcome is
//! unknown. An attempt that was definitively cancelled is followed by a fresh one with a fresh time, so that the
//! decision is always made on the state and the day that it posts to.

use crate::{
    domain::{
        authorization::{AUTHORIZATION_S, Authorization, AuthorizationFault, KIND_TRANSFER},
        day::{BankZone, Day},
        error::Refusal,
        event::OutboxRecord,
        id::SessionId,
        instruction::{Instruction, State, Step},
        invariants::Journal,
        posting::{LegOutcome, refusal_at_posting},
    },
    store::{
        Store, StoreError,
        deadline::{Backoff, Deadline},
        item::{
            CREDIT, DEBIT, entry_item, history_step, journal_item, number, outbox_item, read_account, read_instruction,
            text, time,
        },
        legs::{NamedLeg, put_new, update},
        refuse::Record,
        schema::*,
        transact::{Attempt, Cause, FailedLeg, Leg, Outcome},
    },
};
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;

/// What a confirm came to, and the instruction as it then was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// What may be answered.
    pub verdict: Verdict,
    /// The instruction.
    pub instruction: Box<Instruction>,
}

/// What a confirm may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Posted by this call.
    Posted,
    /// Posted before, or by a call that raced with this one.
    Replayed,
    /// Failed, cancelled, expired, or past its time.
    Closed,
    /// Open, and this session has no authorization that it may consume.
    NotAuthorized(AuthorizationFault),
    /// Refused by a rule, and the refusal is recorded: the instruction has failed.
    Refused(Refusal),
    /// Every send was definitively cancelled and the instruction is still open: another may be at work.
    Contended,
    /// It may be posted, or not, or later.
    Unknown,
}

impl Verdict {
    pub(crate) fn on(self, instruction: Instruction) -> Confirmation {
        Confirmation { verdict: self, instruction: Box::new(instruction) }
    }
}

/// One attempt's frozen facts.
struct Posting<'a> {
    instruction: &'a Instruction,
    authorization: &'a Authorization,
    now: Timestamp,
    day: Day,
}

/// What one attempt decided.
enum Decision {
    /// Done, or known to be over.
    Final(Confirmation),
    /// A rule was broken on the state that this attempt met.
    Broken(Refusal),
    /// Definitively cancelled without a decision: make a fresh attempt.
    Again,
    /// Not known.
    Unknown(Cause),
}

impl Store {
    /// Confirms `instruction`, as it was just read, for `session`: posts it once, or says why not.
    ///
    /// # Errors
    /// [`StoreError`] if DynamoDB refused a request or an item cannot be read; what cannot be known after a send is not
    /// an error but [`Verdict::Unknown`].
    pub async fn confirm(
        &self,
        instruction: Instruction,
        session: &SessionId,
        zone: &BankZone,
        clock: &(dyn Fn() -> Timestamp + Send + Sync),
        deadline: Deadline,
    ) -> Result<Confirmation, StoreError> {
        let writing = deadline.for_writing();
        let mut backoff = Backoff::until(writing);
        let (mut sent, mut doubtful) = (false, false);
        loop {
            let now = clock();
            let authorization = match usable(&instruction, session, now) {
                Ok(authorization) => authorization.clone(),
                // Before the first send this is what was just read; afterwards another may have posted meanwhile.
                Err(confirmation) if !sent => return Ok(confirmation),
                Err(_) => return self.last_word(instruction, session, clock, doubtful, deadline).await,
            };
            let posting = Posting { instruction: &instruction, authorization: &authorization, now, day: zone.day(now) };
            let attempt = match self.transact(self.posting_legs(&posting)?, writing).await {
                Ok(attempt) => attempt,
                Err(error @ StoreError::Rejected(_)) if doubtful => {
                    tracing::error!(error = %error, request_id = %instruction.request_id, "posting was refused after a send in doubt");
                    return self.last_word(instruction, session, clock, true, deadline).await;
                }
                Err(error) => return Err(error),
            };
            sent = true;
            doubtful |= attempt.doubtful;
            match read_outcome(&posting, session, clock(), attempt)? {
                Decision::Final(confirmation) => return Ok(confirmation),
                Decision::Broken(refusal) if refusal.is_daily() && zone.day(clock()) != posting.day => {}
                Decision::Broken(refusal) => {
                    let record =
                        Record { instruction: &instruction, authorization: &authorization, refusal, at: clock() };
                    return self.record_refusal(&record, session, clock, doubtful, deadline).await;
                }
                Decision::Again => {}
                Decision::Unknown(cause) => {
                    tracing::error!(alarm = "result-unknown", error = %cause, request_id = %instruction.request_id, "the outcome of a posting is unknown");
                    return self.last_word(instruction, session, clock, true, deadline).await;
                }
            }
            if !backoff.wait().await {
                return self.last_word(instruction, session, clock, doubtful, deadline).await;
            }
        }
    }

    /// What a strong read allows to say when no more sends can be made. Open after definitive cancellations alone is
    /// contended; open after a send in doubt is unknown.
    pub(crate) async fn last_word(
        &self,
        instruction: Instruction,
        session: &SessionId,
        clock: &(dyn Fn() -> Timestamp + Send + Sync),
        doubtful: bool,
        deadline: Deadline,
    ) -> Result<Confirmation, StoreError> {
        let read = self.instruction(&instruction.user, &instruction.request_id, deadline).await;
        Ok(match read {
            Ok(Some(current)) if current.state == State::Completed => Verdict::Replayed.on(current),
            Ok(Some(current)) if !current.state.is_open() => Verdict::Closed.on(current),
            Ok(Some(current)) if !doubtful => match usable(&current, session, clock()) {
                Ok(_) => Verdict::Contended.on(current),
                Err(confirmation) => confirmation,
            },
            Ok(Some(current)) => Verdict::Unknown.on(current),
            Ok(None) | Err(_) => Verdict::Unknown.on(instruction),
        })
    }

    fn posting_legs(&self, posting: &Posting<'_>) -> Result<Vec<NamedLeg>, StoreError> {
        let (instruction, ledger) = (posting.instruction, &self.tables.ledger);
        let content = &instruction.content;
        let journal = posting.journal();
        let debit = entry_item(&journal, DEBIT, &instruction.destination_name, &content.memo);
        let credit = entry_item(&journal, CREDIT, &content.requester_name, &content.memo);
        Ok(vec![
            self.complete(posting)?,
            self.debit(posting)?,
            self.credit(posting)?,
            put_new(Leg::Journal, ledger, journal_item(&journal))?,
            put_new(Leg::DebitEntry, ledger, debit)?,
            put_new(Leg::CreditEntry, ledger, credit)?,
            put_new(Leg::Outbox, &self.tables.outbox, outbox_item(&outbox_record(instruction, posting.now, None)))?,
        ])
    }

    /// AUTHORIZED → COMPLETED, if this very authorization is still in force.
    fn complete(&self, posting: &Posting<'_>) -> Result<NamedLeg, StoreError> {
        let (instruction, authorization) = (posting.instruction, posting.authorization);
        let key = Key::instruction(&instruction.user, &instruction.request_id);
        let step = completed_step(authorization, posting.now);
        update(Leg::Instruction, &self.tables.core, &key, |leg| {
            leg.update_expression(format!(
                "SET {STATE} = :completed, {POSTED_AT} = :now, {HISTORY} = list_append({HISTORY}, :steps) \
                 REMOVE {DUE_SHARD}, {DUE_AT}"
            ))
            .condition_expression(format!(
                "{STATE} = :authorized AND {AUTH_KIND} = :kind AND {AUTH_SESSION} = :session \
                 AND {AUTH_HASH} = :hash AND {CONTENT_HASH} = :hash AND {AUTH_AT} = :authorized_at \
                 AND {AUTH_AT} >= :oldest AND {AUTH_STEP} = :step AND {EXPIRES_AT} > :now"
            ))
            .expression_attribute_values(":completed", text(State::Completed.as_str()))
            .expression_attribute_values(":authorized", text(State::Authorized.as_str()))
            .expression_attribute_values(":kind", text(KIND_TRANSFER))
            .expression_attribute_values(":session", text(authorization.session.as_str()))
            .expression_attribute_values(":hash", text(authorization.content_hash.as_str()))
            .expression_attribute_values(":authorized_at", time(authorization.at))
            .expression_attribute_values(":oldest", number(oldest_usable_ms(posting.now)))
            .expression_attribute_values(":step", number(authorization.step))
            .expression_attribute_values(":now", time(posting.now))
            .expression_attribute_values(":steps", AttributeValue::L(vec![history_step(&step)]))
        })
    }

    /// Debits the source, if it may, has the funds, and today's allowance suffices. The allowance is kept as what is
    /// left, so that one expression serves the first transfer of a day and every later one, without a read.
    fn debit(&self, posting: &Posting<'_>) -> Result<NamedLeg, StoreError> {
        let (instruction, content) = (posting.instruction, &posting.instruction.content);
        let (left, count) = (left_name(posting.day), count_name(posting.day));
        let stale: Vec<String> = instruction
            .stale_days
            .iter()
            .filter(|day| day.is_stale(posting.day))
            .flat_map(|day| [left_name(*day), count_name(*day)])
            .collect();
        let remove = if stale.is_empty() { String::new() } else { format!(" REMOVE {}", stale.join(", ")) };
        update(Leg::Debit, &self.tables.ledger, &Key::account(&content.source), |leg| {
            leg.update_expression(format!(
                "SET {BALANCE} = {BALANCE} - :amount, {left} = if_not_exists({left}, {DAILY_AMOUNT}) - :amount, \
                 {count} = if_not_exists({count}, {DAILY_COUNT}) - :one{remove}"
            ))
            .condition_expression(format!(
                "{OWNER} = :user AND {STATUS} = :active AND {KIND} = :customer AND {VERIFIED} = :true \
                 AND {CURRENCY} = :currency AND {PER_TRANSFER} >= :amount AND {BALANCE} >= :amount \
                 AND (attribute_not_exists({left}) AND {DAILY_AMOUNT} >= :amount OR {left} >= :amount) \
                 AND (attribute_not_exists({count}) AND {DAILY_COUNT} >= :one OR {count} >= :one)"
            ))
            .expression_attribute_values(":user", text(instruction.user.as_str()))
            .expression_attribute_values(":active", text(ACTIVE))
            .expression_attribute_values(":customer", text(CUSTOMER))
            .expression_attribute_values(":true", AttributeValue::Bool(true))
            .expression_attribute_values(":currency", text(content.currency.code()))
            .expression_attribute_values(":amount", number(content.amount.minor()))
            .expression_attribute_values(":one", number(1))
        })
    }

    /// Credits the destination, if it is active and can hold the amount.
    fn credit(&self, posting: &Posting<'_>) -> Result<NamedLeg, StoreError> {
        let content = &posting.instruction.content;
        update(Leg::Credit, &self.tables.ledger, &Key::account(&content.destination), |leg| {
            leg.update_expression(format!("SET {BALANCE} = {BALANCE} + :amount"))
                .condition_expression(format!(
                    "{STATUS} = :active AND {KIND} = :customer AND {CURRENCY} = :currency AND {BALANCE} <= :highest"
                ))
                .expression_attribute_values(":active", text(ACTIVE))
                .expression_attribute_values(":customer", text(CUSTOMER))
                .expression_attribute_values(":currency", text(content.currency.code()))
                .expression_attribute_values(":amount", number(content.amount.minor()))
                .expression_attribute_values(":highest", number(content.amount.highest_creditable_balance()))
        })
    }
}

const ACTIVE: &str = crate::domain::account::AccountStatus::Active.as_str();
const CUSTOMER: &str = crate::domain::account::AccountKind::Customer.as_str();

impl Posting<'_> {
    fn journal(&self) -> Journal {
        let content = &self.instruction.content;
        Journal {
            transfer: self.instruction.request_id.transfer_id(),
            request_id: Some(self.instruction.request_id.clone()),
            user: self.instruction.user.clone(),
            source: content.source.clone(),
            destination: content.destination.clone(),
            amount_minor: content.amount.minor(),
            currency: content.currency.code().to_owned(),
            posted_at: self.now,
            step: Some(self.authorization.step),
        }
    }

    /// The instruction as the committed transaction left it.
    fn completed(&self) -> Instruction {
        let mut completed = self.instruction.clone();
        completed.state = State::Completed;
        completed.posted_at = Some(self.now);
        completed.history.push(completed_step(self.authorization, self.now));
        completed
    }
}

/// The facts of a posting, or of a failure with `refusal`.
pub(crate) fn outbox_record(instruction: &Instruction, at: Timestamp, refusal: Option<Refusal>) -> OutboxRecord {
    let content = &instruction.content;
    OutboxRecord {
        transfer: instruction.request_id.transfer_id(),
        at,
        amount: content.amount,
        currency: content.currency,
        payer: instruction.user.clone(),
        source: content.source.clone(),
        payer_name: content.requester_name.clone(),
        payee: instruction.destination_owner.clone(),
        destination: content.destination.clone(),
        payee_name: instruction.destination_name.clone(),
        refusal,
    }
}

fn completed_step(authorization: &Authorization, now: Timestamp) -> Step {
    Step { at: now, state: State::Completed, session: Some(authorization.session.masked().to_owned()), code: None }
}

fn oldest_usable_ms(now: Timestamp) -> i64 {
    now.as_millisecond().saturating_sub(AUTHORIZATION_S.saturating_mul(1000))
}

/// The authorization that `session` may consume at `now`, or what to answer instead, in the documented order.
fn usable<'a>(
    instruction: &'a Instruction,
    session: &SessionId,
    now: Timestamp,
) -> Result<&'a Authorization, Confirmation> {
    if instruction.state == State::Completed {
        return Err(Verdict::Replayed.on(instruction.clone()));
    }
    if !instruction.is_open_at(now) {
        return Err(Verdict::Closed.on(instruction.clone()));
    }
    instruction
        .usable_authorization(session, now)
        .map_err(|fault| Verdict::NotAuthorized(fault).on(instruction.clone()))
}

/// What an attempt's outcome means, over all of its reasons and their old items together, the instruction's own first.
fn read_outcome(
    posting: &Posting<'_>,
    session: &SessionId,
    now: Timestamp,
    attempt: Attempt,
) -> Result<Decision, StoreError> {
    let (failed, contended) = match attempt.outcome {
        Outcome::Committed => return Ok(Decision::Final(Verdict::Posted.on(posting.completed()))),
        Outcome::Contended => return Ok(Decision::Again),
        Outcome::Unknown(cause) => return Ok(Decision::Unknown(cause)),
        Outcome::Refused { failed, contended } => (failed, contended),
    };
    if let Some(own) = failed.iter().find(|leg| leg.leg == Leg::Instruction) {
        return read_own_leg(posting, session, now, own);
    }
    if contended {
        return Ok(Decision::Again);
    }
    let account_leg = |leg: Leg| match failed.iter().find(|f| f.leg == leg) {
        None => Ok(LegOutcome::Held),
        Some(f) => Ok(LegOutcome::Failed(f.old.as_ref().map(read_account).transpose()?.map(Box::new))),
    };
    if failed.iter().any(|f| !matches!(f.leg, Leg::Debit | Leg::Credit)) {
        return Ok(Decision::Unknown(
            "a journal, entry or outbox item exists without its completed instruction".into(),
        ));
    }
    let instruction = posting.instruction;
    let (debit, credit) = (account_leg(Leg::Debit)?, account_leg(Leg::Credit)?);
    Ok(match refusal_at_posting(&instruction.content, &instruction.user, posting.day, &debit, &credit) {
        Some(refusal) => Decision::Broken(refusal),
        None => Decision::Unknown("an account's condition failed on no known rule".into()),
    })
}

fn read_own_leg(
    posting: &Posting<'_>,
    session: &SessionId,
    now: Timestamp,
    own: &FailedLeg,
) -> Result<Decision, StoreError> {
    let Some(old) = &own.old else {
        return Ok(Decision::Unknown("the instruction is gone".into()));
    };
    let current = read_instruction(old)?;
    Ok(match usable(&current, session, now) {
        Err(confirmation) => Decision::Final(confirmation),
        // A newer authorization is not consumed by a confirm that was made for an older one.
        Ok(authorization) if authorization != posting.authorization => {
            Decision::Final(Verdict::NotAuthorized(AuthorizationFault::Stale).on(current))
        }
        // Usable now and refused then: the clocks of this attempt and of its reading differ. Try with the present one.
        Ok(_) => Decision::Again,
    })
}
