//! The command line.

use crate::values::{self, Since};
use clap::{Args, Parser, Subcommand};
use shared::{
    config::Need,
    domain::{
        day::Day,
        event::EventId,
        id::{AccountId, UserId},
        money::{Amount, Currency},
        notification::{Channel, Locale, NotificationState},
    },
};

const ENVIRONMENT: &str = "\
Environment:
  FURIKOMI_CORE_TABLE, FURIKOMI_LEDGER_TABLE, FURIKOMI_OUTBOX_TABLE, FURIKOMI_NOTIFICATIONS_TABLE
                            the tables: always
  FURIKOMI_QUEUE_URL        the notifier's queue: outbox republish, dlq redrive, notifications resend
  FURIKOMI_KMS_KEY or FURIKOMI_LOCAL_KEY
                            how secrets are sealed: totp enroll
  FURIKOMI_TIME_ZONE        where a day begins (Asia/Tokyo)
  AWS_REGION, AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE, …
                            as for every tool of AWS's; the endpoint is that of LocalStack, MiniStack or an embedded engine

Exit codes:
  0 done (or so already)   1 refused, or the books are not in order   2 usage or configuration   3 no answer

Examples:
  ops accounts open ac_aoi --owner aoi --name 'Aoi Sato' --currency JPY
  ops identity verify ac_aoi
  ops deposit ac_aoi 100000 --reference payroll-2026-12
  ops accounts limits ac_aoi --per-transfer 300000
  ops verify --json
  ops outbox republish --since 24h --missing-only
  ops notifications list --state UNKNOWN
";

/// The operators' command line of furikomi: accounts, deposits, checks, and what has to be told again.
///
/// Every change is one conditional transaction with a line of the operators' trail (ops trail).
#[derive(Debug, Parser)]
#[command(name = "ops", version, after_help = ENVIRONMENT, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
    /// Who orders it, for the trail.
    #[arg(long, global = true, env = "USER", hide_env_values = true, value_name = "NAME")]
    pub operator: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Open, show and change accounts.
    #[command(subcommand)]
    Accounts(Accounts),
    /// Fund an account by a posting from the internal account of its currency, once per reference.
    Deposit(Deposit),
    /// Say whether the identity of an account's holder is verified: only then can it be debited.
    #[command(subcommand)]
    Identity(Identity),
    /// Show and change how a user is reached.
    #[command(subcommand)]
    Contacts(Contacts),
    /// Take a user's TOTP secret out of force.
    #[command(subcommand)]
    Totp(Totp),
    /// Read everything and check that the books are in order.
    ///
    /// What looks wrong is read again, as of one moment, before it is called a violation: a busy bank is never of one
    /// moment. Exit code 1 if there is a violation, and each names its item.
    Verify(Verify),
    /// What was posted or refused, and has to be told.
    #[command(subcommand)]
    Outbox(Outbox),
    /// Messages that were given up.
    #[command(subcommand)]
    Dlq(Dlq),
    /// What recipients were sent, and what is not known to have been.
    #[command(subcommand)]
    Notifications(Notifications),
    /// Show what operators changed on a day.
    Trail(Trail),
}

/// Accounts.
#[derive(Debug, Subcommand)]
pub enum Accounts {
    /// Open an account with a zero balance and an identity that is not verified.
    Open(Open),
    /// Show an account.
    Show {
        /// The account.
        #[arg(value_parser = values::account)]
        account: AccountId,
    },
    /// Take an account out of postings, for now.
    Freeze {
        /// The account.
        #[arg(value_parser = values::account)]
        account: AccountId,
    },
    /// Let a frozen account take part again.
    Unfreeze {
        /// The account.
        #[arg(value_parser = values::account)]
        account: AccountId,
    },
    /// Close an account for good. Its balance has to be zero.
    Close {
        /// The account.
        #[arg(value_parser = values::account)]
        account: AccountId,
    },
    /// Change limits. What is left of today moves with them.
    Limits {
        /// The account.
        #[arg(value_parser = values::account)]
        account: AccountId,
        /// The new limits.
        #[command(flatten)]
        limits: NewLimits,
    },
}

/// An account to be.
#[derive(Debug, Args)]
pub struct Open {
    /// Its id: 1–64 letters, digits, - and _. The same id opens one account only.
    #[arg(value_parser = values::account)]
    pub account: AccountId,
    /// Who may move its money: the sub claim of the identity provider.
    #[arg(long, value_name = "USER", value_parser = values::user)]
    pub owner: UserId,
    /// The name that payers are shown.
    #[arg(long, value_parser = values::holder_name)]
    pub name: String,
    /// Its one currency (ISO 4217).
    #[arg(long, value_parser = values::currency)]
    pub currency: Currency,
    /// The most that may be debited in a day, in minor units.
    #[arg(long, default_value = "10000000", value_name = "MINOR", value_parser = values::limit)]
    pub daily_amount: i64,
    /// The most transfers that may be made in a day.
    #[arg(long, default_value = "1000", value_name = "COUNT", value_parser = values::limit)]
    pub daily_count: i64,
    /// The most that one transfer may move, in minor units.
    #[arg(long, default_value = "1000000", value_name = "MINOR", value_parser = values::limit)]
    pub per_transfer: i64,
}

/// Limits to change; the others stay.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct NewLimits {
    /// The most that may be debited in a day, in minor units.
    #[arg(long, value_name = "MINOR", value_parser = values::limit)]
    pub daily_amount: Option<i64>,
    /// The most transfers that may be made in a day.
    #[arg(long, value_name = "COUNT", value_parser = values::limit)]
    pub daily_count: Option<i64>,
    /// The most that one transfer may move, in minor units.
    #[arg(long, value_name = "MINOR", value_parser = values::limit)]
    pub per_transfer: Option<i64>,
}

