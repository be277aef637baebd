//! The real handlers on the embedded DynamoDB, a fresh database per test.
#![expect(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "these are tests")]

mod bank;
mod client;
mod confirm;
mod fakes;
