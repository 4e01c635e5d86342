//! Destination groups: priority, weight, isolation and labels with values of the request.

use serde_json::{Value, json};

use super::*;

/// Returns the groups of one route as `name state percent`; the request has the header `env: gray`.
fn shared(groups: Value, percent: u32) -> Vec<String> {
    let groups: Vec<Value> = groups
        .as_array()
        .expect("a list of groups")
        .iter()
        .map(|group| {
            let mut named = json!({ "service": "order", "namespace": "shop" });
            named.as_object_mut().expect("an object").extend(group.as_object().expect("an object").clone());
            named
        })
        .collect();
    let rules = json!([{ "name": "r", "namespace": "shop", "routing_config": { "rules": [{
        "arguments": { "arguments": [
            { "type": "HEADER", "key": "env", "value": { "value": "lane", "value_type": "PARAMETER" } },
            { "type": "QUERY", "key": "v", "value": { "value": "v", "value_type": "PARAMETER" } },
        ], "random_percent": percent, "matchMode": "OR" },
        "destinations": groups,
    }] } }]);
    let candidates = saved(Family::Routing, &rules);
    let sketch = request(json!({ "headers": { "Env": "gray" } }));
    let explanation = explain(Family::Routing, &sketch, &candidates);
    let SubRuleEffect::Route(route) = &explanation.candidates[0].rules[0].effect else { panic!("a custom route") };
    let shown = route.destinations.iter();
    shown.map(|group| format!("{} {:?} {}", group.name, group.state, group.share.percent())).collect()
}

#[test]
fn priority_weight_and_isolation() {
    let rows: [(Value, u32, &[&str]); 14] = [
        (json!([{ "name": "a" }]), 100, &["a InUse 100"]),
        (json!([{ "name": "a" }, { "name": "b" }]), 100, &["a InUse 50", "b InUse 50"]),
        (json!([{ "name": "a", "weight": 90 }, { "name": "b", "weight": 10 }]), 100, &["a InUse 90", "b InUse 10"]),
        (json!([{ "name": "a", "weight": 5 }, { "name": "b" }]), 100, &["a InUse 100", "b WithoutWeight 0"]),
        (
            json!([{ "name": "a", "weight": 0 }, { "name": "b", "weight": 0 }]),
            100,
            &["a WithoutWeight 0", "b WithoutWeight 0"],
        ),
        (json!([{ "name": "a", "priority": 1 }, { "name": "b", "priority": 0 }]), 100, &["a Standby 0", "b InUse 100"]),
        (json!([{ "name": "a" }, { "name": "b", "priority": 9 }]), 100, &["a Standby 0", "b InUse 100"]),
        (
            json!([
                { "name": "a", "priority": 0, "weight": 1 }, { "name": "b", "priority": 0, "weight": 3 },
                { "name": "c", "priority": 1, "weight": 100 },
            ]),
            100,
            &["a InUse 25", "b InUse 75", "c Standby 0"],
        ),
        (
            json!([{ "name": "a", "priority": 0, "weight": 0 }, { "name": "b", "priority": 1 }]),
            100,
            &["a WithoutWeight 0", "b InUse 100"],
        ),
        (
            json!([{ "name": "a", "priority": 0 }, { "name": "b", "priority": 1, "weight": 7 }]),
            100,
            &["a InUse 100", "b Standby 0"],
        ),
        (json!([{ "name": "a", "isolate": true }, { "name": "b" }]), 100, &["a Isolated 0", "b InUse 100"]),
        (
            json!([{ "name": "a", "priority": 0, "isolate": true }, { "name": "b", "priority": 1 }]),
            100,
            &["a Isolated 0", "b InUse 100"],
        ),
        (json!([{ "name": "a" }, { "name": "b" }]), 30, &["a InUse 15", "b InUse 15"]),
        (
            json!([{ "name": "a" }, { "name": "b" }, { "name": "c", "service": "stock" }]),
            100,
            &["a InUse 50", "b InUse 50", "c OtherService 0"],
        ),
    ];
    for (groups, percent, expected) in rows {
        let shown = groups.to_string();
        assert_eq!(shared(groups, percent), expected, "{shown} of {percent} %");
    }
}

/// A label may refer to a value of the request by any of its names.
#[test]
fn labels_take_values_of_the_request() {
    let rows = [
        ("lane", "a InUse 100"),
        ("env", "a InUse 100"),
        ("$header.env", "a InUse 100"),
        ("$query.env", "a Unresolved 0"),
        ("v", "a Unresolved 0"),
        ("other", "a Unresolved 0"),
    ];
    for (name, expected) in rows {
        let label = json!({ "env": { "value": name, "value_type": "PARAMETER" } });
        assert_eq!(shared(json!([{ "name": "a", "labels": label }]), 100), [expected], "{name}");
    }
}

#[test]
fn a_destination_is_shown_whole() {
    let rules = json!([{ "name": "r", "namespace": "shop", "routing_config": { "rules": [{
        "name": "lanes",
        "arguments": { "arguments": [
            { "type": "QUERY", "key": "lane", "value": { "value": "lane", "value_type": "PARAMETER" } },
        ] },
        "destinations": [{
            "name": "lane", "service": "order", "namespace": "shop", "transfer": "proxy", "weight": 3,
            "labels": { "lane": { "value": "lane", "value_type": "PARAMETER" }, "v": { "type": "IN", "value": "1,2" } },
        }],
    }] } }]);
    let candidates = saved(Family::Routing, &rules);
    let sketch = request(json!({ "query": { "lane": "blue" } }));
    let explanation = explain(Family::Routing, &sketch, &candidates);
    let shown = serde_json::to_value(&explanation.candidates[0].rules[0].effect).expect("an effect");
    let expected = json!({ "route": { "match_mode": "AND", "random_percent": 100, "destinations": [{
        "name": "lane", "service": "order", "namespace": "shop", "transfer": "proxy", "weight": 3,
        "labels": {
            "lane": { "type": "EXACT", "value": "lane", "value_type": "PARAMETER", "resolved": "blue" },
            "v": { "type": "IN", "value": "1,2", "value_type": "TEXT" },
        },
        "state": "in_use", "share": 100.0,
    }] } });
    assert_eq!(shown, expected);
    assert_eq!(explanation.info, "rule r, sub-rule 1 (lanes): 100 %");
}
