//! Rules of all families with their warnings.

use serde_json::{Value, json};

use super::*;
use crate::model::mesh::testing;
use crate::model::rule::Family;

fn warning_texts(family: Family, fields: Value) -> Vec<String> {
    let mut json = json!({ "name": "r", "namespace": "shop" });
    json.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    warnings(&testing::rule(family, &json)).iter().map(Warning::to_string).collect()
}

fn routing(conditions: Value, percent: u32) -> Value {
    let arguments = json!({ "arguments": conditions, "random_percent": percent, "matchMode": "OR" });
    json!({ "routing_config": { "rules": [{ "arguments": arguments, "destinations": [{ "service": "order" }] }] } })
}

#[test]
fn a_rule_tells_of_itself_what_is_not_carried() {
    let condition = |kind: &str, how: &str, value: &str| {
        json!([{ "type": kind, "key": "k",
        "value": { "type": how, "value": value } }])
    };
    let two = json!([
        { "type": "HEADER", "key": "a", "value": { "value": "1" } },
        { "type": "HEADER", "key": "b", "value": { "value": "1" } },
    ]);
    let long = "(a|bc)".repeat(40);
    let w7 = "W7: rules[0].arguments[0]: expression (or list of values) too large for Envoy without \
              re2.max_program_size: not carried there";
    let rows: [(Value, &[&str]); 10] = [
        (routing(condition("HEADER", "EXACT", "1"), 50), &[]),
        (
            routing(condition("QUERY", "EXACT", "1"), 100),
            &["W4: rules[0].arguments[0]: gRPC has no query parameters: this never holds there"],
        ),
        (
            routing(condition("QUERY", "EXACT", "a b"), 100),
            &[
                "W4: rules[0].arguments[0]: gRPC has no query parameters: this never holds there",
                "W5: rules[0].arguments[0]: Envoy compares query parameters as they are sent, undecoded",
            ],
        ),
        (
            routing(condition("COOKIE", "EXACT", "1"), 100),
            &["W4: rules[0].arguments[0]: gRPC has no cookies: this never holds there"],
        ),
        (
            routing(condition("CUSTOM", "EXACT", "1"), 100),
            &["W4: rules[0].arguments[0]: gRPC and Envoy have no custom labels: this never holds there"],
        ),
        (
            routing(condition("CALLER_METADATA", "EXACT", "1"), 100),
            &["W6: rules[0].arguments[0]: a gateway knows no caller: not carried there"],
        ),
        (
            routing(condition("CALLER_SERVICE", "EXACT", "1"), 100),
            &["W6: rules[0].arguments[0]: a gateway knows no caller: not carried there unless \
                    caller_service_header in its metadata names a header for it"],
        ),
        (routing(condition("HEADER", "REGEX", &long), 100), &[w7]),
        (routing(two.clone(), 50), &["W8: rules[0]: OR with a percentage: shares are approximate"]),
        (
            routing(condition("HEADER", "REGEX", r"\b{start}a"), 100),
            &["W25: rules[0].arguments[0]: expression uses boundaries that are only start or end of a word \
                    that RE2 lacks \
               or reads otherwise: not carried"],
        ),
    ];
    for (fields, expected) in rows {
        assert_eq!(warning_texts(Family::Routing, fields.clone()), expected, "{fields}");
    }
    let nearby = json!({ "route_policy": "NearbyPolicy", "routing_config": { "service": "order" } });
    assert_eq!(warning_texts(Family::Routing, nearby), [] as [&str; 0]);
}

#[test]
fn rate_limits_do_not_reach_grpc() {
    let told = warning_texts(Family::RateLimit, json!({ "service": "order" }));
    assert!(told.contains(&"W16: rate limits do not reach gRPC clients without a proxy".to_owned()), "{told:?}");
}
