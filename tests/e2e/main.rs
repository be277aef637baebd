//! End-to-end tests against a deployed stack, the same on every engine. `infra/stack test` runs them; without a stack
//! they fail. Each test opens accounts of its own, so they run side by side; what looks at everything comes at the end.
#![expect(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "these are tests"
)]

mod at_the_end;
mod client;
mod delivery;
mod gate;
mod kill;
mod people;
mod processes;
mod refusals;
mod relay;
mod roles;
mod scenes;
mod stack;
mod tokens;

use libtest_mimic::{Arguments, Trial};
use stack::Stack;
use std::{
    future::Future,
    process::ExitCode,
    sync::{Arc, RwLock},
};
use tokio::runtime::Runtime;

/// What the tests are added to.
struct Suite {
    runtime: Arc<Runtime>,
    stack: Arc<Stack>,
    /// Held for reading by every test that runs beside others, for writing by one that has to be alone.
    stage: Arc<RwLock<()>>,
    trials: Vec<Trial>,
}

impl Suite {
    /// Adds a test that runs beside others.
    fn test<F>(&mut self, name: &str, run: impl FnOnce(Arc<Stack>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (runtime, stack, stage) = (Arc::clone(&self.runtime), Arc::clone(&self.stack), Arc::clone(&self.stage));
        self.trials.push(Trial::test(name, move || {
            // A test that failed alone leaves the lock poisoned, and is none of the others' business.
            let _beside = stage.read();
            runtime.block_on(run(stack));
            Ok(())
        }));
    }

    /// Adds a test that waits for those that run, and lets none begin beside it.
    fn alone<F>(&mut self, name: &str, run: impl FnOnce(Arc<Stack>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (runtime, stack, stage) = (Arc::clone(&self.runtime), Arc::clone(&self.stack), Arc::clone(&self.stage));
        self.trials.push(Trial::test(name, move || {
            let _alone = stage.write();
            runtime.block_on(run(stack));
            Ok(())
        }));
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of the time is waiting for leases, schedules and retries.
    arguments.test_threads.get_or_insert(8);
    let runtime = Arc::new(Runtime::new().unwrap());
    let stack = match runtime.block_on(Stack::from_env()) {
        Ok(stack) => Arc::new(stack),
        Err(missing) => {
            eprintln!("e2e: {missing}\n     run them by `infra/stack test`, after `infra/stack up`");
            return ExitCode::FAILURE;
        }
    };
    let mut suite = Suite { runtime, stack, stage: Arc::default(), trials: Vec::new() };
    // The slow ones first, so that the others run while these wait.
    kill::add(&mut suite);
    delivery::add(&mut suite);
    refusals::add(&mut suite);
    scenes::add(&mut suite);
    tokens::add(&mut suite);
    roles::add(&mut suite);
    relay::add(&mut suite);
    at_the_end::add(&mut suite);
    libtest_mimic::run(&arguments, suite.trials).exit_code()
}
