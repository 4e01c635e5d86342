//! Routing rules and their sentences.

use serde_json::{Value, json};

use super::{Family, key, route, sentences_of, told_first, version};

#[test]
fn a_route_is_told_in_the_order_in_which_it_is_judged() {
    let conditions = |mode: &str| {
        let header = json!({ "type": "HEADER", "key": "x", "value": { "value": "1" } });
        let path = json!({ "type": "PATH", "value": { "type": "REGEX", "value": "^/pay" } });
        json!({ "arguments": [header, path], "matchMode": mode })
    };
    let split = json!([{ "labels": version("v2"), "weight": 20 }, { "labels": version("v1"), "weight": 80 }]);
    let mut config = route(json!([
        { "arguments": { "arguments": [conditions("AND")["arguments"][0]] }, "destinations": split },
        { "arguments": conditions("AND"), "destinations": [{ "labels": version("v1") }] },
        { "arguments": conditions("OR"), "destinations": [{}] },
        { "arguments": { "random_percent": 30 }, "destinations": [{ "transfer": "bin", "namespace": "prod" }] },
        { "destinations": [] },
    ]));
    (config["enable"], config["priority"]) = (json!(false), json!(7));
    assert_eq!(
        sentences_of(Family::Routing, &config),
        [
            "This rule is switched off: it does nothing now. Switched on, it does what follows.",
            "The first sub-rule that matches a call, and has a destination that takes calls, decides.",
            "1. Calls to shop/pay with header x = 1 go to version=v2 (20 %) and version=v1 (80 %).",
            "2. Calls to shop/pay with header x = 1 and path in which the expression ^/pay is found go to version=v1.",
            "3. Calls to shop/pay with header x = 1 or path in which the expression ^/pay is found go to any instance.",
            "4. Calls to shop/pay: 30 % of them go to any instance of prod/bin, the others on to the next sub-rule or \
             rule.",
            "5. Calls to shop/pay: no destination takes them, so they go on to the next sub-rule or rule.",
            "Calls that no sub-rule takes are left to the rules after this one.",
            "Its priority is 7: custom routes with a lower number are tried before it, and those with the same number \
             by their ids.",
        ]
    );
    assert_eq!(sentences_of(Family::Routing, &json!({})), ["The rule has no sub-rules: it does nothing."]);
}

/// Cases: destinations of one sub-rule.
#[test]
fn destinations_share_wait_or_get_nothing() {
    let two =
        json!({ "version": { "value": "v1" }, "zone": { "type": "IN", "value": "a,b" }, "any": { "value": "*" } });
    let carried = json!({ "lane": { "value": "lane", "value_type": "PARAMETER" } });
    #[rustfmt::skip]
    let rows = [
        (json!([{ "labels": two }]), "Calls to shop/pay go to [version=v1, zone that is one of (a, b)]."),
        (json!([{ "weight": 1 }, { "labels": version("v2"), "weight": 2 }, { "labels": version("v3") }]),
            "Calls to shop/pay go to any instance (33.33 %) and version=v2 (66.67 %). \
             No calls go to version=v3: its weight is 0."),
        (json!([{ "labels": version("v1") }, { "labels": version("v2") }]),
            "Calls to shop/pay go to version=v1 (50 %) and version=v2 (50 %)."),
        (json!([{ "labels": version("v1"), "weight": 1 }, { "labels": version("v2"), "weight": 4_000_000 }]),
            "Calls to shop/pay go to version=v1 (< 0.01 %) and version=v2 (100 %)."),
        (json!([{ "labels": version("v3") }, { "labels": version("v1"), "priority": 1 }, { "service": "bin" },
            { "labels": version("v0"), "priority": 0 }]),
            "Calls to shop/pay go to version=v0, or version=v1 while none of these is available, or version=v3 \
             (50 %) and any instance of shop/bin (50 %) while none of these is available."),
        (json!([{ "labels": version("v2"), "isolate": true }, { "service": "*" }]),
            "Calls to shop/pay go to any instance. No calls go to version=v2: it is isolated."),
        (json!([{ "labels": version("v2"), "isolate": true }]),
            "Calls to shop/pay: no destination takes them, so they go on to the next sub-rule or rule. \
             No calls go to version=v2: it is isolated."),
        (json!([{ "labels": carried, "service": "bin" }]),
            "Calls to shop/pay: no destination takes them, so they go on to the next sub-rule or rule. \
             No calls go to lane = the call's value of lane of shop/bin: no condition carries the value that it takes \
             over."),
    ];
    for (destinations, expected) in rows {
        assert_eq!(told_first(Family::Routing, &route(json!([{ "destinations": destinations }]))), expected);
    }
    let header = |name: &str| json!({ "type": "HEADER", "key": name, "value": { "value_type": "PARAMETER" } });
    let arguments = json!({ "arguments": [header("lane"), header("x")], "matchMode": "OR" });
    let config = route(json!([{ "arguments": arguments, "destinations": [{ "labels": carried }] }]));
    assert_eq!(
        told_first(Family::Routing, &config),
        "Calls to shop/pay with header lane of any value or header x of any value go to \
         lane = the call's value of lane. A destination is passed over where a call lacks the value that it takes over."
    );
}

