//! Routing: which rule applies, in which order, and how the traffic is divided among rules.

use serde_json::{Value, json};

use super::*;

fn header(key: &str, value: &str) -> Value {
    json!({ "type": "HEADER", "key": key, "value": { "type": "EXACT", "value": value } })
}

/// Returns a sub-rule that routes to the called service.
fn to_order(arguments: Value, percent: u32) -> Value {
    json!({
        "arguments": { "arguments": arguments, "random_percent": percent },
        "destinations": [{ "service": "order", "namespace": "shop" }],
    })
}

fn rule_of(name: &str, priority: u32, rules: Value) -> Value {
    json!({ "name": name, "namespace": "shop", "priority": priority, "routing_config": { "rules": rules } })
}

/// Rules, request, and the result: rule, sub-rule, percentage of the requests.
#[test]
fn the_first_that_matches_takes_the_request() {
    let all = || to_order(json!([]), 100);
    let gray = || to_order(json!([header("env", "gray")]), 100);
    let env = json!({ "headers": { "env": "gray" } });
    let off = json!({ "name": "off", "namespace": "shop", "enable": false, "routing_config": { "rules": [all()] } });
    let closed = json!({ "destinations": [{ "service": "order", "namespace": "shop", "isolate": true }] });
    let rows: [(&str, Value, &Value, &[&str]); 14] = [
        ("no rule", json!([]), &env, &[]),
        ("one", json!([rule_of("a", 0, json!([all()]))]), &env, &["a#0 100"]),
        (
            "lower number first",
            json!([rule_of("a", 2, json!([all()])), rule_of("b", 1, json!([all()]))]),
            &env,
            &["b#0 100"],
        ),
        (
            "by id on a tie",
            json!([rule_of("z", 1, json!([all()])), rule_of("a", 1, json!([all()]))]),
            &env,
            &["a#0 100"],
        ),
        ("sub-rules in order", json!([rule_of("a", 0, json!([gray(), all()]))]), &env, &["a#0 100"]),
        ("first match, not first", json!([rule_of("a", 0, json!([gray(), all()]))]), &json!({}), &["a#1 100"]),
        (
            "next rule if none matches",
            json!([rule_of("a", 0, json!([gray()])), rule_of("b", 1, json!([all()]))]),
            &json!({}),
            &["b#0 100"],
        ),
        ("disabled", json!([off, rule_of("b", 1, json!([all()]))]), &env, &["b#0 100"]),
        ("without sub-rules", json!([rule_of("a", 0, json!([])), rule_of("b", 1, json!([all()]))]), &env, &["b#0 100"]),
        ("isolated destinations", json!([rule_of("a", 0, json!([closed, all()]))]), &env, &["a#1 100"]),
        (
            "a percentage, then the rest",
            json!([rule_of("a", 0, json!([to_order(json!([]), 30)])), rule_of("b", 1, json!([all()]))]),
            &env,
            &["a#0 30", "b#0 70"],
        ),
        (
            "percentages of the rest",
            json!([rule_of("a", 0, json!([to_order(json!([]), 50), to_order(json!([]), 50), all()]))]),
            &env,
            &["a#0 50", "a#1 25", "a#2 25"],
        ),
        ("a percentage without a rest", json!([rule_of("a", 0, json!([to_order(json!([]), 10)]))]), &env, &["a#0 10"]),
        (
            "a percentage of what does not match",
            json!([rule_of("a", 0, json!([to_order(json!([header("x", "y")]), 10), all()]))]),
            &env,
            &["a#1 100"],
        ),
    ];
    for (what, rules, more, expected) in rows {
        let candidates = saved(Family::Routing, &rules);
        assert_eq!(applying(Family::Routing, &candidates, &request(more.clone())), expected, "{what}");
    }
}

#[test]
fn all_candidates_are_shown_in_order() {
    let all = || json!([to_order(json!([]), 100)]);
    let off = json!({ "name": "off", "namespace": "shop", "priority": 1, "disable": true,
        "routing_config": { "rules": all() } });
    let strict = rule_of("strict", 0, json!([to_order(json!([header("a", "b")]), 100)]));
    let rules = json!([
        rule_of("late", 9, all()),
        off,
        rule_of("main", 2, all()),
        strict,
        rule_of(
            "bare",
            3,
            json!([
                { "destinations": [{ "service": "order", "namespace": "shop", "isolate": true }] }
            ])
        )
    ]);
    let shown = verdicts(Family::Routing, &saved(Family::Routing, &rules), &request(json!({})));
    let expected = ["strict#0 NotMatched", "off#0 Disabled", "main#0 Applies", "bare#0 Empty", "late#0 Shadowed"];
    assert_eq!(shown, expected);
}

