//! How many new instructions a user may send: at most [`ADMISSIONS_MAX`] in any [`WINDOW_S`] seconds.
//!
//! The item keeps the times of the last five admissions as a shift register. A sixth is admitted when the oldest of
//! the five has left the window, which is exact for every window and needs no read.

use jiff::{SignedDuration, Timestamp};

/// Admissions in any window.
pub const ADMISSIONS_MAX: usize = 5;
/// The window, in seconds.
pub const WINDOW_S: i64 = 60;

/// The latest time that the fifth-last admission may have for another one at `now`.
#[must_use]
pub fn window_start(now: Timestamp) -> Timestamp {
    now.checked_sub(SignedDuration::from_secs(WINDOW_S)).unwrap_or(Timestamp::MIN)
}

/// Whole seconds from `now` until another instruction can be admitted, at least 1, when the fifth-last admission was
/// at `fifth_last`.
#[must_use]
pub fn retry_after_s(fifth_last: Timestamp, now: Timestamp) -> i64 {
    let wait_ms =
        fifth_last.as_millisecond().saturating_add(WINDOW_S.saturating_mul(1000)).saturating_sub(now.as_millisecond());
    wait_ms.saturating_add(999).div_euclid(1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::{retry_after_s, window_start};
    use jiff::Timestamp;

    #[test]
    fn the_window_ends_exactly_sixty_seconds_after_the_fifth_last() -> Result<(), jiff::Error> {
        let at = |ms| Timestamp::from_millisecond(ms);
        assert_eq!(window_start(at(60_000)?), at(0)?);
        for (now_ms, wait_s) in [(0, 60), (1, 60), (999, 60), (1_000, 59), (59_001, 1), (59_999, 1), (60_000, 1)] {
            assert_eq!(retry_after_s(at(0)?, at(now_ms)?), wait_s, "{now_ms}");
        }
        Ok(())
    }
}
