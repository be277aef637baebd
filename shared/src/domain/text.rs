//! Text that people write and read: names and memos.

use unicode_normalization::UnicodeNormalization;

/// Why a text was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    /// Fewer Unicode scalar values than allowed, after trimming.
    #[error("is too short: at least {min} characters after trimming")]
    TooShort {
        /// The least number of Unicode scalar values.
        min: usize,
    },
    /// More Unicode scalar values than allowed, after normalising and trimming.
    #[error("is too long: at most {max} characters")]
    TooLong {
        /// The greatest number of Unicode scalar values.
        max: usize,
    },
    /// A control character (general category Cc).
    #[error("contains a control character")]
    Control,
    /// A bidirectional embedding, override or isolate (UAX #9), which can make a text read as another one.
    #[error("contains a bidirectional override")]
    Bidi,
}

/// Normalises `raw` to NFC, trims white space (U+3000 included) at both ends and checks it.
///
/// The length is counted in Unicode scalar values of the result. Control characters are refused wherever they stand,
/// at the ends too: trimming is for spaces, not for hiding a line break.
///
/// # Errors
/// The first [`TextFault`] found.
pub fn parse(raw: &str, min: usize, max: usize) -> Result<String, TextFault> {
    if raw.chars().any(char::is_control) {
        return Err(TextFault::Control);
    }
    if raw.chars().any(is_bidi_control) {
        return Err(TextFault::Bidi);
    }
    let normalised: String = raw.nfc().collect();
    let trimmed = normalised.trim();
    let length = trimmed.chars().count();
    if length < min {
        return Err(TextFault::TooShort { min });
    }
    if length > max {
        return Err(TextFault::TooLong { max });
    }
    Ok(trimmed.to_owned())
}

/// Embeddings and overrides (U+202A–U+202E) and isolates (U+2066–U+2069) of UAX #9.
const fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{TextFault, parse};

    #[test]
    fn a_text_is_normalised_trimmed_and_checked() {
        let table: &[(&str, Result<&str, TextFault>)] = &[
            ("Aoi", Ok("Aoi")),
            ("  Aoi\u{3000}", Ok("Aoi")),
            ("カ\u{3099}", Ok("ガ")),
            ("葵 太郎", Ok("葵 太郎")),
            ("\u{3000} ", Err(TextFault::TooShort { min: 1 })),
            ("", Err(TextFault::TooShort { min: 1 })),
            ("12345678", Ok("12345678")),
            ("123456789", Err(TextFault::TooLong { max: 8 })),
            ("a\u{0}b", Err(TextFault::Control)),
            ("a\n", Err(TextFault::Control)),
            ("\u{85}a", Err(TextFault::Control)),
            ("a\u{202E}b", Err(TextFault::Bidi)),
            ("\u{2066}a", Err(TextFault::Bidi)),
        ];
        for (raw, expected) in table {
            assert_eq!(parse(raw, 1, 8).as_deref(), expected.as_ref().map(|s| *s), "{raw:?}");
        }
    }

    #[test]
    fn length_counts_scalar_values_not_bytes() {
        assert!(parse("振込振込振込振込", 1, 8).is_ok());
        assert_eq!(parse("振込振込振込振込振", 1, 8), Err(TextFault::TooLong { max: 8 }));
    }
}
