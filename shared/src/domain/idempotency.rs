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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::money::{Amount, Currency};
    use proptest::prelude::*;

    #[test]
    fn a_key_is_sixteen_to_255_visible_characters_bare_or_quoted() {
        let (least, most, more) = ("k".repeat(16), "k".repeat(255), "k".repeat(256));
        for (value, key) in [
            (least.as_str(), Some(least.as_str())),
            (most.as_str(), Some(most.as_str())),
            (more.as_str(), None),
            ("kkkkkkkkkkkkkkk", None),
            ("", None),
            ("\"kkkkkkkkkkkkkkkk\"", Some(least.as_str())),
            ("  kkkkkkkkkkkkkkkk\t", Some(least.as_str())),
            ("\"kkkkkkkkkkkkkkkk", None),
            ("\"kkkkkkkkkkkkkkkk\"x", None),
            ("\"kkkkkkkk\"kkkkkkkk\"", None),
            (r#""kkkkkkkkkkkkkk\"\\""#, Some(r#"kkkkkkkkkkkkkk"\"#)),
            (r#""kkkkkkkkkkkkkkk\k""#, None),
            ("kkkkkkkk kkkkkkkk", None),
            ("\"kkkkkkkk kkkkkkkk\"", None),
            ("kkkkkkkkkkkkkkk\u{e9}", None),
            ("kkkkkkkkkkkkkkkk\u{7f}", None),
        ] {
            assert_eq!(IdempotencyKey::from_header(value).ok().as_ref().map(IdempotencyKey::as_str), key, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn both_forms_of_a_key_are_one_key(key in "[!-~]{16,255}") {
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(IdempotencyKey::from_header(&quoted).map(|k| k.0), Ok(key.clone()));
            if !key.starts_with('"') {
                prop_assert_eq!(IdempotencyKey::from_header(&key).map(|k| k.0), Ok(key));
            }
        }

        #[test]
        fn no_text_makes_the_parser_fall(text in "\\PC*") {
            let _ = IdempotencyKey::from_header(&text);
        }
    }

    #[test]
    fn hashes_are_what_they_were() -> Result<(), Box<dyn std::error::Error>> {
        // Changing one of these orphans every stored instruction: it needs a new version in the tag.
        let user = UserId::parse("aoi")?;
        let request_id = RequestId::derive(&user, &IdempotencyKey::from_header("0123456789abcdef")?);
        let content = Content {
            source: AccountId::parse("ac_1")?,
            destination: AccountId::parse("ac_2")?,
            amount: Amount::parse(40_000)?,
            currency: Currency::parse("JPY")?,
            requester_name: "Aoi".to_owned(),
            memo: "家賃".to_owned(),
        };
        let hash = ContentHash::of(&user, &request_id, &content, "Ren");
        let fingerprint = HEXLOWER.encode(Fingerprint::of(&content).as_bytes());
        assert_eq!(
            (request_id.as_str(), fingerprint.as_str(), hash.as_str()),
            (
                "ti_3dsajnpfttis634wf6eazjak7tzmrepo",
                "07045f4aa1daefc482383feb5cf2ca161160358f0938def1dd262d6a9b5854ea",
                "v1:47f352f2e58eb5f97d3069b203ac65558f18ffdd6a4479bfa5d1109d0bd2d1c5",
            )
        );
        Ok(())
    }
}
