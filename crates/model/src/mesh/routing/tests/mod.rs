//! Rules with the resulting routes.

mod judged;

use serde_json::{Value, json};

use super::*;
use crate::model::mesh::Dialect;
use crate::model::mesh::library::Library;
use crate::model::mesh::plan::RequestPart;
use crate::model::mesh::testing;
use crate::model::rule::Family;

const ENVOY_CLIENT: Abilities = Abilities {
    dialect: Dialect::Envoy,
    is_gateway: false,
    has_caller_header: false,
    takes_large_expressions: false,
    is_callee_grpc: false,
    library: Library::Core,
};
const GRPC_CLIENT: Abilities = Abilities { dialect: Dialect::Grpc, ..ENVOY_CLIENT };
const GATEWAY: Abilities = Abilities { is_gateway: true, ..ENVOY_CLIENT };

fn called() -> ServiceKey {
    ServiceKey { namespace: "shop".into(), service: "order".into() }
}

fn rule(config: &Value) -> Rule {
    testing::rule(
        Family::Routing,
        &json!({ "name": "r", "namespace": "shop", "enable": true, "routing_config": config }),
    )
}

fn group(more: Value) -> Value {
    let mut group = json!({ "name": "g", "service": "order" });
    group.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    group
}

fn sub_rule(mode: &str, conditions: Value, destinations: Value) -> Value {
    json!({ "arguments": { "arguments": conditions, "matchMode": mode }, "destinations": destinations })
}

fn header(name: &str, value: &str) -> Value {
    json!({ "type": "HEADER", "key": name, "value": { "value": value } })
}

fn of(kind: &str, key: &str) -> Value {
    json!({ "type": kind, "key": key, "value": { "value": "1" } })
}

/// Returns the sub-rules of the routes and the numbers of the warnings, as `0 0 1 W4`.
fn outline(config: &Value, to: Abilities) -> String {
    let rule = rule(config);
    let plan = plan(&[&rule], &called(), to);
    let routes = plan.routes.iter().map(|route| route.sub_rule.to_string());
    let warnings = plan.warnings.iter().map(|warning| {
        let is_partly = if warning.is_left_out { "" } else { "~" };
        format!("{is_partly}W{}", warning.number)
    });
    routes.chain(warnings).collect::<Vec<_>>().join(" ")
}

#[test]
fn sub_rules_become_routes() {
    let one =
        |mode: &str, conditions: Value| json!({ "rules": [sub_rule(mode, conditions, json!([group(json!({}))]))] });
    let words: Vec<String> = (0..40).map(|word| format!("word-{word}")).collect();
    let list = || json!({ "type": "HEADER", "key": "h", "value": { "type": "IN", "value": words.join(",") } });
    let bad = || json!({ "type": "HEADER", "key": "h", "value": { "type": "REGEX", "value": r"\b{start}a" } });
    let rows = [
        (one("AND", json!([])), "0", "0", "0"),
        (one("OR", json!([])), "0", "0", "0"),
        (one("AND", json!([header("a", "1"), header("b", "1")])), "0", "0", "0"),
        (one("OR", json!([header("a", "1"), header("b", "1")])), "0 0", "0 0", "0 0"),
        (one("AND", json!([list(), list()])), "0", &["0"; 16].join(" "), &["0"; 16].join(" ")),
        (one("AND", json!([list(), list(), list(), list(), list()])), "0", "W7", "W7"),
        (one("AND", json!([header("a", "1"), of("QUERY", "q")])), "W4", "0", "0"),
        (one("OR", json!([header("a", "1"), of("QUERY", "q")])), "0 ~W4", "0 0", "0 0"),
        (one("OR", json!([of("COOKIE", "c"), of("QUERY", "q")])), "W4 W4", "0 0", "0 0"),
        (one("AND", json!([of("CUSTOM", "c")])), "W4", "W4", "W4"),
        (one("AND", json!([of("CALLER_IP", "")])), "0", "0", "W6"),
        (one("OR", json!([header("a", "1"), of("CALLER_IP", "")])), "0 0", "0 0", "W6"),
        (one("AND", json!([header("a", "1"), bad()])), "W25", "W25", "W25"),
        (one("OR", json!([header("a", "1"), bad()])), "W25", "W25", "W25"),
    ];
    for (config, grpc, envoy, gateway) in rows {
        assert_eq!(outline(&config, GRPC_CLIENT), grpc, "gRPC: {config}");
        assert_eq!(outline(&config, ENVOY_CLIENT), envoy, "Envoy: {config}");
        assert_eq!(outline(&config, GATEWAY), gateway, "gateway: {config}");
    }
}

