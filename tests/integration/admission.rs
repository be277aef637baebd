//! Admission: at most five new instructions of a user in any 60 seconds.

use crate::{
    bank::Bank,
    client::{Client, key, transfer},
    look::aoi_and_ren,
};
use futures_util::future::join_all;
use serde_json::Value;

/// Admits `count` instructions, `gap_ms` apart.
async fn admit(bank: &Bank, phone: &Client, body: &Value, count: usize, gap_ms: i64) {
    for index in 0..count {
        if index > 0 {
            bank.advance_ms(gap_ms);
        }
        let answer = phone.request(&key(&format!("{}-{index}", bank.now())), body).await;
        assert_eq!(answer.status, 201, "{index}: {}", answer.body);
    }
}

#[tokio::test]
async fn the_sixth_waits_until_the_first_of_five_has_left_the_window() {
    // The first admission's second within the clock's minute must not matter.
    for start in ["2026-12-01T03:00:00Z", "2026-12-01T03:00:01Z", "2026-12-01T03:00:59.999Z", "2026-12-01T14:59:30Z"] {
        let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
        let body = transfer(&aoi, &ren, 1_000);
        bank.set_clock(start);
        admit(&bank, &phone, &body, 5, 10_000).await;
        let rows = [
            (0, 429, 20),
            (1, 429, 20),
            (999, 429, 19),
            (18_999, 429, 1), // 59.999 s after the first
            (1, 201, 0),      // 60 s
            (0, 429, 10),
            (9_999, 429, 1),
            (1, 201, 0), // 60 s after the second
        ];
        for (index, (advance_ms, status, wait_s)) in rows.into_iter().enumerate() {
            bank.advance_ms(advance_ms);
            let before = bank.snapshot().await;
            let answer = phone.request(&key(&format!("row-{index}")), &body).await;
            let context = format!("{} from {start}: {}", bank.now(), answer.body);
            assert_eq!(answer.status, status, "{context}");
            if status == 429 {
                answer.assert_problem(429, "TR011", &context);
                assert_eq!(answer.body["retry_after_s"], wait_s, "{context}");
                assert_eq!((answer.text("retry_with"), &answer.body["money_moved"]), ("same-key", &false.into()));
                bank.assert_unchanged(&before, &context).await;
            }
        }
        assert_eq!(bank.assert_transfers(0).await.instructions.len(), 7);
    }
}

#[tokio::test]
async fn no_sixty_seconds_see_a_sixth_admission() {
    // One attempt every 7 seconds for ten minutes; then every window is counted.
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    for attempt in 0..86 {
        phone.request(&key(&format!("{attempt}")), &transfer(&aoi, &ren, 1_000)).await;
        bank.advance_s(7);
    }
    let mut times: Vec<i64> =
        bank.books().await.instructions.iter().map(|instruction| instruction.created_at.as_millisecond()).collect();
    times.sort_unstable();
    assert!(times.windows(6).all(|six| six[5] - six[0] >= 60_000), "{times:?}");
    // And it gave no less than it may: an attempt is refused only while the window is full.
    assert_eq!(times.len(), 50, "{times:?}");
}

#[tokio::test]
async fn replays_and_refusals_use_no_admission() {
    let (_bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let body = transfer(&aoi, &ren, 1_000);
    phone.request(&key("first"), &body).await;
    for _ in 0..10 {
        assert_eq!(phone.request(&key("first"), &body).await.status, 200);
        assert_eq!(phone.request(&key("first"), &transfer(&aoi, &ren, 2)).await.code(), "TR009");
        assert_eq!(phone.request(&key("refused"), &transfer(&aoi, &aoi, 2)).await.code(), "TR014");
        assert_eq!(phone.request(&key("refused"), &Value::Null).await.code(), "TR003");
    }
    for name in ["2", "3", "4", "5"] {
        assert_eq!(phone.request(&key(name), &body).await.status, 201, "{name}");
    }
    assert_eq!(phone.request(&key("6"), &body).await.code(), "TR011");
    // What exists beats a full window.
    let replayed = phone.request(&key("first"), &body).await;
    assert_eq!((replayed.status, replayed.is_replayed()), (200, true));
    assert_eq!(phone.request(&key("first"), &transfer(&aoi, &ren, 2)).await.code(), "TR009");
}

#[tokio::test]
async fn a_window_is_the_users_own_over_all_sessions() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    admit(&bank, &phone, &transfer(&aoi, &ren, 1_000), 5, 1).await;
    let other = bank.client(&aoi, "s2");
    assert_eq!(other.request(&key("six"), &transfer(&aoi, &ren, 1_000)).await.code(), "TR011");
    assert_eq!(bank.client(&ren, "s1").request(&key("six"), &transfer(&ren, &aoi, 1_000)).await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_keys_at_once_admit_exactly_five() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let sends = (0..100).map(|index| {
        let (phone, body) = (phone.clone(), transfer(&aoi, &ren, 1_000));
        tokio::spawn(async move { phone.request(&key(&format!("{index}")), &body).await })
    });
    let answers: Vec<_> = join_all(sends).await.into_iter().map(Result::unwrap).collect();
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(201), count(429)), (5, 95));
    for answer in answers.iter().filter(|answer| answer.status == 429) {
        assert_eq!((answer.code(), &answer.body["retry_after_s"]), ("TR011", &60.into()));
    }
    assert_eq!(bank.assert_transfers(0).await.instructions.len(), 5);
}
