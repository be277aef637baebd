//! One notification per (event, channel), whatever the queue, the processes and the providers do.

use crate::{
    bank::{Bank, Person, soon},
    client::{key, transfer},
    fakes::{Act, sqs_batch},
};
use futures_util::future::join_all;
use shared::{
    domain::{
        event::Event,
        notification::{
            Channel,
            NotificationState::{self, Failed, Pending, Sending, Sent, Unknown},
        },
    },
    queue::from_cloud_event,
    store::deliver::{Claim, NotificationRow},
};

struct Setting {
    bank: Bank,
    aoi: Person,
    /// The two messages of one posted transfer: to the payer, to the payee.
    messages: Vec<String>,
}

async fn posted() -> Setting {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", 100).await, bank.person("ren", 0).await);
    let phone = bank.client(&aoi, "s1");
    let id = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 1)).await.id();
    assert_eq!(phone.confirm(&id).await.status, 200);
    bank.relay().await;
    let messages: Vec<String> = bank.queue.messages.lock().unwrap().drain(..).collect();
    assert_eq!(messages.len(), 2);
    Setting { bank, aoi, messages }
}

/// Delivers messages in one batch; whether each is done.
async fn deliver(bank: &Bank, messages: &[&String]) -> Vec<bool> {
    let ids: Vec<String> = (0..messages.len()).map(|index| index.to_string()).collect();
    let batch = sqs_batch(ids.iter().zip(messages.iter().copied()));
    let answer = notifier::handle(&bank.app, &bank.providers, batch, soon()).await.unwrap();
    ids.iter().map(|id| answer.batch_item_failures.iter().all(|failure| failure.item_identifier != *id)).collect()
}

impl Setting {
    fn event(&self) -> Event {
        from_cloud_event(&self.messages[0]).unwrap()
    }

    async fn rows(&self) -> Vec<NotificationRow> {
        self.bank.app.store.notification_rows(&self.event().id, soon()).await.unwrap()
    }

    /// The states of the payer's mail and push.
    async fn states(&self) -> Vec<NotificationState> {
        self.rows().await.iter().map(|row| row.state).collect()
    }

    fn accepted(&self) -> (usize, usize) {
        (self.bank.mail.accepted(), self.bank.push.accepted())
    }

    /// The rows of the payer's event, made by a process that died before it sent anything.
    async fn died_between_rows_and_sends(&self) -> Vec<NotificationRow> {
        let (store, event) = (&self.bank.app.store, self.event());
        let contact = store.contact(&self.aoi.user, soon()).await.unwrap();
        store.open_inbox(&event.id, &self.aoi.user, contact.as_ref(), self.bank.now(), soon()).await.unwrap()
    }

    /// Delivers the payer's event in a process that dies right after the mail was accepted.
    async fn died_after_the_mail(&self) {
        self.bank.mail.then([Act::AcceptAndHang]);
        let process = self.bank.restarted().await;
        let message = self.messages[0].clone();
        let dying = tokio::spawn(async move { deliver(&process, &[&message]).await });
        while self.bank.mail.accepted() == 0 {
            tokio::task::yield_now().await;
        }
        dying.abort();
        assert!(dying.await.unwrap_err().is_cancelled());
    }
}

#[tokio::test]
async fn an_event_that_arrives_five_times_is_told_once_on_each_channel() {
    let on = posted().await;
    for _ in 0..5 {
        assert_eq!(deliver(&on.bank, &[&on.messages[0], &on.messages[1]]).await, [true, true]);
    }
    let twice_in_one_batch = [&on.messages[0], &on.messages[0], &on.messages[1]];
    assert_eq!(deliver(&on.bank, &twice_in_one_batch).await, [true; 3]);
    assert_eq!(on.accepted(), (2, 2));
    let told: std::collections::BTreeSet<_> =
        on.bank.mail.deliveries.lock().unwrap().iter().map(|delivery| delivery.address.clone()).collect();
    assert_eq!(told.len(), 2, "the payee's mail is not the payer's duplicate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_processes_at_once_tell_an_event_once() {
    let on = posted().await;
    let mut deliveries = Vec::new();
    for process in join_all((0..10).map(|_| on.bank.restarted())).await {
        let messages = on.messages.clone();
        deliveries.push(tokio::spawn(async move { deliver(&process, &[&messages[0], &messages[1]]).await }));
    }
    for delivery in deliveries {
        delivery.await.unwrap();
    }
    assert_eq!(on.accepted(), (2, 2));
    // Those that met a row in another's hands have it come again; by then it is done.
    assert_eq!(deliver(&on.bank, &[&on.messages[0], &on.messages[1]]).await, [true, true]);
    assert_eq!(on.accepted(), (2, 2));
    assert_eq!(on.states().await, [Sent, Sent]);
}

#[tokio::test]
async fn the_order_in_which_events_arrive_does_not_matter() {
    let on = posted().await;
    let [sent, received] = [&on.messages[0], &on.messages[1]];
    for batch in [vec![received], vec![received, sent], vec![sent, received, sent]] {
        assert!(deliver(&on.bank, &batch).await.iter().all(|done| *done));
    }
    assert_eq!(on.accepted(), (2, 2));
}

#[tokio::test]
async fn a_crash_between_the_rows_and_the_sends_loses_nothing() {
    let on = posted().await;
    let rows = on.died_between_rows_and_sends().await;
    assert_eq!((rows.len(), on.states().await), (2, vec![Pending, Pending]));
    assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [true]);
    assert_eq!((on.accepted(), on.states().await), ((1, 1), vec![Sent, Sent]));
}

