//! Faults that are made on purpose: lost replies, repeated events, providers that refuse, crashes.

use serde_json::{Value, json};
use shared::domain::notification::Channel;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most that any of the counts can be set to.
pub(crate) const FAULTS_MAX: i64 = 1_000;
/// The most times that one event is delivered.
pub(crate) const DELIVERIES_MAX: i64 = 100;

/// The faults now set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// The next confirms that commit and are not answered.
    pub(crate) drop_confirm_replies: i64,
    /// How often each event is delivered; 0 and 1 both mean once.
    pub(crate) deliver_events_times: i64,
    /// The channel whose provider refuses.
    pub(crate) fail_channel: Option<Channel>,
    /// Its next calls that are refused.
    pub(crate) fail_times: i64,
    /// The next calls that a provider accepts and whose caller dies before it writes that down.
    pub(crate) crash_after_send: i64,
}

impl Faults {
    /// As the route answers them.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "drop_confirm_replies": self.drop_confirm_replies,
            "deliver_events_times": self.deliver_events_times.max(1),
            "fail_channel": self.fail_channel.map(Channel::as_str),
            "fail_times": self.fail_times,
            "crash_after_send": self.crash_after_send,
        })
    }
}

/// The faults, shared by those who act on them.
#[derive(Debug, Default)]
pub(crate) struct FaultBox(Mutex<Faults>);

impl FaultBox {
    fn lock(&self) -> MutexGuard<'_, Faults> {
        // Nothing that holds the lock can leave the numbers half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes them; the faults then set.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Faults)) -> Faults {
        let mut faults = self.lock();
        change(&mut faults);
        *faults
    }

    /// Whether the reply to this confirm is to be lost.
    pub(crate) fn take_lost_reply(&self) -> bool {
        take(&mut self.lock().drop_confirm_replies)
    }

    /// Whether the provider of `channel` is to refuse this call.
    pub(crate) fn take_refusal(&self, channel: Channel) -> bool {
        let mut faults = self.lock();
        faults.fail_channel == Some(channel) && take(&mut faults.fail_times)
    }

    /// Whether the caller is to die now that its provider has accepted.
    pub(crate) fn take_crash(&self) -> bool {
        take(&mut self.lock().crash_after_send)
    }

    /// How often an event is delivered.
    pub(crate) fn deliveries(&self) -> i64 {
        self.lock().deliver_events_times.max(1)
    }
}

fn take(count: &mut i64) -> bool {
    let some = *count > 0;
    *count = count.saturating_sub(i64::from(some));
    some
}
