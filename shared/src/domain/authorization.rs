//! The payer's approval of one instruction, and when it may be used.

use crate::domain::{id::SessionId, idempotency::ContentHash};
use jiff::{SignedDuration, Timestamp};

/// How long an authorization may be used, in seconds.
pub const AUTHORIZATION_S: i64 = 60;
/// How far the clocks of two functions may differ, in seconds: an authorization may seem to come from that far ahead.
pub const CLOCK_SKEW_S: i64 = 30;
/// What an authorization is for; stored with it, so that one made for something else is never taken for a transfer's.
pub const KIND_TRANSFER: &str = "transfer";

/// Proof that the payer approved this instruction with this content in this session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// The session that approved; only it can confirm.
    pub session: SessionId,
    /// What was approved.
    pub content_hash: ContentHash,
    /// When.
    pub at: Timestamp,
    /// The TOTP time step that was burned for it: unique among a user's authorizations, since steps only grow.
    pub step: i64,
}

/// Why a confirm finds no usable authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizationFault {
    /// There is none.
    #[error("the instruction is not authorized")]
    None,
    /// It was made in another session.
    #[error("the authorization was made in another session")]
    OtherSession,
    /// It is older than [`AUTHORIZATION_S`], from further ahead than clocks differ, or replaced by a newer one.
    #[error("the authorization is too old or was replaced")]
    Stale,
    /// It approves other content.
    #[error("the authorization approves other content")]
    ContentChanged,
}

impl AuthorizationFault {
    /// The word in the answer's `reason`.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::OtherSession => "other-session",
            Self::Stale => "stale",
            Self::ContentChanged => "content-changed",
        }
    }
}

impl Authorization {
    /// The last instant at which it may be used.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        self.at.checked_add(SignedDuration::from_secs(AUTHORIZATION_S)).unwrap_or(Timestamp::MAX)
    }

    /// Whether `session` may use it at `now` for what `content_hash` stands for.
    ///
    /// # Errors
    /// The first [`AuthorizationFault`], in the documented order.
    pub fn check(
        &self,
        session: &SessionId,
        content_hash: &ContentHash,
        now: Timestamp,
    ) -> Result<(), AuthorizationFault> {
        if self.session != *session {
            return Err(AuthorizationFault::OtherSession);
        }
        let from = self.at.checked_sub(SignedDuration::from_secs(CLOCK_SKEW_S)).unwrap_or(Timestamp::MIN);
        if now > self.until() || now < from {
            return Err(AuthorizationFault::Stale);
        }
        if self.content_hash != *content_hash {
            return Err(AuthorizationFault::ContentChanged);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;

    #[test]
    fn an_authorization_is_used_by_its_session_for_its_content_within_a_minute()
    -> Result<(), Box<dyn std::error::Error>> {
        let user = UserId::parse("aoi")?;
        let (mine, other) = (SessionId::from_claim(&user, "s1")?, SessionId::from_claim(&user, "s2")?);
        let (shown, changed) = (ContentHash::from_stored("v1:a"), ContentHash::from_stored("v1:b"));
        let at: Timestamp = "2026-12-01T00:00:00Z".parse()?;
        let authorization = Authorization { session: mine.clone(), content_hash: shown.clone(), at, step: 7 };
        let table = [
            (&mine, &shown, 0, Ok(())),
            (&mine, &shown, 60_000, Ok(())),
            (&mine, &shown, 60_001, Err(AuthorizationFault::Stale)),
            (&mine, &shown, -30_000, Ok(())),
            (&mine, &shown, -30_001, Err(AuthorizationFault::Stale)),
            (&other, &shown, 0, Err(AuthorizationFault::OtherSession)),
            (&other, &changed, 60_001, Err(AuthorizationFault::OtherSession)),
            (&mine, &changed, 0, Err(AuthorizationFault::ContentChanged)),
        ];
        for (session, content, age_ms, expected) in table {
            let now = at.checked_add(SignedDuration::from_millis(age_ms))?;
            assert_eq!(authorization.check(session, content, now), expected, "{age_ms} ms");
        }
        Ok(())
    }
}
