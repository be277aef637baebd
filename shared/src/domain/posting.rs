//! The rules of posting, judged on account items: at admission on what was read, at confirm on the old items that a
//! cancelled transaction gives back.

use crate::domain::{
    account::{Account, AccountKind, AccountStatus},
    day::Day,
    error::Refusal,
    id::UserId,
    instruction::Content,
};

/// The first rule that keeps `content` from being admitted for `user`, in the order of the `request` route: source
/// active, verified; destination not the source, active; currency; limit of one transfer. Funds and daily limits are
/// decided at posting alone, on the state that is posted to.
///
/// `source` is the caller's own account: whose it is was checked before.
#[must_use]
pub fn refusal_at_admission(content: &Content, source: &Account, destination: Option<&Account>) -> Option<Refusal> {
    if !source.is_active_customer() {
        return Some(Refusal::SourceUnavailable);
    }
    if !source.identity_verified {
        return Some(Refusal::IdentityNotVerified);
    }
    if content.source == content.destination {
        return Some(Refusal::SameAccount);
    }
    let Some(destination) = destination.filter(|account| account.is_active_customer()) else {
        return Some(Refusal::DestinationUnavailable);
    };
    if source.currency != content.currency || destination.currency != content.currency {
        return Some(Refusal::CurrencyMismatch);
    }
    (content.amount.minor() > source.limits.per_transfer_minor).then_some(Refusal::PerTransferLimit)
}

/// What a cancelled posting says about one of its two accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LegOutcome {
    /// The leg's condition held.
    Held,
    /// The condition failed, and this is the account as it was; none if there is no such account.
    Failed(Option<Box<Account>>),
}

/// The first rule that a cancelled posting broke, in the order of the `confirm` route, judged over both account legs
/// together. `None` if neither leg failed on a rule that is known here.
#[must_use]
pub fn refusal_at_posting(
    content: &Content,
    user: &UserId,
    day: Day,
    debit: &LegOutcome,
    credit: &LegOutcome,
) -> Option<Refusal> {
    let of_source = match debit {
        LegOutcome::Held => None,
        LegOutcome::Failed(None) => Some(Refusal::SourceUnavailable),
        LegOutcome::Failed(Some(source)) => refusal_of_source(content, user, day, source),
    };
    let of_destination = match credit {
        LegOutcome::Held => None,
        LegOutcome::Failed(Some(account)) if account.is_active_customer() && account.currency != content.currency => {
            Some(Refusal::CurrencyMismatch)
        }
        LegOutcome::Failed(_) => Some(Refusal::DestinationUnavailable),
    };
    of_source.into_iter().chain(of_destination).min()
}

