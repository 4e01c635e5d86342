//! Values on either side of each limit, per family: accepted unchanged, or refused with the field.

use serde_json::{Value, json};

use super::suite::{INVALID, WRONG_TYPE};

/// A value at a pointer into the sample of this title.
pub(super) struct Edge {
    pub(super) sample: &'static str,
    pub(super) at: &'static str,
    pub(super) value: Value,
    pub(super) verdict: Verdict,
}

pub(super) enum Verdict {
    /// Taken, and shown like this.
    Shown(Value),
    /// Refused with this code, naming the pointer with this added.
    Refused(u64, &'static str),
}

pub(super) fn fault_detect() -> Vec<Edge> {
    let mut edges = vec![
        Edge::kept("probe", "/port", json!(0)),
        Edge::kept("probe", "/port", json!(65_535)),
        Edge::refused("probe", "/port", json!(65_536), INVALID),
        Edge::kept("probe", "/rules/0/port", json!(65_535)),
        Edge::refused("probe", "/rules/0/port", json!(65_536), INVALID),
        // Stored as data, and fetched by clients only.
        Edge::kept("probe", "/rules/0/http_config/url", json!("http://169.254.169.254/latest/meta-data")),
        Edge::kept("probe", "/rules/0/http_config/url", json!("file:///etc/passwd")),
    ];
    edges.extend(whole_numbers("probe", "/rules/0/interval"));
    edges.extend(whole_numbers("probe", "/timeout"));
    edges.extend(conditions("probe", "/target_service/api/path"));
    edges.extend(conditions("probe", "/target_service/method"));
    edges
}

pub(super) fn rate_limit() -> Vec<Edge> {
    let (percent, period) = ("/report/amountPercent", "/rules/0/amounts/0/validDuration");
    let mut edges = vec![
        Edge::kept("limit", percent, json!(1)),
        Edge::kept("limit", percent, json!(100)),
        Edge::refused("limit", percent, json!(0), INVALID),
        Edge::refused("limit", percent, json!(101), INVALID),
        Edge::kept("limit", period, json!("1s")),
        Edge::returned_as("limit", period, json!("60.0s"), json!("60s")),
        Edge::returned_as("limit", period, json!("1.5s"), json!("1.500s")),
        Edge::kept("limit", period, json!("86400s")),
        Edge::refused("limit", period, json!("0s"), INVALID),
        Edge::refused("limit", period, json!("0.999s"), INVALID),
        Edge::refused("limit", period, json!("0.999999999s"), INVALID),
        Edge::returned_as("limit", "/report/interval", json!(1500), json!("1.500s")),
        Edge::returned_as("limit", "/report/interval", json!(0), json!("0s")),
    ];
    // Without concurrency, the amount is per period; the sample counts concurrency.
    let amount = |resource: &str, amount: Value| json!([{"resource": resource, "amounts": [amount]}]);
    for resource in ["QPS", "SYSTEM"] {
        edges.push(Edge {
            sample: "limit",
            at: "/rules",
            value: amount(resource, json!({"maxAmount": 5})),
            verdict: Verdict::Refused(INVALID, "/0/amounts/0/validDuration"),
        });
    }
    for bad in ["1", "1h", "-1s", "999ms", "", "1.0000000001s", "9223372036854775807s", "1e3s"] {
        edges.push(Edge::refused("limit", period, json!(bad), WRONG_TYPE));
        edges.push(Edge::refused("limit", "/report/interval", json!(bad), WRONG_TYPE));
    }
    edges.push(Edge::refused("limit", percent, json!(-1), WRONG_TYPE));
    edges.extend(whole_numbers("limit", "/rules/0/amounts/0/maxAmount"));
    edges.extend(whole_numbers("limit", "/rules/0/max_queue_delay"));
    edges.extend(conditions("limit", "/rules/0/arguments/0/value"));
    edges.extend(conditions("limit", "/rules/0/apis/0/path"));
    edges
}

pub(super) fn routing() -> Vec<Edge> {
    let percent = "/routing_config/rules/0/arguments/random_percent";
    let (priority, weight) =
        ("/routing_config/rules/0/destinations/0/priority", "/routing_config/rules/0/destinations/0/weight");
    let mut edges = vec![
        Edge::kept("RulePolicy", percent, json!(1)),
        Edge::kept("RulePolicy", percent, json!(100)),
        Edge::refused("RulePolicy", percent, json!(0), INVALID),
        Edge::refused("RulePolicy", percent, json!(101), INVALID),
        Edge::refused("RulePolicy", percent, json!(-1), WRONG_TYPE),
        Edge::kept("RulePolicy", priority, json!(0)),
        Edge::kept("RulePolicy", priority, json!(9)),
        Edge::refused("RulePolicy", priority, json!(10), INVALID),
        Edge::refused("RulePolicy", priority, json!(-1), WRONG_TYPE),
        Edge::refused("RulePolicy", "/route_policy", json!("RoundRobin"), WRONG_TYPE),
        Edge::refused("RulePolicy", "/route_policy", json!("rulepolicy"), WRONG_TYPE),
        Edge::refused("RulePolicy", "/route_policy", json!(3), WRONG_TYPE),
        Edge::refused("NearbyPolicy", "/routing_config", json!([]), WRONG_TYPE),
        Edge::refused("NearbyPolicy", "/routing_config", json!("{}"), WRONG_TYPE),
    ];
    edges.extend(whole_numbers("RulePolicy", weight));
    edges.extend(conditions("RulePolicy", "/routing_config/rules/0/arguments/arguments/0/value"));
    edges.extend(conditions("RulePolicy", "/routing_config/rules/0/destinations/0/labels/runsOn"));
    // What belongs to another policy.
    for (sample, foreign) in [
        ("RulePolicy", json!({"labels": {"a": "b"}})),
        ("RulePolicy", json!({"failover": {}})),
        ("RulePolicy", json!({"match_level": "ZONE"})),
        ("MetadataPolicy", json!({"rules": []})),
        ("MetadataPolicy", json!({"strict_nearby": false})),
        ("MetadataPolicy", json!({"caller": {"service": "a", "namespace": "b"}})),
        ("NearbyPolicy", json!({"rules": []})),
        ("NearbyPolicy", json!({"labels": {}})),
        ("NearbyPolicy", json!({"@type": "type.googleapis.com/v1.CustomRoute"})),
    ] {
        edges.push(Edge::refused(sample, "/routing_config", foreign, INVALID));
    }
    edges
}

pub(super) fn circuit_breaker() -> Vec<Edge> {
    let (ejected, code) = ("/max_ejection_percent", "/fallback_config/response/code");
    let mut edges = vec![
        Edge::kept("breaker", ejected, json!(0)),
        Edge::kept("breaker", ejected, json!(100)),
        Edge::refused("breaker", ejected, json!(101), INVALID),
        Edge::kept("breaker", code, json!(i32::MAX)),
        Edge::refused("breaker", code, json!(1_u32 << 31), INVALID),
        Edge::refused("breaker", code, json!(-1), WRONG_TYPE),
    ];
    for triggers in ["/trigger_condition/0", "/block_configs/0/trigger_conditions/0"] {
        let at = |field: &str| -> &'static str { format!("{triggers}/{field}").leak() };
        edges.push(Edge::kept("breaker", at("error_percent"), json!(100)));
        edges.push(Edge::refused("breaker", at("error_percent"), json!(101), INVALID));
        edges.extend(whole_numbers("breaker", at("interval")));
    }
    edges.extend(whole_numbers("breaker", "/recover_condition/sleep_window"));
    edges.extend(conditions("breaker", "/error_conditions/0/condition"));
    edges.extend(conditions("breaker", "/block_configs/0/error_conditions/0/condition"));
    edges.extend(conditions("breaker", "/block_configs/0/api/path"));
    edges.extend(conditions("breaker", "/rule_matcher/destination/method"));
    // How slow is too slow.
    for (value, is_taken) in [("300", true), ("0", true), ("", false), ("fast", false), ("-1", false), ("0.5", false)] {
        let verdict = json!({"type": "EXACT", "value": value, "value_type": "TEXT"});
        let at = "/error_conditions/1/condition";
        edges.push(match is_taken {
            true => Edge::kept("breaker", at, verdict),
            false => Edge { sample: "breaker", at, value: verdict, verdict: Verdict::Refused(INVALID, "/value") },
        });
    }
    edges
}

impl Edge {
    fn kept(sample: &'static str, at: &'static str, value: Value) -> Edge {
        Edge::returned_as(sample, at, value.clone(), value)
    }

