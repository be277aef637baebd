//! The real handlers on the embedded DynamoDB, a fresh database per test.
#![expect(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "these are tests")]

mod accounts;
mod admission;
mod auth;
mod authorize;
mod bank;
mod budgets;
mod cancel;
mod client;
mod concurrency;
mod confirm;
mod confirm_limits;
mod enroll;
mod fakes;
mod faults;
mod interleavings;
mod invariants;
mod look;
mod notifications;
mod notifier;
mod providers;
mod relay;
mod request;
mod request_body;
mod status;
mod sweeper;
mod tidy;
