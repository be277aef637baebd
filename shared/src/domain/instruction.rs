//! Instructions: what is to be moved, how far it has come, and what may be said of it.

use crate::domain::{
    account::stored_words,
    authorization::{Authorization, AuthorizationFault},
    day::Day,
    error::Refusal,
    id::{AccountId, RequestId, SessionId, TransferId, UserId},
    idempotency::{ContentHash, Fingerprint},
    money::{Amount, Currency},
};
use jiff::{SignedDuration, Timestamp};

/// How long an instruction stays open, in seconds.
pub const LIFETIME_S: i64 = 600;
/// How long after `expires_at` the sweeper waits before it fences, in seconds.
pub const FENCE_GRACE_S: i64 = 60;
/// Steps that a history keeps. A TOTP step authorizes once, so the 600 seconds of a life hold at most 22
/// authorizations; with admission and the end, no honest history reaches this.
pub const HISTORY_MAX: usize = 32;

stored_words!(
    /// How far an instruction has come.
    State {
        /// Admitted; nobody approved it yet.
        AwaitingAuthorization = "AWAITING_AUTHORIZATION",
        /// Approved; not posted.
        Authorized = "AUTHORIZED",
        /// Posted.
        Completed = "COMPLETED",
        /// Refused by a rule at posting; never posted.
        Failed = "FAILED",
        /// Closed by its owner; never posted.
        Cancelled = "CANCELLED",
        /// Fenced after its time; never posted.
        Expired = "EXPIRED",
    }
);

impl State {
    /// Whether the state can still change.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::AwaitingAuthorization | Self::Authorized)
    }

    /// Whether an instruction may go from this state to `next`.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::AwaitingAuthorization | Self::Authorized, Self::Authorized | Self::Cancelled | Self::Expired)
            | (Self::Authorized, Self::Completed | Self::Failed) => true,
            (
                Self::AwaitingAuthorization
                | Self::Authorized
                | Self::Completed
                | Self::Failed
                | Self::Cancelled
                | Self::Expired,
                _,
            ) => false,
        }
    }
}

/// The four honest answers to "what became of it?".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultKind {
    /// Open, in time, no journal.
    Acknowledged,
    /// Posted.
    Committed,
    /// Fenced: not posted, ever.
    NoPosting,
    /// Anything else.
    Unknown,
}

impl ResultKind {
    /// The word in an answer's `result`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledged => "INSTRUCTION_ACKNOWLEDGED",
            Self::Committed => "FINANCIAL_COMMITTED",
            Self::NoPosting => "NO_POSTING_CONFIRMED",
            Self::Unknown => "RESULT_UNKNOWN",
        }
    }
}

/// What may be said about whether an instruction's money moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoneyMoved {
    /// Its journal is committed.
    Yes,
    /// It is fenced, was never authorized, or does not exist.
    No,
    /// Neither can be said.
    Unknown,
}

/// What an instruction asks for: exactly the parsed, trimmed values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The account to debit.
    pub source: AccountId,
    /// The account to credit.
    pub destination: AccountId,
    /// How much.
    pub amount: Amount,
    /// Of what.
    pub currency: Currency,
    /// Who asks, as the payee is told: 1–48 characters.
    pub requester_name: String,
    /// A note to the payee: 0–140 characters.
    pub memo: String,
}

/// One line of an instruction's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// The state that was entered.
    pub state: State,
    /// The masked session that did it; none for the sweeper.
    pub session: Option<String>,
    /// The code of a failure.
    pub code: Option<String>,
}

/// Why and when an instruction failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The rule.
    pub refusal: Refusal,
    /// When it was recorded.
    pub at: Timestamp,
}

/// An instruction as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Its id.
    pub request_id: RequestId,
    /// Whose it is.
    pub user: UserId,
    /// What it asks for.
    pub content: Content,
    /// The name of the account to credit, as it was at admission and as the payer is shown it.
    pub destination_name: String,
    /// The owner of the account to credit, who is told when money arrives.
    pub destination_owner: UserId,
    /// What makes a second send the same.
    pub fingerprint: Fingerprint,
    /// What the payer approves.
    pub content_hash: ContentHash,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When it stops being open, fenced or not.
    pub expires_at: Timestamp,
    /// How far it has come.
    pub state: State,
    /// The last approval, once there was one.
    pub authorization: Option<Authorization>,
    /// When it was posted.
    pub posted_at: Option<Timestamp>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What happened to it, oldest first.
    pub history: Vec<Step>,
    /// Days whose allowances the posting removes from the source account, noted at admission.
    pub stale_days: Vec<Day>,
}

