//! The development routes: `/dev/…`. They stand in for the bank's back office and the outside world, and are never part
//! of a function.

pub(crate) mod error;
mod money;
pub(crate) mod options;
mod time;
mod users;

use crate::bank::Bank;
use axum::{
    Router,
    middleware::map_response,
    routing::{get, patch, post},
};
use std::sync::Arc;

/// The routes.
pub(crate) fn routes() -> Router<Arc<Bank>> {
    Router::new()
        .route("/dev/users", get(users::list).post(users::add))
        .route("/dev/users/{user_id}", patch(users::change))
        .route("/dev/token", post(users::token))
        .route("/dev/totp", get(users::totp))
        .route("/dev/clock", get(time::clock).post(time::set_clock))
        .route("/dev/sweep", post(time::sweep))
        .route("/dev/faults", get(time::faults).post(time::set_faults))
        .route("/dev/notifications", get(money::notifications))
        .route("/dev/ledger", get(money::ledger))
        .method_not_allowed_fallback(error::method_not_allowed)
        .layer(map_response(error::in_json))
}