/// A deposit.
#[derive(Debug, Args)]
pub struct Deposit {
    /// The account to fund.
    #[arg(value_parser = values::account)]
    pub account: AccountId,
    /// How much, in minor units.
    #[arg(value_name = "AMOUNT_MINOR", value_parser = values::amount)]
    pub amount: Amount,
    /// What this deposit is for. The same account and reference are one deposit, however often it is ordered.
    #[arg(long, value_name = "REF", value_parser = values::reference)]
    pub reference: String,
}

/// Identity.
#[derive(Debug, Subcommand)]
pub enum Identity {
    /// It is.
    Verify {
        /// The account.
        #[arg(value_parser = values::account)]
        account: AccountId,
    },
    /// It is not, any more.
    Revoke {
        /// The account.
        #[arg(value_parser = values::account)]
        account: AccountId,
    },
}

/// Contacts.
#[derive(Debug, Subcommand)]
pub enum Contacts {
    /// Show how a user is reached.
    Show {
        /// The user.
        #[arg(value_parser = values::user)]
        user: UserId,
    },
    /// Change how a user is reached; what is not named stays.
    Set(SetContact),
}

/// A change of a contact.
#[derive(Debug, Args)]
pub struct SetContact {
    /// The user.
    #[arg(value_parser = values::user)]
    pub user: UserId,
    /// The language of texts: ja or en. Japanese for a new contact.
    #[arg(long, value_parser = values::locale)]
    pub locale: Option<Locale>,
    /// The mail address.
    #[arg(long, value_name = "ADDR", value_parser = values::email)]
    pub email: Option<String>,
    /// No mail any more.
    #[arg(long, conflicts_with = "email")]
    pub no_email: bool,
    /// The SNS endpoint of the user's phone.
    #[arg(long, value_name = "ARN", value_parser = values::push)]
    pub push: Option<String>,
    /// No push messages any more.
    #[arg(long, conflicts_with = "push")]
    pub no_push: bool,
}

/// TOTP.
#[derive(Debug, Subcommand)]
pub enum Totp {
    /// Remove a user's active and pending secret, so that the user has to enrol anew. The count of wrong codes, the lock
    /// and the last accepted code stay.
    Reset {
        /// The user.
        #[arg(value_parser = values::user)]
        user: UserId,
    },
    /// Put a new secret in force and show it, once: to seed a stack on this machine, and nowhere else.
    Enroll {
        /// The user.
        #[arg(value_parser = values::user)]
        user: UserId,
        /// Show the secret. Without it nobody could use it.
        #[arg(long, required = true)]
        show: bool,
    },
}

/// The check of the books.
#[derive(Debug, Args)]
pub struct Verify {
    /// How old an event of the outbox may be without an inbox before it is reported.
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = values::seconds)]
    pub grace: i64,
    /// How long to wait before reading again what looked wrong.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = values::seconds)]
    pub settle: i64,
    /// Exit with 1 for events without an inbox too.
    #[arg(long)]
    pub strict: bool,
}

/// The outbox.
#[derive(Debug, Subcommand)]
pub enum Outbox {
    /// Put events on the queue again. The inbox absorbs what was told already.
    Republish {
        /// The oldest to send: RFC 3339, or how long ago (90m, 24h, 7d). The outbox keeps 30 days.
        #[arg(long, value_name = "TIME", value_parser = values::since)]
        since: Since,
        /// Only those that have no inbox.
        #[arg(long)]
        missing_only: bool,
    },
}

/// Dead letters.
#[derive(Debug, Subcommand)]
pub enum Dlq {
    /// Move messages back to the notifier's queue. What is no event of furikomi's stays where it is.
    Redrive {
        /// The dead-letter queue.
        #[arg(long, value_name = "URL")]
        dlq_url: Option<String>,
        /// The on-failure queue of relay. It holds positions of the stream only: the events from there on that have no
        /// inbox are sent from the outbox.
        #[arg(long, value_name = "URL", required_unless_present = "dlq_url")]
        on_failure_url: Option<String>,
        /// The most messages to move.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        max: u32,
    },
}

/// Notifications.
#[derive(Debug, Subcommand)]
pub enum Notifications {
    /// List notifications by state.
    List {
        /// The states to list.
        #[arg(long, default_values = ["UNKNOWN", "FAILED"], value_delimiter = ',', value_parser = values::state)]
        state: Vec<NotificationState>,
    },
    /// Send an UNKNOWN or FAILED notification once more. If the provider accepted the first, the recipient gets two.
    Resend {
        /// The event.
        #[arg(value_name = "EVENT_ID", value_parser = values::event)]
        event: EventId,
        /// EMAIL or PUSH.
        #[arg(value_parser = values::channel)]
        channel: Channel,
    },
}

/// The trail.
#[derive(Debug, Args)]
pub struct Trail {
    /// The day, in the bank's time zone; today if it is left out.
    #[arg(long, value_name = "YYYYMMDD", value_parser = parse_day)]
    pub day: Option<Day>,
}

fn parse_day(raw: &str) -> Result<Day, String> {
    Day::parse(&raw.replace('-', "")).ok_or_else(|| "is not a day such as 20261201".to_owned())
}

impl Command {
    /// What the command cannot do without, beyond the tables.
    #[must_use]
    pub const fn needs(&self) -> &'static [Need] {
        match self {
            Self::Totp(Totp::Enroll { .. }) => &[Need::Cipher],
            Self::Outbox(_) | Self::Dlq(_) | Self::Notifications(Notifications::Resend { .. }) => &[Need::Queue],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
