use clap::Parser;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    ops::run(ops::cli::Cli::parse()).await
}
