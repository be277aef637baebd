//! Sends of request, authorize, cancel, enrol and status go wrong: all are safe to repeat as they are.

use super::{BATCH_READ, Fault, READ, Setting, TRANSACTION, UPDATE, hurried::Hurried, passing_faults, setting};
use crate::{
    bank::soon,
    client::{Answer, Client, key, transfer},
};
use serde_json::json;

const WRITING_MS: u64 = 700;
/// Legs of an admission and of an authorization.
const LEGS: usize = 2;
const CONFLICT: Fault = Fault::Cancel { legs: LEGS, leg: 1, reason: "TransactionConflict" };
const UPDATE_CONFLICT: Fault = Fault::Answer(400, "TransactionConflictException");

/// Single faults of a plain update after which a call must go on and succeed.
const UPDATE_FAULTS: [Fault; 8] = [
    Fault::LoseRequest,
    Fault::LoseReply,
    Fault::CutReply,
    Fault::Answer(500, "InternalServerError"),
    Fault::ForwardThenAnswer(500, "InternalServerError"),
    UPDATE_CONFLICT,
    Fault::Answer(400, "ProvisionedThroughputExceededException"),
    Fault::Answer(400, "ThrottlingException"),
];

fn hurried(client: &Client) -> Hurried<'_> {
    Hurried { client, writing_ms: WRITING_MS }
}

/// 503, to be repeated as it is.
fn assert_repeatable(answer: &Answer, code: &str) {
    assert_eq!((answer.status, answer.code()), (503, code), "{:?}", answer.body);
    assert_eq!((answer.text("retry_with"), answer.text("money_moved")), ("same-key", "unknown"), "{:?}", answer.body);
    assert!(answer.headers.contains_key("retry-after"));
}

async fn instructions(on: &Setting) -> usize {
    on.bank.assert_transfers(0).await.instructions.len()
}

#[tokio::test]
async fn whatever_happens_to_one_send_of_a_request_it_is_admitted_once() {
    let on = setting().await;
    let phone = on.there.client(&on.aoi, "s1");
    let mut faults: Vec<Vec<Fault>> = passing_faults(LEGS).into_iter().map(|fault| vec![fault]).collect();
    faults.push(vec![Fault::LoseReply, Fault::ForgetToken]);
    for (index, faults) in faults.iter().enumerate() {
        on.wire.next(TRANSACTION, faults.iter().copied());
        let key = key(&index.to_string());
        let requested = phone.request(&key, &transfer(&on.aoi, &on.ren, 1)).await;
        assert!(matches!(requested.status, 200 | 201), "{faults:?}: {:?}", requested.body);
        assert_eq!(instructions(&on).await, index + 1, "{faults:?}");
        let again = phone.request(&key, &transfer(&on.aoi, &on.ren, 1)).await;
        assert_eq!((again.status, again.id()), (200, requested.id()));
        on.bank.advance_s(12);
    }
}

#[tokio::test]
async fn a_lost_admission_uses_one_place_of_the_minute() {
    let on = setting().await;
    let phone = on.there.client(&on.aoi, "s1");
    on.wire.next(TRANSACTION, [Fault::LoseReply, Fault::ForgetToken]);
    for (index, status) in [200, 201, 201, 201, 201, 429].into_iter().enumerate() {
        let answer = phone.request(&key(&index.to_string()), &transfer(&on.aoi, &on.ren, 1)).await;
        assert_eq!(answer.status, status, "{index}: {:?}", answer.body);
    }
    assert_eq!(instructions(&on).await, 5);
}

