//! Circuit breakers: the first matching rule of each level watches the request.

use serde_json::{Value, json};

use super::*;

/// Returns a rule for calls to `shop/order` with a trigger.
fn breaker(name: &str, level: &str, more: Value) -> Value {
    let mut rule = json!({
        "name": name, "namespace": "shop", "level": level,
        "rule_matcher": { "destination": { "service": "order", "namespace": "shop" } },
        "trigger_condition": [{ "trigger_type": "CONSECUTIVE_ERROR", "error_count": 5 }],
    });
    rule.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    rule
}

fn from(service: &str, namespace: &str) -> Value {
    let source = json!({ "service": service, "namespace": namespace });
    json!({ "rule_matcher": { "source": source, "destination": { "service": "order", "namespace": "shop" } } })
}

fn block(name: &str, path: &str) -> Value {
    let triggers = json!([{ "trigger_type": "ERROR_RATE" }]);
    json!({ "name": name, "api": { "path": { "value": path } }, "trigger_conditions": triggers })
}

#[test]
fn the_first_of_each_level_watches() {
    let method = json!({ "rule_matcher": { "destination": {
        "service": "order", "namespace": "shop", "method": { "value": "/pay" } } } });
    let rules = json!([
        breaker("a off", "SERVICE", json!({ "enable": false })),
        breaker("b cart", "SERVICE", from("cart", "shop")),
        breaker("c service", "SERVICE", json!({})),
        breaker("d later", "SERVICE", json!({})),
        breaker("e method", "METHOD", method),
        breaker("f blocks", "METHOD", json!({ "block_configs": [block("v1", "/v1"), block("all", "*")] })),
        breaker("g instance", "INSTANCE", json!({ "block_configs": [block("v1", "/v1")] })),
        breaker("h none", "UNKNOWN", json!({})),
        breaker("i stock", "SERVICE", json!({ "rule_matcher": { "destination": { "service": "stock" } } })),
        breaker(
            "j caller",
            "SERVICE",
            json!({ "rule_matcher": {
            "source": { "service": "order", "namespace": "shop" }, "destination": { "service": "stock" } } })
        ),
    ]);
    let candidates = saved(Family::CircuitBreaker, &rules);
    let rows: [(Value, &[&str]); 4] = [
        (json!({}), &["c service#0 100", "f blocks#1 100", "g instance#0 100"]),
        (json!({ "caller_service": "cart" }), &["b cart#0 100", "f blocks#1 100", "g instance#0 100"]),
        (json!({ "path": "/pay" }), &["c service#0 100", "e method#0 100", "g instance#0 100"]),
        (
            json!({ "path": "/v1", "caller_service": "web" }),
            &["c service#0 100", "f blocks#0 100", "f blocks#1 100", "g instance#0 100"],
        ),
    ];
    for (more, expected) in rows {
        let shown = more.to_string();
        assert_eq!(applying(Family::CircuitBreaker, &candidates, &request(more)), expected, "{shown}");
    }
    assert_eq!(
        verdicts(Family::CircuitBreaker, &candidates, &request(json!({ "path": "/pay" }))),
        [
            "a off#0 Disabled",
            "b cart#0 NotMatched",
            "c service#0 Applies",
            "d later#0 Shadowed",
            "e method#0 Applies",
            "f blocks#0 NotMatched",
            "f blocks#1 Shadowed",
            "g instance#0 Applies",
            "h none#0 NotMatched",
        ]
    );
}

/// Every condition has its result, and the effect is described.
#[test]
fn it_is_said_why() {
    let rules = json!([
        breaker("cart", "METHOD", from("cart", "shop")),
        breaker("pay", "METHOD", json!({ "priority": 1, "block_configs": [block("pay", "/pay")] })),
        breaker("bare", "METHOD", json!({ "priority": 2, "trigger_condition": [] })),
        breaker("last", "METHOD", json!({ "priority": 3 })),
        breaker("none", "UNKNOWN", json!({ "priority": 4 })),
    ]);
    let candidates = saved(Family::CircuitBreaker, &rules);
    let sketch = request(json!({ "path": "/v1", "caller_service": "web" }));
    let explanation = explain(Family::CircuitBreaker, &sketch, &candidates);
    assert_eq!(explanation.info, "no circuit breaker watches the request", "what has no trigger stands in the way");
    let said: Vec<_> = explanation.candidates.iter().map(|judged| judged.rules[0].info.as_str()).collect();
    assert_eq!(
        said,
        [
            "caller is web: is none of shop/cart",
            "the request is for another interface",
            "matches, but has no trigger condition that could open it",
            "matches, but a rule before it watches the level METHOD",
            "says on no level what to cut off, so clients pass it over",
        ]
    );
    let shown = serde_json::to_value(&explanation.candidates[1].rules[0]).expect("JSON");
    assert_eq!(
        (&shown["apis"][0]["matched"], &shown["breaker"]["level"]),
        (&json!(false), &json!("METHOD")),
        "{shown}"
    );
    let caller = &shown["arguments"][0];
    assert_eq!((&caller["type"], &caller["matched"]), (&json!("CALLER_SERVICE"), &json!(true)), "{shown}");
    assert_eq!(shown["breaker"]["trigger_conditions"][0]["trigger_type"], "ERROR_RATE", "{shown}");
}
