//! Time-based one-time passwords: RFC 6238 with SHA-1, six digits and 30-second steps, as authenticator apps have them.
//!
//! The arithmetic of a code is `totp-rs`'s. What is decided here is which step a code may burn: steps only grow, so
//! that each is accepted at most once per user (NIST SP 800-63B §3.1.4.2), whatever the code is used for.

use jiff::{SignedDuration, Timestamp};
use totp_rs::{Builder, Secret, Totp};
use zeroize::Zeroizing;

/// Length of a step, in seconds (RFC 6238 §5.2).
pub const STEP_S: i64 = 30;
/// Wrong codes in a row that lock a user.
pub const FAILURES_MAX: i64 = 5;
/// How long a lock lasts, in seconds.
pub const LOCK_S: i64 = 15 * 60;
/// Length of a secret, in bytes (RFC 4226 §4 recommends 160 bits).
pub const SECRET_BYTES: usize = 20;

/// A six-digit code as a person typed it. It is never printed.
pub struct Code(Zeroizing<String>);

/// The text is not a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be six digits")]
pub struct CodeFault;

impl Code {
    /// Takes exactly six ASCII digits.
    ///
    /// # Errors
    /// [`CodeFault`] for anything else.
    pub fn parse(raw: &str) -> Result<Self, CodeFault> {
        if raw.len() == 6 && raw.bytes().all(|b| b.is_ascii_digit()) {
            Ok(Self(Zeroizing::new(raw.to_owned())))
        } else {
            Err(CodeFault)
        }
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Code(******)")
    }
}

/// A user's shared secret, decrypted. It is never printed, and wiped when dropped.
pub struct TotpSecret(Totp);

/// The bytes are not a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a TOTP secret has {SECRET_BYTES} bytes")]
pub struct SecretFault;

impl TotpSecret {
    /// Takes the secret's bytes, for `account` at `issuer` as an authenticator app shall show them.
    ///
    /// # Errors
    /// [`SecretFault`] unless there are 20 bytes and names that an `otpauth` URI can carry (no colon).
    pub fn new(bytes: &[u8], issuer: &str, account: &str) -> Result<Self, SecretFault> {
        let bytes: [u8; SECRET_BYTES] = bytes.try_into().map_err(|_| SecretFault)?;
        Builder::new()
            .with_secret(Secret::from(bytes))
            .with_issuer(Some(issuer.replace(':', " ")))
            .with_account_name(account.replace(':', " "))
            .build()
            .map(Self)
            .map_err(|_| SecretFault)
    }

    /// The `otpauth://` URI that an authenticator app takes. It carries the secret.
    ///
    /// # Errors
    /// [`SecretFault`] if the names cannot be put into a URI.
    pub fn otpauth_uri(&self) -> Result<Zeroizing<String>, SecretFault> {
        self.0.to_url().map(|uri| Zeroizing::new(uri.to_string())).map_err(|_| SecretFault)
    }

    /// The secret in base 32, for typing it in by hand.
    #[must_use]
    pub fn to_base32(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.secret().to_base32())
    }

    /// The secret's bytes, for sealing.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.secret().as_bytes()
    }

    /// The code of one step. For clients, demonstrations and tests; the bank itself only compares.
    #[must_use]
    pub fn code_at(&self, step: i64) -> Zeroizing<String> {
        let time_s = u64::try_from(step.saturating_mul(STEP_S)).unwrap_or(0);
        Zeroizing::new(self.0.generate(time_s).to_string())
    }

    /// Whether `code` is the code of `step`, compared in constant time.
    #[must_use]
    pub fn matches(&self, code: &Code, step: i64) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(self.code_at(step).as_bytes(), code.0.as_bytes()).is_ok()
    }

    /// The step that `code` may burn at `now`: one of the last, this and the next, later than `last_step`, whose code
    /// it is. Every step is tested, always, so that a code that collides with an older step is not refused, and a wrong
    /// one takes as long as a right one.
    #[must_use]
    pub fn accept(&self, code: &Code, now: Timestamp, last_step: i64) -> Option<i64> {
        let current = step_at(now);
        let mut accepted = None;
        for offset in [1, 0, -1] {
            let step = current.saturating_add(offset);
            let matched = self.matches(code, step);
            if matched && step > last_step {
                accepted = Some(step);
            }
        }
        accepted
    }
}

impl std::fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TotpSecret(******)")
    }
}

