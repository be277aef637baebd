//! The bank's customers: adding, changing and listing them.

use crate::{bank::Bank, dev::error::DevError, dev::options::UserOptions};
use serde_json::{Value, json};
use shared::{
    code::open_secret,
    domain::{
        account::{Account, AccountKind, AccountStatus, Limits},
        hash,
        id::{AccountId, TransferId, UserId},
        money::{Amount, Currency},
        notification::{Channel, Contact, Locale},
    },
    problem::Fault,
    random,
    store::{StoreError, accounts::AccountChange, totp::Sealed},
};
use std::collections::BTreeMap;

/// The limits of a customer who does not ask for others: out of the way of most trials.
const DEFAULT_LIMITS: Limits =
    Limits { daily_amount_minor: 10_000_000, daily_count: 1_000, per_transfer_minor: 1_000_000 };

/// A customer to be.
pub(crate) struct NewUser {
    pub(crate) id: UserId,
    pub(crate) name: String,
    pub(crate) balance_minor: i64,
    pub(crate) options: UserOptions,
}

/// Adds Aoi with 70,000 yen and Ren with nothing, as far as an earlier start did not.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn seed(bank: &Bank) -> Result<(), shared::app::StartError> {
    for (id, name, balance_minor, locale) in [("aoi", "Aoi", 70_000, Locale::Ja), ("ren", "Ren", 0, Locale::En)] {
        let options = UserOptions { locale: Some(locale), ..UserOptions::default() };
        let user = NewUser { id: UserId::parse(id)?, name: name.to_owned(), balance_minor, options };
        let account = account_id(&user.id)?;
        let exists = bank.app.store.account(&account, bank.deadline()).await?.is_some();
        // An earlier start may have died between the account and its deposit.
        if !exists || balance_minor > 0 && !has_entries(bank, &account).await? {
            create(bank, user).await?;
        }
    }
    Ok(())
}

/// Adds a customer.
///
/// # Errors
/// [`DevError`].
pub(crate) async fn add(bank: &Bank, user: NewUser) -> Result<Value, DevError> {
    let _alone = bank.people.lock().await;
    let _moving = bank.books.read().await;
    if bank.app.store.account(&account_id(&user.id)?, bank.deadline()).await?.is_some() {
        return Err(DevError::UserExists);
    }
    create(bank, user).await
}

/// Whatever belongs to a customer is there before the account, which is what makes one exist. A repeat puts right what
/// is missing.
async fn create(bank: &Bank, user: NewUser) -> Result<Value, DevError> {
    let (store, options) = (&bank.app.store, &user.options);
    let account = new_account(&user)?;
    let amount = Amount::parse(user.balance_minor).ok();
    let internal = internal_account(bank, account.currency).await?;
    let channels = options.channels.clone().unwrap_or_else(|| Channel::ALL.to_vec());
    let contact = contact(&user.id, options.locale.unwrap_or(Locale::Ja), &channels);
    store.put_contact(&user.id, &contact, bank.deadline()).await?;
    if options.enrolled.unwrap_or(true) {
        enrol(bank, &user.id).await?;
    }
    store.open_account(&Account { status: AccountStatus::Active, ..account.clone() }, bank.deadline()).await?;
    if let Some(amount) = amount {
        let (deposit, now) = (TransferId::of_deposit(&account.id, OPENING), bank.app.now());
        store.deposit(deposit, &internal, &account, amount, now, bank.deadline()).await?;
    }
    if account.status != AccountStatus::Active {
        let change = AccountChange { status: Some(account.status), ..AccountChange::default() };
        store.change_account(&account.id, change, bank.today(), bank.deadline()).await?;
    }
    find(bank, &user.id).await
}

/// What the opening deposit is called.
const OPENING: &str = "opening balance";

/// Whether anything was ever posted to the account.
async fn has_entries(bank: &Bank, account: &AccountId) -> Result<bool, StoreError> {
    let (lines, _) = bank.app.store.statement(account, 1, None, bank.deadline()).await?;
    Ok(!lines.is_empty())
}

fn new_account(user: &NewUser) -> Result<Account, DevError> {
    let options = &user.options;
    let limits = Limits {
        daily_amount_minor: options.daily_amount_minor.unwrap_or(DEFAULT_LIMITS.daily_amount_minor),
        daily_count: options.daily_count.unwrap_or(DEFAULT_LIMITS.daily_count),
        per_transfer_minor: options.per_transfer_minor.unwrap_or(DEFAULT_LIMITS.per_transfer_minor),
    };
    Ok(Account {
        id: account_id(&user.id)?,
        owner: user.id.clone(),
        holder_name: user.name.clone(),
        currency: currency(options.currency.as_deref().unwrap_or("JPY"))?,
        status: options.status.unwrap_or(AccountStatus::Active),
        identity_verified: options.identity_verified.unwrap_or(true),
        balance_minor: 0,
        limits,
        kind: AccountKind::Customer,
        allowances: BTreeMap::new(),
    })
}

/// The one account of a user: `ac_` and ten digits that follow from the user's id.
pub(crate) fn account_id(user: &UserId) -> Result<AccountId, DevError> {
    let hash = hash::tagged("furikomi.local.account.v1", &[user.as_str().as_bytes()]);
    let number = hash.iter().take(7).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    AccountId::parse(&format!("ac_{:010}", number % 10_000_000_000)).map_err(|fault| DevError::Internal(fault.into()))
}

fn currency(code: &str) -> Result<Currency, DevError> {
    Currency::parse(code).map_err(|fault| DevError::Bad(vec![Fault::member("currency", fault.to_string())]))
}

