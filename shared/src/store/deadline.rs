//! How long a call may still take, and how it waits between attempts.

use std::time::Duration;
use tokio::time::Instant;

/// The instant by which a call has to answer.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

/// What is kept back for a last read and the answer once writing has to stop.
const RESERVE: Duration = Duration::from_millis(400);
/// Below this, another attempt is not worth its beginning.
const LEAST: Duration = Duration::from_millis(50);

impl Deadline {
    /// `left` from now.
    #[must_use]
    pub fn after(left: Duration) -> Self {
        let now = Instant::now();
        Self(now.checked_add(left).unwrap_or(now))
    }

    /// The same deadline less what a last read and the answer take: for writes that may have to be given up.
    #[must_use]
    pub fn for_writing(self) -> Self {
        Self(self.0.checked_sub(RESERVE).unwrap_or(self.0))
    }

    /// How long is left; zero if it has passed.
    #[must_use]
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether another attempt can still be made.
    #[must_use]
    pub fn has_time(self) -> bool {
        self.left() > LEAST
    }

    /// Whether `time` is still left.
    #[must_use]
    pub fn has(self, time: Duration) -> bool {
        self.left() >= time
    }

    /// What `future` gives, or `None` if the deadline comes first.
    pub async fn run<T>(self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.0, future).await.ok()
    }
}

/// Waits with full jitter between attempts: the first up to 10 ms, then doubling to 320 ms at most. Without jitter, two
/// transfers in opposite directions would keep meeting.
#[derive(Debug)]
pub struct Backoff {
    deadline: Deadline,
    ceiling_ms: u64,
}

const FIRST_CEILING_MS: u64 = 10;
const LAST_CEILING_MS: u64 = 320;

impl Backoff {
    /// Waits until `deadline` at most.
    #[must_use]
    pub const fn until(deadline: Deadline) -> Self {
        Self { deadline, ceiling_ms: FIRST_CEILING_MS }
    }

    /// Waits before another attempt; `false` if there is no time for one.
    pub async fn wait(&mut self) -> bool {
        let wait = Duration::from_millis(crate::random::below(self.ceiling_ms));
        self.ceiling_ms = self.ceiling_ms.saturating_mul(2).min(LAST_CEILING_MS);
        if self.deadline.left() <= wait.saturating_add(LEAST) {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }
}