/// The time step that `now` falls in.
#[must_use]
pub fn step_at(now: Timestamp) -> i64 {
    now.as_second().div_euclid(STEP_S)
}

/// What a wrong code does to the counter: how many failures stand afterwards, and until when the user is then locked.
#[must_use]
pub fn count_failure(failures: i64, now: Timestamp) -> (i64, Option<Timestamp>) {
    let failures = failures.saturating_add(1);
    if failures < FAILURES_MAX {
        return (failures, None);
    }
    (0, Some(now.checked_add(SignedDuration::from_secs(LOCK_S)).unwrap_or(Timestamp::MAX)))
}

/// Whole seconds until a lock ends, at least 1; `None` if it does not hold at `now`.
#[must_use]
pub fn locked_for_s(locked_until: Option<Timestamp>, now: Timestamp) -> Option<i64> {
    let wait_ms = locked_until?.as_millisecond().saturating_sub(now.as_millisecond());
    (wait_ms > 0).then(|| wait_ms.saturating_add(999).div_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fallible = Result<(), Box<dyn std::error::Error>>;

    fn secret() -> Result<TotpSecret, SecretFault> {
        TotpSecret::new(b"12345678901234567890", "furikomi", "aoi")
    }

    #[test]
    fn the_codes_are_those_of_rfc_6238() -> Fallible {
        // Appendix B, SHA-1, cut from eight digits to six.
        for (time_s, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(secret()?.code_at(time_s / STEP_S).as_str(), code, "{time_s}");
        }
        Ok(())
    }

    #[test]
    fn a_code_burns_a_step_of_the_last_this_or_the_next_and_only_a_later_one() -> Fallible {
        let secret = secret()?;
        let now = Timestamp::from_second(1_000 * STEP_S)?;
        for (offset, last_step, accepted) in [
            (-2, 0, None),
            (-1, 0, Some(999)),
            (0, 0, Some(1000)),
            (1, 0, Some(1001)),
            (2, 0, None),
            (0, 1000, None),
            (0, 999, Some(1000)),
            (1, 1000, Some(1001)),
            (-1, 1000, None),
        ] {
            let code = Code::parse(&secret.code_at(1000 + offset))?;
            assert_eq!(secret.accept(&code, now, last_step), accepted, "{offset} after {last_step}");
        }
        Ok(())
    }

    #[test]
    fn a_code_that_collides_with_an_older_step_is_still_fresh() -> Fallible {
        let secret = secret()?;
        // The first pair of neighbouring or next-to-neighbouring steps with one code.
        let (older, newer) = (0..10_000_000_i64)
            .find_map(|step| {
                let code = secret.code_at(step);
                (1..=2).find(|gap| secret.code_at(step + gap) == code).map(|gap| (step, step + gap))
            })
            .ok_or("no collision")?;
        let code = Code::parse(&secret.code_at(newer))?;
        let now = Timestamp::from_second((older + 1) * STEP_S)?;
        assert_eq!(secret.accept(&code, now, older - 1), Some(older));
        assert_eq!(secret.accept(&code, now, older), Some(newer));
        assert_eq!(secret.accept(&code, now, newer), None);
        Ok(())
    }

    #[test]
    fn the_fifth_failure_locks_for_a_quarter_of_an_hour() -> Fallible {
        let now: Timestamp = "2026-12-01T00:00:00Z".parse()?;
        for failures in 0..4 {
            assert_eq!(count_failure(failures, now), (failures + 1, None));
        }
        let (failures, until) = count_failure(4, now);
        assert_eq!((failures, until), (0, Some("2026-12-01T00:15:00Z".parse()?)));
        assert_eq!(locked_for_s(until, now), Some(900));
        assert_eq!(locked_for_s(until, "2026-12-01T00:14:59.001Z".parse()?), Some(1));
        assert_eq!(locked_for_s(until, "2026-12-01T00:15:00Z".parse()?), None);
        assert_eq!(locked_for_s(None, now), None);
        Ok(())
    }

    #[test]
    fn only_six_digits_are_a_code_and_nothing_prints_a_secret() -> Fallible {
        for raw in ["", "12345", "1234567", "12345a", "１２３４５６", " 12345", "-12345"] {
            assert!(Code::parse(raw).is_err(), "{raw}");
        }
        assert_eq!(format!("{:?}", Code::parse("123456")?), "Code(******)");
        assert_eq!(format!("{:?}", secret()?), "TotpSecret(******)");
        Ok(())
    }
}
