//! What was done, what was expected, what happened.

use crate::demo::Played;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets::NOTHING};
use std::fmt;

/// The widths of the columns, 100 in all.
const WIDTHS: [u16; 5] = [3, 39, 26, 26, 6];

/// The checks of one scene.
#[derive(Debug, Default)]
pub(crate) struct Scene(Vec<Check>);

#[derive(Debug)]
struct Check {
    done: String,
    expected: String,
    happened: String,
}

impl Check {
    fn passed(&self) -> bool {
        self.expected == self.happened
    }
}

impl Scene {
    /// Notes what was done, what was expected of it, and what happened; the two must read the same.
    pub(crate) fn check(&mut self, done: impl Into<String>, expected: impl ToString, happened: impl ToString) {
        let check = Check { done: done.into(), expected: expected.to_string(), happened: happened.to_string() };
        self.0.push(check);
    }
}

/// What came of the demonstration: its table, when it is displayed.
#[derive(Debug, Default)]
pub struct Report(Vec<(&'static str, &'static str, Scene)>);

impl Report {
    /// Adds a scene. One that could not be played to its end has failed.
    pub(crate) fn add(&mut self, letter: &'static str, title: &'static str, played: Played) {
        let scene = played.unwrap_or_else(|error| {
            let mut scene = Scene::default();
            scene.check("the scene", "is played to its end", shared::telemetry::chain(error.as_ref()));
            scene
        });
        self.0.push((letter, title, scene));
    }

    /// Whether everything that was expected happened, and something was expected at all.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.0.is_empty()
            && self.0.iter().all(|(_, _, scene)| !scene.0.is_empty() && scene.0.iter().all(Check::passed))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", table([["", "what was done", "what was expected", "what happened", ""]]))?;
        let (mut passed, mut failed) = (0_usize, 0_usize);
        for (letter, title, scene) in &self.0 {
            writeln!(f, "\n{letter:3}{title}")?;
            let rows = scene.0.iter().map(|check| {
                let verdict = if check.passed() { "PASS" } else { "FAIL" };
                let count = if check.passed() { &mut passed } else { &mut failed };
                *count = count.saturating_add(1);
                ["", &check.done, &check.expected, &check.happened, verdict]
            });
            writeln!(f, "{}", table(rows))?;
        }
        write!(f, "\n{passed} passed, {failed} failed")
    }
}

/// The rows, in columns that are as wide in every scene.
fn table<'a>(rows: impl IntoIterator<Item = [&'a str; 5]>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    for row in rows {
        table.add_row(row);
    }
    table.set_constraints(WIDTHS.map(|width| ColumnConstraint::Absolute(Width::Fixed(width))));
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_passes_only_if_all_of_it_does() {
        let scene = |happened: &str| {
            let mut scene = Scene::default();
            scene.check("it", "this", happened);
            scene
        };
        let mut report = Report::default();
        assert!(!report.passed());
        report.add("a", "good", Ok(scene("this")));
        assert!(report.passed());
        assert!(report.to_string().contains("1 passed, 0 failed"));
        report.add("b", "bad", Ok(scene("that")));
        assert!(!report.passed());
        assert!(report.to_string().contains("FAIL"));
        let mut report = Report::default();
        report.add("c", "broken", Err("no server".into()));
        assert!(!report.passed());
        assert!(report.to_string().contains("no server"));
        let mut report = Report::default();
        report.add("d", "empty", Ok(Scene::default()));
        assert!(!report.passed());
    }
}
