//! Logs and metrics: one JSON object per line, on standard output.
//!
//! **Architecture Invariant**: codes, tokens, secrets, names and memos are never logged; ids of requests, traces,
//! instructions and transfers are. A failure is logged once, at the boundary, with its chain.
//!
//! Whatever is logged with a field `alarm` is counted too, under the alarm's name, by a line in CloudWatch's embedded
//! metric format. No call is made for it, and no place that logs can forget it.

use crate::{app::system_time, config};
use serde_json::{Value, json};
use std::{fmt::Debug, io::Write};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::LevelFilter,
    layer::{Context, Layer, SubscriberExt},
    util::SubscriberInitExt,
};

/// Starts logging. For the `main` of a function, once.
pub fn init() {
    let logs = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        // The runtime's own span: the id of the invocation, which names no instruction.
        .with_current_span(true)
        .with_span_list(false)
        .with_filter(LevelFilter::INFO);
    let alarms = Alarms { stack: config::stack() }.with_filter(LevelFilter::WARN);
    tracing_subscriber::registry().with(logs).with(alarms).init();
}

/// An error with its causes, in one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

/// The namespace of the metrics.
const NAMESPACE: &str = "furikomi";

/// Counts what is logged with an `alarm`.
struct Alarms {
    stack: String,
}

impl<S: Subscriber> Layer<S> for Alarms {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut found = AlarmName(None);
        event.record(&mut found);
        let Some(name) = found.0 else { return };
        let line = metric(&self.stack, &name, system_time().as_millisecond());
        // Where standard output is gone, there is nobody left to tell.
        if writeln!(std::io::stdout().lock(), "{line}").is_err() {}
    }
}

struct AlarmName(Option<String>);

impl Visit for AlarmName {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "alarm" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// One occurrence of the alarm `name`, in the embedded metric format.
fn metric(stack: &str, name: &str, at_ms: i64) -> Value {
    json!({
        "_aws": {
            "Timestamp": at_ms,
            "CloudWatchMetrics": [{
                "Namespace": NAMESPACE,
                "Dimensions": [["stack"]],
                "Metrics": [{ "Name": name, "Unit": "Count" }],
            }],
        },
        "stack": stack,
        name: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_one_count_of_its_stack() {
        let expected = json!({
            "_aws": {
                "Timestamp": 1_764_547_200_000_i64,
                "CloudWatchMetrics": [{
                    "Namespace": "furikomi",
                    "Dimensions": [["stack"]],
                    "Metrics": [{ "Name": "result-unknown", "Unit": "Count" }],
                }],
            },
            "stack": "bank",
            "result-unknown": 1,
        });
        assert_eq!(metric("bank", "result-unknown", 1_764_547_200_000), expected);
    }
}
