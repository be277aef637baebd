//! The table of problem types: what is fixed about each.

use lambda_http::http::StatusCode;

/// What is fixed about one problem type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemType {
    /// The code that clients branch on.
    pub code: &'static str,
    /// The last part of the type's URI, `/problems/…`.
    pub slug: &'static str,
    /// What it means, in a few words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: StatusCode,
    /// What to do, for people; empty where it depends on the case.
    pub detail: &'static str,
}

const fn row(
    code: &'static str,
    slug: &'static str,
    title: &'static str,
    status: StatusCode,
    detail: &'static str,
) -> ProblemType {
    ProblemType { code, slug, title, status, detail }
}

/// Every problem type. TR018 is not among them: it is an answer of `confirm`, not an error.
#[rustfmt::skip]
pub const PROBLEM_TYPES: [ProblemType; 25] = [
    row("TR001", "idempotency-key-missing", "Idempotency-Key missing", StatusCode::BAD_REQUEST, "Send an Idempotency-Key header of 16 to 255 visible ASCII characters. If this was sent before, send its own key."),
    row("TR002", "idempotency-key-malformed", "Idempotency-Key malformed or repeated", StatusCode::BAD_REQUEST, "Send one Idempotency-Key header of 16 to 255 visible ASCII characters, bare or as a quoted string. If this was sent before, send its own key."),
    row("TR003", "invalid-request", "Request invalid", StatusCode::BAD_REQUEST, "The request was not understood; nothing was changed. `errors` names every fault."),
    row("TR004", "not-found", "Not found", StatusCode::NOT_FOUND, "There is no such instruction, account or route, or it is not yours."),
    row("TR005", "destination-unavailable", "Destination unavailable", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR006", "source-unavailable", "Source unavailable", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR007", "identity-not-verified", "Identity not verified", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR008", "insufficient-funds", "Insufficient funds", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR009", "key-reused", "Key reused with other content", StatusCode::UNPROCESSABLE_ENTITY, "This key belongs to an instruction with other content, which is untouched."),
    row("TR010", "instruction-closed", "Instruction closed", StatusCode::CONFLICT, "The instruction's time has passed. Look it up, or cancel it, until it says NO_POSTING_CONFIRMED."),
    row("TR011", "too-many-instructions", "Too many instructions", StatusCode::TOO_MANY_REQUESTS, "At most five new instructions are admitted in any 60 seconds."),
    row("TR012", "daily-amount-limit", "Daily amount limit", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR013", "daily-count-limit", "Daily count limit", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR014", "same-account", "Same account", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR015", "currency-mismatch", "Currency mismatch", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR016", "per-transfer-limit", "Limit of one transfer", StatusCode::UNPROCESSABLE_ENTITY, ""),
    row("TR017", "contended", "Contended", StatusCode::SERVICE_UNAVAILABLE, "This call posted nothing; another may still be running. Repeat the same request."),
    row("AU001", "not-authenticated", "Not authenticated", StatusCode::UNAUTHORIZED, "Send one valid bearer token."),
    row("AU002", "code-refused", "Code refused", StatusCode::FORBIDDEN, "The code is wrong or was used before. Wait for the next one."),
    row("AU003", "locked", "Locked", StatusCode::TOO_MANY_REQUESTS, "Too many codes were wrong. No code is tested until the lock ends."),
    row("AU004", "not-enrolled", "TOTP not enrolled", StatusCode::CONFLICT, "Enrol an authenticator app first."),
    row("AU005", "no-usable-authorization", "No usable authorization", StatusCode::FORBIDDEN, ""),
    row("AU006", "content-mismatch", "Content hash mismatch", StatusCode::UNPROCESSABLE_ENTITY, "The content_hash is not the one of this instruction. Read the instruction again and show it to the payer."),
    row("SV001", "unavailable", "Temporarily unavailable", StatusCode::SERVICE_UNAVAILABLE, "The outcome of this call is not known. Repeating the same request is safe."),
    row("SV002", "internal", "Internal error", StatusCode::INTERNAL_SERVER_ERROR, ""),
];

/// The type of everything that has no other.
pub(crate) const INTERNAL: ProblemType = PROBLEM_TYPES[24];

pub(crate) fn type_of(code: &str) -> ProblemType {
    PROBLEM_TYPES.into_iter().find(|kind| kind.code == code).unwrap_or(INTERNAL)
}

#[cfg(test)]
mod tests {
    use super::PROBLEM_TYPES;

    #[test]
    fn every_problem_type_is_documented_with_its_code_status_and_name() {
        let document = include_str!("../../../docs/problems.md");
        let headings: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let mut expected: Vec<String> = PROBLEM_TYPES
            .iter()
            .map(|kind| format!("{} · {} · `/problems/{}`", kind.code, kind.status.as_u16(), kind.slug))
            .collect();
        expected.push("TR018 · 202 · not an error".to_owned());
        assert_eq!(headings, expected);
        for kind in PROBLEM_TYPES {
            assert!(document.contains(&format!("**{}.**", kind.title)), "{}", kind.title);
        }
    }
}
