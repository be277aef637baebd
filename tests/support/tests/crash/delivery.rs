//! Kills of relay and notifier, and the stream's and the queue's repeats.

use crate::{
    front::Point,
    world::{Api, Driven, Person, World},
};
use serde_json::json;
use shared::domain::notification::{
    Channel,
    NotificationState::{self, Pending, Sending, Sent, Unknown},
};
use support::driver::events::{batch_failures, sqs_event, stream_event};

struct Setting {
    world: World,
    api: Api,
    relay: Driven,
    notifier: Driven,
    sweeper: Driven,
    ren: Person,
}

async fn setting() -> Setting {
    let world = World::new().await;
    Setting {
        api: world.api().await,
        relay: world.function("relay").await,
        notifier: world.function("notifier").await,
        sweeper: world.function("sweeper").await,
        ren: world.person("ren", 0).await,
        world,
    }
}

impl Setting {
    /// Posts a transfer of somebody new, and gives its outbox item and its payer.
    async fn posted(&self, name: &str) -> (serde_json::Value, Person) {
        let aoi = self.world.person(&format!("aoi-{name}"), 1).await;
        let before = self.world.outbox().await;
        self.api.posted(&aoi, &self.ren, 1).await;
        let mut items = self.world.outbox().await;
        items.retain(|item| !before.contains(item));
        assert_eq!(items.len(), 1);
        (items.remove(0), aoi)
    }

    fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut *self.world.outside.queue.lock().unwrap())
    }

    /// Gives the notifier one message; whether it is done with it.
    async fn deliver(&self, message: &str) -> bool {
        let response = self.notifier.respond(&sqs_event([("m", message)])).await;
        batch_failures(&response).unwrap().is_empty()
    }

    /// The states of a person's mail and push, and how often the providers accepted each.
    async fn told(&self, person: &Person) -> [(Option<NotificationState>, usize); 2] {
        let rows = self.world.store.all_notifications().await.unwrap().1;
        let state = |channel: Channel| {
            rows.iter().find(|row| row.recipient == person.user && row.channel == channel).map(|row| row.state)
        };
        let count = |accepted: &std::sync::Mutex<Vec<String>>, address: String| {
            accepted.lock().unwrap().iter().filter(|accepted| **accepted == address).count()
        };
        let outside = &self.world.outside;
        [
            (state(Channel::Email), count(&outside.mails, format!("{}@example.test", person.user))),
            (state(Channel::Push), count(&outside.pushes, format!("arn:{}", person.user))),
        ]
    }
}

/// One message to the payer, one to the payee.
const RELAY_CALLS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_relay_that_died_had_sent_comes_again_and_is_told_once() {
    let on = setting().await;
    for (index, point) in Point::all(RELAY_CALLS).enumerate() {
        let (item, aoi) = on.posted(&index.to_string()).await;
        let batch = stream_event([("7", &item)]);
        on.relay.die(&batch, point).await;
        let sent = (1..=RELAY_CALLS).filter(|call| point.did(*call)).count();
        assert_eq!(on.world.outside.queue.lock().unwrap().len(), sent, "{point:?}");

        assert_eq!(on.relay.respond(&batch).await, json!({ "batchItemFailures": [] }));
        let messages = on.take_messages();
        assert_eq!(messages.len(), sent + 2);
        for message in &messages {
            assert!(on.deliver(message).await);
        }
        assert_eq!(on.told(&aoi).await, [(Some(Sent), 1), (Some(Sent), 1)], "{point:?}");
        let of_ren = on.told(&on.ren).await.map(|(_, accepted)| accepted);
        assert_eq!(of_ren, [index + 1, index + 1]);
    }
    let (item, _) = on.posted("last").await;
    assert_eq!(on.relay.calls(&stream_event([("7", &item)])).await.0, RELAY_CALLS);
}

/// The contact, the inbox, and claim, send and settlement of each channel.
const NOTIFY_CALLS: usize = 8;
const CLAIM: [usize; 2] = [3, 6];
const SEND: [usize; 2] = [4, 7];
const SETTLE: [usize; 2] = [5, 8];

#[tokio::test(flavor = "multi_thread")]
async fn a_notifier_that_died_anywhere_told_everybody_once_or_not_knowably() {
    let on = setting().await;
    for (index, point) in Point::all(NOTIFY_CALLS).enumerate() {
        let (item, aoi) = on.posted(&index.to_string()).await;
        on.relay.respond(&stream_event([("7", &item)])).await;
        // The first is to the payer; the other one is not what this is about.
        let message = on.take_messages().remove(0);
        on.notifier.die(&sqs_event([("m", message.as_str())]), point).await;
        let of_dead = [0, 1].map(|channel| {
            let state = match (point.did(2), point.did(CLAIM[channel]), point.did(SETTLE[channel])) {
                (false, ..) => None,
                (true, false, _) => Some(Pending),
                (_, true, false) => Some(Sending),
                (.., true) => Some(Sent),
            };
            (state, usize::from(point.did(SEND[channel])))
        });
        assert_eq!(on.told(&aoi).await, of_dead, "{point:?}");

        // The message comes again at once, and once more when the lease has ended. What was claimed and not settled
        // may have been sent or not; everything else is sent, once.
        let is_stuck = of_dead.iter().any(|(state, _)| *state == Some(Sending));
        assert_eq!(on.deliver(&message).await, !is_stuck, "{point:?}");
        let expected = |stuck| {
            of_dead.map(|(state, accepted)| match state {
                Some(Sending) => (Some(stuck), accepted),
                _ => (Some(Sent), 1),
            })
        };
        assert_eq!(on.told(&aoi).await, expected(Sending), "{point:?}");
        on.world.end_leases().await;
        if index % 4 < 2 {
            // The sweeper may be there first.
            let swept = on.sweeper.respond(&json!({})).await;
            assert_eq!(swept["unknown"], u64::from(is_stuck), "{point:?} {swept}");
        }
        for _ in 0..2 {
            assert!(on.deliver(&message).await, "{point:?}");
            assert_eq!(on.told(&aoi).await, expected(Unknown), "{point:?}");
        }
    }
    let (item, _) = on.posted("last").await;
    on.relay.respond(&stream_event([("7", &item)])).await;
    let message = on.take_messages().remove(0);
    assert_eq!(on.notifier.calls(&sqs_event([("m", message.as_str())])).await.0, NOTIFY_CALLS);
    on.world.assert_transfers(2 * NOTIFY_CALLS + 1).await;
}
