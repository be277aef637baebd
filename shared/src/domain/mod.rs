//! The rules of furikomi, as pure functions and values.
//!
//! **Architecture Invariant**: nothing here names AWS, HTTP, the environment, a clock or a source of randomness; the
//! time and every id come in as arguments. The same inputs give the same answer, on every engine and in every test.

pub mod account;
pub mod admission;
pub mod authorization;
pub mod day;
pub mod error;
pub mod event;
pub mod hash;
pub mod id;
pub mod idempotency;
pub mod instruction;
pub mod invariants;
pub mod money;
pub mod notification;
pub mod posting;
pub mod text;
pub mod totp;
