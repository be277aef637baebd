//! Testing a code: the one guess budget of every route that does it.

use crate::{
    app::App,
    cipher::Cipher,
    domain::{
        id::UserId,
        totp::{Code, SECRET_BYTES, TotpSecret},
    },
    http::Call,
    problem::{ApiError, Standing},
    store::totp::{Decided, Sealed, TotpRecord},
};
use jiff::Timestamp;

/// What a code is worth on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is the code of this step, which may be burned.
    Fresh(i64),
    /// It is wrong, or its step was burned; which of the two is not told.
    NotFresh,
}

/// Judges `code` by `secret` and the last step that was accepted, at `now`.
#[must_use]
pub fn judge(secret: &TotpSecret, code: &Code, record: &TotpRecord, now: Timestamp) -> Verdict {
    secret.accept(code, now, record.last_step).map_or(Verdict::NotFresh, Verdict::Fresh)
}

/// Opens a sealed secret.
///
/// # Errors
/// [`ApiError::Unavailable`] if the cipher did not do it; the same for right and wrong codes, which come after.
pub async fn open_secret(app: &App, cipher: &Cipher, user: &UserId, sealed: &Sealed) -> Result<TotpSecret, ApiError> {
    let bytes = cipher.open(user, &sealed.ciphertext).await.map_err(|error| ApiError::Unavailable(error.into()))?;
    TotpSecret::new(&bytes, &app.totp_issuer, user.as_str()).map_err(|error| ApiError::Internal(error.into()))
}

/// A fresh secret.
///
/// # Errors
/// [`ApiError::Internal`] if the names cannot be shown by an authenticator app.
pub fn new_secret(app: &App, user: &UserId) -> Result<TotpSecret, ApiError> {
    let bytes = zeroize::Zeroizing::new(crate::random::bytes::<SECRET_BYTES>());
    TotpSecret::new(bytes.as_slice(), &app.totp_issuer, user.as_str()).map_err(|error| ApiError::Internal(error.into()))
}

/// Counts a wrong code against the record that it was judged on, and refuses it. `Ok` says that the record is no longer
/// that one: it has to be read and the code judged again.
///
/// # Errors
/// [`ApiError::CodeRefused`] if it was counted; [`ApiError::Contended`] or [`ApiError::Unavailable`] if not.
pub async fn locked_or_refused(
    app: &App,
    user: &UserId,
    record: &TotpRecord,
    standing: Standing,
    call: &Call,
) -> Result<(), ApiError> {
    match app.store.count_wrong_code(user, record, app.now(), call.deadline.for_writing()).await? {
        Decided::Written => Err(ApiError::CodeRefused(standing)),
        Decided::Changed | Decided::InDoubt => Ok(()),
    }
}
