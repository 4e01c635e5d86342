//! Single conditions: the source of their value, and when they match.

use serde_json::{Value, json};

use super::*;

/// Returns a route of one sub-rule with these arguments.
fn route(arguments: Value, mode: &str) -> Vec<Candidate> {
    let rules = json!([{ "name": "r", "namespace": "shop", "routing_config": { "rules": [{
        "arguments": { "arguments": arguments, "matchMode": mode },
        "destinations": [{ "service": "order", "namespace": "shop" }],
    }] } }]);
    saved(Family::Routing, &rules)
}

fn applies(arguments: Value, mode: &str, more: Value) -> bool {
    !applying(Family::Routing, &route(arguments, mode), &request(more)).is_empty()
}

/// Type, key, comparison, value, request, expected result.
#[test]
fn a_condition_looks_at_its_part_of_the_request() {
    let rows = [
        ("HEADER", "uid", "EXACT", "7", json!({ "headers": { "uid": "7" } }), true),
        ("HEADER", "uid", "EXACT", "7", json!({ "headers": { "UID": "7" } }), true),
        ("HEADER", "uid", "EXACT", "7", json!({ "headers": { "uid": "8" } }), false),
        ("HEADER", "uid", "EXACT", "7", json!({ "query": { "uid": "7" } }), false),
        ("QUERY", "page", "RANGE", "1~5", json!({ "query": { "page": "5" } }), true),
        ("QUERY", "page", "RANGE", "1~5", json!({ "query": { "page": "6" } }), false),
        ("QUERY", "page", "RANGE", "1~5", json!({ "query": { "Page": "5" } }), false),
        ("COOKIE", "sid", "REGEX", "^a+$", json!({ "cookies": { "sid": "aaa" } }), true),
        ("COOKIE", "sid", "REGEX", "^a+$", json!({ "cookies": { "sid": "ab" } }), false),
        ("METHOD", "", "IN", "GET,HEAD", json!({ "method": "HEAD" }), true),
        ("METHOD", "", "IN", "GET,HEAD", json!({ "method": "POST" }), false),
        ("PATH", "", "REGEX", "^/v2/", json!({ "path": "/v2/orders" }), true),
        ("PATH", "", "REGEX", "^/v2/", json!({ "path": "/v1/v2/" }), false),
        ("CALLER_IP", "", "NOT_IN", "10.0.0.1,10.0.0.2", json!({ "caller_ip": "10.0.0.3" }), true),
        ("CALLER_IP", "", "NOT_IN", "10.0.0.1,10.0.0.2", json!({ "callerIp": "10.0.0.2" }), false),
        ("CALLER_METADATA", "env", "EXACT", "gray", json!({ "caller_metadata": { "env": "gray" } }), true),
        ("CALLER_METADATA", "env", "EXACT", "gray", json!({ "caller_labels": { "env": "gray" } }), true),
        ("CALLER_METADATA", "env", "EXACT", "gray", json!({ "labels": { "env": "gray" } }), false),
        ("CUSTOM", "tier", "NOT_EQUALS", "gold", json!({ "labels": { "tier": "tin" } }), true),
        ("CUSTOM", "tier", "NOT_EQUALS", "gold", json!({ "labels": { "tier": "gold" } }), false),
        (
            "CALLER_SERVICE",
            "shop",
            "EXACT",
            "cart",
            json!({ "caller_service": "cart", "caller_namespace": "shop" }),
            true,
        ),
        ("CALLER_SERVICE", "shop", "EXACT", "cart", json!({ "caller_service": "cart" }), true),
        (
            "CALLER_SERVICE",
            "shop",
            "EXACT",
            "cart",
            json!({ "caller_service": "cart", "caller_namespace": "test" }),
            false,
        ),
        ("CALLER_SERVICE", "*", "EXACT", "cart", json!({ "caller_service": "cart", "caller_namespace": "test" }), true),
        ("CALLER_SERVICE", "*", "EXACT", "*", json!({ "caller_service": "any" }), true),
        ("CALLER_SERVICE", "*", "EXACT", "cart", json!({}), false),
    ];
    for (kind, key, way, value, more, expected) in rows {
        let argument = json!([{ "type": kind, "key": key, "value": { "type": way, "value": value } }]);
        let shown = format!("{kind} {key} {way} {value} on {more}");
        assert_eq!(applies(argument, "AND", more), expected, "{shown}");
    }
}