    fn returned_as(sample: &'static str, at: &'static str, value: Value, shown: Value) -> Edge {
        Edge { sample, at, value, verdict: Verdict::Shown(shown) }
    }

    fn refused(sample: &'static str, at: &'static str, value: Value, code: u64) -> Edge {
        Edge { sample, at, value, verdict: Verdict::Refused(code, "") }
    }
}

/// A uint32 is a number or its text, and nothing beyond its range is cut to fit.
pub(super) fn whole_numbers(sample: &'static str, at: &'static str) -> Vec<Edge> {
    let mut edges = vec![
        Edge::kept(sample, at, json!(u32::MAX)),
        Edge::returned_as(sample, at, json!("4294967295"), json!(u32::MAX)),
        Edge::returned_as(sample, at, json!("17"), json!(17)),
    ];
    let beyond = [json!(1_u64 << 32), json!("4294967296"), json!(u64::MAX), json!(1e19), json!(-1), json!("-1")];
    let none = [json!(1.5), json!("x"), json!(""), json!("1e3"), json!([1])];
    edges.extend(beyond.into_iter().chain(none).map(|bad| Edge::refused(sample, at, bad, WRONG_TYPE)));
    edges
}

/// Limits of a condition: linear-time expressions of bounded size, ranges that are some.
fn conditions(sample: &'static str, at: &'static str) -> Vec<Edge> {
    let condition = |kind: &str, value: String| json!({"type": kind, "value": value, "value_type": "TEXT"});
    let mut edges = Vec::new();
    let taken = [("REGEX", "(a+)+$"), ("REGEX", "^/v[0-9]{1,3}/"), ("RANGE", "1~5"), ("RANGE", "7~7"), ("IN", "")];
    edges.extend(taken.map(|(kind, value)| Edge::kept(sample, at, condition(kind, value.into()))));
    let mut refused = vec![("REGEX", "a".repeat(100_000))];
    for expression in ["(", "[z-a]", "(?<=a)b", "(?=a)b", r"(a)\1", "a{1000}{1000}"] {
        refused.push(("REGEX", expression.to_owned()));
    }
    for range in ["5~1", "abc", "1~", "~1", "-5~1", "1-5", "", "1~99999999999999999999"] {
        refused.push(("RANGE", range.to_owned()));
    }
    edges.extend(refused.into_iter().map(|(kind, value)| Edge {
        sample,
        at,
        value: condition(kind, value),
        verdict: Verdict::Refused(INVALID, "/value"),
    }));
    edges
}
