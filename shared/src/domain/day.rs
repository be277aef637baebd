//! Calendar days in the bank's time zone.

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use std::fmt;

/// The time zone in which a day begins and ends.
#[derive(Debug, Clone)]
pub struct BankZone(TimeZone);

/// No such time zone.
#[derive(Debug, thiserror::Error)]
#[error("is not an IANA time zone such as Asia/Tokyo")]
pub struct ZoneFault(#[source] jiff::Error);

impl BankZone {
    /// Takes an IANA name.
    ///
    /// # Errors
    /// [`ZoneFault`] if the time zone database has no such name.
    pub fn parse(name: &str) -> Result<Self, ZoneFault> {
        TimeZone::get(name).map(Self).map_err(ZoneFault)
    }

    /// The day that `at` falls on.
    #[must_use]
    pub fn day(&self, at: Timestamp) -> Day {
        Day(at.to_zoned_datetime(self.0.clone()).date())
    }

    /// The first instant after `day`, as RFC 3339 with the zone's offset (`2026-12-02T00:00:00+09:00`).
    #[must_use]
    pub fn end_of(&self, day: Day) -> String {
        let next = day.0.saturating_add(jiff::Span::new().days(1));
        next.to_zoned_datetime(self.0.clone())
            .map_or_else(|_| next.to_string(), |zoned| zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
    }
}

/// A calendar day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(Date);

impl Day {
    /// Takes `20261201`.
    #[must_use]
    pub fn parse(compact: &str) -> Option<Self> {
        if compact.len() != 8 || !compact.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let year: i16 = compact.get(..4)?.parse().ok()?;
        let month: i8 = compact.get(4..6)?.parse().ok()?;
        let day: i8 = compact.get(6..)?.parse().ok()?;
        Date::new(year, month, day).ok().map(Self)
    }

    /// The day before, this day and the day after: those that a posting now under way may be frozen to.
    #[must_use]
    pub fn with_neighbours(self) -> [Self; 3] {
        let one = jiff::Span::new().days(1);
        [Self(self.0.saturating_sub(one)), self, Self(self.0.saturating_add(one))]
    }

    /// Whether an allowance of this day may be deleted on `today`: it must be at least two days old. Yesterday's stays,
    /// since an attempt that was frozen before midnight may still arrive and would find a full allowance again.
    #[must_use]
    pub fn is_stale(self, today: Self) -> bool {
        self.0 <= today.0.saturating_sub(jiff::Span::new().days(2))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:02}{:02}", self.0.year(), self.0.month(), self.0.day())
    }
}

impl fmt::Debug for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{BankZone, Day};

    #[test]
    fn a_day_turns_at_midnight_in_japan() -> Result<(), Box<dyn std::error::Error>> {
        let zone = BankZone::parse("Asia/Tokyo")?;
        assert_eq!(zone.day("2026-12-01T14:59:59.999Z".parse()?).to_string(), "20261201");
        assert_eq!(zone.day("2026-12-01T15:00:00Z".parse()?).to_string(), "20261202");
        assert_eq!(zone.end_of(zone.day("2026-12-01T00:00:00Z".parse()?)), "2026-12-02T00:00:00+09:00");
        Ok(())
    }

    #[test]
    fn only_a_day_two_days_old_is_stale() -> Result<(), Box<dyn std::error::Error>> {
        let day = |text| Day::parse(text).ok_or("day");
        let today = day("20260301")?;
        for (text, stale) in [("20260302", false), ("20260301", false), ("20260228", false), ("20260227", true)] {
            assert_eq!(day(text)?.is_stale(today), stale, "{text}");
        }
        assert!(Day::parse("2026-3-1").is_none());
        assert!(Day::parse("20261301").is_none());
        Ok(())
    }

    #[test]
    fn an_unknown_zone_is_refused() {
        assert!(BankZone::parse("Asia/Edo").is_err());
    }
}
