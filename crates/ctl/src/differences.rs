//! Differences between two forms of an object.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use thuban_model::diff;

/// Time limit for the search of a minimal line difference.
const SEARCH_MAX: Duration = Duration::from_millis(500);
const CONTENT: &str = "content";

/// Formats differences for people: fields by JSON pointer, a content by its lines.
pub(super) fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    let without = |fields: &Map<String, Value>| {
        let mut fields = fields.clone();
        fields.remove(CONTENT);
        Value::Object(fields)
    };
    for change in diff::of_values(&without(before), &without(after)) {
        lines.extend(change.before.map(|value| format!("- {}: {value}", change.path)));
        lines.extend(change.after.map(|value| format!("+ {}: {value}", change.path)));
    }
    let content =
        |fields: &Map<String, Value>| fields.get(CONTENT).and_then(Value::as_str).unwrap_or_default().to_owned();
    lines.extend(diff::of_texts(&content(before), &content(after), Instant::now() + SEARCH_MAX));
    lines
}
