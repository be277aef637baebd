//! The queue between relay and notifier, as SQS behaves with its function: what is not done comes again, and what is
//! not done after five times is set aside.

use crate::{bank::Bank, faults::FaultBox};
use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use futures_util::future::BoxFuture;
use shared::{
    queue::{Queue, QueueError},
    random,
    store::deadline::Deadline,
    telemetry::chain,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    task::JoinSet,
};

/// After how long a message that was not done comes again. SQS would hide it for longer than a lease; nobody wants to
/// wait for that here.
const VISIBILITY: Duration = Duration::from_secs(1);
/// How often a message is received before it is set aside.
const RECEIVES_MAX: u32 = 5;
/// The function's time for one message.
const DELIVERY_TIME: Duration = Duration::from_secs(30);
/// Deliveries at the same time.
const CONCURRENCY: usize = 8;

/// One message.
pub(crate) struct Message {
    id: String,
    body: String,
    receives: u32,
}

/// How much the queue has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Messages waiting, hidden or being delivered.
    pub(crate) unfinished: u64,
    /// Messages accepted by the notifier.
    pub(crate) done: u64,
    /// Messages set aside.
    pub(crate) dead: u64,
}

/// The sending end. It is not bounded: what is on it is in the outbox too, and in memory it is small.
pub(crate) struct LocalQueue {
    sender: mpsc::UnboundedSender<Message>,
    faults: Arc<FaultBox>,
    counts: watch::Sender<Counts>,
}

impl LocalQueue {
    /// A queue and its receiving end.
    pub(crate) fn new(faults: Arc<FaultBox>) -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender, faults, counts: watch::Sender::default() }, receiver)
    }

    /// How much it has done.
    pub(crate) fn counts(&self) -> watch::Receiver<Counts> {
        self.counts.subscribe()
    }

    fn put(&self, message: Message) -> Result<(), QueueError> {
        self.sender.send(message).map_err(|_| QueueError("the queue is closed".into()))
    }

    fn finished(&self, done: bool) {
        self.counts.send_modify(|counts| {
            counts.unfinished = counts.unfinished.saturating_sub(1);
            if done {
                counts.done = counts.done.saturating_add(1);
            } else {
                counts.dead = counts.dead.saturating_add(1);
            }
        });
    }
}

impl Queue for LocalQueue {
    fn send(&self, body: String) -> BoxFuture<'_, Result<(), QueueError>> {
        Box::pin(async move {
            for _ in 0..self.faults.deliveries() {
                self.counts.send_modify(|counts| counts.unfinished = counts.unfinished.saturating_add(1));
                self.put(Message { id: random::name(), body: body.clone(), receives: 0 })?;
            }
            Ok(())
        })
    }
}

/// Delivers until `stop`; what is being delivered then is finished, and what waits is found in the outbox next time.
pub(crate) async fn run(
    bank: Arc<Bank>,
    mut receiver: mpsc::UnboundedReceiver<Message>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONCURRENCY));
    let mut deliveries = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            receiver.recv().await.map(|message| (place, message))
        };
        let (place, message) = tokio::select! {
            () = crate::server::stopped(&mut stop) => break,
            next = next => match next { Some(next) => next, None => break },
        };
        let bank = Arc::clone(&bank);
        deliveries.spawn(async move {
            receive(&bank, message).await;
            drop(place);
        });
        while deliveries.try_join_next().is_some() {}
    }
    deliveries.join_all().await;
}

async fn receive(bank: &Arc<Bank>, mut message: Message) {
    message.receives = message.receives.saturating_add(1);
    if is_done(bank, &message).await {
        bank.queue.finished(true);
    } else if message.receives >= RECEIVES_MAX {
        bank.queue.finished(false);
        tracing::error!(alarm = "dead-letter", message_id = message.id, "a message was received too often");
    } else {
        let bank = Arc::clone(bank);
        tokio::spawn(async move {
            tokio::time::sleep(VISIBILITY).await;
            if let Err(error) = bank.queue.put(message) {
                tracing::info!(error = %chain(&error), "a message waits for the next start");
            }
        });
    }
}

/// Whether the notifier accepted the message. A delivery whose process is told to die is dropped where it stands.
async fn is_done(bank: &Arc<Bank>, message: &Message) -> bool {
    let crash = Arc::new(Notify::new());
    let providers = bank.recorder.providers(&crash);
    let handled = notifier::handle(&bank.app, &providers, sqs_event(message), Deadline::after(DELIVERY_TIME));
    tokio::select! {
        answer = handled => match answer {
            Ok(answer) => answer.batch_item_failures.is_empty(),
            Err(error) => {
                tracing::error!(error = %chain(error.as_ref()), "the notifier failed");
                false
            }
        },
        () = crash.notified() => false,
    }
}

fn sqs_event(message: &Message) -> SqsEvent {
    let mut record = SqsMessage::default();
    record.message_id = Some(message.id.clone());
    record.body = Some(message.body.clone());
    record.event_source = Some("aws:sqs".to_owned());
    record.attributes.insert("ApproximateReceiveCount".to_owned(), message.receives.to_string());
    let mut event = SqsEvent::default();
    event.records.push(record);
    event
}
