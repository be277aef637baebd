//! Randomness, for tokens, claims, secrets and jitter. Nothing about money depends on it.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use data_encoding::BASE32_NOPAD;

/// `N` random bytes from the operating system's generator.
///
/// # Panics
/// If there is no randomness to be had: then no secret can be made and no function may go on.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0_u8; N];
    #[expect(clippy::expect_used, reason = "without randomness there is nothing safe to do")]
    SystemRandom::new().fill(&mut bytes).expect("the operating system has randomness");
    bytes
}

/// A random name of 26 characters (128 bits): a transaction's token, a claim, a guess.
#[must_use]
pub fn name() -> String {
    BASE32_NOPAD.encode(&bytes::<16>()).to_ascii_lowercase()
}

/// A random number from 0 to `ceiling` − 1; 0 if `ceiling` is 0.
#[must_use]
pub fn below(ceiling: u64) -> u64 {
    u64::from_be_bytes(bytes()).checked_rem(ceiling).unwrap_or(0)
}
