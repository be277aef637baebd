//! `POST /v1/transfers/{request_id}/cancellation`.

use crate::{
    client::{key, transfer},
    look::{aoi_and_ren, requested},
};
use serde_json::json;

#[tokio::test]
async fn an_open_instruction_is_cancelled_once_and_for_ever() {
    // Whether it was authorized or not, whether its time has passed or not.
    for (authorized, advance_s) in [(false, 0), (true, 0), (false, 600), (true, 600), (true, 100_000)] {
        let context = format!("authorized: {authorized}, after {advance_s} s");
        let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
        let answer = requested(&phone, &aoi, &ren, 40_000).await;
        if authorized {
            phone.authorize(&answer.id(), &bank.code(&aoi.user, 0), answer.text("content_hash")).await;
        }
        bank.advance_s(advance_s);

        let cancelled = bank.client(&aoi, "s2").cancel(&answer.id()).await;

        assert_eq!((cancelled.status, cancelled.is_replayed()), (200, false), "{context}");
        assert_eq!((cancelled.text("state"), cancelled.text("result")), ("CANCELLED", "NO_POSTING_CONFIRMED"));
        assert_eq!(cancelled.header("location"), format!("/v1/transfers/{}", answer.id()));
        let steps = cancelled.body["history"].as_array().unwrap();
        assert_eq!((steps.len(), &steps.last().unwrap()["step"]), (2 + usize::from(authorized), &json!("CANCELLED")));
        assert_ne!(steps.last().unwrap()["session"], steps[0]["session"]);
        assert_eq!(cancelled.body["authorized_until"], json!(null));
        let before = bank.snapshot().await;
        let again = phone.cancel(&answer.id()).await;
        assert_eq!((again.status, again.is_replayed(), &again.body), (200, true, &cancelled.body), "{context}");
        let confirmed = phone.confirm(&answer.id()).await;
        confirmed.assert_problem(409, "TR010", &context);
        assert_eq!((confirmed.text("result"), &confirmed.body["money_moved"]), ("NO_POSTING_CONFIRMED", &json!(false)));
        assert_eq!(phone.status(&answer.id()).await.body, cancelled.body, "{context}");
        bank.assert_unchanged(&before, &context).await;
        bank.advance_s(100_000);
        assert_eq!(bank.sweep().await.expired, 0);
        assert!(bank.assert_transfers(0).await.outbox.is_empty(), "{context}");
        assert_eq!(bank.balance(&aoi).await, 70_000);
    }
}

#[tokio::test]
async fn what_was_posted_is_not_cancelled() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
    phone.confirm(&authorized.id()).await;
    let before = bank.snapshot().await;
    let refused = phone.cancel(&authorized.id()).await;
    refused.assert_problem(409, "TR010", "posted");
    assert_eq!((refused.text("result"), &refused.body["money_moved"]), ("FINANCIAL_COMMITTED", &json!(true)));
    assert_eq!(refused.text("retry_with"), "never");
    bank.assert_unchanged(&before, "posted").await;
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn what_expired_is_not_cancelled() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let answer = requested(&phone, &aoi, &ren, 40_000).await;
    bank.advance_s(660);
    assert_eq!(bank.sweep().await.expired, 1);
    let before = bank.snapshot().await;
    let refused = phone.cancel(&answer.id()).await;
    refused.assert_problem(409, "TR010", "expired");
    assert_eq!((refused.text("result"), &refused.body["money_moved"]), ("NO_POSTING_CONFIRMED", &json!(false)));
    bank.assert_unchanged(&before, "expired").await;
}

#[tokio::test]
async fn what_is_not_yours_is_not_there() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let answer = requested(&phone, &aoi, &ren, 40_000).await;
    let before = bank.snapshot().await;
    let foreign = bank.client(&ren, "s1").cancel(&answer.id()).await;
    foreign.assert_problem(404, "TR004", "a foreign id");
    for id in [format!("ti_{}", "a".repeat(32)), "ti_".to_owned(), "x%00".to_owned()] {
        let unknown = phone.cancel(&id).await;
        assert_eq!((unknown.status, unknown.untraced()), (404, foreign.untraced()), "{id}");
    }
    bank.assert_unchanged(&before, "a foreign id").await;
    assert_eq!(phone.status(&answer.id()).await.text("state"), "AWAITING_AUTHORIZATION");
}

#[tokio::test]
async fn the_body_of_a_cancellation_is_empty() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let answer = requested(&phone, &aoi, &ren, 40_000).await;
    let path = format!("/v1/transfers/{}/cancellation", answer.id());
    let before = bank.snapshot().await;
    for (body, places) in [(json!({ "reason": "x", "id": 1 }), vec!["/id", "/reason"]), (json!([]), vec![""])] {
        let refused = phone.post(&path, &[], &body).await;
        refused.assert_problem(400, "TR003", &body.to_string());
        assert_eq!(refused.places(), places);
        assert_eq!((refused.text("result"), &refused.body["money_moved"]), ("INSTRUCTION_ACKNOWLEDGED", &json!(false)));
    }
    phone.send("POST", &path, &[], b"{}").await.assert_problem(415, "TR003", "no media type");
    bank.assert_unchanged(&before, "a refused cancellation").await;
    let unknown = phone.post(&path.replace("ti_", "tr_"), &[], &json!([])).await;
    unknown.assert_problem(404, "TR004", "an unknown id with a bad body");
    assert_eq!(phone.post(&path, &[], &json!({})).await.status, 200);
}