#[test]
fn only_the_first_condition_on_the_path_is_the_path() {
    let path = |value: &str| json!({ "type": "PATH", "value": { "value": value } });
    let rule = rule(&json!({ "rules": [
        sub_rule("AND", json!([path("/a"), path("/b")]), json!([group(json!({}))])),
        sub_rule("OR", json!([path("/a"), path("/b")]), json!([group(json!({}))])),
    ] }));
    let plan = plan(&[&rule], &called(), ENVOY_CLIENT);
    let shown: Vec<_> = plan.routes.iter().map(|route| (route.path.is_some(), route.headers.len())).collect();
    assert_eq!(shown, [(true, 1), (true, 0), (true, 0)]);
}

#[test]
fn ends_decide_whom_a_rule_is_for() {
    let key = |namespace: &str, service: &str| json!({ "namespace": namespace, "service": service });
    let with = |mut config: Value| {
        config["rules"] = json!([sub_rule("AND", json!([]), json!([group(json!({}))]))]);
        config
    };
    let foreign = json!({ "rules": [sub_rule("AND", json!([]), json!([group(json!({ "service": "pay" }))]))] });
    let mut to_foreign = foreign.clone();
    to_foreign["callee"] = key("shop", "order");
    let rows = [
        (with(json!({})), "0", "0"),
        (with(json!({ "callee": key("shop", "order") })), "0", "0"),
        (with(json!({ "callee": key("*", "*") })), "0", "0"),
        (with(json!({ "callee": key("shop", "pay") })), "", ""),
        (with(json!({ "caller": key("*", "*") })), "0", "0"),
        (with(json!({ "caller": key("shop", "web") })), "0", "W6"),
        (with(json!({ "caller": key("shop", "*") })), "0", "0"),
        (with(json!({ "caller": key("pay", "*") })), "0", "W6"),
        (foreign, "", ""),
        (to_foreign, "0", "0"),
    ];
    for (config, sidecar, gateway) in rows {
        assert_eq!(outline(&config, ENVOY_CLIENT), sidecar, "{config}");
        assert_eq!(outline(&config, GATEWAY), gateway, "{config}");
    }
    let config = with(json!({ "caller": key("shop", "*") }));
    let rule = rule(&config);
    let plan = plan(&[&rule], &called(), ENVOY_CLIENT);
    let [CallerCondition::Is { is_met_by_unknown, .. }] = plan.routes[0].caller.as_slice() else { panic!("a caller") };
    assert!(is_met_by_unknown);
    let off = Rule { enable: false, ..rule.clone() };
    assert_eq!(super::plan(&[&off], &called(), ENVOY_CLIENT), RoutePlan::default());
}

