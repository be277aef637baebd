//! Money in integer minor units, with checked arithmetic only.

use std::fmt;

/// The largest integer that every JSON reader holds exactly (RFC 8259 §6): 2^53 − 1.
pub const MAX_MINOR: i64 = 9_007_199_254_740_991;

/// The lowest balance of an internal account, which funds customers and may be negative: as far as 64 bits reach with
/// room to spare.
pub const INTERNAL_LOWEST_MINOR: i64 = i64::MIN / 2;

/// An amount to move, in minor units: 1 … 2^53 − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i64);

/// The number is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an integer from 1 to {MAX_MINOR}")]
pub struct AmountFault;

impl Amount {
    /// Takes `minor` units.
    ///
    /// # Errors
    /// [`AmountFault`] outside 1 … 2^53 − 1.
    pub const fn parse(minor: i64) -> Result<Self, AmountFault> {
        if minor >= 1 && minor <= MAX_MINOR { Ok(Self(minor)) } else { Err(AmountFault) }
    }

    /// The amount in minor units.
    #[must_use]
    pub const fn minor(self) -> i64 {
        self.0
    }

    /// The highest balance, in minor units, to which this amount can still be credited.
    ///
    /// DynamoDB's conditions have no arithmetic, so the bound is computed here.
    #[must_use]
    pub const fn highest_creditable_balance(self) -> i64 {
        MAX_MINOR.saturating_sub(self.0)
    }
}

/// An ISO 4217 currency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Currency(iso_currency::Currency);

/// The text is not an ISO 4217 code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an ISO 4217 code such as JPY")]
pub struct CurrencyFault;

impl Currency {
    /// Takes the three upper-case letters of ISO 4217.
    ///
    /// # Errors
    /// [`CurrencyFault`] if there is no such code.
    pub fn parse(code: &str) -> Result<Self, CurrencyFault> {
        iso_currency::Currency::from_code(code).map(Self).ok_or(CurrencyFault)
    }

    /// The three letters.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// `minor` units as people write them: digits grouped by three, the currency's own number of decimals, the code in
    /// front (`JPY 40,000`, `USD 12.34`).
    #[must_use]
    pub fn format(self, minor: i64) -> String {
        let decimals = usize::from(self.0.exponent().unwrap_or(0));
        let digits = format!("{:0>width$}", minor.unsigned_abs(), width = decimals.saturating_add(1));
        let (whole, fraction) = digits.split_at(digits.len().saturating_sub(decimals));
        let mut text = format!("{} ", self.code());
        if minor < 0 {
            text.push('-');
        }
        for (index, digit) in whole.chars().enumerate() {
            if index > 0 && whole.len().saturating_sub(index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        if !fraction.is_empty() {
            text.push('.');
            text.push_str(fraction);
        }
        text
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, Currency, MAX_MINOR};
    use proptest::prelude::*;

    #[test]
    fn amounts_have_both_ends() {
        for (minor, valid) in
            [(i64::MIN, false), (-1, false), (0, false), (1, true), (MAX_MINOR, true), (MAX_MINOR + 1, false)]
        {
            assert_eq!(Amount::parse(minor).is_ok(), valid, "{minor}");
        }
    }

    #[test]
    fn currencies_are_upper_case_iso_codes() {
        assert!(Currency::parse("JPY").is_ok());
        for code in ["jpy", "JP", "JPYX", "", "ABC", "ＪＰＹ"] {
            assert!(Currency::parse(code).is_err(), "{code}");
        }
    }

    #[test]
    fn money_reads_as_people_write_it() -> Result<(), super::CurrencyFault> {
        let (yen, dollar, dinar) = (Currency::parse("JPY")?, Currency::parse("USD")?, Currency::parse("KWD")?);
        assert_eq!(yen.format(40_000), "JPY 40,000");
        assert_eq!(yen.format(999), "JPY 999");
        assert_eq!(yen.format(MAX_MINOR), "JPY 9,007,199,254,740,991");
        assert_eq!(yen.format(-1_000), "JPY -1,000");
        assert_eq!(dollar.format(123_456), "USD 1,234.56");
        assert_eq!(dollar.format(5), "USD 0.05");
        assert_eq!(dinar.format(1_234), "KWD 1.234");
        Ok(())
    }

    proptest! {
        #[test]
        fn crediting_up_to_the_bound_never_passes_the_maximum(minor in 1..=MAX_MINOR) {
            let amount = Amount::parse(minor).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(amount.highest_creditable_balance().checked_add(minor), Some(MAX_MINOR));
        }

        #[test]
        fn formatting_loses_no_digit(minor in 0..=MAX_MINOR) {
            let text = Currency::parse("USD").map(|c| c.format(minor)).unwrap_or_default();
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            prop_assert_eq!(digits.parse::<i64>().ok(), Some(minor));
        }
    }
}