#[tokio::test]
async fn a_request_without_an_answer_can_be_repeated_as_it_is() {
    for (first, fault, code, admitted) in [
        (Fault::LoseReply, Fault::LoseReply, "SV001", 1),
        (Fault::LoseRequest, Fault::LoseRequest, "SV001", 0),
        (Fault::LoseReply, CONFLICT, "SV001", 1),
        (CONFLICT, CONFLICT, "TR017", 0),
    ] {
        let on = setting().await;
        let phone = on.there.client(&on.aoi, "s1");
        let body = transfer(&on.aoi, &on.ren, 1);
        on.wire.next(TRANSACTION, [first]);
        on.wire.always(TRANSACTION, fault);
        assert_repeatable(&hurried(&phone).request_transfer(&key("one"), &body).await, code);
        assert_eq!(instructions(&on).await, admitted);
        on.wire.mend();
        let again = phone.request(&key("one"), &body).await;
        assert_eq!(again.status, if admitted == 1 { 200 } else { 201 }, "{:?}", again.body);
        assert_eq!(instructions(&on).await, 1);
    }
}

#[tokio::test]
async fn keys_that_were_left_unprocessed_are_read_again_and_never_taken_as_absent() {
    let on = setting().await;
    let phone = on.there.client(&on.aoi, "s1");
    let body = transfer(&on.aoi, &on.ren, 1);
    on.wire.next(BATCH_READ, [Fault::Unprocessed("ledger"), Fault::Unprocessed("ledger")]);
    let requested = phone.request(&key("one"), &body).await;
    assert_eq!(requested.status, 201, "{:?}", requested.body);
    assert_eq!(on.wire.take(BATCH_READ).len(), 3);

    on.wire.next(BATCH_READ, [Fault::Unprocessed("core")]);
    assert_eq!(phone.request(&key("one"), &body).await.status, 200);
    for table in ["core", "ledger"] {
        on.wire.next(BATCH_READ, [Fault::Unprocessed(table)]);
        let status = phone.status(&requested.id()).await;
        assert_eq!((status.status, status.text("result")), (200, "INSTRUCTION_ACKNOWLEDGED"));
    }
    on.wire.always(BATCH_READ, Fault::Unprocessed("core"));
    assert_repeatable(&hurried(&phone).request_transfer(&key("one"), &body).await, "SV001");
    let authorized = hurried(&phone).authorize(&requested.id(), "123456", requested.text("content_hash")).await;
    assert_repeatable(&authorized, "SV001");
    assert_eq!(instructions(&on).await, 1);
}

#[tokio::test]
async fn whatever_happens_to_one_send_of_an_authorization_it_is_recorded_once() {
    let on = setting().await;
    let phone = on.there.client(&on.aoi, "s1");
    let mut faults: Vec<Vec<Fault>> = passing_faults(LEGS).into_iter().map(|fault| vec![fault]).collect();
    faults.push(vec![Fault::LoseReply, Fault::ForgetToken]);
    for (index, faults) in faults.iter().enumerate() {
        let requested = phone.request(&key(&index.to_string()), &transfer(&on.aoi, &on.ren, 1)).await;
        let (id, hash, code) = (requested.id(), requested.text("content_hash"), on.bank.code(&on.aoi.user, 0));
        on.wire.next(TRANSACTION, faults.iter().copied());
        let authorized = phone.authorize(&id, &code, hash).await;
        assert_eq!((authorized.status, authorized.text("state")), (200, "AUTHORIZED"), "{faults:?}");
        let again = phone.authorize(&id, &code, hash).await;
        assert_eq!((again.status, again.is_replayed()), (200, true), "{faults:?}");
        assert_eq!(again.body["history"].as_array().unwrap().len(), 2, "{faults:?}");
        on.bank.next_step();
    }
    assert_eq!(on.bank.app.store.totp(&on.aoi.user, soon()).await.unwrap().unwrap().failures, 0);
}