#[tokio::test]
async fn a_crash_after_a_send_is_undecided_and_never_repeated() {
    let on = posted().await;
    on.died_after_the_mail().await;
    assert_eq!(on.states().await, [Sending, Pending]);

    // Within the lease the message has to come again; the other channel is served meanwhile.
    assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [false]);
    assert_eq!((on.accepted(), on.states().await), ((1, 1), vec![Sending, Sent]));
    on.bank.advance_ms(59_999);
    assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [false]);
    assert_eq!(on.states().await, [Sending, Sent]);

    // After it the row is undecidable, and the message done.
    on.bank.advance_ms(1);
    assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [true]);
    assert_eq!(on.states().await, [Unknown, Sent]);
    for _ in 0..3 {
        on.bank.advance_s(3_600);
        on.bank.sweep().await;
        assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [true]);
    }
    assert_eq!((on.accepted(), on.states().await), ((1, 1), vec![Unknown, Sent]));
}

#[tokio::test]
async fn the_sweeper_calls_a_send_unknown_whose_message_never_came_again() {
    let on = posted().await;
    on.died_after_the_mail().await;
    on.bank.advance_ms(59_999);
    assert_eq!(on.bank.sweep().await.unknown, 0);
    on.bank.advance_ms(1);
    assert_eq!(on.bank.sweep().await.unknown, 1);
    assert_eq!(on.states().await, [Unknown, Pending]);
    assert_eq!(on.bank.sweep().await, sweeper::Swept::default());
    assert_eq!(on.bank.mail.accepted(), 1);
}

#[tokio::test]
async fn a_late_holder_may_say_sent_and_nothing_else() {
    for (said, written) in [(Sent, true), (Failed, false), (Pending, false)] {
        let on = posted().await;
        let rows = on.died_between_rows_and_sends().await;
        let store = &on.bank.app.store;
        let Claim::Ours { id, attempts: 1 } = store.claim(&rows[0], on.bank.now(), soon()).await.unwrap() else {
            panic!("the row is free");
        };
        on.bank.advance_s(60);
        assert_eq!(on.bank.sweep().await.unknown, 1);
        assert_eq!(store.settle(&rows[0], &id, said, on.bank.now(), soon()).await.unwrap(), written, "{said:?}");
        assert_eq!(on.states().await[0], if written { Sent } else { Unknown });
        assert!(!store.settle(&rows[0], "another-claim", Sent, on.bank.now(), soon()).await.unwrap());
    }
}

#[tokio::test]
async fn a_row_that_nobody_comes_for_is_put_on_the_queue_again_from_the_outbox() {
    let on = posted().await;
    on.died_between_rows_and_sends().await;
    on.bank.advance_ms(30 * 60_000 - 1);
    assert_eq!(on.bank.sweep().await.requeued, 0);
    on.bank.advance_ms(1);
    // The queue is down for the first of the two rows.
    *on.bank.queue.failures.lock().unwrap() = 1;
    assert_eq!(on.bank.sweep().await.requeued, 1);
    assert_eq!(on.bank.sweep().await.requeued, 1, "the other is met again by the next sweep");
    assert_eq!(on.bank.sweep().await.requeued, 0, "and then not before another half hour");
    let requeued: Vec<String> = on.bank.queue.messages.lock().unwrap().iter().cloned().collect();
    assert_eq!(requeued, [on.messages[0].clone(), on.messages[0].clone()]);
    assert_eq!(on.bank.deliver().await, 0);
    assert_eq!((on.accepted(), on.states().await), ((1, 1), vec![Sent, Sent]));
    on.bank.advance_s(30 * 60);
    assert_eq!(on.bank.sweep().await.requeued, 0);
}

#[tokio::test]
async fn a_channel_that_refuses_is_tried_again_alone_and_failed_after_five_refusals() {
    for (refusals, expected) in [(4, Sent), (5, Failed), (9, Failed)] {
        let on = posted().await;
        on.bank.mail.then(vec![Act::Refuse; refusals]);
        for attempt in 1..=5 {
            let done = deliver(&on.bank, &[&on.messages[0]]).await;
            assert_eq!(done, [attempt == 5], "{refusals} refusals, attempt {attempt}");
            let rows = on.rows().await;
            assert_eq!((rows[0].attempts, rows[1].attempts), (attempt, 1));
            assert_eq!(rows[1].state, Sent);
        }
        assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [true]);
        assert_eq!(on.states().await, [expected, Sent]);
        assert_eq!(on.accepted(), (usize::from(expected == Sent), 1));
    }
}

#[tokio::test]
async fn an_undecided_send_is_unknown_at_once_and_never_called_again() {
    let on = posted().await;
    on.bank.push.then([Act::Undecided]);
    for _ in 0..3 {
        assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [true]);
        on.bank.advance_s(120);
        on.bank.sweep().await;
    }
    assert_eq!(on.states().await, [Sent, Unknown]);
    assert_eq!(on.accepted(), (1, 1));
    let channels: Vec<_> = on.rows().await.iter().map(|row| row.channel).collect();
    assert_eq!(channels, [Channel::Email, Channel::Push]);
}

#[tokio::test]
async fn terminal_rows_leave_the_index() {
    let on = posted().await;
    let client = aws_sdk_dynamodb::Client::from_conf(crate::bank::sdk_config(&on.bank.endpoint).build());
    let due = || async {
        let scan = client.scan().table_name("notifications").index_name("due").send().await.unwrap();
        scan.items().len()
    };
    on.died_between_rows_and_sends().await;
    assert_eq!(due().await, 2);
    on.bank.mail.then([Act::Refuse]);
    on.bank.push.then([Act::Undecided]);
    assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [false]);
    assert_eq!(due().await, 1, "the refused mail waits");
    assert_eq!(deliver(&on.bank, &[&on.messages[0]]).await, [true]);
    assert_eq!(due().await, 0);
}
