//! What came of a command, for people and for programs.

use serde_json::{Value, json};
use shared::{cipher::CipherError, queue::QueueError, store::StoreError};

/// What a command has to say.
#[derive(Debug)]
pub struct Answer {
    /// For programs.
    pub json: Value,
    /// For people.
    pub text: String,
    /// Whether all is well: if not, the exit code is 1.
    pub is_good: bool,
}

impl Answer {
    /// An answer with which all is well.
    #[must_use]
    pub fn good(json: Value, text: impl Into<String>) -> Self {
        Self { json, text: text.into(), is_good: true }
    }
}

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The command or the configuration is not usable.
    #[error("{0}")]
    Usage(String),
    /// A rule speaks against it: nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// The database did not do it, or did not say.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The queue did not do it, or did not say.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A secret could not be sealed.
    #[error(transparent)]
    Cipher(#[from] CipherError),
}

impl Fault {
    /// The process's exit code.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) => 1,
            Self::Usage(_) => 2,
            Self::Store(_) | Self::Queue(_) | Self::Cipher(_) => 3,
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Usage(_) => "usage",
            Self::Store(StoreError::Rejected(_)) => "rejected",
            Self::Store(_) | Self::Queue(_) | Self::Cipher(_) => "unknown",
        }
    }

    /// What went wrong, with its causes, in one line. A cause that only repeats what was said is left out.
    #[must_use]
    pub fn line(&self) -> String {
        let causes = std::iter::successors(Some(self as &dyn std::error::Error), |error| error.source());
        let mut parts: Vec<String> = Vec::new();
        for cause in causes.map(ToString::to_string) {
            if !parts.iter().any(|part| part.contains(&cause)) {
                parts.push(cause);
            }
        }
        parts.join(": ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The same for programs: `usage`, `refused` and `rejected` changed nothing; after `unknown`, look.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "error": { "kind": self.kind(), "message": self.line() } })
    }
}
