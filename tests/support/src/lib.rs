//! The adversary in front of DynamoDB, the simulation that runs against it, and the driver of real function binaries.

pub mod adversary;
pub mod driver;
