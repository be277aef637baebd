//! What the commands do, one file each.

pub mod accounts;
pub mod contacts;
pub mod deposit;
pub mod dlq;
pub mod notifications;
pub mod outbox;
pub mod totp;
pub mod trail;
pub mod verify;

use crate::{
    answer::{Answer, Fault},
    cli::{Command, Dlq, Outbox},
    ops::Ops,
};

/// Does what `command` says.
///
/// # Errors
/// [`Fault`] if it was not done, or if that is not known.
pub async fn run(ops: &Ops, command: Command) -> Result<Answer, Fault> {
    match command {
        Command::Accounts(command) => accounts::run(ops, command).await,
        Command::Deposit(deposit) => deposit::run(ops, deposit).await,
        Command::Identity(command) => accounts::identify(ops, command).await,
        Command::Contacts(command) => contacts::run(ops, command).await,
        Command::Totp(command) => totp::run(ops, command).await,
        Command::Verify(verify) => verify::run(ops, &verify).await,
        Command::Outbox(Outbox::Republish { since, missing_only }) => outbox::run(ops, since, missing_only).await,
        Command::Dlq(Dlq::Redrive { max, .. }) => dlq::run(ops, max).await,
        Command::Notifications(command) => notifications::run(ops, command).await,
        Command::Trail(trail) => trail::run(ops, trail.day).await,
    }
}

/// A plain table for people.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header);
    table.add_rows(rows);
    table
}