#[test]
fn what_is_not_carried_meets_no_condition() {
    for (way, value) in
        [("EXACT", "*"), ("EXACT", "a"), ("NOT_EQUALS", "a"), ("NOT_IN", "a,b"), ("REGEX", ".*"), ("REGEX", "^$")]
    {
        let argument = json!([{ "type": "HEADER", "key": "uid", "value": { "type": way, "value": value } }]);
        assert!(!applies(argument, "AND", json!({})), "{way} {value}");
    }
    let argument = || json!([{ "type": "HEADER", "key": "uid" }]);
    assert!(applies(argument(), "AND", json!({ "headers": { "uid": "" } })), "it is there, though empty");
    assert!(!applies(argument(), "AND", json!({})));
    let parameter =
        || json!([{ "type": "QUERY", "key": "env", "value": { "value": "env", "value_type": "PARAMETER" } }]);
    assert!(applies(parameter(), "AND", json!({ "query": { "env": "whatever" } })));
    assert!(!applies(parameter(), "AND", json!({})));
}

#[test]
fn all_or_one_of_the_conditions() {
    let equal = |key: &str| json!({ "type": "HEADER", "key": key, "value": { "type": "EXACT", "value": "1" } });
    let (none, one, both) =
        (json!({}), json!({ "headers": { "a": "1" } }), json!({ "headers": { "a": "1", "b": "1" } }));
    let rows = [
        ("AND", json!([equal("a"), equal("b")]), [false, false, true]),
        ("OR", json!([equal("a"), equal("b")]), [false, true, true]),
        ("AND", json!([]), [true, true, true]),
        ("OR", json!([]), [true, true, true]),
    ];
    for (mode, arguments, expected) in rows {
        for (more, expected) in [&none, &one, &both].into_iter().zip(expected) {
            assert_eq!(applies(arguments.clone(), mode, more.clone()), expected, "{mode} {arguments} on {more}");
        }
    }
}

#[test]
fn every_condition_says_what_became_of_it() {
    let arguments = json!([
        { "type": "HEADER", "key": "uid", "value": { "type": "IN", "value": "7,8" } },
        { "type": "COOKIE", "key": "sid", "value": { "type": "NOT_EQUALS", "value": "x" } },
    ]);
    let candidates = route(arguments, "AND");
    let sketch = request(json!({ "headers": { "UID": "7" } }));
    let explanation = explain(Family::Routing, &sketch, &candidates);
    let shown = serde_json::to_value(&explanation.candidates[0].rules[0]).expect("a part");
    let expected = json!([
        {
            "type": "HEADER", "key": "uid", "condition": { "type": "IN", "value": "7,8", "value_type": "TEXT" },
            "value": "7", "matched": true, "info": "header uid is 7: meets IN 7,8",
        },
        {
            "type": "COOKIE", "key": "sid", "condition": { "type": "NOT_EQUALS", "value": "x", "value_type": "TEXT" },
            "value": null, "matched": false, "info": "the request has no cookie sid",
        },
    ]);
    assert_eq!(shown["arguments"], expected);
    assert_eq!((&shown["verdict"], &shown["info"]), (&json!("not_matched"), &json!("the request has no cookie sid")));
}

#[test]
fn a_sketch_says_who_is_called() {
    for json in [json!({}), json!({ "service": "order" }), json!({ "namespace": "shop" })] {
        let sketch: Sketch = serde_json::from_value(json).expect("a sketch");
        assert_eq!(sketch.check().map_err(|refusal| refusal.code.number()), Err(400103));
    }
}
