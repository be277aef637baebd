use clap::Parser;
use local::cli::Cli;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    local::cli::run(Cli::parse()).await
}
