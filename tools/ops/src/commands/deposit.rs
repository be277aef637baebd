//! `ops deposit`.

use crate::{
    answer::{Answer, Fault},
    cli::Deposit,
    ops::Ops,
};
use serde_json::json;
use shared::{
    domain::{
        account::{Account, AccountKind},
        id::TransferId,
        money::Currency,
    },
    store::orders::{self, Funding},
};

/// Posts the deposit, once per account and reference.
///
/// # Errors
/// [`Fault`]. After one that leaves the outcome open, the same command can be repeated.
pub async fn run(ops: &Ops, deposit: Deposit) -> Result<Answer, Fault> {
    let customer = ops.store.account(&deposit.account, ops.deadline()).await?;
    let customer = customer.ok_or_else(|| Fault::Refused(format!("there is no account {}", deposit.account)))?;
    if customer.kind != AccountKind::Customer {
        return Err(Fault::Refused(format!("{} is the bank's own account", customer.id)));
    }
    let internal = internal_account(ops, customer.currency).await?;
    let order = ops.order("deposit")?;
    let transfer = TransferId::of_deposit(&customer.id, &deposit.reference);
    let accounts = (&internal, &customer);
    let (journal, has_posted) =
        match ops.store.order_deposit(transfer, accounts, deposit.amount, &order, ops.deadline()).await? {
            Funding::Posted(journal) => (journal, true),
            Funding::Repeated(journal) => (journal, false),
            Funding::Refused(why) => return Err(Fault::Refused(why)),
        };
    let now = ops.store.account(&customer.id, ops.deadline()).await?.unwrap_or(customer);
    let said = if has_posted { "posted" } else { "posted before, under this reference: nothing was posted now" };
    let (money, id) = (now.currency.format(journal.amount_minor), &journal.transfer);
    let text = format!(
        "{said}\n{money} from {} to {} on {:.3}, as {id}\nbalance {}",
        journal.source,
        now.id,
        journal.posted_at,
        now.currency.format(now.balance_minor)
    );
    let json = json!({
        "posted": has_posted,
        "transfer_id": id.as_str(),
        "account_id": now.id.as_str(),
        "internal_account_id": journal.source.as_str(),
        "amount_minor": journal.amount_minor,
        "currency": journal.currency,
        "posted_at": format!("{:.3}", journal.posted_at),
        "balance_minor": now.balance_minor,
    });
    Ok(Answer::good(json, text))
}

/// The account that the money of a currency comes from, opened when it is first needed.
async fn internal_account(ops: &Ops, currency: Currency) -> Result<Account, Fault> {
    let fault = |_| Fault::Usage(format!("{} cannot name an account", currency.code()));
    let own = Account::internal(currency).map_err(fault)?;
    let account = match ops.store.account(&own.id, ops.deadline()).await? {
        Some(account) => account,
        None => {
            let order = ops.order("deposit: open the internal account")?;
            match ops.store.order_opening(&own, &order, ops.deadline()).await? {
                orders::Answer::Done { after: account, .. } | orders::Answer::Unchanged(account) => account,
                orders::Answer::Refused(why) => return Err(Fault::Refused(why)),
                orders::Answer::Missing => return Err(Fault::Refused(format!("there is no account {}", own.id))),
            }
        }
    };
    if account.kind != AccountKind::Internal || account.currency != currency {
        return Err(Fault::Refused(format!("{} is not the bank's own account in {}", account.id, currency.code())));
    }
    Ok(account)
}