/// The account that the money of a currency comes from, opened when it is first needed.
async fn internal_account(bank: &Bank, currency: Currency) -> Result<Account, DevError> {
    let account = Account::internal(currency).map_err(|fault| DevError::Internal(fault.into()))?;
    if let Some(opened) = bank.app.store.account(&account.id, bank.deadline()).await? {
        return Ok(opened);
    }
    bank.app.store.open_account(&account, bank.deadline()).await?;
    Ok(account)
}

fn contact(user: &UserId, locale: Locale, channels: &[Channel]) -> Contact {
    let address = |channel: &Channel| {
        let address = match channel {
            Channel::Email => format!("{user}@customers.example"),
            Channel::Push => format!("phone-of-{user}"),
        };
        (*channel, address)
    };
    Contact { locale, addresses: channels.iter().map(address).collect() }
}

/// Gives a user a TOTP secret in force, if there is none. No code is burned by it.
async fn enrol(bank: &Bank, user: &UserId) -> Result<(), DevError> {
    let record = bank.app.store.totp(user, bank.deadline()).await?;
    if record.as_ref().is_some_and(|record| record.active.is_some()) {
        return Ok(());
    }
    let replaced = record.as_ref().and_then(|record| record.pending.as_ref());
    let secret = shared::code::new_secret(&bank.app, user).map_err(|error| DevError::Internal(error.into()))?;
    let sealed = bank.cipher.seal(user, secret.as_bytes()).await;
    let ciphertext = sealed.map_err(|error| DevError::Internal(error.into()))?;
    let (sealed, now) = (Sealed { ciphertext, version: random::name() }, bank.app.now());
    bank.app.store.put_pending_secret(user, &sealed, replaced, None, now, bank.deadline()).await?;
    bank.app.store.activate_pending_secret(user, &sealed, 0, now, bank.deadline()).await?;
    Ok(())
}

/// Changes a customer.
///
/// # Errors
/// [`DevError`].
pub(crate) async fn change(bank: &Bank, user: &UserId, options: UserOptions) -> Result<Value, DevError> {
    let _alone = bank.people.lock().await;
    let _moving = bank.books.read().await;
    let store = &bank.app.store;
    let account = store.account(&account_id(user)?, bank.deadline()).await?.ok_or(DevError::NoSuchUser)?;
    check_fixed(bank, user, &account, &options).await?;
    let change = AccountChange {
        status: options.status,
        identity_verified: options.identity_verified,
        daily_amount_minor: options.daily_amount_minor,
        daily_count: options.daily_count,
        per_transfer_minor: options.per_transfer_minor,
    };
    store.change_account(&account.id, change, bank.today(), bank.deadline()).await?;
    if options.locale.is_some() || options.channels.is_some() {
        let old = store.contact(user, bank.deadline()).await?;
        let locale = options.locale.or(old.as_ref().map(|old| old.locale)).unwrap_or(Locale::Ja);
        let old_channels = old.map(|old| old.addresses.into_iter().map(|(channel, _)| channel).collect::<Vec<_>>());
        let channels = options.channels.or(old_channels).unwrap_or_default();
        store.put_contact(user, &contact(user, locale, &channels), bank.deadline()).await?;
    }
    if options.enrolled == Some(true) {
        enrol(bank, user).await?;
    }
    find(bank, user).await
}

/// What stays as it is for the life of an account.
async fn check_fixed(bank: &Bank, user: &UserId, account: &Account, options: &UserOptions) -> Result<(), DevError> {
    let mut faults = Vec::new();
    if options.currency.as_deref().is_some_and(|code| code != account.currency.code()) {
        faults.push(Fault::member("currency", format!("is {} for the life of the account", account.currency.code())));
    }
    if options.enrolled == Some(false) && secret_base32(bank, user).await?.is_some() {
        faults.push(Fault::member("enrolled", "cannot become false: a secret is replaced, never taken away"));
    }
    if faults.is_empty() { Ok(()) } else { Err(DevError::Bad(faults)) }
}

/// A customer, as the routes show one.
///
/// # Errors
/// [`DevError::NoSuchUser`], or that the database does not answer.
pub(crate) async fn find(bank: &Bank, user: &UserId) -> Result<Value, DevError> {
    let account = bank.app.store.account(&account_id(user)?, bank.deadline()).await?;
    let account = account.filter(|account| account.owner == *user).ok_or(DevError::NoSuchUser)?;
    shown(bank, &account).await
}

/// All customers, in the order of their ids.
///
/// # Errors
/// That the database does not answer.
pub(crate) async fn all(bank: &Bank) -> Result<Vec<Value>, DevError> {
    let mut accounts = bank.app.store.books().await?.accounts;
    accounts.retain(|account| account.kind == AccountKind::Customer);
    accounts.sort_by(|one, other| one.owner.cmp(&other.owner));
    let mut users = Vec::new();
    for account in &accounts {
        users.push(shown(bank, account).await?);
    }
    Ok(users)
}

async fn shown(bank: &Bank, account: &Account) -> Result<Value, DevError> {
    Ok(json!({
        "user_id": account.owner.as_str(),
        "name": account.holder_name,
        "account_id": account.id.as_str(),
        "balance_minor": account.balance_minor,
        "totp_secret_base32": secret_base32(bank, &account.owner).await?,
    }))
}

/// The secret in force, opened from where the handlers keep it: so it is right after a replacement and a restart too.
async fn secret_base32(bank: &Bank, user: &UserId) -> Result<Option<String>, DevError> {
    let record = bank.app.store.totp(user, bank.deadline()).await?;
    let Some(sealed) = record.and_then(|record| record.active) else { return Ok(None) };
    let opened = open_secret(&bank.app, &bank.cipher, user, &sealed).await;
    let secret = opened.map_err(|error| DevError::Internal(error.into()))?;
    Ok(Some(secret.to_base32().to_string()))
}