#[tokio::test]
async fn an_authorization_whose_reply_was_lost_is_repeated_with_the_same_code() {
    for (first, fault, code, replayed) in [
        (Fault::LoseReply, Fault::LoseReply, "SV001", true),
        (Fault::LoseRequest, Fault::LoseRequest, "SV001", false),
        (Fault::LoseReply, CONFLICT, "SV001", true),
        (CONFLICT, CONFLICT, "TR017", false),
    ] {
        let on = setting().await;
        let phone = on.there.client(&on.aoi, "s1");
        let requested = phone.request(&key("one"), &transfer(&on.aoi, &on.ren, 1)).await;
        let (id, hash, totp) = (requested.id(), requested.text("content_hash"), on.bank.code(&on.aoi.user, 0));
        on.wire.next(TRANSACTION, [first]);
        on.wire.always(TRANSACTION, fault);
        let answer = hurried(&phone).authorize(&id, &totp, hash).await;
        assert_eq!((answer.status, answer.code(), answer.text("retry_with")), (503, code, "same-key"));
        on.wire.mend();
        let again = phone.authorize(&id, &totp, hash).await;
        assert_eq!((again.status, again.is_replayed()), (200, replayed), "{fault:?}: {:?}", again.body);
        assert_eq!(phone.confirm(&id).await.status, 200);
        on.bank.assert_transfers(1).await;
    }
}

#[tokio::test]
async fn a_wrong_code_is_counted_exactly_once_whatever_happens_to_one_send() {
    for fault in UPDATE_FAULTS {
        let on = setting().await;
        let phone = on.there.client(&on.aoi, "s1");
        let requested = phone.request(&key("one"), &transfer(&on.aoi, &on.ren, 1)).await;
        let (id, hash, wrong) = (requested.id(), requested.text("content_hash"), on.bank.wrong_code(&on.aoi.user));
        on.wire.next(UPDATE, [fault]);
        let refused = phone.authorize(&id, &wrong, hash).await;
        assert_eq!((refused.status, refused.code()), (403, "AU002"), "{fault:?}");
        let failures = on.bank.app.store.totp(&on.aoi.user, soon()).await.unwrap().unwrap().failures;
        assert_eq!(failures, 1, "{fault:?}");
        assert_eq!(phone.authorize(&id, &on.bank.code(&on.aoi.user, 0), hash).await.status, 200);
    }
}

#[tokio::test]
async fn a_code_that_could_not_be_counted_is_not_called_wrong_and_right_and_wrong_look_alike() {
    for (update, transaction) in [(Fault::LoseRequest, Fault::LoseRequest), (UPDATE_CONFLICT, CONFLICT)] {
        let on = setting().await;
        let phone = on.there.client(&on.aoi, "s1");
        let requested = phone.request(&key("one"), &transfer(&on.aoi, &on.ren, 1)).await;
        let (id, hash) = (requested.id(), requested.text("content_hash"));
        on.wire.always(UPDATE, update);
        on.wire.always(TRANSACTION, transaction);
        let wrong = hurried(&phone).authorize(&id, &on.bank.wrong_code(&on.aoi.user), hash).await;
        let right = hurried(&phone).authorize(&id, &on.bank.code(&on.aoi.user, 0), hash).await;
        assert_eq!((wrong.status, right.status), (503, 503), "{:?} {:?}", wrong.body, right.body);
        assert_eq!(wrong.untraced(), right.untraced());
        let record = on.bank.app.store.totp(&on.aoi.user, soon()).await.unwrap().unwrap();
        assert_eq!((record.failures, record.last_step), (0, 1));
    }
}

#[tokio::test]
async fn a_cancellation_survives_what_happens_to_one_send_and_can_be_repeated() {
    let on = setting().await;
    let phone = on.there.client(&on.aoi, "s1");
    for (index, fault) in UPDATE_FAULTS.into_iter().enumerate() {
        let id = phone.request(&key(&index.to_string()), &transfer(&on.aoi, &on.ren, 1)).await.id();
        on.wire.next(UPDATE, [fault]);
        let cancelled = phone.cancel(&id).await;
        assert_eq!((cancelled.status, cancelled.text("state")), (200, "CANCELLED"), "{fault:?}");
        on.bank.advance_s(12);
    }
    for (fault, code, replayed) in
        [(Fault::LoseReply, "SV001", true), (Fault::LoseRequest, "SV001", false), (UPDATE_CONFLICT, "TR017", false)]
    {
        let id = phone.request(&key(&format!("{fault:?}")[..7].to_lowercase()), &transfer(&on.aoi, &on.ren, 2)).await;
        on.wire.always(UPDATE, fault);
        assert_repeatable(&hurried(&phone).cancel(&id.id()).await, code);
        on.wire.mend();
        let again = phone.cancel(&id.id()).await;
        assert_eq!((again.status, again.is_replayed()), (200, replayed), "{fault:?}");
        on.bank.advance_s(61);
    }
    on.bank.assert_transfers(0).await;
}

