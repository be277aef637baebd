//! Kills of the functions behind the API, and the client's repeat.

use crate::{
    front::Point,
    world::{Api, Person, World, soon},
};
use data_encoding::BASE32_NOPAD;
use serde_json::json;
use shared::{
    app::system_time,
    domain::{
        instruction::State,
        totp::{TotpSecret, step_at},
    },
    store::totp::TotpRecord,
};
use support::driver::events::ApiAnswer;

const FUNDS_MINOR: i64 = 70_000;
const AMOUNT_MINOR: i64 = 40_000;

struct Setting {
    world: World,
    api: Api,
    ren: Person,
}

async fn setting() -> Setting {
    let world = World::new().await;
    let (api, ren) = (world.api().await, world.person("ren", 0).await);
    Setting { world, api, ren }
}

impl Setting {
    /// Somebody who has done nothing yet, and so has an unused code; one for each point.
    async fn payer(&self, name: &str, balance_minor: i64) -> Person {
        self.world.person(&format!("aoi-{name}"), balance_minor).await
    }

    /// Aoi's only instruction: how far it is, if it is there.
    async fn state(&self, aoi: &Person) -> Option<State> {
        let books = self.world.store.books().await.unwrap();
        let mut own = books.instructions.into_iter().filter(|instruction| instruction.user == aoi.user);
        let state = own.next().map(|instruction| instruction.state);
        assert!(own.next().is_none(), "one key is one instruction");
        state
    }

    async fn totp(&self, person: &Person) -> Option<TotpRecord> {
        self.world.store.totp(&person.user, soon()).await.unwrap()
    }

    async fn failures(&self, aoi: &Person) -> i64 {
        self.totp(aoi).await.unwrap().failures
    }

    /// Asserts that 40,000 moved once.
    async fn assert_paid(&self, aoi: &Person, asked: &ApiAnswer) {
        assert_eq!(self.world.balance(aoi).await, FUNDS_MINOR - AMOUNT_MINOR);
        let status = self.api.status.answer(&aoi.status(asked)).await;
        assert_eq!((status.status, status.text("result")), (200, "FINANCIAL_COMMITTED"), "{status:?}");
    }

    /// Confirms, and asserts that so many transfers are posted in all.
    async fn pay(&self, aoi: &Person, asked: &ApiAnswer, transfers: usize) {
        let confirmed = self.api.confirm.answer(&aoi.confirm(asked)).await;
        assert_eq!((confirmed.status, confirmed.is_replayed()), (200, false), "{confirmed:?}");
        self.assert_paid(aoi, asked).await;
        self.world.assert_transfers(transfers).await;
    }
}

/// A read of the instruction and accounts, and the admission.
const REQUEST_CALLS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_died_anywhere_is_admitted_once_by_its_repeat() {
    let on = setting().await;
    let mut paid = 0;
    for point in Point::all(REQUEST_CALLS) {
        let aoi = on.payer(&paid.to_string(), FUNDS_MINOR).await;
        let event = aoi.request(&on.ren, AMOUNT_MINOR);
        on.api.request.die(&event, point).await;
        let was_admitted = point.did(2);
        assert_eq!(on.state(&aoi).await.is_some(), was_admitted, "{point:?}");

        let asked = on.api.request.answer(&event).await;
        assert_eq!(
            (asked.status, asked.is_replayed()),
            if was_admitted { (200, true) } else { (201, false) },
            "{point:?}"
        );
        assert_eq!(on.state(&aoi).await, Some(State::AwaitingAuthorization));
        let authorized = on.api.authorize.answer(&aoi.authorize(&asked, &aoi.code())).await;
        assert_eq!(authorized.status, 200, "{authorized:?}");
        paid += 1;
        on.pay(&aoi, &asked, paid).await;
    }
    let last = on.payer("last", FUNDS_MINOR).await;
    assert_eq!(on.api.request.calls(&last.request(&on.ren, 1)).await.0, REQUEST_CALLS);
}

