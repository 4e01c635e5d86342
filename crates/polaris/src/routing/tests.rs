use serde_json::{Value, json};

use super::*;
use crate::model::rule::Family;
use crate::testing::{key, lost, rule};

/// Returns a custom route with one sub-rule to the service `pay`.
fn route(arguments: Value, mode: &str) -> Rule {
    let sub_rule = json!({
        "name": "s",
        "arguments": { "arguments": arguments, "matchMode": mode },
        "destinations": [{ "service": "pay", "name": "g" }],
    });
    custom_rule(json!({ "rules": [sub_rule] }))
}

fn custom_rule(config: Value) -> Rule {
    rule(Family::Routing, json!({ "route_policy": "RulePolicy", "routing_config": config }))
}

fn of(rule: &Rule, service: &str) -> Routes {
    let target = key("shop", service);
    routes(&[rule], AskedService { namespace: "shop", service, target: &target })
}

/// Returns a source as text: namespace, service and conditions.
fn text_of(source: &v1::Source) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let condition =
        |(key, value): (&String, &v1::MatchString)| format!("{key}:{}:{}", value.r#type, text(&value.value));
    let conditions: Vec<_> = source.metadata.iter().map(condition).collect();
    format!("{}/{} {}", text(&source.namespace), text(&source.service), conditions.join(" ")).trim_end().to_owned()
}

fn sources(rule: &Rule) -> Vec<String> {
    let routes = of(rule, "pay");
    routes.inbounds.iter().flat_map(|route| &route.sources).map(text_of).collect()
}

#[test]
fn every_condition_has_its_place() {
    let exact = |kind: &str, key: &str| json!([{ "type": kind, "key": key, "value": { "value": "v" } }]);
    let table = [
        (exact("CUSTOM", "k"), "*/* k:0:v"),
        (exact("METHOD", ""), "*/* $method:0:v"),
        (exact("HEADER", "k"), "*/* $header.k:0:v"),
        (exact("QUERY", "k"), "*/* $query.k:0:v"),
        (exact("CALLER_IP", ""), "*/* $caller_ip:0:v"),
        (exact("PATH", ""), "*/* $path:0:v"),
        (exact("COOKIE", "k"), "*/* $cookie.k:0:v"),
        (exact("CALLER_METADATA", "k"), "*/* $caller_metadata.k:0:v"),
        (exact("CALLER_SERVICE", "ns"), "ns/v"),
        (exact("CALLER_SERVICE", ""), "*/v"),
        (json!([]), "*/*"),
        (json!([{ "type": "HEADER", "key": "k" }]), "*/* $header.k:0:*"),
        (json!([{ "type": "HEADER", "key": "k", "value": { "value": "" } }]), "*/* $header.k:0:*"),
    ];
    for (arguments, expected) in table {
        assert_eq!(sources(&route(arguments, "AND")), [expected]);
    }
    for (number, kind) in ["EXACT", "REGEX", "NOT_EQUALS", "IN", "NOT_IN", "RANGE"].into_iter().enumerate() {
        let rule = route(json!([{ "type": "QUERY", "key": "k", "value": { "type": kind, "value": "1~2" } }]), "AND");
        assert_eq!(sources(&rule), [format!("*/* $query.k:{number}:1~2")], "{kind}");
        assert_eq!(lost(&rule), ("Yes".into(), vec![]), "{kind}");
    }
}

#[test]
fn conditions_are_combined() {
    let header = |key: &str, value: &str| json!({ "type": "HEADER", "key": key, "value": { "value": value } });
    let callers = |kind: &str, value: &str| {
        let value = json!({ "type": kind, "value": value });
        json!({ "type": "CALLER_SERVICE", "key": "", "value": value })
    };
    let both = [header("a", "1"), header("b", "2")];
    assert_eq!(sources(&route(json!(both), "AND")), ["*/* $header.a:0:1 $header.b:0:2"]);
    assert_eq!(sources(&route(json!(both), "OR")), ["*/* $header.a:0:1", "*/* $header.b:0:2"]);
    assert_eq!(
        sources(&route(json!([callers("IN", "x,y"), header("a", "1")]), "AND")),
        ["*/x $header.a:0:1", "*/y $header.a:0:1"]
    );
    assert_eq!(sources(&route(json!([callers("EXACT", "x"), callers("IN", "x,y")]), "AND")), ["*/x"]);
    assert_eq!(sources(&route(json!([callers("EXACT", "x"), callers("EXACT", "y")]), "AND")), [""; 0]);
    // An equal condition twice is one.
    assert_eq!(sources(&route(json!([header("a", "1"), header("a", "1")]), "AND")), ["*/* $header.a:0:1"]);
}