fn refusal_of_source(content: &Content, user: &UserId, day: Day, source: &Account) -> Option<Refusal> {
    let amount = content.amount.minor();
    let left = source.left_on(day);
    let active = source.status == AccountStatus::Active && source.kind == AccountKind::Customer;
    let broken = [
        (!active || source.owner != *user, Refusal::SourceUnavailable),
        (!source.identity_verified, Refusal::IdentityNotVerified),
        (source.currency != content.currency, Refusal::CurrencyMismatch),
        (amount > source.limits.per_transfer_minor, Refusal::PerTransferLimit),
        (amount > source.balance_minor, Refusal::InsufficientFunds),
        (amount > left.amount_minor, Refusal::DailyAmount),
        (left.count < 1, Refusal::DailyCount),
    ];
    broken.into_iter().filter_map(|(is_broken, refusal)| is_broken.then_some(refusal)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        account::{Allowance, Limits},
        id::AccountId,
        money::{Amount, Currency},
    };
    use std::collections::BTreeMap;

    type Fallible = Result<(), Box<dyn std::error::Error>>;

    fn account(id: &str, owner: &str) -> Result<Account, Box<dyn std::error::Error>> {
        Ok(Account {
            id: AccountId::parse(id)?,
            owner: UserId::parse(owner)?,
            holder_name: owner.to_owned(),
            currency: Currency::parse("JPY")?,
            status: AccountStatus::Active,
            identity_verified: true,
            balance_minor: 70_000,
            limits: Limits { daily_amount_minor: 100_000, daily_count: 10, per_transfer_minor: 50_000 },
            kind: AccountKind::Customer,
            allowances: BTreeMap::new(),
        })
    }

    fn content(amount: i64) -> Result<Content, Box<dyn std::error::Error>> {
        Ok(Content {
            source: AccountId::parse("a")?,
            destination: AccountId::parse("b")?,
            amount: Amount::parse(amount)?,
            currency: Currency::parse("JPY")?,
            requester_name: "Aoi".to_owned(),
            memo: String::new(),
        })
    }

    type Change = fn(&mut Content, &mut Account, &mut Account);

    #[test]
    fn admission_refuses_in_its_documented_order() -> Fallible {
        // Each row breaks its own rule and every later one, so the order shows.
        let rows: [(Change, Refusal); 6] = [
            (|_, s, _| s.status = AccountStatus::Frozen, Refusal::SourceUnavailable),
            (|_, s, _| s.identity_verified = false, Refusal::IdentityNotVerified),
            (|c, _, _| c.destination = c.source.clone(), Refusal::SameAccount),
            (|_, _, d| d.status = AccountStatus::Closed, Refusal::DestinationUnavailable),
            (|_, _, d| d.currency = Currency::parse("USD").unwrap_or(d.currency), Refusal::CurrencyMismatch),
            (|_, s, _| s.limits.per_transfer_minor = 39_999, Refusal::PerTransferLimit),
        ];
        let (whole, source, destination) = (content(40_000)?, account("a", "aoi")?, account("b", "ren")?);
        assert_eq!(refusal_at_admission(&whole, &source, Some(&destination)), None);
        for first in 0..rows.len() {
            let (mut c, mut s, mut d) = (whole.clone(), source.clone(), destination.clone());
            for (change, _) in &rows[first..] {
                change(&mut c, &mut s, &mut d);
            }
            assert_eq!(refusal_at_admission(&c, &s, Some(&d)), Some(rows[first].1));
        }
        assert_eq!(refusal_at_admission(&whole, &source, None), Some(Refusal::DestinationUnavailable));
        Ok(())
    }

    #[test]
    fn posting_refuses_in_its_documented_order_over_both_legs() -> Fallible {
        let day = Day::parse("20261201").ok_or("day")?;
        let rows: [(Change, Refusal); 8] = [
            (|_, s, _| s.status = AccountStatus::Frozen, Refusal::SourceUnavailable),
            (|_, s, _| s.identity_verified = false, Refusal::IdentityNotVerified),
            (|_, _, d| d.status = AccountStatus::Frozen, Refusal::DestinationUnavailable),
            (|_, s, _| s.currency = Currency::parse("USD").unwrap_or(s.currency), Refusal::CurrencyMismatch),
            (|_, s, _| s.limits.per_transfer_minor = 1, Refusal::PerTransferLimit),
            (|_, s, _| s.balance_minor = 39_999, Refusal::InsufficientFunds),
            (|_, s, _| s.limits.daily_amount_minor = 39_999, Refusal::DailyAmount),
            (|_, s, _| s.limits.daily_count = 0, Refusal::DailyCount),
        ];
        let (whole, source, destination) = (content(40_000)?, account("a", "aoi")?, account("b", "ren")?);
        for first in 0..rows.len() {
            let (mut c, mut s, mut d) = (whole.clone(), source.clone(), destination.clone());
            for (change, _) in &rows[first..] {
                change(&mut c, &mut s, &mut d);
            }
            let credit = if d == destination { LegOutcome::Held } else { LegOutcome::Failed(Some(Box::new(d))) };
            let debit = LegOutcome::Failed(Some(Box::new(s)));
            let user = UserId::parse("aoi")?;
            assert_eq!(refusal_at_posting(&c, &user, day, &debit, &credit), Some(rows[first].1));
        }
        Ok(())
    }

    #[test]
    fn a_used_allowance_counts_and_a_missing_account_is_unavailable() -> Fallible {
        let (day, user) = (Day::parse("20261201").ok_or("day")?, UserId::parse("aoi")?);
        let mut source = account("a", "aoi")?;
        source.allowances.insert(day, Allowance { amount_minor: 39_999, count: 5 });
        let debit = LegOutcome::Failed(Some(Box::new(source.clone())));
        let judge = |debit, credit| refusal_at_posting(&content(40_000).ok()?, &user, day, debit, credit);
        assert_eq!(judge(&debit, &LegOutcome::Held), Some(Refusal::DailyAmount));
        source.allowances.insert(day, Allowance { amount_minor: 40_000, count: 0 });
        let debit = LegOutcome::Failed(Some(Box::new(source)));
        assert_eq!(judge(&debit, &LegOutcome::Held), Some(Refusal::DailyCount));
        assert_eq!(judge(&LegOutcome::Held, &LegOutcome::Held), None);
        assert_eq!(judge(&LegOutcome::Failed(None), &LegOutcome::Held), Some(Refusal::SourceUnavailable));
        assert_eq!(judge(&LegOutcome::Held, &LegOutcome::Failed(None)), Some(Refusal::DestinationUnavailable));
        let stranger = account("a", "mallory")?;
        let debit = LegOutcome::Failed(Some(Box::new(stranger)));
        assert_eq!(judge(&debit, &LegOutcome::Held), Some(Refusal::SourceUnavailable));
        Ok(())
    }
}
