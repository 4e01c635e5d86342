use serde_json::{Value, json};

use super::*;
use crate::model::rule::Body;
use crate::model::rule::Family;
use crate::testing::{lost, rule};

fn of_groups(groups: Value, arguments: Value) -> Rule {
    let sub_rule = json!({ "name": "s", "arguments": { "arguments": arguments }, "destinations": groups });
    rule(Family::Routing, json!({ "route_policy": "RulePolicy", "routing_config": { "rules": [sub_rule] } }))
}

/// Returns the destinations as text: priority, weight, isolation, and labels with type, value and type of the value.
fn text_of(rule: &Rule) -> Vec<String> {
    let Body::Routing(routing) = &rule.body else { panic!("a route") };
    let destinations = Destinations { rule, index: 0, route: &routing.routing_config.custom_rules()[0] };
    let one = |to: v1::Destination| {
        let label = |(key, value): (&String, &v1::MatchString)| {
            format!(" {key}:{}:{}:{}", value.r#type, value.value.as_deref().unwrap_or_default(), value.value_type)
        };
        let labels: String = to.metadata.iter().map(label).collect();
        let isolated = if to.isolate == Some(true) { " off" } else { "" };
        format!("{} {}{isolated}{labels}", to.priority.unwrap_or_default(), to.weight.unwrap_or_default())
    };
    destinations.to(&|end| Some(end.clone()), &mut Vec::new()).into_iter().map(one).collect()
}

#[test]
fn weights_and_priorities() {
    let table: [(Value, &[&str]); 6] = [
        (json!([{ "service": "a" }]), &["10 100"]),
        (json!([{ "service": "a", "priority": 0 }, { "service": "a", "priority": 9, "weight": 7 }]), &["0 100", "9 7"]),
        (json!([{ "service": "a", "weight": 3 }, { "service": "a" }]), &["10 3"]),
        (
            json!([{ "service": "a", "weight": 3 }, { "service": "a", "isolate": true, "weight": 5 }]),
            &["10 3", "10 0 off"],
        ),
        (json!([{ "service": "a", "isolate": true }]), &[]),
        (json!([{ "service": "a", "weight": 0 }]), &[]),
    ];
    for (groups, expected) in table {
        assert_eq!(text_of(&of_groups(groups.clone(), json!([]))), expected, "{groups}");
    }
}

#[test]
fn labels() {
    let group =
        |kind: &str, value: &str| json!([{ "service": "a", "labels": { "k": { "type": kind, "value": value } } }]);
    type Row = (Value, &'static [&'static str], (&'static str, &'static [u8]));
    let table: [Row; 7] = [
        (group("EXACT", "v"), &["10 100 k:0:v:0"], ("Yes", &[])),
        (group("EXACT", "*"), &["10 100 k:0:*:0"], ("Yes", &[])),
        (group("REGEX", "v"), &["10 100 k:1:v:0"], ("Yes", &[])),
        (group("NOT_EQUALS", "v"), &["10 100 k:2:v:0"], ("Yes", &[])),
        (group("IN", "x,y"), &["10 100 k:0:x:0", "10 100 k:0:y:0"], ("Partly", &[5])),
        (group("NOT_IN", "x,y"), &[], ("No", &[4])),
        (group("RANGE", "1~2"), &[], ("No", &[4])),
    ];
    for (groups, expected, (extent, losses)) in table {
        let rule = of_groups(groups.clone(), json!([]));
        assert_eq!(text_of(&rule), expected, "{groups}");
        assert_eq!(lost(&rule), (extent.to_owned(), losses.to_vec()), "{groups}");
    }
    let split = json!([{ "service": "a", "weight": 30, "labels": { "k": { "type": "IN", "value": "x,y,z" } } },
        { "service": "a", "weight": 70 }]);
    assert_eq!(text_of(&of_groups(split, json!([]))), ["10 30 k:0:x:0", "10 30 k:0:y:0", "10 30 k:0:z:0", "10 210"]);
    let many: Vec<_> = (0..65).map(|number| number.to_string()).collect();
    let rule = of_groups(group("IN", &many.join(",")), json!([]));
    assert_eq!((text_of(&rule).len(), lost(&rule).1), (0, vec![4, 5]));
}

#[test]
fn a_label_takes_the_value_of_a_condition() {
    let groups =
        |value: &str| json!([{ "service": "a", "labels": { "k": { "value": value, "value_type": "PARAMETER" } } }]);
    let header = json!([{ "type": "HEADER", "key": "user", "value": { "value": "who", "value_type": "PARAMETER" } }]);
    for name in ["who", "user", "$header.user"] {
        assert_eq!(text_of(&of_groups(groups(name), header.clone())), ["10 100 k:0:$header.user:1"], "{name}");
    }
    assert_eq!(text_of(&of_groups(groups("else"), header)), [""; 0]);
}

#[test]
fn no_sdk_forwards() {
    let rule = of_groups(json!([{ "service": "a", "transfer": "b" }]), json!([]));
    assert_eq!((text_of(&rule).len(), lost(&rule)), (1, ("Partly".into(), vec![7])));
}
