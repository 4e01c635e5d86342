//! Differences between two states of a rule or of a config file.

use std::collections::BTreeSet;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use similar::{Algorithm, TextDiff};

use super::properties::Pairs;

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// A changed value.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Changed {
    /// JSON Pointer (RFC 6901) of a field, or the key of a property.
    pub path: String,
    /// Old value; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// New value; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Returns the values that differ, each with the pointer of its field. Elements of arrays are compared by position.
pub fn of_values(before: &Value, after: &Value) -> Vec<Changed> {
    let mut changes = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut changes);
    changes
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Changed>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let token = key.replace('~', "~0").replace('/', "~1");
                compare(format!("{path}/{token}"), before.get(key), after.get(key), changes);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                compare(format!("{path}/{index}"), before.get(index), after.get(index), changes);
            }
        }
        (before, after) if before == after => {}
        (before, after) => changes.push(Changed { path, before: before.cloned(), after: after.cloned() }),
    }
}

/// Returns the keys that differ or exist on one side only, in alphabetical order.
pub fn of_pairs(before: &Pairs, after: &Pairs) -> Vec<Changed> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differing = keys.into_iter().filter(|key| before.get(key) != after.get(key));
    let value = |pairs: &Pairs, key: &String| pairs.get(key).cloned().map(Value::String);
    differing.map(|key| Changed { path: key.clone(), before: value(before, key), after: value(after, key) }).collect()
}

/// Returns the lines of a unified diff without its header; none if the texts are equal. Two unrelated texts of a
/// megabyte would take minutes to compare; from `until` on the result is correct but not minimal.
pub fn of_texts(before: &str, after: &str, until: Instant) -> Vec<String> {
    let mut search = TextDiff::configure();
    let diff = search.algorithm(Algorithm::Myers).deadline(until).diff_lines(before, after);
    let unified = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
    unified.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(200)
    }

    #[test]
    fn values_differ_by_field() {
        let rows = [
            (json!({"a": 1}), json!({"a": 1}), json!([])),
            (json!({"a": 1}), json!({"a": 2}), json!([{"path": "/a", "before": 1, "after": 2}])),
            (json!({}), json!({"a": {"b": 1}}), json!([{"path": "/a", "after": {"b": 1}}])),
            (json!({"a/b": {"c~": 1}}), json!({"a/b": {}}), json!([{"path": "/a~1b/c~0", "before": 1}])),
            (
                json!({"rules": [{"n": 1}, {"n": 2}]}),
                json!({"rules": [{"n": 1}, {"n": 3}, {"n": 4}]}),
                json!([{"path": "/rules/1/n", "before": 2, "after": 3}, {"path": "/rules/2", "after": {"n": 4}}]),
            ),
            (json!([1, 2]), json!([2]), json!([{"path": "/0", "before": 1, "after": 2}, {"path": "/1", "before": 2}])),
            (json!({"a": [1]}), json!({"a": {"0": 1}}), json!([{"path": "/a", "before": [1], "after": {"0": 1}}])),
            (json!({"a": null}), json!({}), json!([{"path": "/a", "before": null}])),
        ];
        for (before, after, expected) in rows {
            let found = serde_json::to_value(of_values(&before, &after)).expect("JSON");
            assert_eq!(found, expected, "{before} to {after}");
        }
    }

    #[test]
    fn properties_differ_by_key() {
        let pairs = |text: &str| -> Pairs {
            text.split(' ').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
        };
        let found = of_pairs(&pairs("a=1 b=2 c=3"), &pairs("a=1 b=3 d=4"));
        let expected = json!([
            {"path": "b", "before": "2", "after": "3"}, {"path": "c", "before": "3"}, {"path": "d", "after": "4"},
        ]);
        assert_eq!(serde_json::to_value(found).expect("JSON"), expected);
    }

    #[test]
    fn texts_differ_by_line() {
        assert_eq!(of_texts("a\nb\n", "a\nb\n", soon()), Vec::<String>::new());
        assert_eq!(of_texts("a\nb\nc\n", "a\nB\nc\n", soon()), ["@@ -1,3 +1,3 @@", " a", "-b", "+B", " c"]);
        let last = of_texts("a", "a\n", soon());
        assert_eq!(last, ["@@ -1 +1 @@", "-a", "\\ No newline at end of file", "+a"]);
    }

    #[test]
    fn texts_that_have_nothing_in_common_come_to_an_end() {
        let text = |from: usize| (from..from + 60_000).map(|line| format!("{line}\n")).collect::<String>();
        let lines = of_texts(&text(0), &text(1_000_000), soon());
        assert_eq!(lines.iter().filter(|line| line.starts_with('+')).count(), 60_000);
    }
}
