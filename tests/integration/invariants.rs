//! Random histories of every operation, with the bank's invariants checked after each step.

use crate::{
    bank::{Bank, Person},
    client::{Answer, Client, key, transfer},
    fakes::Act,
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use serde_json::Value;
use shared::{
    domain::{
        account::AccountStatus::{Active, Frozen},
        id::RequestId,
        invariants::Books,
    },
    store::accounts::AccountChange,
};
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

/// Histories of a run, and their lengths.
const HISTORIES: u32 = 24;
const LENGTHS: std::ops::Range<usize> = 12..36;
/// Every run makes the same histories.
const SEED: [u8; 32] = *b"furikomi: the same every time..!";
const NAMES: [&str; 3] = ["aoi", "ren", "mio"];
const FUNDS_MINOR: i64 = 1_000;

/// One step of a history. People and instructions are numbered round and round.
#[derive(Debug, Clone)]
enum Step {
    Request { from: usize, to: usize, amount_minor: i64 },
    Resend(usize),
    ResendChanged(usize),
    Authorize(usize),
    AuthorizeWrongly(usize),
    AuthorizeElsewhere(usize),
    Confirm(usize),
    ConfirmElsewhere(usize),
    ConfirmTwiceAtOnce(usize),
    ConfirmAndCancelAtOnce(usize),
    Pay { from: usize, to: usize, amount_minor: i64 },
    Cancel(usize),
    Advance(i64),
    Sweep,
    Freeze(usize),
    Unfreeze(usize),
    Limit { who: usize, daily_amount_minor: i64, daily_count: i64 },
    Deposit(usize, i64),
    Provider(Act),
    RelayAndDeliver,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (who, which, amount) = (0..NAMES.len(), 0..12_usize, 1..700_i64);
    // Now and then somebody means to pay themselves.
    let pair = (who.clone(), 0..7_usize).prop_map(|(from, hop)| (from, (from + hop.div_ceil(3)) % NAMES.len()));
    let act = prop_oneof![Just(Act::Accept), Just(Act::Refuse), Just(Act::Undecided)];
    let step = prop_oneof![
        4 => (pair.clone(), amount.clone())
            .prop_map(|((from, to), amount_minor)| Step::Request { from, to, amount_minor }),
        1 => which.clone().prop_map(Step::Resend),
        1 => which.clone().prop_map(Step::ResendChanged),
        5 => which.clone().prop_map(Step::Authorize),
        1 => which.clone().prop_map(Step::AuthorizeWrongly),
        1 => which.clone().prop_map(Step::AuthorizeElsewhere),
        4 => which.clone().prop_map(Step::Confirm),
        1 => which.clone().prop_map(Step::ConfirmElsewhere),
        3 => which.clone().prop_map(Step::ConfirmTwiceAtOnce),
        2 => which.clone().prop_map(Step::ConfirmAndCancelAtOnce),
        6 => (pair, amount).prop_map(|((from, to), amount_minor)| Step::Pay { from, to, amount_minor }),
        1 => which.prop_map(Step::Cancel),
        4 => prop_oneof![Just(1_i64), Just(30), Just(61), Just(600), Just(661), Just(43_200)].prop_map(Step::Advance),
        1 => Just(Step::Sweep),
        1 => who.clone().prop_map(Step::Freeze),
        2 => who.clone().prop_map(Step::Unfreeze),
        1 => (who.clone(), 100..2_000_i64, 0..6_i64).prop_map(|(who, daily_amount_minor, daily_count)| {
            Step::Limit { who, daily_amount_minor, daily_count }
        }),
        1 => (who, 1..500_i64).prop_map(|(who, amount)| Step::Deposit(who, amount)),
        1 => act.prop_map(Step::Provider),
        2 => Just(Step::RelayAndDeliver),
    ];
    vec(step, LENGTHS)
}

/// An instruction that was admitted, and what its owner was told of it.
struct Known {
    owner: usize,
    key: String,
    body: Value,
    id: String,
    content_hash: String,
    told_committed: bool,
    told_fenced: bool,
}

struct World {
    bank: Bank,
    people: Vec<Person>,
    known: Vec<Known>,
    deposited_minor: i64,
    keys: usize,
}

/// What the histories of a run came to, so that a run that does nothing is noticed.
#[derive(Default)]
struct Seen {
    posted: Cell<usize>,
    fenced: Cell<usize>,
    told: Cell<usize>,
}

impl World {
    async fn new() -> Self {
        let bank = Bank::new().await;
        let mut people = Vec::new();
        for name in NAMES {
            people.push(bank.person(name, FUNDS_MINOR).await);
        }
        Self { bank, people, known: Vec::new(), deposited_minor: 3 * FUNDS_MINOR, keys: 0 }
    }

    fn person(&self, index: usize) -> &Person {
        &self.people[index]
    }

    fn phone(&self, owner: usize, session: &str) -> Client {
        self.bank.client(self.person(owner), session)
    }

    /// The instruction with this number, if there is any, with its owner's phone.
    fn known(&self, index: usize) -> Option<(usize, &Known, Client)> {
        let index = index.checked_rem(self.known.len())?;
        let known = &self.known[index];
        Some((index, known, self.phone(known.owner, "s1")))
    }

    async fn request(&mut self, from: usize, to: usize, amount_minor: i64) -> bool {
        self.keys += 1;
        let key = key(&self.keys.to_string());
        let body = transfer(self.person(from), self.person(to), amount_minor);
        let answer = self.phone(from, "s1").request(&key, &body).await;
        if answer.status != 201 {
            assert!(["TR005", "TR006", "TR011", "TR014"].contains(&answer.code()), "{:?}", answer.body);
            return false;
        }
        let (id, content_hash) = (answer.id(), answer.text("content_hash").to_owned());
        self.known.push(Known { owner: from, key, body, id, content_hash, told_committed: false, told_fenced: false });
        true
    }

    async fn authorize(&self, index: usize, session: &str, right: bool) -> Option<(usize, Answer)> {
        let (index, known, _) = self.known(index)?;
        let user = &self.person(known.owner).user;
        let code = if right { self.bank.code(user, 0) } else { self.bank.wrong_code(user) };
        let answer = self.phone(known.owner, session).authorize(&known.id, &code, &known.content_hash).await;
        Some((index, answer))
    }

    /// Makes one step; the answers of it, by instruction.
    async fn make(&mut self, step: &Step) -> Vec<(usize, Answer)> {
        let answered = |found: Option<(usize, Answer)>| found.into_iter().collect();
        match *step {
            Step::Request { from, to, amount_minor } => {
                self.request(from, to, amount_minor).await;
                Vec::new()
            }
            Step::Pay { from, to, amount_minor } => {
                self.bank.next_step();
                if !self.request(from, to, amount_minor).await {
                    return Vec::new();
                }
                let index = self.known.len() - 1;
                let mut answers: Vec<_> = self.authorize(index, "s1", true).await.into_iter().collect();
                let (_, known, phone) = self.known(index).unwrap();
                answers.push((index, phone.confirm(&known.id).await));
                answers
            }
            Step::Resend(index) | Step::ResendChanged(index) => {
                let Some((index, known, phone)) = self.known(index) else { return Vec::new() };
                let mut body = known.body.clone();
                let changed = matches!(step, Step::ResendChanged(_));
                if changed {
                    body["memo"] = "changed".into();
                }
                let answer = phone.request(&known.key, &body).await;
                assert_eq!(answer.code() == "TR009", changed, "{:?}", answer.body);
                vec![(index, answer)]
            }
            Step::Authorize(index) => answered(self.authorize(index, "s1", true).await),
            Step::AuthorizeWrongly(index) => answered(self.authorize(index, "s1", false).await),
            Step::AuthorizeElsewhere(index) => answered(self.authorize(index, "s2", true).await),
            Step::Confirm(index) | Step::ConfirmElsewhere(index) => {
                let Some((index, known, _)) = self.known(index) else { return Vec::new() };
                let session = if matches!(step, Step::Confirm(_)) { "s1" } else { "s2" };
                vec![(index, self.phone(known.owner, session).confirm(&known.id).await)]
            }
            Step::ConfirmTwiceAtOnce(index) => {
                let Some((index, known, phone)) = self.known(index) else { return Vec::new() };
                let (one, two) = tokio::join!(phone.confirm(&known.id), phone.confirm(&known.id));
                vec![(index, one), (index, two)]
            }
            Step::ConfirmAndCancelAtOnce(index) => {
                let Some((index, known, phone)) = self.known(index) else { return Vec::new() };
                let (one, two) = tokio::join!(phone.confirm(&known.id), phone.cancel(&known.id));
                vec![(index, one), (index, two)]
            }
            Step::Cancel(index) => {
                let Some((index, known, phone)) = self.known(index) else { return Vec::new() };
                vec![(index, phone.cancel(&known.id).await)]
            }
            _ => {
                self.make_around(step).await;
                Vec::new()
            }
        }
    }

    /// A step of those around the customers: time, operators, the sweeper, the queue.
    async fn make_around(&mut self, step: &Step) {
        let change = |who: usize, change| self.bank.change(&self.people[who], change);
        match *step {
            Step::Advance(seconds) => self.bank.advance_s(seconds),
            Step::Sweep => drop(self.bank.sweep().await),
            Step::Freeze(who) => change(who, AccountChange { status: Some(Frozen), ..Default::default() }).await,
            Step::Unfreeze(who) => change(who, AccountChange { status: Some(Active), ..Default::default() }).await,
            Step::Limit { who, daily_amount_minor, daily_count } => {
                let limits = AccountChange {
                    daily_amount_minor: Some(daily_amount_minor),
                    daily_count: Some(daily_count),
                    ..Default::default()
                };
                change(who, limits).await;
            }
            Step::Deposit(who, amount_minor) => {
                self.bank.deposit(&self.people[who], amount_minor).await;
                self.deposited_minor += amount_minor;
            }
            Step::Provider(act) => {
                self.bank.mail.then([act]);
                self.bank.push.then([Act::Accept, act]);
            }
            Step::RelayAndDeliver => {
                self.bank.relay().await;
                self.bank.relay().await;
                self.bank.deliver().await;
            }
            _ => unreachable!("{step:?} is made by make"),
        }
    }

    /// Takes note of what the owner was told, and checks it against the books.
    async fn hear(&mut self, answers: Vec<(usize, Answer)>) {
        for (index, answer) in answers {
            assert!(!matches!(answer.status, 202 | 500..), "nothing fails here: {:?}", answer.body);
            let posted = answer.status == 200 && answer.text("result") == "FINANCIAL_COMMITTED";
            if posted && !self.known[index].told_committed {
                // The limits then in force held, this posting included.
                let source = self.bank.account(self.person(self.known[index].owner)).await;
                let left = source.left_on(self.bank.app.zone.day(self.bank.now()));
                let posted_at: jiff::Timestamp = answer.text("posted_at").parse().unwrap();
                if posted_at == self.bank.now() {
                    assert!(left.amount_minor >= 0 && left.count >= 0, "{left:?}");
                }
            }
            let known = &mut self.known[index];
            known.told_committed |=
                answer.text("result") == "FINANCIAL_COMMITTED" || answer.body["money_moved"] == true;
            known.told_fenced |= answer.text("result") == "NO_POSTING_CONFIRMED";
        }
    }

    async fn check(&self) -> Books {
        let books = self.bank.check().await;
        let mut journals: BTreeMap<String, usize> = BTreeMap::new();
        for journal in &books.journals {
            if let Some(id) = &journal.request_id {
                *journals.entry(id.to_string()).or_default() += 1;
            }
        }
        for known in &self.known {
            let count = journals.get(&known.id).copied().unwrap_or(0);
            if known.told_committed {
                assert_eq!(count, 1, "{} was told as committed", known.id);
            }
            if known.told_fenced {
                assert_eq!(count, 0, "{} was told as fenced", known.id);
            }
        }
        let of_customers: i64 = books.accounts.iter().map(|account| account.balance_minor.max(0)).sum();
        assert_eq!(of_customers, self.deposited_minor, "no money comes or goes but by deposits");
        for recorder in [&self.bank.mail, &self.bank.push] {
            let deliveries = recorder.deliveries.lock().unwrap();
            let keys: BTreeSet<_> = deliveries.iter().map(|delivery| &delivery.idempotency_key).collect();
            assert_eq!(keys.len(), deliveries.len(), "a provider accepted one notification twice");
        }
        books
    }

    /// After the last step: everything is told, and what is still open is fenced.
    async fn finish(&self, seen: &Seen) {
        for _ in 0..6 {
            self.bank.relay().await;
            self.bank.deliver().await;
        }
        assert!(self.bank.queue.messages.lock().unwrap().is_empty());
        self.bank.advance_s(661);
        self.bank.sweep().await;
        let books = self.check().await;
        let (inboxes, rows) = self.bank.app.store.all_notifications().await.unwrap();
        let events: BTreeSet<_> = books.outbox.values().flatten().cloned().collect();
        assert_eq!(inboxes, events);
        assert_eq!(rows.len(), 2 * events.len());
        assert!(rows.iter().all(|row| row.state.is_terminal()));
        for known in &self.known {
            let id = RequestId::parse(&known.id).unwrap();
            let posted = books.journals.iter().any(|journal| journal.request_id.as_ref() == Some(&id));
            let status = self.phone(known.owner, "s1").status(&known.id).await;
            let expected = if posted { "FINANCIAL_COMMITTED" } else { "NO_POSTING_CONFIRMED" };
            assert_eq!(status.text("result"), expected, "{:?}", status.body);
            let counter = if posted { &seen.posted } else { &seen.fenced };
            counter.set(counter.get() + 1);
        }
        seen.told.set(seen.told.get() + rows.len());
    }
}

async fn live(history: &[Step], seen: &Seen) {
    let mut world = World::new().await;
    for step in history {
        let answers = world.make(step).await;
        world.hear(answers).await;
        world.check().await;
    }
    world.finish(seen).await;
}

#[test]
fn the_invariants_hold_after_every_step_of_random_histories() {
    let config = Config { cases: HISTORIES, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    let seen = Seen::default();
    let outcome = runner.run(&steps(), |history| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| TestCaseError::fail(error.to_string()))?.block_on(live(&history, &seen));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // Histories in which nothing happens would prove nothing.
    let seen = (seen.posted.get(), seen.fenced.get(), seen.told.get());
    assert!(seen.0 >= 30 && seen.1 >= 18 && seen.2 >= 120, "{seen:?}");
}
