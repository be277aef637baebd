//! Names of users, sessions, accounts, instructions and transfers.
//!
//! Ids of instructions and transfers are deterministic, so that every retry of one instruction meets the same items.

use crate::domain::{hash, idempotency::IdempotencyKey};
use data_encoding::BASE32_NOPAD;
use std::fmt;

/// The text is not an id of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a valid id")]
pub struct IdFault;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $max:literal, $accepts:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Takes `raw` as it is.
            ///
            /// # Errors
            /// [`IdFault`] if it is empty, too long or has a character that does not belong.
            pub fn parse(raw: &str) -> Result<Self, IdFault> {
                let accepts: fn(char) -> bool = $accepts;
                if raw.is_empty() || raw.len() > $max || !raw.chars().all(accepts) {
                    return Err(IdFault);
                }
                Ok(Self(raw.to_owned()))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// A person, by the `sub` claim of the identity provider: 1–255 bytes without spaces or control characters.
    UserId, 255, |c| !c.is_control() && !c.is_whitespace()
);
text_id!(
    /// An account: 1–64 ASCII letters, digits, `-` and `_`.
    AccountId, 64, |c| c.is_ascii_alphanumeric() || c == '-' || c == '_'
);

impl AccountId {
    /// The account as it may be shown to others: all but its last four characters hidden, and never more than half.
    #[must_use]
    pub fn masked(&self) -> String {
        let shown = self.0.len().saturating_div(2).min(4);
        format!("****{}", &self.0[self.0.len().saturating_sub(shown)..])
    }
}

/// A login session of a user, kept only as a hash: the raw id of a session is a credential at some providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionId(String);

impl SessionId {
    /// Takes the raw session id of a verified token, bound to its user.
    ///
    /// # Errors
    /// [`IdFault`] if it is empty or longer than 1,024 bytes.
    pub fn from_claim(user: &UserId, raw: &str) -> Result<Self, IdFault> {
        if raw.is_empty() || raw.len() > 1024 {
            return Err(IdFault);
        }
        let hash = hash::tagged("furikomi.session.v1", &[user.as_str().as_bytes(), raw.as_bytes()]);
        Ok(Self(suffix(&hash)))
    }

    /// Takes the text that [`SessionId::as_str`] gave.
    ///
    /// # Errors
    /// [`IdFault`] if it is not such a text.
    pub fn parse(stored: &str) -> Result<Self, IdFault> {
        if is_suffix(stored) { Ok(Self(stored.to_owned())) } else { Err(IdFault) }
    }

    /// The hash as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Enough of the hash to tell two sessions of one user apart in a history, and no more.
    #[must_use]
    pub fn masked(&self) -> &str {
        &self.0[..6]
    }
}

/// Characters of an id after its prefix: 160 bits in base 32.
const SUFFIX_CHARS: usize = 32;

fn suffix(hash: &[u8; 32]) -> String {
    BASE32_NOPAD.encode(&hash[..20]).to_ascii_lowercase()
}

fn is_suffix(text: &str) -> bool {
    text.len() == SUFFIX_CHARS && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'))
}

macro_rules! prefixed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Takes the id as clients send it.
            ///
            /// # Errors
            /// [`IdFault`] if it does not have the prefix and the 32 characters.
            pub fn parse(raw: &str) -> Result<Self, IdFault> {
                match raw.strip_prefix($prefix) {
                    Some(rest) if is_suffix(rest) => Ok(Self(raw.to_owned())),
                    _ => Err(IdFault),
                }
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// What the ids of one instruction, its transfer and its events have in common.
            #[must_use]
            pub fn suffix(&self) -> &str {
                &self.0[$prefix.len()..]
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

prefixed_id!(
    /// An instruction: `ti_` and 160 bits of a hash of the user and the idempotency key.
    RequestId, "ti_"
);
prefixed_id!(
    /// A posted transfer: `tr_` and the suffix of its instruction.
    TransferId, "tr_"
);

impl RequestId {
    /// The one id that `user` and `key` can have, now and at every retry.
    #[must_use]
    pub fn derive(user: &UserId, key: &IdempotencyKey) -> Self {
        let hash = hash::tagged("furikomi.request.v1", &[user.as_str().as_bytes(), key.as_str().as_bytes()]);
        Self(format!("ti_{}", suffix(&hash)))
    }

    /// The one transfer that this instruction can become.
    #[must_use]
    pub fn transfer_id(&self) -> TransferId {
        TransferId(format!("tr_{}", self.suffix()))
    }
}

impl TransferId {
    /// The instruction that this transfer came from, if it came from one.
    #[must_use]
    pub fn request_id(&self) -> RequestId {
        RequestId(format!("ti_{}", self.suffix()))
    }

    /// The id of a posting without an instruction, such as a deposit, named by its operator's reference.
    #[must_use]
    pub fn of_deposit(account: &AccountId, reference: &str) -> Self {
        let hash = hash::tagged("furikomi.deposit.v1", &[account.as_str().as_bytes(), reference.as_bytes()]);
        Self(format!("tr_{}", suffix(&hash)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(user: &str, key: &str) -> Result<RequestId, Box<dyn std::error::Error>> {
        Ok(RequestId::derive(&UserId::parse(user)?, &IdempotencyKey::from_header(key)?))
    }

    #[test]
    fn a_request_id_is_deterministic_and_belongs_to_one_user_and_key() -> Result<(), Box<dyn std::error::Error>> {
        let one = ids("aoi", "0123456789abcdef")?;
        assert_eq!(one, ids("aoi", "0123456789abcdef")?);
        assert_eq!(one, ids("aoi", "\"0123456789abcdef\"")?);
        assert_ne!(one, ids("ren", "0123456789abcdef")?);
        assert_ne!(one, ids("aoi", "0123456789abcdeg")?);
        assert_eq!(RequestId::parse(one.as_str())?, one);
        assert_eq!(one.transfer_id().request_id(), one);
        assert_eq!(one.as_str().len(), 35);
        Ok(())
    }

    #[test]
    fn foreign_ids_are_refused() {
        for raw in ["", "ti_", "tr_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ti_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1", "ti_AAAA"]
        {
            assert!(RequestId::parse(raw).is_err(), "{raw}");
        }
        for raw in ["", "a b", "a#b", "a/b", "口座"] {
            assert!(AccountId::parse(raw).is_err(), "{raw}");
        }
        for raw in ["", "a b", "a\nb"] {
            assert!(UserId::parse(raw).is_err(), "{raw}");
        }
        assert!(UserId::parse("auth0|5f7c8ec7c33c6c004bbafe82").is_ok());
    }

    #[test]
    fn an_account_is_masked_to_its_last_characters() -> Result<(), IdFault> {
        assert_eq!(AccountId::parse("ac_1234567")?.masked(), "****4567");
        assert_eq!(AccountId::parse("ab")?.masked(), "****b");
        assert_eq!(AccountId::parse("a")?.masked(), "****");
        Ok(())
    }
}
