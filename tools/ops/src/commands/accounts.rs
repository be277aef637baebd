//! `ops accounts` and `ops identity`.

use crate::{
    answer::{Answer, Fault},
    cli::{Accounts, Identity, Open},
    ops::Ops,
};
use serde_json::{Value, json};
use shared::{
    domain::{
        account::{Account, AccountKind, AccountStatus, Limits},
        day::Day,
        id::AccountId,
    },
    store::{accounts::AccountChange, orders},
};
use std::collections::BTreeMap;

/// Does what `command` says.
///
/// # Errors
/// [`Fault`].
pub async fn run(ops: &Ops, command: Accounts) -> Result<Answer, Fault> {
    match command {
        Accounts::Open(open) => self::open(ops, open).await,
        Accounts::Show { account } => show(ops, &account).await,
        Accounts::Freeze { account } => change(ops, "accounts freeze", &account, freeze).await,
        Accounts::Unfreeze { account } => change(ops, "accounts unfreeze", &account, unfreeze).await,
        Accounts::Close { account } => change(ops, "accounts close", &account, close).await,
        Accounts::Limits { account, limits } => {
            let wanted = AccountChange {
                daily_amount_minor: limits.daily_amount,
                daily_count: limits.daily_count,
                per_transfer_minor: limits.per_transfer,
                ..AccountChange::default()
            };
            change(ops, "accounts limits", &account, |read| not_closed(read).and(Ok(wanted))).await
        }
    }
}

/// `ops identity`.
///
/// # Errors
/// [`Fault`].
pub async fn identify(ops: &Ops, command: Identity) -> Result<Answer, Fault> {
    let (name, account, verified) = match command {
        Identity::Verify { account } => ("identity verify", account, true),
        Identity::Revoke { account } => ("identity revoke", account, false),
    };
    let wanted = AccountChange { identity_verified: Some(verified), ..AccountChange::default() };
    change(ops, name, &account, |read| not_closed(read).and(Ok(wanted))).await
}

async fn open(ops: &Ops, open: Open) -> Result<Answer, Fault> {
    let account = Account {
        id: open.account,
        owner: open.owner,
        holder_name: open.name,
        currency: open.currency,
        status: AccountStatus::Active,
        identity_verified: false,
        balance_minor: 0,
        limits: Limits {
            daily_amount_minor: open.daily_amount,
            daily_count: open.daily_count,
            per_transfer_minor: open.per_transfer,
        },
        kind: AccountKind::Customer,
        allowances: BTreeMap::new(),
    };
    let answer = ops.store.order_opening(&account, &ops.order("accounts open")?, ops.deadline()).await?;
    answer_of(ops, &account.id, answer)
}

async fn show(ops: &Ops, id: &AccountId) -> Result<Answer, Fault> {
    let account = ops.store.account(id, ops.deadline()).await?.ok_or_else(|| missing(id))?;
    Ok(Answer::good(account_json(&account, ops.today()), account_text(&account, ops.today())))
}

async fn change(
    ops: &Ops,
    command: &str,
    id: &AccountId,
    decide: impl Fn(&Account) -> Result<AccountChange, String>,
) -> Result<Answer, Fault> {
    let answer = ops.store.order_change(id, decide, &ops.order(command)?, ops.deadline()).await?;
    answer_of(ops, id, answer)
}

fn to_status(status: AccountStatus) -> AccountChange {
    AccountChange { status: Some(status), ..AccountChange::default() }
}

fn not_closed(read: &Account) -> Result<(), String> {
    match read.status {
        AccountStatus::Closed => Err(format!("{} is CLOSED, for good", read.id)),
        AccountStatus::Active | AccountStatus::Frozen => Ok(()),
    }
}

fn freeze(read: &Account) -> Result<AccountChange, String> {
    not_closed(read).and(Ok(to_status(AccountStatus::Frozen)))
}

fn unfreeze(read: &Account) -> Result<AccountChange, String> {
    not_closed(read).and(Ok(to_status(AccountStatus::Active)))
}

fn close(read: &Account) -> Result<AccountChange, String> {
    match (read.kind, read.balance_minor) {
        (AccountKind::Internal, _) => Err(format!("{} is the bank's own account", read.id)),
        (AccountKind::Customer, 0) => Ok(to_status(AccountStatus::Closed)),
        (AccountKind::Customer, balance) => {
            Err(format!("{} has a balance of {}", read.id, read.currency.format(balance)))
        }
    }
}

fn missing(id: &AccountId) -> Fault {
    Fault::Refused(format!("there is no account {id}"))
}

fn answer_of(ops: &Ops, id: &AccountId, answer: orders::Answer<Account>) -> Result<Answer, Fault> {
    let (account, has_changed) = match answer {
        orders::Answer::Done { after, .. } => (after, true),
        orders::Answer::Unchanged(account) => (account, false),
        orders::Answer::Refused(why) => return Err(Fault::Refused(why)),
        orders::Answer::Missing => return Err(missing(id)),
    };
    let said = if has_changed { "done" } else { "unchanged: it was so already" };
    let json = json!({ "changed": has_changed, "account": account_json(&account, ops.today()) });
    Ok(Answer::good(json, format!("{said}\n{}", account_text(&account, ops.today()))))
}

/// An account for programs: the API's members, and what only the bank sees.
pub(crate) fn account_json(account: &Account, today: Day) -> Value {
    let (limits, left) = (account.limits, account.left_on(today));
    json!({
        "account_id": account.id.as_str(),
        "owner_id": account.owner.as_str(),
        "holder_name": account.holder_name,
        "kind": account.kind.as_str(),
        "currency": account.currency.code(),
        "status": account.status.as_str(),
        "identity_verified": account.identity_verified,
        "balance_minor": account.balance_minor,
        "limits": {
            "daily_amount_limit_minor": limits.daily_amount_minor,
            "daily_count_limit": limits.daily_count,
            "per_transfer_limit_minor": limits.per_transfer_minor,
        },
        // Not clamped as in the API: an operator sees how far below nothing a lowered limit left it.
        "left_today": { "amount_minor": left.amount_minor, "count": left.count },
    })
}

fn account_text(account: &Account, today: Day) -> String {
    let (limits, left) = (account.limits, account.left_on(today));
    let money = |minor| account.currency.format(minor);
    let verified = if account.identity_verified { "verified" } else { "not verified" };
    [
        ("account", account.id.to_string()),
        ("holder", format!("{} ({})", account.holder_name, account.owner)),
        ("kind", account.kind.as_str().to_owned()),
        ("status", account.status.as_str().to_owned()),
        ("identity", verified.to_owned()),
        ("balance", money(account.balance_minor)),
        ("per day", format!("{} in {} transfers", money(limits.daily_amount_minor), limits.daily_count)),
        ("per transfer", money(limits.per_transfer_minor)),
        ("left today", format!("{} in {} transfers", money(left.amount_minor), left.count)),
    ]
    .map(|(name, value)| format!("{name:<14}{value}"))
    .join("\n")
}
