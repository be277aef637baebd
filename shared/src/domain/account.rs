//! Accounts, their limits, and what is left of a day's limits.

use crate::domain::{
    day::Day,
    id::{AccountId, IdFault, UserId},
    money::Currency,
};
use std::collections::BTreeMap;

macro_rules! stored_words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that items and answers carry.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Takes that word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }
    };
}
pub(crate) use stored_words;

stored_words!(
    /// Whether an account takes part in postings.
    AccountStatus {
        /// It does.
        Active = "ACTIVE",
        /// It does not, for now.
        Frozen = "FROZEN",
        /// It never will again.
        Closed = "CLOSED",
    }
);

stored_words!(
    /// Whose money an account holds.
    AccountKind {
        /// A customer's: never negative.
        Customer = "CUSTOMER",
        /// The bank's own, the other side of deposits: may be negative.
        Internal = "INTERNAL",
    }
);

/// The limits that an account's debits are held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most that may be debited in one day, in minor units.
    pub daily_amount_minor: i64,
    /// The most transfers that may be made in one day.
    pub daily_count: i64,
    /// The most that one transfer may move, in minor units.
    pub per_transfer_minor: i64,
}

/// What is left of one day's limits. Lowering a limit below what was already used leaves less than nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Minor units that may still be debited.
    pub amount_minor: i64,
    /// Transfers that may still be made.
    pub count: i64,
}

/// An account as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Who may move its money.
    pub owner: UserId,
    /// The name that a payer is shown.
    pub holder_name: String,
    /// Its one currency.
    pub currency: Currency,
    /// Whether it takes part in postings.
    pub status: AccountStatus,
    /// Whether its holder's identity is verified; only then may it be debited.
    pub identity_verified: bool,
    /// The sum of its entries, in minor units.
    pub balance_minor: i64,
    /// The limits now in force.
    pub limits: Limits,
    /// Customer or internal.
    pub kind: AccountKind,
    /// What is left of each day on which it was debited, as far as not yet removed.
    pub allowances: BTreeMap<Day, Allowance>,
}

/// Who owns the internal accounts.
pub const BANK_ID: &str = "bank";
const BANK_NAME: &str = "furikomi bank";

impl Account {
    /// The bank's own account in `currency`, not opened yet: where the money of deposits comes from.
    ///
    /// # Errors
    /// [`IdFault`] if the currency's code cannot name an account.
    pub fn internal(currency: Currency) -> Result<Self, IdFault> {
        Ok(Self {
            id: AccountId::parse(&format!("internal-{}", currency.code()))?,
            owner: UserId::parse(BANK_ID)?,
            holder_name: BANK_NAME.to_owned(),
            currency,
            status: AccountStatus::Active,
            identity_verified: true,
            balance_minor: 0,
            limits: Limits { daily_amount_minor: 0, daily_count: 0, per_transfer_minor: 0 },
            kind: AccountKind::Internal,
            allowances: BTreeMap::new(),
        })
    }

    /// What is left on `day`: the whole limits if nothing was debited yet.
    #[must_use]
    pub fn left_on(&self, day: Day) -> Allowance {
        self.allowances
            .get(&day)
            .copied()
            .unwrap_or(Allowance { amount_minor: self.limits.daily_amount_minor, count: self.limits.daily_count })
    }

    /// Whether a transfer can be credited to or debited from it at all.
    #[must_use]
    pub fn is_active_customer(&self) -> bool {
        self.status == AccountStatus::Active && self.kind == AccountKind::Customer
    }

    /// The days whose allowances the next debit shall remove (see [`Day::is_stale`]), oldest first, at most `max`.
    #[must_use]
    pub fn stale_days(&self, today: Day, max: usize) -> Vec<Day> {
        self.allowances.keys().copied().filter(|day| day.is_stale(today)).take(max).collect()
    }
}
