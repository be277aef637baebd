//! What the driver itself promises, with a real function.

use crate::world::{World, program};
use serde_json::json;
use std::time::Duration;
use support::driver::{Function, Outcome, Setup, events::stream_event};

#[tokio::test(flavor = "multi_thread")]
async fn one_process_handles_one_event_after_the_other_until_it_is_killed() {
    let world = World::new().await;
    let (aoi, ren) = (world.person("aoi", 0).await, world.person("ren", 0).await);
    let request = world.function("request").await;
    assert!(request.function.process_id().is_none(), "it starts when it is needed");
    assert_eq!(request.answer(&aoi.request(&ren, 1)).await.status, 201);
    let first = request.function.process_id().unwrap();
    assert!(request.answer(&aoi.request(&ren, 1)).await.is_replayed());
    assert_eq!(request.function.process_id(), Some(first));
    assert!(request.function.lines().iter().any(|line| line.contains("admitted")));
    request.function.kill().await;
    assert!(request.function.process_id().is_none());
    request.function.kill().await;
    assert!(request.answer(&aoi.request(&ren, 1)).await.is_replayed());
    assert_ne!(request.function.process_id(), Some(first));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_over_its_time_is_killed_and_replaced() {
    let world = World::new().await;
    let driven = world.function("relay").await;
    let setup = |timeout| Setup {
        program: program("relay"),
        environment: crate::world::environment(&driven.front.endpoint),
        timeout,
    };
    // The relay waits for its queue longer than it is given here, and nothing is heard of it.
    let relay = Function::new(setup(Duration::from_millis(500)));
    let (aoi, ren) = (world.person("aoi", 1).await, world.person("ren", 0).await);
    world.api().await.posted(&aoi, &ren, 1).await;
    let items = world.outbox().await;
    let batch = stream_event([("1", &items[0])]);
    relay.start().await.unwrap();
    let first = relay.process_id();
    driven.front.hang(true);
    assert_eq!(relay.invoke(&batch).await.unwrap(), Outcome::TimedOut);
    assert!(first.is_some() && relay.process_id().is_none());
    driven.front.hang(false);
    let relay = Function::new(setup(Duration::from_secs(10)));
    assert_eq!(relay.invoke(&batch).await.unwrap(), Outcome::Answered(json!({ "batchItemFailures": [] })));
    assert_eq!(world.outside.queue.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_given_a_deadline_answers_before_it() {
    let world = World::new().await;
    let (aoi, ren) = (world.person("aoi", 1).await, world.person("ren", 0).await);
    let api = world.api().await;
    let asked = api.authorized(&aoi, &ren, 1).await;
    let front = &api.confirm.front;
    let setup = Setup {
        program: program("confirm"),
        environment: crate::world::environment(&front.endpoint),
        timeout: Duration::from_secs(3),
    };
    let confirm = Function::new(setup);
    confirm.start().await.unwrap();
    front.hang(true);
    let Outcome::Answered(response) = confirm.invoke(&aoi.confirm(&asked)).await.unwrap() else {
        panic!("a database that hangs makes an answer, in time: {}", confirm.lines().join("\n"));
    };
    let answer = support::driver::events::ApiAnswer::read(&response);
    assert_eq!((answer.status, answer.text("code")), (503, "SV001"));
    front.hang(false);
    assert_eq!(api.confirm.answer(&aoi.confirm(&asked)).await.status, 200);
    world.assert_transfers(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_without_its_configuration_does_not_start_and_names_every_fault() {
    let setup = Setup { program: program("notifier"), environment: Vec::new(), timeout: Duration::from_secs(1) };
    let function = Function::new(setup);
    let Outcome::NotStarted(said) = function.invoke(&json!({})).await.unwrap() else { panic!("it started") };
    for name in ["FURIKOMI_CORE_TABLE", "FURIKOMI_NOTIFICATIONS_TABLE", "FURIKOMI_SENDER"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    assert!(function.start().await.is_err());
}