#[test]
fn what_cannot_be_expressed_is_left_out_and_said() {
    let caller = |kind: &str| json!([{ "type": "CALLER_SERVICE", "value": { "type": kind, "value": "x" } }]);
    let twice = json!([{ "type": "HEADER", "key": "k", "value": { "value": "1" } },
        { "type": "HEADER", "key": "k", "value": { "type": "NOT_EQUALS", "value": "2" } }]);
    let share = custom_rule(json!({ "rules": [{
        "arguments": { "arguments": [], "random_percent": 50 }, "destinations": [{ "service": "pay" }],
    }] }));
    let table = [
        (route(caller("REGEX"), "AND"), vec![2]),
        (route(caller("NOT_EQUALS"), "AND"), vec![2]),
        (route(caller("NOT_IN"), "OR"), vec![2]),
        (route(twice.clone(), "AND"), vec![3]),
        (share, vec![1]),
    ];
    for (rule, expected) in table {
        assert_eq!(of(&rule, "pay"), Routes::default());
        assert_eq!(lost(&rule), ("No".into(), expected));
    }
    assert_eq!(sources(&route(twice, "OR")).len(), 2);
    let metadata = route(json!([{ "type": "CALLER_METADATA", "key": "k", "value": { "value": "v" } }]), "AND");
    assert_eq!(lost(&metadata), ("Partly".into(), vec![8]));
}

#[test]
fn a_callee_has_inbounds_and_a_caller_outbounds() {
    let rule = custom_rule(json!({
        "caller": { "service": "web", "namespace": "shop" },
        "rules": [{
            "name": "s", "destinations": [{ "service": "pay", "name": "g" }, { "service": "*", "name": "all" }],
        }],
    }));
    let [pay, web] = ["pay", "web"].map(|service| of(&rule, service));
    assert_eq!(pay.inbounds.iter().flat_map(|route| &route.sources).map(text_of).collect::<Vec<_>>(), ["shop/web"]);
    let names: Vec<_> =
        pay.inbounds[0].destinations.iter().map(|to| (to.service.as_deref(), to.name.as_deref())).collect();
    assert_eq!(names, [(Some("pay"), Some("r.s.g")), (Some("pay"), Some("r.s.all"))]);
    assert_eq!(pay.inbounds[0].extend_info[RULE_PRIORITY], "0003");
    assert_eq!(
        (pay.outbounds.len(), web.outbounds.len()),
        (0, 0),
        "a group for every service makes the caller a callee"
    );
    let rule = custom_rule(json!({
        "caller": { "service": "web", "namespace": "shop" },
        "rules": [{ "destinations": [{ "service": "pay" }] }],
    }));
    let web = of(&rule, "web");
    assert_eq!((web.inbounds.len(), web.outbounds.len()), (0, 1));
    assert_eq!(web.outbounds[0].destinations[0].service.as_deref(), Some("pay"));
    assert_eq!(of(&rule, "mail"), Routes::default());
    // An alias is answered under its own name.
    let target = key("shop", "pay");
    let routes = routes(&[&rule], AskedService { namespace: "old", service: "payment", target: &target });
    let to = &routes.inbounds[0].destinations[0];
    assert_eq!((to.namespace.as_deref(), to.service.as_deref()), (Some("old"), Some("payment")));
}

#[test]
fn rules_that_are_off_and_groups_of_others_are_not_sent() {
    let mut rule = route(json!([]), "AND");
    rule.enable = false;
    assert_eq!(of(&rule, "pay"), Routes::default());
    let rule = custom_rule(json!({
        "callee": { "service": "pay", "namespace": "shop" },
        "rules": [{ "destinations": [{ "service": "pay" }, { "service": "mail", "transfer": "post" }] }],
    }));
    assert_eq!(of(&rule, "pay").inbounds[0].destinations.len(), 1);
    assert_eq!(of(&rule, "mail"), Routes::default());
    assert_eq!(lost(&rule), ("Partly".into(), vec![6]));
}