/// Cases: caller, callee and destinations of a rule, and the services in its sentences.
#[test]
fn a_route_is_for_its_callee_or_for_the_services_of_its_destinations() {
    let every = || json!({ "service": "*", "namespace": "*" });
    let rows = [
        (json!({ "callee": key("pay"), "caller": key("web") }), json!([{}]), "from shop/web to shop/pay go to any"),
        (json!({ "callee": every(), "caller": every() }), json!([{}]), "to every service go to any instance."),
        (json!({ "callee": key("*") }), json!([{}]), "to every service of shop go to any instance."),
        (
            json!({ "callee": { "service": "pay", "namespace": "*" } }),
            json!([{ "service": "*" }]),
            "to pay of every namespace go to any instance of shop/pay.",
        ),
        (json!({}), json!([{ "labels": version("v1"), "service": "pay" }]), "to shop/pay go to version=v1."),
        (
            json!({}),
            json!([every(), { "service": "pay", "weight": 3 }, { "service": "bin" }]),
            "to shop/pay go to any instance. ",
        ),
        (json!({}), json!([{ "labels": version("v1") }]), ""),
    ];
    for (mut config, destinations, expected) in rows {
        config["rules"] = json!([{ "destinations": destinations }]);
        let told = told_first(Family::Routing, &json!({ "routing_config": config }));
        match expected {
            "" => assert_eq!(told, "It has no destination with a service, so it takes no calls."),
            _ => assert!(told.starts_with(&format!("Calls {expected}")), "{told}"),
        }
    }
}

#[test]
fn policies_tell_the_instances_that_they_prefer() {
    let nearby = |first: &str, last: &str, is_strict: bool| {
        let levels = json!({ "service": "pay", "match_level": first, "max_match_level": last });
        let mut policy = json!({ "route_policy": "NearbyPolicy", "routing_config": levels });
        policy["routing_config"]["strict_nearby"] = json!(is_strict);
        policy
    };
    let labels = |failover: Option<Value>| {
        let config = json!({ "service": "*", "labels": { "a": "1", "b": "2" } });
        let mut policy = json!({ "route_policy": "MetadataPolicy", "routing_config": config });
        failover.into_iter().for_each(|failover| policy["routing_config"]["failover"] = failover);
        policy
    };
    #[rustfmt::skip]
    let rows = [
        (nearby("UNKNOWN", "UNKNOWN", true),
            "Calls to shop/pay go to instances of the caller's zone, or those of its region while none of these is \
             available, or all others while none of these is available."),
        (nearby("CAMPUS", "ZONE", true),
            "Calls to shop/pay go to instances of the caller's campus, or those of its zone while none of these is \
             available, and no others."),
        (nearby("REGION", "CAMPUS", false),
            "Calls to shop/pay go to instances of the caller's region, or all others while none of these is \
             available."),
        (nearby("ALL", "ALL", false), "Calls to shop/pay go to all instances alike, near or far."),
        (labels(None),
            "Calls to every service of shop go to instances with a=1 and b=2, and no others."),
        (labels(Some(json!({}))),
            "Calls to every service of shop go to instances with a=1 and b=2, or all others while none of these \
             is available."),
        (labels(Some(json!({ "failover_range": "OTHER_KEYS", "labels": { "c": "3" } }))),
            "Calls to every service of shop go to instances with a=1 and b=2, or those that have none of these keys \
             with c=3 while none of these is available."),
        (json!({ "route_policy": "MetadataPolicy", "routing_config": { "service": "pay" } }),
            "Calls to shop/pay go to all instances: no label is asked for."),
        (json!({ "route_policy": "NearbyPolicy", "routing_config": {} }),
            "The rule names no service: it is for no calls."),
    ];
    for (fields, expected) in rows {
        assert_eq!(told_first(Family::Routing, &fields), expected);
    }
    assert_eq!(
        sentences_of(Family::Routing, &nearby("ZONE", "ALL", false))[1..],
        ["Its priority is 0: of the rules of this policy for a service, the one with the lowest number decides alone."]
    );
}
