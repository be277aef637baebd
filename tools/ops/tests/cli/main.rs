//! The command line and its library against the embedded DynamoDB.
#![expect(clippy::unwrap_used, reason = "these are tests")]

mod accounts;
mod embedded;
mod people;
mod queues;
mod stand;
mod verify;
