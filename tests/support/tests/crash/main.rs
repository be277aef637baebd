//! The real binaries of the functions, killed with SIGKILL at chosen points and at random ones, and started again: nothing
//! is lost, nothing doubled.
//!
//! A *point* is a call that a function makes to AWS: it is killed before the call arrives, or after it was done and
//! before the reply. Then the client, the stream or the queue repeats what it had sent, to a fresh process.
#![expect(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "these are tests")]

mod api;
mod delivery;
mod driver;
mod front;
mod random;
mod world;
