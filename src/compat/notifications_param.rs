//! The `notifications` parameter of a poll: watched files with the notification id that the client has for each.

use serde::Deserialize;
use serde_json::Value;

use crate::model::config_file::{PROPERTIES_SUFFIX, canonical_file};
use crate::model::limits;
use crate::reads::WatchedFile;

/// Maximum number of files in one poll.
pub(super) const WANTED_MAX: usize = limits::POLL_NAMESPACES_MAX;
/// Maximum characters of a name, including the suffix that a client may add.
const NAME_CHARS_MAX: usize = limits::NAME_CHARS_MAX + PROPERTIES_SUFFIX.len();

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NotificationItem {
    namespace_name: Option<String>,
    #[serde(default)]
    notification_id: Value,
}

/// Parses the list as leniently as Apollo's server: items without a name are dropped, a missing id is 0, unknown
/// members are ignored. The error text is returned to the client.
pub(super) fn parse(text: &str) -> Result<Vec<WatchedFile>, String> {
    let items: Vec<Option<NotificationItem>> =
        serde_json::from_str(text).map_err(|error| format!("notifications: {error}"))?;
    let mut all = Vec::new();
    for item in items.into_iter().flatten() {
        let known_id = id(&item.notification_id).ok_or("notifications: notificationId must be an integer")?;
        if let Some(name) = item.namespace_name.filter(|name| !name.is_empty()) {
            if name.chars().count() > NAME_CHARS_MAX {
                return Err(format!("notifications: a namespaceName has more than {NAME_CHARS_MAX} characters"));
            }
            all.push(WatchedFile { name, known_id });
        }
    }
    let wanted = lowest_of_each(all);
    match wanted.len() {
        0 => Err("notifications: no namespaceName in it".to_owned()),
        1..=WANTED_MAX => Ok(wanted),
        many => Err(format!("notifications: {many} namespaces, at most {WANTED_MAX} are allowed")),
    }
}

fn id(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
        _ => None,
    }
}

fn whole(number: f64) -> Option<i64> {
    let fits = number.fract() == 0.0 && number.abs() < (1_i64 << 53) as f64;
    fits.then_some(number as i64)
}

/// Merges several spellings of one file: the lowest id counts, under its own spelling; otherwise a client that does not
/// advance one of them would miss changes.
fn lowest_of_each(all: Vec<WatchedFile>) -> Vec<WatchedFile> {
    let mut keyed: Vec<_> = all.into_iter().map(|wanted| (canonical_file(&wanted.name), wanted)).collect();
    keyed.sort_by(|(file, wanted), (other_file, other)| (file, wanted.known_id).cmp(&(other_file, other.known_id)));
    keyed.dedup_by(|(file, _), (kept, _)| file == kept);
    keyed.into_iter().map(|(_, wanted)| wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_leniently() {
        let table: &[(&str, &[(&str, i64)])] = &[
            (r#"[{"namespaceName":"application","notificationId":-1}]"#, &[("application", -1)]),
            (r#" [ {"namespaceName": "a", "notificationId": 7, "messages": {"details": {}}} ] "#, &[("a", 7)]),
            (
                r#"[{"namespaceName":"b.yml","notificationId":2},{"namespaceName":"a","notificationId":1}]"#,
                &[("a", 1), ("b.yml", 2)],
            ),
            (r#"[{"namespaceName":"a"}]"#, &[("a", 0)]),
            (r#"[{"namespaceName":"a","notificationId":null}]"#, &[("a", 0)]),
            (r#"[{"namespaceName":"a","notificationId":"12"}]"#, &[("a", 12)]),
            (r#"[{"namespaceName":"a","notificationId":3.0}]"#, &[("a", 3)]),
            (r#"[{"namespaceName":"a","notificationId":9223372036854775807}]"#, &[("a", i64::MAX)]),
            (
                r#"[{"notificationId":1},{"namespaceName":""},null,{"namespaceName":null},{"namespaceName":"a"}]"#,
                &[("a", 0)],
            ),
            (
                r#"[{"namespaceName":"App.properties","notificationId":2},{"namespaceName":"app","notificationId":1}]"#,
                &[("app", 1)],
            ),
            (
                r#"[{"namespaceName":"App.properties","notificationId":1},{"namespaceName":"app","notificationId":2}]"#,
                &[("App.properties", 1)],
            ),
            (
                r#"[{"namespaceName":"a","notificationId":1},{"namespaceName":"a.yml","notificationId":1}]"#,
                &[("a", 1), ("a.yml", 1)],
            ),
        ];
        for (text, expected) in table {
            let wanted = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let wanted: Vec<_> = wanted.iter().map(|wanted| (wanted.name.as_str(), wanted.known_id)).collect();
            assert_eq!(wanted, *expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_list_of_names_is_refused() {
        for text in [
            "",
            "null",
            "[]",
            "{}",
            "7",
            "notifications",
            r#"{"namespaceName":"a","notificationId":-1}"#,
            r#"["a"]"#,
            "[null]",
            "[{}]",
            r#"[{"namespaceName":""}]"#,
            r#"[{"notificationId":1}]"#,
            r#"[{"namespaceName":5}]"#,
            r#"[{"namespaceName":["a"]}]"#,
            r#"[{"namespaceName":"a","notificationId":"x"}]"#,
            r#"[{"namespaceName":"a","notificationId":1.5}]"#,
            r#"[{"namespaceName":"a","notificationId":1e300}]"#,
            r#"[{"namespaceName":"a","notificationId":99999999999999999999}]"#,
            r#"[{"namespaceName":"a","notificationId":true}]"#,
            r#"[{"namespaceName":"a","notificationId":-1}"#,
            r#"[{"namespaceName":"a","notificationId":-1}]]"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_is_no_longer_than_a_file_can_have() {
        let list = |chars: usize| format!(r#"[{{"namespaceName":"{}"}}]"#, "ä".repeat(chars));
        assert_eq!(parse(&list(NAME_CHARS_MAX)).map(|wanted| wanted.len()), Ok(1));
        assert!(parse(&list(NAME_CHARS_MAX + 1)).is_err());
    }

    #[test]
    fn the_number_of_files_is_limited_after_repeats_are_gone() {
        let list = |count: usize| {
            let items =
                (0..count).map(|n| format!(r#"{{"namespaceName":"n{n}"}},{{"namespaceName":"N{n}.properties"}}"#));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        };
        assert_eq!(parse(&list(WANTED_MAX)).map(|wanted| wanted.len()), Ok(WANTED_MAX));
        assert!(parse(&list(WANTED_MAX + 1)).is_err());
    }
}