#[tokio::test]
async fn an_enrolment_survives_what_happens_to_one_send_and_can_be_repeated() {
    let on = setting().await;
    let new = shared::domain::id::UserId::parse("new").unwrap();
    let phone = on.there.client_of(&new, "s1");
    for fault in UPDATE_FAULTS {
        on.wire.next(UPDATE, [fault]);
        let pending = phone.post("/v1/totp", &[], &json!({})).await;
        assert_eq!(pending.status, 201, "{fault:?}: {:?}", pending.body);
    }
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        on.wire.always(UPDATE, fault);
        let pending = hurried(&phone).enroll("/v1/totp", &json!({})).await;
        assert_eq!((pending.status, pending.text("retry_with")), (503, "same-key"));
    }
    on.wire.mend();
    let pending = phone.post("/v1/totp", &[], &json!({})).await;
    let uri = pending.text("otpauth_uri").to_owned();
    let base32 = uri.split("secret=").nth(1).unwrap().split('&').next().unwrap();
    let code = code_of(base32, &on);
    on.wire.always(UPDATE, Fault::LoseReply);
    let active = hurried(&phone).enroll("/v1/totp/activation", &json!({ "totp_code": code })).await;
    assert_eq!((active.status, active.text("retry_with")), (503, "same-key"), "{:?}", active.body);
    on.wire.mend();
    let again = phone.post("/v1/totp/activation", &[], &json!({ "totp_code": code })).await;
    assert_eq!((again.status, again.text("status")), (200, "ACTIVE"), "{:?}", again.body);
    let record = on.bank.app.store.totp(&new, soon()).await.unwrap().unwrap();
    assert!(record.pending.is_none() && record.active.is_some());
    assert_eq!(record.failures, 0);
}

#[tokio::test]
async fn a_read_that_fails_twice_is_made_a_third_time() {
    let on = setting().await;
    let phone = on.there.client(&on.aoi, "s1");
    let id = phone.request(&key("one"), &transfer(&on.aoi, &on.ren, 1)).await.id();
    on.wire.next(BATCH_READ, [Fault::LoseReply, Fault::Answer(500, "InternalServerError")]);
    assert_eq!(phone.status(&id).await.status, 200);
    // The SDK does not repeat a read whose answer was cut, so the client is asked to.
    on.wire.next(BATCH_READ, [Fault::CutReply]);
    assert_repeatable(&phone.status(&id).await, "SV001");
    assert_eq!(phone.status(&id).await.status, 200);
    on.wire.next(READ, [Fault::LoseReply, Fault::Answer(500, "InternalServerError")]);
    assert_eq!(phone.get("/v1/accounts/ac_aoi").await.status, 200);
    on.wire.always(BATCH_READ, Fault::Answer(500, "InternalServerError"));
    let answer = phone.status(&id).await;
    assert_eq!((answer.status, answer.code()), (503, "SV001"));
}

/// The present code of a secret in base 32, as an authenticator app makes it.
fn code_of(base32: &str, on: &Setting) -> String {
    use shared::domain::totp::{TotpSecret, step_at};
    let bytes = decoded(base32);
    TotpSecret::new(&bytes, "furikomi", "new").unwrap().code_at(step_at(on.bank.now())).to_string()
}

/// RFC 4648 base 32 without padding.
fn decoded(base32: &str) -> Vec<u8> {
    let mut bits = String::new();
    for letter in base32.bytes() {
        let value = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == letter).unwrap();
        bits.push_str(&format!("{value:05b}"));
    }
    let whole = bits.len() / 8;
    (0..whole).map(|index| u8::from_str_radix(&bits[8 * index..8 * index + 8], 2).unwrap()).collect()
}
