//! furikomi in one process: the same handlers behind HTTP, on an embedded DynamoDB, with the outbox's stream, a queue,
//! the notifier and the sweeper around them. For trying out, demonstrations and tests; never for real money.
//!
//! **Architecture Invariant**: nothing here decides about money. Whatever a deployed function does is done by its own
//! `handle`; this crate only stands in for what surrounds it: API Gateway, DynamoDB, the event source mappings, the
//! providers of mail and push messages, and the identity provider.

mod bank;
pub mod cli;
mod clock;
mod data;
pub mod demo;
mod dev;
mod engine;
mod faults;
pub mod gateway;
mod http;
mod issuer;
mod keep;
mod people;
mod queue;
mod recorder;
mod recover;
mod server;
mod stream;
mod walk;

pub use data::DataFault;
pub use server::{Options, Server, StartError};