/// Caller, callee and destination of a rule, and the caller of a request; `None` if the rule is not shown.
#[test]
fn a_rule_is_for_one_service() {
    let key = |service: &str, namespace: &str| json!({ "service": service, "namespace": namespace });
    let rows = [
        (Value::Null, Value::Null, key("order", "shop"), "cart", Some(Verdict::Applies)),
        (Value::Null, Value::Null, key("order", ""), "cart", Some(Verdict::Applies)),
        (Value::Null, Value::Null, key("order", "test"), "cart", None),
        (Value::Null, Value::Null, key("*", "*"), "cart", Some(Verdict::Applies)),
        (Value::Null, Value::Null, key("*", "test"), "cart", None),
        (Value::Null, Value::Null, key("stock", "shop"), "cart", None),
        (Value::Null, key("order", "shop"), key("order-v2", "shop"), "cart", Some(Verdict::Applies)),
        (Value::Null, key("stock", "shop"), key("order", "shop"), "cart", None),
        (key("cart", "shop"), key("order", "shop"), key("order", "shop"), "cart", Some(Verdict::Applies)),
        (key("till", "shop"), key("order", "shop"), key("order", "shop"), "cart", Some(Verdict::NotMatched)),
        (key("*", "*"), key("order", "shop"), key("order", "shop"), "cart", Some(Verdict::Applies)),
        (key("order", "shop"), key("stock", "shop"), key("stock", "shop"), "cart", None),
    ];
    for (caller, callee, destination, from, expected) in rows {
        let mut config = json!({ "rules": [{ "destinations": [destination] }] });
        for (field, value) in [("caller", &caller), ("callee", &callee)] {
            if !value.is_null() {
                config[field] = value.clone();
            }
        }
        let shown = config.to_string();
        let rules = json!([{ "name": "r", "namespace": "shop", "routing_config": config }]);
        let candidates = saved(Family::Routing, &rules);
        let sketch = request(json!({ "caller_service": from }));
        let explanation = explain(Family::Routing, &sketch, &candidates);
        assert_eq!(explanation.candidates.first().map(|judged| judged.verdict), expected, "{shown}");
    }
}

#[test]
fn each_policy_decides_on_its_own() {
    let rules = json!([
        { "name": "labels", "namespace": "shop", "priority": 1, "route_policy": "MetadataPolicy", "routing_config": {
            "service": "order", "namespace": "shop", "labels": { "env": "gray" },
            "failover": { "failover_range": "OTHERS", "labels": { "env": "base" } },
        } },
        { "name": "near", "namespace": "shop", "priority": 1, "route_policy": "NearbyPolicy", "routing_config": {
            "service": "*", "namespace": "*", "match_level": "ZONE", "max_match_level": "REGION", "strict_nearby": true,
        } },
        { "name": "far", "namespace": "shop", "priority": 2, "route_policy": "NearbyPolicy", "routing_config": {
            "service": "order", "namespace": "shop",
        } },
        { "name": "other", "namespace": "shop", "route_policy": "NearbyPolicy", "routing_config": {
            "service": "stock", "namespace": "shop",
        } },
        rule_of("custom", 5, json!([to_order(json!([]), 40)])),
    ]);
    let candidates = saved(Family::Routing, &rules);
    let sketch = request(json!({}));
    let explanation = explain(Family::Routing, &sketch, &candidates);
    let shown: Vec<_> = explanation.candidates.iter().map(|judged| (judged.rule_name, judged.verdict)).collect();
    let expected = [
        ("labels", Verdict::Applies),
        ("near", Verdict::Applies),
        ("far", Verdict::Shadowed),
        ("custom", Verdict::Applies),
    ];
    assert_eq!(shown, expected);
    let info = |index: usize| explanation.candidates[index].rules[0].info.as_str();
    assert_eq!(info(0), "asks for instances with env=gray; where there are none, for OTHERS by env=base");
    assert_eq!(info(1), "prefers instances of the caller's ZONE, then as far as REGION, never further");
    assert!(explanation.info.ends_with("60 % of the requests like this are taken by no custom route"));
}
