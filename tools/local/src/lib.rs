//! furikomi in one process.

pub mod gateway;
