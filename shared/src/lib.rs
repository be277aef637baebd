//! furikomi's library: what the functions, the embedded server and the tools have in common.
//!
//! The direction of dependencies is `app, auth, http, problem, batch` → `store` → `domain`; see ARCHITECTURE.md.

pub mod app;
pub mod auth;
pub mod batch;
pub mod body;
pub mod channel;
pub mod cipher;
pub mod code;
pub mod config;
pub mod domain;
pub mod http;
pub mod problem;
pub mod queue;
pub mod random;
pub mod resource;
pub mod store;
pub mod telemetry;
