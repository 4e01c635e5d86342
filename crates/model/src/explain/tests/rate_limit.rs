//! Rate limits: every matching quota counts the request, with separate counters by value.

use serde_json::{Value, json};

use super::*;
use crate::model::rule::rate_limit::Counted;

fn limit(name: &str, trigger: Value) -> Value {
    let mut trigger = trigger;
    if trigger.get("amounts").is_none() {
        trigger["amounts"] = json!([{ "maxAmount": 10, "validDuration": "1s" }]);
    }
    json!({ "name": name, "namespace": "shop", "service": "order", "rules": [trigger] })
}

#[test]
fn every_quota_that_matches_counts() {
    let path = |way: &str, value: &str| json!({ "path": { "type": way, "value": value } });
    let rules = json!([
        limit("all", json!({})),
        limit("stars", json!({ "apis": [{ "protocol": "*", "method": "*", "path": { "value": "*" } }] })),
        limit("pay", json!({ "apis": [path("EXACT", "/pay")] })),
        limit("get", json!({ "apis": [{ "method": "GET" }] })),
        limit("http", json!({ "apis": [{ "protocol": "HTTP", "method": "" }] })),
        limit("either", json!({ "apis": [path("EXACT", "/pay"), path("REGEX", "^/v[0-9]")] })),
        limit("gold", json!({ "arguments": [{ "type": "HEADER", "key": "tier", "value": { "value": "gold" } }] })),
        limit("both", json!({ "apis": [{ "method": "GET" }],
            "arguments": [{ "type": "CALLER_SERVICE", "key": "*", "value": { "value": "cart" } }] })),
        limit("off", json!({ "disable": true })),
        limit("bare", json!({ "amounts": [] })),
        limit("parallel", json!({ "resource": "CONCURRENCY", "amounts": [],
            "concurrency_amount": { "max_amount": 3 } })),
        { "name": "sleeps", "namespace": "shop", "service": "order", "disable": true,
            "rules": [{ "amounts": [{ "maxAmount": 1, "validDuration": "1s" }] }] },
        { "name": "everyone", "namespace": "shop",
            "rules": [{ "amounts": [{ "maxAmount": 1, "validDuration": "1s" }] }] },
        { "name": "callee", "namespace": "ops", "callee": { "service": "order", "namespace": "shop" },
            "rules": [{ "amounts": [{ "maxAmount": 1, "validDuration": "1s" }] }] },
        { "name": "stock", "namespace": "shop", "service": "stock",
            "rules": [{ "amounts": [{ "maxAmount": 1, "validDuration": "1s" }] }] },
        { "name": "elsewhere", "namespace": "test",
            "rules": [{ "amounts": [{ "maxAmount": 1, "validDuration": "1s" }] }] },
    ]);
    let candidates = saved(Family::RateLimit, &rules);
    let always = ["all", "stars", "parallel", "everyone", "callee"];
    let rows: [(Value, &[&str]); 6] = [
        (json!({}), &[]),
        (json!({ "path": "/pay" }), &["pay", "either"]),
        (json!({ "path": "/v1/x", "method": "GET" }), &["get", "either"]),
        (json!({ "protocol": "http", "method": "get" }), &["http"]),
        (json!({ "headers": { "Tier": "gold" }, "caller_service": "cart" }), &["gold"]),
        (json!({ "method": "GET", "caller_service": "cart" }), &["get", "both"]),
    ];
    for (more, expected) in rows {
        let shown = more.to_string();
        let mut expected: Vec<String> = always.iter().chain(expected).map(|name| format!("{name}#0 100")).collect();
        let mut applying = applying(Family::RateLimit, &candidates, &request(more));
        expected.sort();
        applying.sort();
        assert_eq!(applying, expected, "{shown}");
    }
    let shown = verdicts(Family::RateLimit, &candidates, &request(json!({})));
    for expected in ["off#0 Disabled", "bare#0 Empty", "sleeps#0 Disabled", "gold#0 NotMatched"] {
        assert!(shown.iter().any(|verdict| verdict == expected), "{expected} in {shown:?}");
    }
    assert!(!shown.iter().any(|verdict| verdict.starts_with("stock") || verdict.starts_with("elsewhere")));
}

#[test]
fn quotas_are_listed_by_priority() {
    let rules = json!([
        { "name": "second", "namespace": "shop", "priority": 1,
            "rules": [{ "amounts": [{ "maxAmount": 1, "validDuration": "1s" }] }] },
        { "name": "first", "namespace": "shop", "priority": 0,
            "rules": [
                { "amounts": [{ "maxAmount": 1, "validDuration": "1s" }] },
                { "amounts": [{ "maxAmount": 2, "validDuration": "1s" }] },
            ] },
    ]);
    let candidates = saved(Family::RateLimit, &rules);
    let sketch = request(json!({}));
    assert_eq!(applying(Family::RateLimit, &candidates, &sketch), ["first#0 100", "first#1 100", "second#0 100"]);
    let info = explain(Family::RateLimit, &sketch, &candidates).info;
    assert!(info.starts_with("3 quotas count the request"), "{info}");
}

/// API path, condition, whether patterns are combined, and the key of the counter.
#[test]
fn counters_are_told_apart_by_what_patterns_let_through() {
    let any = json!([{ "type": "HEADER", "key": "uid", "value": { "type": "REGEX", "value": ".+" } }]);
    let star = json!([{ "type": "HEADER", "key": "uid", "value": { "value": "*" } }]);
    let fixed = json!([{ "type": "HEADER", "key": "uid", "value": { "value": "7" } }]);
    let paths = json!([{ "path": { "type": "REGEX", "value": "^/v[0-9]" } }]);
    let rows: [(&Value, &Value, bool, &[&str]); 6] = [
        (&json!([]), &fixed, false, &[]),
        (&json!([]), &any, false, &["HEADER uid=7"]),
        (&json!([]), &any, true, &["HEADER uid=.+ combined"]),
        (&json!([]), &star, false, &["HEADER uid=7"]),
        (&paths, &fixed, false, &["PATH =/v1"]),
        (&paths, &any, false, &["PATH =/v1", "HEADER uid=7"]),
    ];
    for (apis, arguments, regex_combine, expected) in rows {
        let trigger = json!({ "apis": apis, "arguments": arguments, "regex_combine": regex_combine });
        let shown = trigger.to_string();
        let candidates = saved(Family::RateLimit, &json!([limit("r", trigger)]));
        let sketch = request(json!({ "path": "/v1", "headers": { "uid": "7" } }));
        let explanation = explain(Family::RateLimit, &sketch, &candidates);
        let SubRuleEffect::Quota(quota) = &explanation.candidates[0].rules[0].effect else { panic!("a quota") };
        let counter: Vec<String> = quota.counter.iter().map(shown_part).collect();
        assert_eq!(counter, expected, "{shown}");
    }
}

fn shown_part(part: &Counted<'_>) -> String {
    use crate::model::wire::Words;
    let combined = if part.combined { " combined" } else { "" };
    format!("{} {}={}{combined}", part.kind.word(), part.key, part.value)
}
