//! The clock of every handler: the system's, ahead of it or behind it by what was asked for.

use jiff::{SignedDuration, Timestamp};
use shared::app::system_time;
use std::sync::atomic::{AtomicI64, Ordering};

/// The clock cannot be set there.
#[derive(Debug, thiserror::Error)]
#[error("the clock goes from the year 2000 to the year 2999")]
pub(crate) struct OutOfRange;

const EARLIEST_MS: i64 = 946_684_800_000;
const LATEST_MS: i64 = 32_503_679_999_999;

/// An adjustable clock.
#[derive(Debug)]
pub(crate) struct AdjustableClock {
    /// Where the clock stands still, apart from being set; `None` lets it run with the system's.
    held_at: Option<Timestamp>,
    offset_ms: AtomicI64,
}

impl AdjustableClock {
    /// A clock that is `offset_ms` ahead of the system's. A held one moves only when it is told to.
    pub(crate) fn new(offset_ms: i64, held: bool) -> Self {
        Self { held_at: held.then(system_time), offset_ms: AtomicI64::new(offset_ms) }
    }

    fn base(&self) -> Timestamp {
        self.held_at.unwrap_or_else(system_time)
    }

    /// What it shows.
    pub(crate) fn now(&self) -> Timestamp {
        let base = self.base();
        let offset = SignedDuration::from_millis(self.offset_ms.load(Ordering::SeqCst));
        base.checked_add(offset).unwrap_or(base)
    }

    /// How far it is ahead of the system's, in milliseconds.
    pub(crate) fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::SeqCst)
    }

    /// Moves it ahead.
    pub(crate) fn advance(&self, seconds: i64) -> Result<(), OutOfRange> {
        let to = self.now().checked_add(SignedDuration::from_secs(seconds)).map_err(|_| OutOfRange)?;
        check(to)?;
        self.offset_ms.fetch_add(seconds.saturating_mul(1000), Ordering::SeqCst);
        Ok(())
    }

    /// Makes it show `to`.
    pub(crate) fn set(&self, to: Timestamp) -> Result<(), OutOfRange> {
        check(to)?;
        let offset_ms = to.as_millisecond().saturating_sub(self.base().as_millisecond());
        self.offset_ms.store(offset_ms, Ordering::SeqCst);
        Ok(())
    }
}

fn check(to: Timestamp) -> Result<(), OutOfRange> {
    if (EARLIEST_MS..=LATEST_MS).contains(&to.as_millisecond()) { Ok(()) } else { Err(OutOfRange) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_clock_moves_only_when_told() -> Result<(), Box<dyn std::error::Error>> {
        let clock = AdjustableClock::new(0, true);
        let begin = clock.now();
        assert_eq!(clock.now(), begin);
        clock.advance(61)?;
        assert_eq!(clock.now().duration_since(begin), SignedDuration::from_secs(61));
        let midnight: Timestamp = "2026-12-01T23:59:59+09:00".parse()?;
        clock.set(midnight)?;
        assert_eq!(clock.now().as_millisecond(), midnight.as_millisecond());
        assert!(clock.set("3026-12-01T00:00:00Z".parse()?).is_err());
        assert!(clock.advance(i64::MAX).is_err());
        assert_eq!(clock.now().as_millisecond(), midnight.as_millisecond());
        Ok(())
    }
}
