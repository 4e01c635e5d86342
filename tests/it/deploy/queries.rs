//! Names in a Prometheus query: series with their label matchers, and grouping labels.

use std::collections::{BTreeMap, BTreeSet};

use super::scrape::Scrape;

/// Labels that are not a node's: Prometheus gives them to whatever it scrapes.
const OF_THE_TARGET: [&str; 2] = ["job", "instance"];
/// Series that Prometheus itself adds, with their labels in addition to those of the target.
const OF_PROMETHEUS: [(&str, &[&str]); 2] = [("up", &[]), ("ALERTS", &["alertname", "alertstate", "severity"])];
/// Words before a list of labels.
const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    series: BTreeMap<String, BTreeSet<String>>,
    grouped: BTreeSet<String>,
}

impl Used {
    pub(super) fn by(query: &str) -> Used {
        let mut used = Used::default();
        let mut rest = query;
        while let Some(first) = rest.chars().next() {
            if first == '[' {
                rest = after(rest, ']');
            } else if first.is_ascii_digit() {
                // A number or a duration.
                rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
            } else if is_of_name(first) {
                let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
                let (name, behind) = rest.split_at(end);
                rest = used.take(name, behind.trim_start());
            } else {
                rest = &rest[first.len_utf8()..];
            }
        }
        used
    }

    /// Takes a name and what belongs to it; returns what is left.
    fn take<'a>(&mut self, name: &str, behind: &'a str) -> &'a str {
        if GROUPING.contains(&name) {
            let (labels, rest) = behind[1..].split_once(')').unwrap_or_else(|| panic!("open list: {behind}"));
            self.grouped
                .extend(labels.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()));
            return rest;
        }
        let is_aggregation = ["by", "without"]
            .iter()
            .any(|word| behind.strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with('(')));
        if behind.starts_with('(') || is_aggregation || OPERATORS.contains(&name) {
            return behind;
        }
        let labels = self.series.entry(name.to_owned()).or_default();
        let Some(matchers) = behind.strip_prefix('{') else { return behind };
        let (matchers, rest) = matchers.split_once('}').unwrap_or_else(|| panic!("open matchers: {behind}"));
        for matcher in matchers.split(',').map(str::trim) {
            let end = matcher.find(|c| !is_of_name(c)).unwrap_or_else(|| panic!("no matcher: {matcher}"));
            labels.insert(matcher[..end].to_owned());
        }
        rest
    }

    pub(super) fn names(&self, series: &str) -> bool {
        self.series.contains_key(series)
    }

    /// Returns the names in it that no node has. `shown` are labels that distinguish the results.
    pub(super) fn missing_in(&self, scrape: &Scrape, shown: &[String]) -> Vec<String> {
        let mut missing = Vec::new();
        if self.series.is_empty() {
            missing.push("no series is named".to_owned());
        }
        for (series, asked) in &self.series {
            let of_prometheus = OF_PROMETHEUS.iter().find(|(name, _)| name == series);
            let labels: BTreeSet<&str> = match (of_prometheus, scrape.labels_of(series)) {
                (Some((_, labels)), _) => labels.iter().copied().collect(),
                (None, Some(labels)) => labels.iter().map(String::as_str).collect(),
                (None, None) => {
                    missing.push(series.clone());
                    continue;
                }
            };
            let lacking = asked
                .iter()
                .chain(&self.grouped)
                .chain(shown)
                .filter(|label| !OF_THE_TARGET.contains(&label.as_str()) && !labels.contains(label.as_str()));
            missing.extend(lacking.map(|label| format!("{series}{{{label}}}")));
        }
        // What was summed over cannot be shown. A list of `on` is a list of what both sides keep.
        let lost = shown.iter().filter(|label| !self.grouped.is_empty() && !self.grouped.contains(*label));
        missing.extend(lost.filter(|label| *label != "instance").map(|label| format!("{label} is not grouped by")));
        missing
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Returns the text after the next `mark`.
fn after(text: &str, mark: char) -> &str {
    text.split_once(mark).map_or("", |(_, rest)| rest)
}

#[test]
fn the_names_in_a_query_are_found() {
    let used = Used::by(concat!(
        r#"histogram_quantile(0.99, sum by (instance, le) (rate(a_bucket{code=~"5..",x!="y"}[5m])))"#,
        " > 2 * b and on (job) c"
    ));
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let series = [("a_bucket", set(&["code", "x"])), ("b", set(&[])), ("c", set(&[]))];
    assert_eq!(used.series, series.map(|(name, labels)| (name.to_owned(), labels)).into());
    assert_eq!(used.grouped, set(&["instance", "le", "job"]));
    assert_eq!(used.missing_in(&Scrape::default(), &[]), ["a_bucket", "b", "c"]);
}
