//! Calls that race: real tasks on several threads, over the embedded DynamoDB's real protocol.

use crate::{
    bank::{Bank, Person},
    client::{Answer, Client, key, transfer},
    look::{aoi_and_ren, requested},
};
use futures_util::future::join_all;
use serde_json::Value;
use shared::domain::instruction::State;
use std::{collections::BTreeSet, sync::Arc};

/// Runs every call at once, each as a task of its own; the answers in their order.
async fn at_once<F>(calls: impl IntoIterator<Item = F>) -> Vec<Answer>
where
    F: Future<Output = Answer> + Send + 'static,
{
    let tasks: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

fn request(phone: &Client, key: String, body: Value) -> impl Future<Output = Answer> + Send + use<> {
    let phone = phone.clone();
    async move { phone.request(&key, &body).await }
}

fn confirm(phone: &Client, id: &str) -> impl Future<Output = Answer> + Send + use<> {
    let (phone, id) = (phone.clone(), id.to_owned());
    async move { phone.confirm(&id).await }
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

fn problems(answers: &[Answer]) -> Vec<(u16, &str)> {
    let mut problems: Vec<_> = answers.iter().map(Answer::problem).collect();
    problems.sort_unstable();
    problems
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_sends_of_one_key_are_one_instruction() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let body = transfer(&aoi, &ren, 40_000);
    let answers = at_once((0..100).map(|_| request(&phone, key("one"), body.clone()))).await;
    assert_eq!((count(&answers, 201), count(&answers, 200)), (1, 99));
    for answer in &answers {
        assert_eq!(answer.body, answers[0].body);
        assert_eq!(answer.is_replayed(), answer.status == 200);
    }
    assert_eq!(bank.assert_transfers(0).await.instructions.len(), 1);
    // They used one admission together.
    for name in ["2", "3", "4", "5"] {
        assert_eq!(phone.request(&key(name), &body).await.status, 201);
    }
    assert_eq!(phone.request(&key("6"), &body).await.code(), "TR011");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_key_with_many_contents_admits_one_of_them() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    // Each of ten contents is sent five times.
    let bodies: Vec<Value> = (0..50).map(|index| transfer(&aoi, &ren, 1_000 + index % 10)).collect();
    let answers = at_once(bodies.iter().map(|body| request(&phone, key("one"), body.clone()))).await;
    assert_eq!(count(&answers, 201), 1);
    let admitted = answers.iter().position(|answer| answer.status == 201).unwrap();
    for (body, answer) in bodies.iter().zip(&answers) {
        if body == &bodies[admitted] {
            assert_eq!(answer.body, answers[admitted].body);
        } else {
            assert_eq!(answer.problem(), (422, "TR009"), "{}", answer.body);
        }
    }
    assert_eq!((count(&answers, 200), count(&answers, 422)), (4, 45));
    let books = bank.assert_transfers(0).await;
    assert_eq!(books.instructions.len(), 1);
    assert_eq!(books.instructions[0].content.amount.minor(), bodies[admitted]["amount_minor"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_confirmations_post_one_transfer() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
    let answers = at_once((0..50).map(|_| confirm(&phone, &authorized.id()))).await;
    assert_eq!(count(&answers, 200), 50, "{:?}", problems(&answers));
    let transfers: BTreeSet<&str> = answers.iter().map(|answer| answer.text("transfer_id")).collect();
    assert_eq!(transfers, BTreeSet::from([authorized.id().replace("ti_", "tr_").as_str()]));
    assert_eq!(answers.iter().filter(|answer| !answer.is_replayed()).count(), 1);
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (30_000, 40_000));
    bank.assert_transfers(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_transfers_that_one_balance_covers_one_is_posted() {
    for _ in 0..5 {
        let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
        let emi = bank.person("emi", 0).await;
        let bodies = [transfer(&aoi, &ren, 40_000), transfer(&aoi, &emi, 40_000)];
        let ids = bank.ready(&phone, &bodies, "race").await;
        let answers = at_once(ids.iter().map(|id| confirm(&phone, id))).await;
        assert_eq!(problems(&answers), [(200, ""), (422, "TR008")]);
        let received = bank.balance(&ren).await + bank.balance(&emi).await;
        assert_eq!((bank.balance(&aoi).await, received), (30_000, 40_000));
        bank.assert_transfers(1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_more_transfers_are_posted_than_the_balance_or_a_limit_covers() {
    use shared::store::accounts::AccountChange;
    let none = AccountChange::default();
    for (change, code) in [
        (none, "TR008"),
        (AccountChange { daily_amount_minor: Some(79_999), ..none }, "TR012"),
        (AccountChange { daily_count: Some(3), ..none }, "TR013"),
    ] {
        let (bank, aoi, ren, phone) = aoi_and_ren(if code == "TR008" { 79_999 } else { 500_000 }).await;
        bank.change(&aoi, change).await;
        let bodies = [1, 2, 3, 4, 5].map(|_| transfer(&aoi, &ren, 20_000));
        let ids = bank.ready(&phone, &bodies, "race").await;
        let answers = at_once(ids.iter().map(|id| confirm(&phone, id))).await;
        assert_eq!(problems(&answers), [(200, ""), (200, ""), (200, ""), (422, code), (422, code)]);
        assert_eq!(bank.balance(&ren).await, 60_000);
        bank.assert_transfers(3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn transfers_in_opposite_directions_all_end() {
    let (bank, aoi, ren, of_aoi) = aoi_and_ren(70_000).await;
    bank.deposit(&ren, 70_000).await;
    let of_ren = bank.client(&ren, "s1");
    // Five at a time each way, as many as a minute admits: twenty in all.
    for round in 0..4 {
        bank.advance_s(120);
        let mine =
            bank.ready(&of_aoi, &[1, 2, 3, 4, 5].map(|_| transfer(&aoi, &ren, 3_000)), &format!("{round}")).await;
        // The same minute again for the other side, so that all ten are usable at its end.
        bank.advance_s(-60);
        let theirs =
            bank.ready(&of_ren, &[1, 2, 3, 4, 5].map(|_| transfer(&ren, &aoi, 1_000)), &format!("{round}")).await;
        let calls = mine.iter().map(|id| (&of_aoi, id)).chain(theirs.iter().map(|id| (&of_ren, id)));
        let answers = at_once(calls.map(|(phone, id)| confirm(phone, id))).await;
        assert_eq!(count(&answers, 200), 10, "{:?}", problems(&answers));
    }
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (30_000, 110_000));
    bank.assert_transfers(40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_code_authorizes_one_of_two_instructions() {
    for _ in 0..5 {
        let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
        let two = [requested(&phone, &aoi, &ren, 1).await, requested(&phone, &aoi, &ren, 2).await];
        let code = bank.code(&aoi.user, 0);
        let answers = at_once(two.iter().map(|answer| {
            let (phone, id, code) = (phone.clone(), answer.id(), code.clone());
            let hash = answer.text("content_hash").to_owned();
            async move { phone.authorize(&id, &code, &hash).await }
        }))
        .await;
        assert_eq!(problems(&answers), [(200, ""), (403, "AU002")]);
        let states: Vec<State> = bank.books().await.instructions.iter().map(|instruction| instruction.state).collect();
        assert_eq!(states.iter().filter(|state| **state == State::Authorized).count(), 1);
        assert_eq!(bank.totp_number(&aoi, "failure_count").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_approval_sent_many_times_at_once_is_no_guess() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let code = bank.code(&aoi.user, 0);
    let answers = at_once((0..20).map(|_| {
        let (phone, id, code) = (phone.clone(), instruction.id(), code.clone());
        let hash = instruction.text("content_hash").to_owned();
        async move { phone.authorize(&id, &code, &hash).await }
    }))
    .await;
    assert_eq!(count(&answers, 200), 20, "{:?}", problems(&answers));
    assert!(answers.iter().all(|answer| answer.body == answers[0].body));
    assert_eq!(bank.totp_number(&aoi, "failure_count").await, 0);
    assert_eq!(phone.confirm(&instruction.id()).await.status, 200);
    bank.assert_transfers(1).await;
}

/// An instruction of Aoi's that is authorized and usable in the last second of its time.
async fn last_minute() -> (Arc<Bank>, Person, Client, String) {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    bank.advance_ms(599_999);
    let code = bank.code(&aoi.user, 0);
    assert_eq!(phone.authorize(&instruction.id(), &code, instruction.text("content_hash")).await.status, 200);
    (Arc::new(bank), ren, phone, instruction.id())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn confirming_cancelling_and_sweeping_at_once_have_one_outcome() {
    // The clock passes the end of the grace before, between or after the calls.
    for round in 0..12 {
        let (bank, ren, phone, id) = last_minute().await;
        let (turning, sweeping) = (Arc::clone(&bank), Arc::clone(&bank));
        let turn = tokio::spawn(async move {
            for _ in 0..round % 4 {
                tokio::task::yield_now().await;
            }
            turning.advance_s(if round % 3 == 0 { 0 } else { 61 });
        });
        let sweep = tokio::spawn(async move { sweeping.sweep().await.expired });
        let cancel = {
            let (phone, id) = (phone.clone(), id.clone());
            tokio::spawn(async move { phone.cancel(&id).await })
        };
        let confirmed = at_once((0..3).map(|_| confirm(&phone, &id))).await;
        let (cancelled, swept) = (cancel.await.unwrap(), sweep.await.unwrap());
        turn.await.unwrap();
        let swept = swept + bank.sweep().await.expired;

        let books = bank.check().await;
        let state = books.instructions[0].state;
        let posted = state == State::Completed;
        bank.assert_transfers(usize::from(posted)).await;
        assert_eq!(bank.balance(&ren).await, if posted { 40_000 } else { 0 });
        assert_eq!(cancelled.status == 200, state == State::Cancelled, "{state:?} {}", cancelled.body);
        assert_eq!(swept, u64::from(state == State::Expired), "{state:?}");
        for answer in &confirmed {
            let money_moved = &answer.body["money_moved"];
            match answer.status {
                200 => assert!(posted, "{state:?} {}", answer.body),
                // One that came too late by its own clock saw it open, and may not say what became of it.
                409 if answer.text("result") == "RESULT_UNKNOWN" => assert_eq!(*money_moved, "unknown"),
                409 => assert!(!posted && *money_moved == false, "{state:?} {}", answer.body),
                _ => panic!("{}", answer.body),
            }
        }
        let ends = [State::Completed, State::Cancelled, State::Expired];
        assert!(ends.contains(&state), "{state:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_at_once_keeps_the_books_in_order() {
    let bank = Bank::new().await;
    let mut people = Vec::new();
    for name in ["aoi", "ren", "emi", "mio"] {
        people.push(bank.person(name, 10_000).await);
    }
    // Each pays the next, around the ring, more than the ring holds.
    let mut calls = Vec::new();
    let mut ready = Vec::new();
    for (index, person) in people.iter().enumerate() {
        let next = &people[(index + 1) % people.len()];
        let phone = bank.client(person, "s1");
        let bodies = [1, 2, 3].map(|_| transfer(person, next, 6_000));
        for id in bank.ready(&phone, &bodies, "ring").await {
            ready.push((phone.clone(), id));
        }
    }
    for (phone, id) in ready.iter().chain(&ready) {
        calls.push(confirm(phone, id));
    }
    let answers = at_once(calls).await;
    let posted: BTreeSet<&str> =
        answers.iter().map(|answer| answer.text("transfer_id")).filter(|id| !id.is_empty()).collect();
    assert!(answers.iter().all(|answer| [(200, ""), (422, "TR008"), (409, "TR010")].contains(&answer.problem())));
    assert!(posted.len() >= 4, "each balance covers one at least");
    let mut sum = 0;
    for person in &people {
        sum += bank.balance(person).await;
    }
    assert_eq!(sum, 40_000);
    bank.assert_transfers(posted.len()).await;
}
