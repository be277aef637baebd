//! The providers of mail and push messages: they keep what they are given, and fail when they are told to.

use crate::{faults::FaultBox, keep::Keep};
use futures_util::future::BoxFuture;
use shared::{
    channel::{Delivery, DeliveryFault, Provider},
    domain::notification::Channel,
};
use std::sync::Arc;
use tokio::sync::Notify;

/// What all providers share.
pub(crate) struct Recorder {
    pub(crate) keep: Keep,
    pub(crate) faults: Arc<FaultBox>,
}

/// One channel's provider, for one delivery.
struct RecordingProvider {
    recorder: Arc<Recorder>,
    channel: Channel,
    crash: Arc<Notify>,
}

impl Recorder {
    /// A provider per channel, for one delivery. `crash` is told when that delivery's process has to die.
    pub(crate) fn providers(self: &Arc<Self>, crash: &Arc<Notify>) -> Vec<Box<dyn Provider>> {
        let provider = |channel: &Channel| -> Box<dyn Provider> {
            Box::new(RecordingProvider { recorder: Arc::clone(self), channel: *channel, crash: Arc::clone(crash) })
        };
        Channel::ALL.iter().map(provider).collect()
    }
}

impl Provider for RecordingProvider {
    fn channel(&self) -> Channel {
        self.channel
    }

    fn deliver<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), DeliveryFault>> {
        Box::pin(async move {
            let Recorder { keep, faults } = self.recorder.as_ref();
            let refused = faults.take_refusal(self.channel);
            let accepted = (!refused).then_some(&delivery.message);
            keep.note_call(&delivery.idempotency_key, accepted).await.map_err(DeliveryFault::Undecided)?;
            if refused {
                return Err(DeliveryFault::Refused("a fault was set for this channel".into()));
            }
            if faults.take_crash() {
                self.crash.notify_one();
                // The process dies here: it never learns that the provider accepted.
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }
}