impl Instruction {
    /// A new instruction of `user`, admitted at `now`.
    #[must_use]
    pub fn admit(
        request_id: RequestId,
        content: Content,
        parties: Parties,
        session: &SessionId,
        now: Timestamp,
    ) -> Self {
        let state = State::AwaitingAuthorization;
        Self {
            fingerprint: Fingerprint::of(&content),
            content_hash: ContentHash::of(&parties.user, &request_id, &content, &parties.destination_name),
            request_id,
            user: parties.user,
            content,
            destination_name: parties.destination_name,
            destination_owner: parties.destination_owner,
            created_at: now,
            expires_at: now.checked_add(SignedDuration::from_secs(LIFETIME_S)).unwrap_or(Timestamp::MAX),
            state,
            authorization: None,
            posted_at: None,
            failure: None,
            history: vec![Step { at: now, state, session: Some(session.masked().to_owned()), code: None }],
            stale_days: parties.stale_days,
        }
    }

    /// The transfer that it became, if it was posted.
    #[must_use]
    pub fn transfer_id(&self) -> Option<TransferId> {
        (self.state == State::Completed).then(|| self.request_id.transfer_id())
    }

    /// Whether it can still be authorized or posted at `now`.
    #[must_use]
    pub fn is_open_at(&self, now: Timestamp) -> bool {
        self.state.is_open() && now < self.expires_at
    }

    /// The result by the state alone, as every function but `status` gives it.
    #[must_use]
    pub fn result_at(&self, now: Timestamp) -> ResultKind {
        match self.state {
            State::Completed => ResultKind::Committed,
            State::Failed | State::Cancelled | State::Expired => ResultKind::NoPosting,
            State::AwaitingAuthorization | State::Authorized if now < self.expires_at => ResultKind::Acknowledged,
            State::AwaitingAuthorization | State::Authorized => ResultKind::Unknown,
        }
    }

    /// What its state allows to say about its money. Open and authorized is unknown: a confirm may be on its way.
    #[must_use]
    pub const fn money_moved(&self) -> MoneyMoved {
        match self.state {
            State::Completed => MoneyMoved::Yes,
            State::AwaitingAuthorization | State::Failed | State::Cancelled | State::Expired => MoneyMoved::No,
            State::Authorized => MoneyMoved::Unknown,
        }
    }

    /// The authorization that `session` may consume at `now`.
    ///
    /// # Errors
    /// The first [`AuthorizationFault`].
    pub fn usable_authorization(
        &self,
        session: &SessionId,
        now: Timestamp,
    ) -> Result<&Authorization, AuthorizationFault> {
        let authorization = self.authorization.as_ref().ok_or(AuthorizationFault::None)?;
        authorization.check(session, &self.content_hash, now)?;
        Ok(authorization)
    }
}

/// Who takes part in an instruction, and what admission noted about the accounts.
#[derive(Debug, Clone)]
pub struct Parties {
    /// The payer.
    pub user: UserId,
    /// The name of the account to credit.
    pub destination_name: String,
    /// Its owner.
    pub destination_owner: UserId,
    /// Days whose allowances the posting removes.
    pub stale_days: Vec<Day>,
}

#[cfg(test)]
mod tests {
    use super::State;
    use State::{Authorized, AwaitingAuthorization, Cancelled, Completed, Expired, Failed};

    #[test]
    fn every_transition_is_legal_or_not_as_documented() {
        let legal = [
            (AwaitingAuthorization, Authorized),
            (AwaitingAuthorization, Cancelled),
            (AwaitingAuthorization, Expired),
            (Authorized, Authorized),
            (Authorized, Completed),
            (Authorized, Failed),
            (Authorized, Cancelled),
            (Authorized, Expired),
        ];
        for from in State::ALL {
            for to in State::ALL {
                assert_eq!(from.may_become(*to), legal.contains(&(*from, *to)), "{from:?} -> {to:?}");
            }
            let terminal = State::ALL.iter().all(|to| !from.may_become(*to));
            assert_eq!(terminal, !from.is_open(), "{from:?}");
        }
    }

    #[test]
    fn every_state_has_its_word() {
        for state in State::ALL {
            assert_eq!(State::parse(state.as_str()), Some(*state));
        }
        assert_eq!(State::parse("completed"), None);
    }
}
