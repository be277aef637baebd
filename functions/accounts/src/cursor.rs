//! Cursors of a statement: a position and a check that ties it to its account. The check finds what is not one of ours;
//! it is no secret, and a position gives nobody more than the account's own statement does.

use data_encoding::BASE64URL_NOPAD;
use shared::{
    domain::{id::AccountId, idempotency::cursor_check},
    store::accounts::is_statement_position,
};

/// The cursor of `position` in the statement of `account`.
pub(crate) fn encode(account: &AccountId, position: &str) -> String {
    let check = cursor_check(account, position);
    BASE64URL_NOPAD.encode(&[check.as_slice(), position.as_bytes()].concat())
}

/// The position, if `cursor` is one of this account's.
pub(crate) fn decode(account: &AccountId, cursor: &str) -> Option<String> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
    let (check, position) = bytes.split_at_checked(8)?;
    let position = std::str::from_utf8(position).ok()?;
    (check == cursor_check(account, position) && is_statement_position(position)).then(|| position.to_owned())
}
