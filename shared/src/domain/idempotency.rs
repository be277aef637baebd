//! Idempotency keys, fingerprints and content hashes.

use crate::domain::{
    hash,
    id::{AccountId, RequestId, UserId},
    instruction::Content,
};
use data_encoding::HEXLOWER;
use std::fmt;

/// A client's name for one instruction: 16–255 visible ASCII characters, for life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

/// The text is not an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 16 to 255 visible ASCII characters, bare or as a quoted string")]
pub struct KeyFault;

impl IdempotencyKey {
    /// Takes a header's value: bare, or a quoted string of Structured Fields (RFC 9651 §3.3.3) with the escapes `\"`
    /// and `\\`. Both forms of one key are the same key.
    ///
    /// # Errors
    /// [`KeyFault`] if the canonical form is not a key.
    pub fn from_header(value: &str) -> Result<Self, KeyFault> {
        let value = value.trim_matches([' ', '\t']);
        match value.strip_prefix('"') {
            Some(rest) => Self::from_canonical(&unquote(rest)?),
            None => Self::from_canonical(value),
        }
    }

    /// Takes the canonical form, as the query parameter carries it.
    ///
    /// # Errors
    /// [`KeyFault`] unless it is 16–255 visible ASCII characters.
    pub fn from_canonical(raw: &str) -> Result<Self, KeyFault> {
        if (16..=255).contains(&raw.len()) && raw.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(raw.to_owned()))
        } else {
            Err(KeyFault)
        }
    }

    /// The canonical form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What stands between the opening quote, already taken, and the closing one, which must end the text.
fn unquote(rest: &str) -> Result<String, KeyFault> {
    let mut key = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next().ok_or(KeyFault)? {
            '"' if chars.as_str().is_empty() => return Ok(key),
            '"' => return Err(KeyFault),
            '\\' => match chars.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err(KeyFault),
            },
            plain => key.push(plain),
        }
    }
}

/// What makes two sends the same instruction: a hash of exactly the parsed, trimmed values and the schema's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of `content`.
    #[must_use]
    pub fn of(content: &Content) -> Self {
        Self(hash::tagged(
            "furikomi.fingerprint.v1",
            &[
                content.source.as_str().as_bytes(),
                content.destination.as_str().as_bytes(),
                content.amount.minor().to_string().as_bytes(),
                content.currency.code().as_bytes(),
                content.requester_name.as_bytes(),
                content.memo.as_bytes(),
            ],
        ))
    }

    /// Takes stored bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The hash itself.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What the payer approves: everything the payer was shown, under this instruction and user (PSD2 RTS Art. 5, dynamic
/// linking). `v1:` and the hash in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentHash(String);

impl ContentHash {
    /// The hash of what `user` is shown for `request_id`: `content` and the name of the account to be credited.
    #[must_use]
    pub fn of(user: &UserId, request_id: &RequestId, content: &Content, destination_name: &str) -> Self {
        let hash = hash::tagged(
            "furikomi.content.v1",
            &[
                user.as_str().as_bytes(),
                request_id.as_str().as_bytes(),
                content.source.as_str().as_bytes(),
                content.destination.as_str().as_bytes(),
                destination_name.as_bytes(),
                content.amount.minor().to_string().as_bytes(),
                content.currency.code().as_bytes(),
                content.requester_name.as_bytes(),
                content.memo.as_bytes(),
            ],
        );
        Self(format!("v1:{}", HEXLOWER.encode(&hash)))
    }

    /// Takes stored text as it is; it is only ever compared.
    #[must_use]
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The hash as clients see it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A token that makes cursors of one account's statement checkable: the first eight bytes of a hash of both.
#[must_use]
pub fn cursor_check(account: &AccountId, position: &str) -> [u8; 8] {
    let hash = hash::tagged("furikomi.cursor.v1", &[account.as_str().as_bytes(), position.as_bytes()]);
    let mut check = [0_u8; 8];
    check.copy_from_slice(&hash[..8]);
    check
}
