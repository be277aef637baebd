//! The command line.

use crate::{
    demo,
    server::{Options, Server, StartError},
};
use clap::{Parser, Subcommand};
use std::{io::Write, path::PathBuf, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// furikomi in one process: a money-transfer backend to try out, without a cloud and without Docker.
///
/// Serves the API and the development routes on 127.0.0.1 until Ctrl-C, in memory or in a file. What it prints at the
/// start says how to get in.
#[derive(Debug, Parser)]
#[command(name = "local", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// The port to listen on, on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The file to keep everything in, with FILE.keys beside it; without it, everything is gone at the end.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Log what happens, to standard error, and not only what goes wrong.
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play the bank's promises over HTTP against a server in memory, and print what came of them.
    ///
    /// The exit code is 1 if one of them was broken.
    Demo,
}

/// Does what the command line says.
pub async fn run(cli: Cli) -> ExitCode {
    log(cli.verbose);
    let done = match cli.command {
        Some(Command::Demo) => play().await,
        None => serve(Options { port: cli.port, data: cli.data, ..Options::default() }).await,
    };
    done.unwrap_or_else(|error| {
        tell(&mut std::io::stderr(), &format!("local: {error}"));
        ExitCode::FAILURE
    })
}

async fn serve(options: Options) -> Result<ExitCode, StartError> {
    let ended = end().map_err(|error| StartError::Other(error.into()))?;
    let server = Server::start(options).await?;
    tell(&mut std::io::stdout(), &server.welcome());
    ended.await;
    server.stop().await;
    Ok(ExitCode::SUCCESS)
}

async fn play() -> Result<ExitCode, StartError> {
    let report = demo::play().await?;
    tell(&mut std::io::stdout(), &report.to_string());
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whoever reads this may have gone; that is no reason to fail.
fn tell(to: &mut dyn Write, text: &str) {
    if writeln!(to, "{text}").and_then(|()| to.flush()).is_err() {
        tracing::debug!("nobody reads what is printed");
    }
}

/// Standard output is for people, so the log goes to standard error: alarms, and all the rest where it is asked for.
fn log(verbose: bool) {
    let filter = if verbose { "info,hyper=warn,dynoxide=warn" } else { "error" };
    let filter = EnvFilter::new(filter);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
}

/// Resolves on Ctrl-C and on SIGTERM.
#[cfg(unix)]
fn end() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Resolves on Ctrl-C.
#[cfg(not(unix))]
fn end() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "Ctrl-C cannot be caught");
        }
    })
}
