//! Logs: one JSON object per line, on standard output.
//!
//! **Architecture Invariant**: codes, tokens, secrets, names and memos are never logged; ids of requests, traces,
//! instructions and transfers are. A failure is logged once, at the boundary, with its chain.

/// Starts logging. For the `main` of a function, once.
pub fn init() {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_max_level(tracing::Level::INFO)
        .init();
}

/// An error with its causes, in one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}
