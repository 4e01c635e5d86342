//! xDS clients that carry rules out, in an explanation.

use serde_json::{Value, json};

use super::*;
use crate::model::mesh::carried::Extent;

/// Returns the extents for gRPC and Envoy of one rule, and the numbers of its warnings.
fn carried(family: Family, rule: &Value) -> (Extent, Extent, Vec<String>) {
    let candidates = saved(family, &json!([rule]));
    let sketch = request(json!({}));
    let explanation = explain(family, &sketch, &candidates);
    let by = &explanation.candidates[0].carried_out_by;
    let number = |warning: &String| warning.split(':').next().unwrap_or_default().to_owned();
    (by.grpc, by.envoy, by.warnings.iter().map(number).collect())
}

fn routing(sub_rules: &[Value]) -> Value {
    let sub_rule = |conditions: &Value| {
        json!({ "arguments": { "arguments": conditions },
        "destinations": [{ "service": "order", "namespace": "shop" }] })
    };
    let rules: Vec<Value> = sub_rules.iter().map(sub_rule).collect();
    json!({ "name": "r", "namespace": "shop", "enable": false, "routing_config": { "rules": rules } })
}

#[test]
fn a_rule_says_who_carries_it_out() {
    use Extent::{No, Partly, Yes};
    let on = |kind: &str| json!([{ "type": kind, "key": "k", "value": { "value": "1" } }]);
    let nearby = json!({
        "name": "r", "namespace": "shop", "route_policy": "NearbyPolicy", "routing_config": { "service": "order" },
    });
    let rows = [
        (routing(&[on("HEADER")]), Yes, Yes, vec![]),
        (routing(&[on("QUERY")]), No, Yes, vec!["W4"]),
        (routing(&[on("HEADER"), on("QUERY")]), Partly, Yes, vec!["W4"]),
        (routing(&[on("CUSTOM")]), No, No, vec!["W4"]),
        (routing(&[on("CALLER_IP")]), Yes, Partly, vec!["W6"]),
        (nearby, Yes, Yes, vec![]),
    ];
    for (rule, grpc, envoy, warnings) in rows {
        let expected: Vec<String> = warnings.into_iter().map(str::to_owned).collect();
        assert_eq!(carried(Family::Routing, &rule), (grpc, envoy, expected), "{rule}");
    }
}

/// The extent for gRPC is the lowest one of its libraries.
#[test]
fn a_rule_says_which_libraries_carry_it_out() {
    let on = |kind: &str, how: &str, value: &str| json!({ "type": kind, "value": { "type": how, "value": value } });
    let twice = json!([on("PATH", "EXACT", "/p.S/Pay"), on("METHOD", "NOT_EQUALS", "Void")]);
    let query = json!([{ "type": "QUERY", "key": "k", "value": { "value": "1" } }]);
    let once = json!([on("PATH", "NOT_EQUALS", "/p.S/Pay"), on("METHOD", "EXACT", "POST")]);
    let rows = [
        (routing(std::slice::from_ref(&once)), "yes", ["yes"; 4]),
        (routing(std::slice::from_ref(&twice)), "no", ["yes", "no", "no", "no"]),
        (routing(&[once, twice]), "partly", ["yes", "partly", "partly", "partly"]),
        (routing(&[query]), "no", ["no"; 4]),
    ];
    for (rule, word, words) in rows {
        let candidates = saved(Family::Routing, &json!([rule]));
        let sketch = request(json!({}));
        let explanation = explain(Family::Routing, &sketch, &candidates);
        let by = serde_json::to_value(&explanation.candidates[0].carried_out_by).expect("an answer");
        assert_eq!(by["grpc"], word, "{by}");
        for (library, word) in ["core", "go", "java", "node"].into_iter().zip(words) {
            let found = &by["grpc_libraries"][library];
            assert_eq!(found["word"], word, "{library}: {by}");
            assert_eq!(found["reason"] == "", word == "yes", "{library}: {by}");
        }
    }
}

#[test]
fn every_family_says_who_carries_it_out() {
    use Extent::{No, Partly, Yes};
    let limit =
        |rule: Value| json!({ "name": "l", "namespace": "shop", "service": "order", "type": "LOCAL", "rules": [rule] });
    let breaker = |level: &str, trigger: Value| {
        json!({
            "name": "b", "namespace": "shop", "level": level, "max_ejection_percent": 50,
                "trigger_condition": [trigger],
            "rule_matcher": { "destination": { "namespace": "shop", "service": "order" } },
        })
    };
    let in_a_row = || json!({ "trigger_type": "CONSECUTIVE_ERROR", "error_count": 5 });
    let rate = || json!({ "trigger_type": "ERROR_RATE", "error_percent": 50, "minimum_request": 10 });
    let probe = |probe: Value| {
        json!({ "name": "f", "namespace": "shop",
        "target_service": { "service": "order" }, "rules": [probe] })
    };
    let amounts = json!([{ "maxAmount": 5, "validDuration": "1s" }]);
    let rows = [
        (Family::RateLimit, limit(json!({ "amounts": amounts })), No, Yes),
        (Family::CircuitBreaker, breaker("SERVICE", in_a_row()), No, No),
        (Family::CircuitBreaker, breaker("INSTANCE", in_a_row()), No, Yes),
        (Family::CircuitBreaker, breaker("INSTANCE", rate()), Yes, Yes),
        (Family::CircuitBreaker, breaker("GROUP", rate()), Partly, Partly),
        (Family::FaultDetect, probe(json!({ "protocol": "TCP" })), No, Yes),
        (Family::FaultDetect, probe(json!({ "protocol": "UDP" })), No, No),
    ];
    for (family, rule, grpc, envoy) in rows {
        let (of_grpc, of_envoy, warnings) = carried(family, &rule);
        assert_eq!((of_grpc, of_envoy), (grpc, envoy), "{rule} {warnings:?}");
    }
}
