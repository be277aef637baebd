//! The operators' command line of furikomi.
//!
//! It works wherever the tables are: on AWS, LocalStack, MiniStack and the embedded engine, by the variables of the AWS
//! SDK and furikomi's own. What an operator changes is one transaction with a line of the operators' trail.

pub mod answer;
pub mod cli;
pub mod commands;
pub mod dead_letters;
pub mod ops;
pub mod progress;
pub mod values;

use crate::{
    answer::{Answer, Fault},
    cli::Cli,
    ops::Ops,
};
use std::{io::Write, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// Does what the command line says, prints what came of it, and gives the exit code: 0 done, 1 refused or violated, 2
/// not understood or not configured, 3 no answer.
pub async fn run(cli: Cli) -> ExitCode {
    // What the library logs is for the functions' alarms; here its errors are told by the answer itself.
    let filter = EnvFilter::new("off");
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let is_json = cli.json;
    let answer = match Ops::from_env(&cli).await {
        Ok(ops) => commands::run(&ops, cli.command).await,
        Err(fault) => Err(fault),
    };
    print(answer, is_json, &mut std::io::stdout(), &mut std::io::stderr())
}

/// Prints an answer to `out`, and what went wrong to `err`. Whoever reads it may have gone; that changes no exit code.
fn print(answer: Result<Answer, Fault>, is_json: bool, out: &mut dyn Write, err: &mut dyn Write) -> ExitCode {
    let (printed, code) = match answer {
        Ok(answer) => {
            let text = if is_json { format!("{:#}", answer.json) } else { answer.text };
            (writeln!(out, "{}", text.trim_end()), if answer.is_good { 0 } else { 1 })
        }
        Err(fault) => {
            let told = if is_json { writeln!(out, "{:#}", fault.to_json()) } else { Ok(()) };
            (told.and_then(|()| writeln!(err, "ops: {}", fault.line())), fault.exit_code())
        }
    };
    if printed.and_then(|()| out.flush()).is_err() {
        tracing::debug!("nobody reads what is printed");
    }
    ExitCode::from(code)
}
