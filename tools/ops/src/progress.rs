//! How far a long reading has come, on standard error and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use shared::store::Store;
use std::time::Duration;

/// A bar of the items read so far.
pub struct Progress(ProgressBar);

/// How often it is drawn while nothing arrives.
const TICK: Duration = Duration::from_millis(120);

impl Progress {
    /// A bar for reading `tables`: of their length if DynamoDB knows it, else a count.
    pub async fn of_tables(store: &Store, tables: &[&str]) -> Self {
        let bar = ProgressBar::new_spinner();
        // Without a terminal nothing is drawn, and nothing needs to be asked for.
        if bar.is_hidden() {
            return Self(bar);
        }
        let mut items: u64 = 0;
        for table in tables {
            items = items.saturating_add(store.approximate_items(table).await.unwrap_or(0));
        }
        if items > 0 {
            bar.set_length(items);
            return Self(styled(bar, "{bar:30} {pos} of about {len} items, {msg} ({elapsed})"));
        }
        Self(styled(bar, "{spinner} {pos} items, {msg} ({elapsed})"))
    }

    /// A bar for `total` steps.
    #[must_use]
    pub fn of(total: usize) -> Self {
        let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
        Self(styled(bar, "{bar:30} {pos} of {len}, {msg} ({elapsed})"))
    }

    /// Says that `done` more are done, of `what`.
    pub fn advance(&self, what: &str, done: usize) {
        if self.0.message() != what {
            self.0.set_message(what.to_owned());
        }
        self.0.inc(u64::try_from(done).unwrap_or(0));
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
    bar
}
