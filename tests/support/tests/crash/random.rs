//! Kills at random moments, of all functions on a transfer's way, while other transfers are under way.

use crate::world::{Api, Driven, Person, World};
use fastrand::Rng;
use serde_json::{Value, json};
use shared::domain::notification::NotificationState::{Sent, Unknown};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use support::driver::{
    Outcome,
    events::{ApiAnswer, batch_failures, sqs_event, stream_event},
};

/// Clients at once, each with processes of its own, and transfers of each.
const CLIENTS: usize = 3;
const TRANSFERS: usize = 8;
/// Long enough for a call of every function, so that some are killed at their end or after it.
const MOMENT_MAX_US: u64 = 12_000;
const FUNDS_MINOR: i64 = 100;
/// Kills that one event meets at most, so that it comes to its end.
const KILLS_MAX: usize = 3;

/// Has the function handle the event, killing it at random moments and repeating it, until there is a response. Counts
/// the kills that cut something off.
async fn insist(driven: &Driven, event: &Value, random: &mut Rng, cut: &mut usize) -> Value {
    for _ in 0..random.usize(0..=KILLS_MAX) {
        driven.function.start().await.unwrap();
        let moment = Duration::from_micros(random.u64(0..MOMENT_MAX_US));
        let (outcome, ()) = tokio::join!(driven.function.invoke(event), async {
            tokio::time::sleep(moment).await;
            driven.function.kill().await;
        });
        match outcome.unwrap() {
            Outcome::Died => *cut += 1,
            Outcome::Answered(response) if is_final(&response) => return response,
            Outcome::Answered(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let response = driven.respond(event).await;
    assert!(is_final(&response), "{response}");
    response
}

/// Whether there is nothing to be repeated: no 202, 429 or 503, and no record that has to come again.
fn is_final(response: &Value) -> bool {
    let again = [202, 429, 503].contains(&response["statusCode"].as_u64().unwrap_or_default());
    !again && batch_failures(response).is_none_or(|failures| failures.is_empty())
}

/// Pays from `aoi` to `ren`, under fire; what the client was told at the end.
async fn pay(api: &Api, (aoi, ren): (&Person, &Person), amount: i64, random: &mut Rng, cut: &mut usize) -> ApiAnswer {
    let asked = ApiAnswer::read(&insist(&api.request, &aoi.request(ren, amount), random, cut).await);
    assert!(matches!(asked.status, 200 | 201), "{asked:?}");
    // The code is the one on the payer's screen; the repeats send it again as it was.
    let authorization = aoi.authorize(&asked, &aoi.code());
    let authorized = ApiAnswer::read(&insist(&api.authorize, &authorization, random, cut).await);
    assert_eq!(authorized.status, 200, "{authorized:?}");
    ApiAnswer::read(&insist(&api.confirm, &aoi.confirm(&asked), random, cut).await)
}

/// The transfers of one client: how many were posted, and how many kills cut something off.
async fn client(world: Arc<World>, number: usize, ren: Person) -> (usize, usize) {
    let mut random = Rng::with_seed(0x5EED + u64::try_from(number).unwrap());
    let api = world.api().await;
    let (mut posted, mut cut) = (0, 0);
    for transfer in 0..TRANSFERS {
        let aoi = world.person(&format!("aoi-{number}-{transfer}"), FUNDS_MINOR).await;
        // Every fourth is more than Aoi has.
        let amount = if transfer % 4 == 3 { FUNDS_MINOR + 1 } else { random.i64(1..=FUNDS_MINOR) };
        let told = pay(&api, (&aoi, &ren), amount, &mut random, &mut cut).await;
        let is_posted = amount <= FUNDS_MINOR;
        if is_posted {
            assert_eq!((told.status, told.text("result")), (200, "FINANCIAL_COMMITTED"), "{told:?}");
        } else {
            // The record may have been made by one that was killed before it said so.
            assert!(matches!((told.status, told.text("code")), (422, "TR008") | (409, "TR010")), "{told:?}");
            assert_eq!(told.text("result"), "NO_POSTING_CONFIRMED");
        }
        assert_eq!(world.balance(&aoi).await, FUNDS_MINOR - if is_posted { amount } else { 0 });
        posted += usize::from(is_posted);
    }
    (posted, cut)
}

/// Brings what is told to its end: relay and notifier under fire, leases that end, and the sweeper. The kills that cut
/// something off.
async fn tell(world: &World, random: &mut Rng) -> usize {
    let mut cut = 0;
    let (relay, notifier) = (world.function("relay").await, world.function("notifier").await);
    for (index, item) in world.outbox().await.iter().enumerate() {
        insist(&relay, &stream_event([(index.to_string().as_str(), item)]), random, &mut cut).await;
    }
    let messages = std::mem::take(&mut *world.outside.queue.lock().unwrap());
    let mut waiting = Vec::new();
    for message in &messages {
        notifier.function.start().await.unwrap();
        let moment = Duration::from_micros(random.u64(0..2 * MOMENT_MAX_US));
        let event = sqs_event([("m", message.as_str())]);
        let (outcome, ()) = tokio::join!(notifier.function.invoke(&event), async {
            tokio::time::sleep(moment).await;
            if moment.as_micros().is_multiple_of(2) {
                notifier.function.kill().await;
            }
        });
        match outcome.unwrap() {
            Outcome::Answered(response) if is_final(&response) => {}
            outcome => {
                cut += usize::from(outcome == Outcome::Died);
                waiting.push(message);
            }
        }
    }
    world.end_leases().await;
    world.function("sweeper").await.respond(&json!({})).await;
    for message in waiting {
        assert!(is_final(&notifier.respond(&sqs_event([("m", message.as_str())])).await));
    }
    cut
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_killed_at_random_moments_lose_and_double_nothing() {
    let world = Arc::new(World::new().await);
    let ren = world.person("ren", 0).await;
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(client(Arc::clone(&world), number, ren.clone()))).collect();
    let (mut posted, mut cut) = (0, 0);
    for client in clients {
        let (of_client, cut_of_client) = client.await.unwrap();
        posted += of_client;
        cut += cut_of_client;
    }
    cut += tell(&world, &mut Rng::with_seed(0x7E11)).await;
    assert!(cut > 20, "kills that hit nobody prove nothing: {cut}");

    let survey = world.assert_transfers(posted).await;
    let refused = survey.books.instructions.len() - posted;
    assert_eq!((posted, refused), (CLIENTS * TRANSFERS * 3 / 4, CLIENTS * TRANSFERS / 4));
    // Every event has its inbox and both of its rows, and each is settled.
    assert_eq!((survey.inboxes.len(), survey.rows.len()), (2 * posted + refused, 2 * (2 * posted + refused)));
    let mut accepted: BTreeMap<String, usize> = BTreeMap::new();
    let outside = &world.outside;
    for address in outside.mails.lock().unwrap().iter().chain(outside.pushes.lock().unwrap().iter()) {
        *accepted.entry(address.clone()).or_default() += 1;
    }
    let mut sent: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for row in &survey.rows {
        let (sent, unknown) = sent.entry(row.address.clone()).or_default();
        match row.state {
            Sent => *sent += 1,
            Unknown => *unknown += 1,
            other => panic!("{other:?} {row:?}"),
        }
    }
    for (address, (sent, unknown)) in sent {
        let accepted = accepted.get(&address).copied().unwrap_or_default();
        assert!((sent..=sent + unknown).contains(&accepted), "{address}: {accepted} of {sent} and {unknown}");
    }
}