/// A read of the instruction and the user's TOTP record, and the authorization or the count of a wrong code.
const AUTHORIZE_CALLS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_that_died_anywhere_is_made_once_by_its_repeat() {
    let on = setting().await;
    let mut paid = 0;
    for point in Point::all(AUTHORIZE_CALLS) {
        let aoi = on.payer(&paid.to_string(), FUNDS_MINOR).await;
        let asked = on.api.request.answer(&aoi.request(&on.ren, AMOUNT_MINOR)).await;
        let event = aoi.authorize(&asked, &aoi.code());
        on.api.authorize.die(&event, point).await;
        let was_authorized = point.did(2);
        let state = if was_authorized { State::Authorized } else { State::AwaitingAuthorization };
        assert_eq!(on.state(&aoi).await, Some(state), "{point:?}");

        // The same code again: no guess, whether its step is burned or not.
        let authorized = on.api.authorize.answer(&event).await;
        assert_eq!((authorized.status, authorized.is_replayed()), (200, was_authorized), "{point:?} {authorized:?}");
        assert_eq!((on.state(&aoi).await, on.failures(&aoi).await), (Some(State::Authorized), 0));
        paid += 1;
        on.pay(&aoi, &asked, paid).await;
    }
    let last = on.payer("last", FUNDS_MINOR).await;
    let asked = on.api.request.answer(&last.request(&on.ren, 1)).await;
    assert_eq!(on.api.authorize.calls(&last.authorize(&asked, &last.code())).await.0, AUTHORIZE_CALLS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_code_whose_process_died_is_counted_when_it_was_counted_and_no_more() {
    let on = setting().await;
    for (index, point) in Point::all(AUTHORIZE_CALLS).enumerate() {
        let aoi = on.payer(&index.to_string(), FUNDS_MINOR).await;
        let asked = on.api.request.answer(&aoi.request(&on.ren, AMOUNT_MINOR)).await;
        let wrong = aoi.authorize(&asked, &aoi.wrong_code());
        on.api.authorize.die(&wrong, point).await;
        let counted = i64::from(point.did(2));
        assert_eq!(on.failures(&aoi).await, counted, "{point:?}");
        // Killing the function is no way around the budget: five guesses are counted, and then there is a lock.
        for guess in counted + 1..=5 {
            let refused = on.api.authorize.answer(&wrong).await;
            assert_eq!((refused.status, refused.text("code")), (403, "AU002"), "{point:?} {guess}");
        }
        let locked = on.api.authorize.answer(&aoi.authorize(&asked, &aoi.code())).await;
        assert_eq!((locked.status, locked.text("code")), (429, "AU003"), "{point:?}");
    }
    on.world.assert_transfers(0).await;
}

/// A read of the instruction, and the posting.
const CONFIRM_CALLS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn a_confirm_that_died_anywhere_posts_once_with_its_repeat() {
    let on = setting().await;
    let mut paid = 0;
    for point in Point::all(CONFIRM_CALLS) {
        let aoi = on.payer(&paid.to_string(), FUNDS_MINOR).await;
        let asked = on.api.authorized(&aoi, &on.ren, AMOUNT_MINOR).await;
        on.api.confirm.die(&aoi.confirm(&asked), point).await;
        let was_posted = point.did(2);
        let result = if was_posted { "FINANCIAL_COMMITTED" } else { "INSTRUCTION_ACKNOWLEDGED" };
        let status = on.api.status.answer(&aoi.status(&asked)).await;
        assert_eq!((status.status, status.text("result")), (200, result), "{point:?}");
        on.world.assert_transfers(paid + usize::from(was_posted)).await;

        paid += 1;
        for again in [was_posted, true] {
            let confirmed = on.api.confirm.answer(&aoi.confirm(&asked)).await;
            assert_eq!((confirmed.status, confirmed.is_replayed()), (200, again), "{point:?} {confirmed:?}");
        }
        on.assert_paid(&aoi, &asked).await;
        on.world.assert_transfers(paid).await;
        assert_eq!(on.world.balance(&on.ren).await, AMOUNT_MINOR * i64::try_from(paid).unwrap());
    }
    let last = on.payer("last", FUNDS_MINOR).await;
    let asked = on.api.authorized(&last, &on.ren, 1).await;
    assert_eq!(on.api.confirm.calls(&last.confirm(&asked)).await.0, CONFIRM_CALLS);
}

/// A read of the instruction, the posting that is refused, and the record of it.
const REFUSAL_CALLS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_died_anywhere_is_recorded_once_by_its_repeat() {
    let on = setting().await;
    for (index, point) in Point::all(REFUSAL_CALLS).enumerate() {
        let aoi = on.payer(&index.to_string(), AMOUNT_MINOR - 1).await;
        let asked = on.api.authorized(&aoi, &on.ren, AMOUNT_MINOR).await;
        on.api.confirm.die(&aoi.confirm(&asked), point).await;
        let was_recorded = point.did(3);
        let state = if was_recorded { State::Failed } else { State::Authorized };
        assert_eq!(on.state(&aoi).await, Some(state), "{point:?}");

        let expected = if was_recorded { (409, "TR010") } else { (422, "TR008") };
        let refused = on.api.confirm.answer(&aoi.confirm(&asked)).await;
        assert_eq!((refused.status, refused.text("code")), expected, "{point:?}");
        assert_eq!((refused.text("result"), &refused.body["money_moved"]), ("NO_POSTING_CONFIRMED", &json!(false)));
        let survey = on.world.assert_transfers(0).await;
        assert_eq!(survey.books.outbox.len(), index + 1, "one event for each refusal");
        assert_eq!(on.world.balance(&aoi).await, AMOUNT_MINOR - 1);
    }
    let last = on.payer("last", 0).await;
    let asked = on.api.authorized(&last, &on.ren, 1).await;
    assert_eq!(on.api.confirm.calls(&last.confirm(&asked)).await.0, REFUSAL_CALLS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_that_died_is_made_once_by_its_repeat() {
    let on = setting().await;
    for (index, point) in Point::all(1).enumerate() {
        let aoi = on.payer(&index.to_string(), FUNDS_MINOR).await;
        let asked = on.api.authorized(&aoi, &on.ren, AMOUNT_MINOR).await;
        on.api.cancel.die(&aoi.cancel(&asked), point).await;
        let was_cancelled = point.did(1);
        let state = if was_cancelled { State::Cancelled } else { State::Authorized };
        assert_eq!(on.state(&aoi).await, Some(state), "{point:?}");
        let cancelled = on.api.cancel.answer(&aoi.cancel(&asked)).await;
        assert_eq!((cancelled.status, cancelled.is_replayed()), (200, was_cancelled), "{point:?}");
        let confirmed = on.api.confirm.answer(&aoi.confirm(&asked)).await;
        assert_eq!((confirmed.status, confirmed.text("code")), (409, "TR010"));
    }
    on.world.assert_transfers(0).await;
}

/// A read of the user's TOTP record, and the write.
const ENROLL_CALLS: usize = 2;

/// The code of the secret that an enrolment showed, now.
fn code_of(shown: &ApiAnswer) -> String {
    let (_, query) = shown.text("otpauth_uri").split_once('?').unwrap();
    let secret = query.split('&').find_map(|pair| pair.strip_prefix("secret=")).unwrap();
    let secret = BASE32_NOPAD.decode(secret.as_bytes()).unwrap();
    TotpSecret::new(&secret, "furikomi", "x").unwrap().code_at(step_at(system_time())).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enrolment_that_died_anywhere_is_made_by_its_repeat() {
    let on = setting().await;
    let enroll = on.world.function("enroll").await;
    for (index, point) in Point::all(ENROLL_CALLS).enumerate() {
        let mio = Person::newcomer(&format!("mio-{index}"));
        enroll.die(&mio.enroll(), point).await;
        assert_eq!(on.totp(&mio).await.is_some(), point.did(2), "{point:?}");
        // Nobody saw the secret that was stored; the one that is shown replaces it.
        let shown = enroll.answer(&mio.enroll()).await;
        assert_eq!((shown.status, shown.text("status")), (201, "PENDING"), "{shown:?}");

        let activation = mio.activate(&code_of(&shown));
        enroll.die(&activation, point).await;
        assert_eq!(on.totp(&mio).await.unwrap().active.is_some(), point.did(2), "{point:?}");
        let activated = enroll.answer(&activation).await;
        assert_eq!((activated.status, activated.text("status")), (200, "ACTIVE"), "{point:?} {activated:?}");
        let record = on.totp(&mio).await.unwrap();
        assert_eq!((record.failures, record.pending), (0, None));
    }
    let mio = Person::newcomer("mio-last");
    assert_eq!(enroll.calls(&mio.enroll()).await.0, ENROLL_CALLS);
}
