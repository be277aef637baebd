//! `ops trail`.

use super::table;
use crate::{
    answer::{Answer, Fault},
    ops::Ops,
};
use serde_json::json;
use shared::{
    domain::day::Day,
    store::orders::{Facts, TrailLine},
};

/// What operators changed on `day`.
///
/// # Errors
/// [`Fault`].
pub async fn run(ops: &Ops, day: Option<Day>) -> Result<Answer, Fault> {
    let day = day.unwrap_or_else(|| ops.today());
    let lines = ops.store.trail(day, ops.deadline()).await?;
    let json = lines.iter().map(|line| {
        json!({
            "at": format!("{:.3}", line.at),
            "operator": line.operator,
            "command": line.command,
            "target": line.target,
            "before": line.before,
            "after": line.after,
        })
    });
    let json = json!({ "day": day.to_string(), "lines": json.collect::<Vec<_>>() });
    if lines.is_empty() {
        return Ok(Answer::good(json, format!("nothing was ordered on {day}")));
    }
    let rows = lines.iter().map(|line| {
        [format!("{:.3}", line.at), line.operator.clone(), line.command.clone(), line.target.clone(), changes(line)]
    });
    Ok(Answer::good(json, table(["at", "operator", "command", "target", "changes"], rows).to_string()))
}

fn changes(line: &TrailLine) -> String {
    let value = |facts: &Facts, name: &str| facts.get(name).cloned().unwrap_or_else(|| "–".to_owned());
    let names: std::collections::BTreeSet<&String> = line.before.keys().chain(line.after.keys()).collect();
    let change = |name: &&String| format!("{name}: {} → {}", value(&line.before, name), value(&line.after, name));
    names.iter().map(change).collect::<Vec<_>>().join("\n")
}
