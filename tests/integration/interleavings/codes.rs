//! Authorizations whose sends are in doubt, and codes that collide.

use crate::{
    bank::soon,
    client::{Answer, key, transfer},
    faults::{TRANSACTION, UPDATE, hurried::Hurried, setting, wire::Fault},
    look::{aoi_and_ren, requested},
};
use data_encoding::BASE32_NOPAD;
use serde_json::json;
use shared::domain::{
    id::UserId,
    totp::{TotpSecret, step_at},
};

/// Legs of an authorization: the instruction, and the user's TOTP record.
const fn cancelled(leg: usize, reason: &'static str) -> Fault {
    Fault::Cancel { legs: 2, leg, reason }
}

#[tokio::test]
async fn an_authorization_with_a_send_in_doubt_is_unknown_and_not_contended() {
    for (second, code) in [
        // The second send is refused, which says nothing of the first; from then on there are conflicts alone.
        (vec![Fault::Late, cancelled(1, "ConditionalCheckFailed")], "SV001"),
        (vec![Fault::Late, cancelled(1, "TransactionConflict")], "SV001"),
        // Without a send in doubt the same is contention.
        (vec![cancelled(1, "ConditionalCheckFailed")], "TR017"),
    ] {
        let on = setting().await;
        let phone = on.there.client(&on.aoi, "s1");
        let asked = phone.request(&key("one"), &transfer(&on.aoi, &on.ren, 1)).await;
        let (id, hash, totp) = (asked.id(), asked.text("content_hash"), on.bank.code(&on.aoi.user, 0));
        on.wire.next(TRANSACTION, second);
        on.wire.always(TRANSACTION, cancelled(0, "TransactionConflict"));
        let answer = Hurried { client: &phone, writing_ms: 700 }.authorize(&id, &totp, hash).await;
        assert_eq!((answer.status, answer.code(), answer.text("retry_with")), (503, code, "same-key"));
        assert_eq!(phone.status(&id).await.text("state"), "AWAITING_AUTHORIZATION");

        // What was in doubt arrives after all; the repeat is no guess, and finds it.
        on.wire.mend();
        if code == "SV001" {
            on.wire.deliver_late().await;
            assert_eq!(phone.status(&id).await.text("state"), "AUTHORIZED");
        }
        let again = phone.authorize(&id, &totp, hash).await;
        assert_eq!((again.status, again.is_replayed()), (200, code == "SV001"), "{}", again.body);
        let record = on.bank.app.store.totp(&on.aoi.user, soon()).await.unwrap().unwrap();
        assert_eq!((record.failures, record.last_step), (0, step_at(on.bank.now())));
        assert_eq!(phone.confirm(&id).await.status, 200);
        on.bank.assert_transfers(1).await;
    }
}

#[tokio::test]
async fn a_double_click_with_a_code_that_the_next_step_has_too_is_replayed() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    // Aoi's authenticator shows the same code twice in a row here, as one in a million does.
    bank.set_clock("2027-01-17T16:17:40Z");
    let code = bank.code(&aoi.user, 0);
    assert_eq!(code, bank.code(&aoi.user, 1));
    let one = requested(&phone, &aoi, &ren, 1).await;
    let (id, hash) = (one.id(), one.text("content_hash"));
    let first = phone.authorize(&id, &code, hash).await;
    assert_eq!((first.status, first.is_replayed()), (200, false), "{}", first.body);

    let step = step_at(bank.now());
    for _ in 0..3 {
        let again = phone.authorize(&id, &code, hash).await;
        assert_eq!((again.status, again.is_replayed()), (200, true), "{}", again.body);
        assert_eq!(
            (&again.body["history"], &again.body["authorized_until"]),
            (&first.body["history"], &first.body["authorized_until"])
        );
        assert_eq!(bank.totp_number(&aoi, "last_step").await, step);
        bank.next_step();
    }
    // For another instruction it is what it is, the code of the next step: taken once.
    bank.set_clock("2027-01-17T16:17:45Z");
    let two = requested(&phone, &aoi, &ren, 2).await;
    assert_eq!(phone.authorize(&two.id(), &code, two.text("content_hash")).await.status, 200);
    let three = requested(&phone, &aoi, &ren, 3).await;
    assert_eq!(phone.authorize(&three.id(), &code, three.text("content_hash")).await.code(), "AU002");
    assert_eq!(bank.totp_number(&aoi, "last_step").await, step + 1);
    for id in [id, two.id()] {
        assert_eq!(phone.confirm(&id).await.status, 200);
    }
    bank.assert_transfers(2).await;
}

/// The secret that an enrolment showed.
fn shown(answer: &Answer) -> TotpSecret {
    assert_eq!(answer.status, 201, "{}", answer.body);
    let (_, query) = answer.text("otpauth_uri").split_once('?').unwrap();
    let secret = query.split('&').find_map(|pair| pair.strip_prefix("secret=")).unwrap();
    TotpSecret::new(&BASE32_NOPAD.decode(secret.as_bytes()).unwrap(), "furikomi", "mio").unwrap()
}

#[tokio::test]
async fn an_enrolment_that_arrives_late_does_not_replace_the_secret_that_was_shown_after_it() {
    let on = setting().await;
    let mio = UserId::parse("mio").unwrap();
    let (phone, elsewhere) = (on.there.client_of(&mio, "s1"), on.bank.client_of(&mio, "s1"));
    // Its first send stalls, its second one is done.
    on.wire.next(UPDATE, [Fault::Late]);
    shown(&phone.post("/v1/totp", &[], &json!({})).await);
    let last = shown(&elsewhere.post("/v1/totp", &[], &json!({})).await);

    on.wire.deliver_late().await;

    let code = last.code_at(step_at(on.bank.now())).to_string();
    let activated = elsewhere.post("/v1/totp/activation", &[], &json!({ "totp_code": code })).await;
    assert_eq!((activated.status, activated.text("status")), (200, "ACTIVE"), "{}", activated.body);
    let record = on.bank.app.store.totp(&mio, soon()).await.unwrap().unwrap();
    assert_eq!((record.failures, record.pending), (0, None));
}
