//! `GET /v1/accounts`, `GET /v1/accounts/{id}` and `GET /v1/accounts/{id}/entries`: own balances and statements.

mod cursor;

use lambda_http::{Body, Error, Request, Response, http::StatusCode};
use serde_json::{Value, json};
use shared::{
    app::App,
    auth::Caller,
    domain::{account::Account, day::Day, id::AccountId},
    http::{Call, Reply, invalid_query, path_parameter, query, route_ends_with},
    problem::{ApiError, Fault, Standing},
    resource::time_json,
    store::accounts::StatementLine,
};

/// Handles one call.
///
/// # Errors
/// None: every outcome is an answer.
pub async fn handle(app: &App, request: Request) -> Result<Response<Body>, Error> {
    let call = Call::begin(app, &request);
    let result = match path_parameter(&request, "account_id") {
        None => list(app, &call, &request).await,
        Some(id) if route_ends_with(&request, "/entries") => statement(app, &call, &request, &id).await,
        Some(id) => show(app, &call, &request, &id).await,
    };
    Ok(call.answer(result))
}

async fn list(app: &App, call: &Call, request: &Request) -> Result<Reply, ApiError> {
    let caller = call.caller(app, request).await?;
    query(request, &[]).map_err(invalid)?;
    let (accounts, today) = (app.store.accounts_of(&caller.user, call.deadline).await?, app.zone.day(call.now));
    let accounts: Vec<Value> = accounts.iter().map(|account| account_json(account, today)).collect();
    Ok(Reply::new(StatusCode::OK, json!({ "accounts": accounts })))
}

async fn show(app: &App, call: &Call, request: &Request, id: &str) -> Result<Reply, ApiError> {
    let caller = call.caller(app, request).await?;
    query(request, &[]).map_err(invalid)?;
    let account = own(app, call, &caller, id).await?;
    Ok(Reply::new(StatusCode::OK, account_json(&account, app.zone.day(call.now))))
}

async fn statement(app: &App, call: &Call, request: &Request, id: &str) -> Result<Reply, ApiError> {
    let caller = call.caller(app, request).await?;
    let wanted = Page::parse(request, id)?;
    let account = own(app, call, &caller, id).await?;
    let after = wanted.after.as_deref();
    let (lines, next) = app.store.statement(&account.id, wanted.limit, after, call.deadline).await?;
    let body = json!({
        "entries": lines.iter().map(line_json).collect::<Vec<_>>(),
        "next_cursor": next.map(|position| cursor::encode(&account.id, &position)),
    });
    Ok(Reply::new(StatusCode::OK, body))
}

/// The account, if it is the caller's: what is not there and what is not theirs look alike and cost the same.
async fn own(app: &App, call: &Call, caller: &Caller, id: &str) -> Result<Account, ApiError> {
    let id = AccountId::parse(id).map_err(|_| ApiError::NotFound)?;
    let account = app.store.account(&id, call.deadline).await?;
    account.filter(|account| account.owner == caller.user).ok_or(ApiError::NotFound)
}

/// Lines of a page, if the client does not say.
const LIMIT_DEFAULT: i32 = 20;
/// Lines of a page at most.
const LIMIT_MAX: i32 = 100;

struct Page {
    limit: i32,
    after: Option<String>,
}

impl Page {
    fn parse(request: &Request, account: &str) -> Result<Self, ApiError> {
        let mut page = Self { limit: LIMIT_DEFAULT, after: None };
        let mut faults = Vec::new();
        for (name, value) in query(request, &["limit", "cursor"]).map_err(invalid)? {
            if name == "limit" {
                match parse_limit(&value) {
                    Some(limit) => page.limit = limit,
                    None => faults.push(Fault::parameter(&name, "must be a number from 1 to 100")),
                }
            } else {
                page.after = AccountId::parse(account).ok().and_then(|account| cursor::decode(&account, &value));
                if page.after.is_none() {
                    faults.push(Fault::parameter(&name, "is not a cursor of this statement"));
                }
            }
        }
        if faults.is_empty() { Ok(page) } else { Err(invalid(faults)) }
    }
}

/// These routes concern no instruction.
fn invalid(faults: Vec<Fault>) -> ApiError {
    invalid_query(faults, Standing::NONE)
}

fn parse_limit(value: &str) -> Option<i32> {
    let digits = value.bytes().all(|b| b.is_ascii_digit()) && !value.starts_with('0');
    value.parse().ok().filter(|limit| digits && (1..=LIMIT_MAX).contains(limit))
}

fn account_json(account: &Account, today: Day) -> Value {
    let (limits, left) = (account.limits, account.left_on(today));
    json!({
        "account_id": account.id.as_str(),
        "holder_name": account.holder_name,
        "currency": account.currency.code(),
        "balance_minor": account.balance_minor,
        "status": account.status.as_str(),
        "limits": {
            "daily_amount_limit_minor": limits.daily_amount_minor,
            "daily_count_limit": limits.daily_count,
            "per_transfer_limit_minor": limits.per_transfer_minor,
        },
        // A limit that was lowered below what was used leaves nothing, and not less.
        "left_today": { "amount_minor": left.amount_minor.max(0), "count": left.count.max(0) },
    })
}

fn line_json(line: &StatementLine) -> Value {
    json!({
        "transfer_id": line.transfer.as_str(),
        "direction": if line.is_debit { "DEBIT" } else { "CREDIT" },
        "amount_minor": line.amount_minor,
        "currency": line.currency,
        "counterparty_name": line.counterparty_name,
        "memo": line.memo,
        "posted_at": time_json(line.posted_at),
    })
}