#[test]
fn a_gateway_with_a_header_carries_conditions_on_the_calling_service() {
    let gateway = Abilities { has_caller_header: true, ..GATEWAY };
    let route =
        |conditions: Value, labels: Value| sub_rule("AND", conditions, json!([group(json!({ "labels": labels }))]));
    let of_web = || json!([{ "type": "CALLER_SERVICE", "key": "shop", "value": { "value": "web" } }]);
    let config = json!({
        "caller": { "namespace": "shop", "service": "cart" },
        "rules": [
            route(json!([]), json!({})),
            route(of_web(), json!({})),
            route(json!([of("CALLER_IP", "")]), json!({})),
        ],
    });
    assert_eq!(outline(&config, GATEWAY), "W6");
    assert_eq!(outline(&config, gateway), "0 1 W6");
    let rule = rule(&config);
    let plan = plan(&[&rule], &called(), gateway);
    let headers = |route: &PlannedRoute<'_>| {
        route.headers.iter().map(|part| format!("{} {:?}", part.name, part.value)).collect::<Vec<_>>()
    };
    assert_eq!(headers(&plan.routes[0]), [r#":caller Expression("shop/cart")"#]);
    let both = [r#":caller Expression("shop/cart")"#, r#":caller Expression("shop/web")"#];
    assert_eq!(headers(&plan.routes[1]), both);
    assert!(plan.routes.iter().all(|route| route.caller.is_empty()));
    let taken = json!({ "team": { "value": "team", "value_type": "PARAMETER" } });
    let named = json!({ "value": "team", "value_type": "PARAMETER" });
    let anybody = json!([{ "type": "CALLER_SERVICE", "key": "shop", "value": named }]);
    let config = json!({ "rules": [route(anybody, taken)] });
    assert_eq!((outline(&config, ENVOY_CLIENT), outline(&config, gateway)), ("0".into(), "W6".into()));
}

/// Returns the groups of a route as `name service rank weight`.
fn groups(destinations: Value) -> Vec<String> {
    let config = json!({
        "callee": { "namespace": "shop", "service": "order" },
        "rules": [sub_rule("AND", json!([header("env", "1")]), destinations)],
    });
    let rule = rule(&config);
    let plan = plan(&[&rule], &called(), ENVOY_CLIENT);
    let groups = plan.routes.iter().flat_map(|route| &route.groups);
    let shown = |group: &super::super::plan::PlannedGroup<'_>| {
        let ServiceKey { namespace, service } = &group.service;
        format!("{} {namespace}/{service} {} {}", group.group.name, group.rank, group.weight)
    };
    groups.map(shown).collect()
}

#[test]
fn groups_are_those_that_may_take_traffic() {
    let rows: [(Value, &[&str]); 8] = [
        (json!([group(json!({}))]), &["g shop/order 0 1"]),
        (
            json!([group(json!({ "name": "a", "weight": 90 })), group(json!({ "name": "b", "weight": 10 }))]),
            &["a shop/order 0 90", "b shop/order 0 10"],
        ),
        (json!([group(json!({ "name": "a", "weight": 5 })), group(json!({ "name": "b" }))]), &["a shop/order 0 5"]),
        (json!([group(json!({ "weight": 0 }))]), &[]),
        (json!([group(json!({ "isolate": true }))]), &[]),
        (
            json!([
                group(json!({ "name": "last" })),
                group(json!({ "name": "b", "priority": 7 })),
                group(json!({ "name": "a", "priority": 3 })),
                group(json!({ "name": "off", "priority": 5, "weight": 0 })),
            ]),
            &["a shop/order 0 1", "b shop/order 1 1", "last shop/order 2 1"],
        ),
        (
            json!([group(json!({ "service": "*", "namespace": "*" })), group(json!({ "transfer": "bin" }))]),
            &["g shop/order 0 1", "g shop/bin 0 1"],
        ),
        (json!([group(json!({ "labels": { "lane": { "value": "x", "value_type": "PARAMETER" } } }))]), &[]),
    ];
    for (destinations, expected) in rows {
        assert_eq!(groups(destinations.clone()), expected, "{destinations}");
    }
}

/// Returns the routes of a sub-rule with the parts of the request that label `lane` of its first group takes.
fn parameters(mode: &str, conditions: Value, name: &str, to: Abilities) -> Result<Vec<String>, u8> {
    let lane = json!({ "labels": { "lane": { "value": name, "value_type": "PARAMETER" } } });
    let rule = rule(&json!({ "rules": [sub_rule(mode, conditions, json!([group(lane), group(json!({}))]))] }));
    let plan = plan(&[&rule], &called(), to);
    if let Some(warning) = plan.warnings.iter().find(|warning| warning.is_left_out) {
        return Err(warning.number);
    }
    let part = |route: &PlannedRoute<'_>| match route.groups[0].parameters.as_slice() {
        [] => format!("{} groups", route.groups.len()),
        [parameter] => match parameter.part {
            RequestPart::Header(name) => format!("header {name}"),
            RequestPart::Query(name) => format!("query {name}"),
            other => format!("{other:?}"),
        },
        more => format!("{more:?}"),
    };
    Ok(plan.routes.iter().map(part).collect())
}

#[test]
fn labels_take_over_parts_of_the_request() {
    let open = |kind: &str, key: &str, name: &str| {
        json!({ "type": kind, "key": key, "value": { "value": name,
        "value_type": "PARAMETER" } })
    };
    let two = || json!([open("HEADER", "env", "lane"), open("QUERY", "v", "lane")]);
    let told = |words: &[&str]| Ok(words.iter().map(|word| (*word).to_owned()).collect());
    let rows = [
        ("AND", two(), "lane", ENVOY_CLIENT, told(&["header env"])),
        ("AND", two(), "$query.v", ENVOY_CLIENT, told(&["query v"])),
        ("AND", two(), "v", ENVOY_CLIENT, told(&["query v"])),
        ("AND", two(), "other", ENVOY_CLIENT, told(&["1 groups"])),
        ("OR", two(), "lane", ENVOY_CLIENT, told(&["header env", "query v"])),
        ("OR", two(), "lane", GRPC_CLIENT, told(&["header env"])),
        ("OR", two(), "env", ENVOY_CLIENT, told(&["header env", "1 groups"])),
        ("OR", two(), "v", ENVOY_CLIENT, Err(15)),
        ("OR", two(), "v", GRPC_CLIENT, told(&["1 groups"])),
        ("AND", json!([open("CALLER_SERVICE", "", "who")]), "who", ENVOY_CLIENT, told(&["CallerService"])),
        ("AND", json!([open("METHOD", "", "how")]), "$method", ENVOY_CLIENT, told(&["Method"])),
    ];
    for (mode, conditions, name, to, expected) in rows {
        assert_eq!(parameters(mode, conditions.clone(), name, to), expected, "{mode} {conditions} {name} {to:?}");
    }
}
