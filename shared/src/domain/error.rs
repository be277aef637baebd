//! Business refusals, by name, in their documented order.

/// Why an instruction cannot be admitted or posted: the rules of the bank, not faults of the machinery.
///
/// The variants stand in the order in which a confirm reports them; `admit` has its own order (see
/// [`crate::domain::posting`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// TR006: the source account is frozen or closed.
    #[error("the source account is not available")]
    SourceUnavailable,
    /// TR007: the holder of the source account is not verified.
    #[error("the identity of the account holder is not verified")]
    IdentityNotVerified,
    /// TR014: an account cannot be credited from itself.
    #[error("source and destination are the same account")]
    SameAccount,
    /// TR005: the destination does not exist, is not active or cannot hold the amount.
    #[error("the destination account is not available")]
    DestinationUnavailable,
    /// TR015: the accounts or the instruction are in different currencies.
    #[error("the accounts are not in the instruction's currency")]
    CurrencyMismatch,
    /// TR016: one transfer may not be this large.
    #[error("the amount is over the account's limit for one transfer")]
    PerTransferLimit,
    /// TR008: the balance does not cover the amount.
    #[error("the balance does not cover the amount")]
    InsufficientFunds,
    /// TR012: the day's amount is used up.
    #[error("the amount is over what is left of the day's limit")]
    DailyAmount,
    /// TR013: the day's number of transfers is used up.
    #[error("the day's number of transfers is used up")]
    DailyCount,
}

impl Refusal {
    /// Every refusal, in order.
    pub const ALL: [Self; 9] = [
        Self::SourceUnavailable,
        Self::IdentityNotVerified,
        Self::SameAccount,
        Self::DestinationUnavailable,
        Self::CurrencyMismatch,
        Self::PerTransferLimit,
        Self::InsufficientFunds,
        Self::DailyAmount,
        Self::DailyCount,
    ];

    /// The code that clients branch on, and that a failed instruction stores.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::SourceUnavailable => "TR006",
            Self::IdentityNotVerified => "TR007",
            Self::SameAccount => "TR014",
            Self::DestinationUnavailable => "TR005",
            Self::CurrencyMismatch => "TR015",
            Self::PerTransferLimit => "TR016",
            Self::InsufficientFunds => "TR008",
            Self::DailyAmount => "TR012",
            Self::DailyCount => "TR013",
        }
    }

    /// Takes a stored code.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    /// Whether the refusal ends with the day that it was made on.
    #[must_use]
    pub const fn is_daily(self) -> bool {
        matches!(self, Self::DailyAmount | Self::DailyCount)
    }
}
