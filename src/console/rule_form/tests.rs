//! A rule is unchanged after a round trip through its form, and what a form begins with can be saved.

use askama::Template;
use serde_json::{Value, json};
use thuban_documents::{read_rule, written};

use super::{Preview, RuleForm};
use crate::console::drafting::{Typed, blank, kind_of};
use crate::console::fields::Fields;
use crate::console::settle;
use crate::console::sheet::tests::{rules, sent, without_null};
use crate::console::texts::Language;
use crate::model::rule::{Family, Rule};
use crate::model::stamp::Stamp;

fn page(family: Family, value: &Value, fault: Option<&str>) -> String {
    let t = Language::English.texts();
    let preview = Preview::none(t);
    let form = RuleForm::new(t, family, value, fault, ("/here", &preview));
    form.render().expect("it can be made")
}

fn rule_of(family: Family, value: Value) -> Rule {
    let draft = read_rule(family, &without_null(value).to_string()).expect("a rule");
    draft.rule("id".into(), "revision".into(), Stamp::default()).expect("its fields agree")
}

#[test]
fn a_rule_comes_out_of_its_sentence_as_it_went_in() {
    let breaker = json!({ "namespace": "shop", "name": "b", "level": "METHOD",
        "rule_matcher": { "source": { "service": "*", "namespace": "*" },
            "destination": { "service": "pay", "namespace": "other",
                "method": { "type": "EXACT", "value": "GET" } } },
        "error_conditions": [{ "input_type": "DELAY", "condition": { "type": "EXACT", "value": "100" } }],
        "trigger_condition": [{ "trigger_type": "ERROR_RATE", "error_percent": 5, "interval": 9,
            "minimum_request": 3 }],
        "block_configs": [{ "name": "x", "api": { "protocol": "HTTP", "method": "GET" },
            "error_conditions": [{ "input_type": "RET_CODE", "condition": { "type": "REGEX", "value": "5.." } }],
            "trigger_conditions": [{ "trigger_type": "CONSECUTIVE_ERROR", "error_count": 3, "interval": 7 }] }],
        "recover_condition": { "sleep_window": 4, "consecutive_success": 5 }, "fault_detect_config": { "enable": true },
        "fallback_config": { "enable": true, "response": { "code": 418, "body": "t",
            "headers": [{ "key": "a", "value": "b" }] } } });
    let flat = json!({ "namespace": "shop", "name": "p", "target_service": { "namespace": "shop", "service": "pay" },
        "interval": 30, "timeout": 1, "protocol": "TCP", "tcp_config": { "send": "a", "receive": ["b", "c"] },
        "rules": [{ "interval": 1, "timeout": 1, "port": 9, "protocol": "UDP", "disable": true,
            "udp_config": { "send": "x", "receive": [] } }] });
    let bare = json!({ "namespace": "shop", "name": "f", "service": "pay", "protocol": "HTTP", "interval": 5 });
    let present = json!({ "namespace": "shop", "name": "m", "route_policy": "MetadataPolicy",
        "routing_config": { "service": "pay", "namespace": "shop", "labels": { "a": "b" },
            "failover": { "failover_range": "OTHER_KEYS", "labels": { "c": "d" } } } });
    let whole = json!({ "namespace": "shop", "name": "w", "description": "a\nb", "routing_config": {
        "caller": { "service": "cart", "namespace": "other" }, "callee": { "service": "pay", "namespace": "shop" },
        "rules": [{ "arguments": { "arguments": [
            { "type": "HEADER", "key": "x", "value": { "type": "EXACT", "value": "v", "value_type": "PARAMETER" } },
            { "type": "COOKIE", "key": "only" },
            { "type": "METHOD", "key": "", "value": { "type": "IN", "value": "GET,PUT" } },
            { "type": "CALLER_SERVICE", "key": "shop", "value": { "type": "EXACT", "value": "cart" } }] },
            "destinations": [{ "labels": {}, "transfer": "t", "isolate": true },
                { "labels": { "a/b": { "value": "1" } }, "priority": 2 }] }] } });
    let given = [
        (Family::CircuitBreaker, breaker),
        (Family::FaultDetect, flat),
        (Family::FaultDetect, bare),
        (Family::Routing, present),
        (Family::Routing, whole),
    ];
    for (family, given) in rules().into_iter().chain(given) {
        let kind = kind_of(family);
        let rule = rule_of(family, given);
        let page = page(family, &kind.opened(written(Some(&rule))), None);
        let (typed, is_done) = Typed::read(family, &sent(&page));
        let draft = typed.draft(family).expect("a draft");
        let back = draft.rule("id".into(), "revision".into(), Stamp::default()).expect("its fields agree");
        assert!(is_done && back == rule, "{}: {:?}\n{:?}", family.kind(), written(Some(&back)), written(Some(&rule)));
    }
}

#[test]
fn a_new_condition_is_one_that_proxies_match() {
    let family = Family::RateLimit;
    let mut form = sent(&page(family, &kind_of(family).opened(blank(family)), None));
    form.0.push(("edit".to_owned(), "add:/rules/0/arguments".to_owned()));
    let (Typed::Form(value), false) = Typed::read(family, &form) else { panic!("a button of the form") };
    let condition = &value["rules"][0]["arguments"][0];
    assert_eq!((&condition["type"], &condition["value"]["type"]), (&json!("HEADER"), &json!("EXACT")), "{value}");
    // Its fields are in one line, and none of them is repeated below.
    let page = page(family, &value, Some("rules[0].arguments[0].key: is empty: a condition on HEADER needs one"));
    for name in ["/rules/0/arguments/0/key", "/rules/0/arguments/0/value/value", "/rules/0/amounts/0/maxAmount"] {
        assert_eq!(page.matches(&format!(" name=\"{name}\"")).count(), 1, "{name}: {page}");
    }
    assert_eq!(page.matches("class=\"fault\" id=\"/rules/0/arguments/0/key-fault\"").count(), 1, "{page}");
    assert!(page.contains("formaction=\"/here#/rules/0/arguments/1\""), "{page}");
    let present = settle::cleaned(json!({ "type": "HEADER", "key": "x", "value": { "value": "" } }));
    assert!(present.get("value").is_none(), "no comparison: the header has to be there");
}

#[test]
fn another_policy_has_other_fields() {
    let mut value = kind_of(Family::Routing).opened(blank(Family::Routing));
    value["routing_config"]["callee"]["service"] = json!("pay");
    for (policy, has, lacks) in [
        ("NearbyPolicy", "match_level", "rules"),
        ("MetadataPolicy", "labels", "match_level"),
        ("RulePolicy", "rules", "labels"),
    ] {
        value["route_policy"] = json!(policy);
        value = settle::settled(value, "redraw");
        let config = &value["routing_config"];
        assert!(config.get(has).is_some() && config.get(lacks).is_none(), "{policy}: {value}");
        let page = page(Family::Routing, &value, None);
        assert!(page.contains("value=\"pay\""), "the service stays: {page}");
    }
}

#[test]
fn a_new_rule_of_each_family_needs_its_names_and_no_more() {
    for family in Family::ALL {
        let page = page(*family, &kind_of(*family).opened(blank(*family)), None);
        let mut form = sent(&page);
        for (name, value) in &mut form.0 {
            let is_empty_label = name.ends_with("/labels/0/key") || name.ends_with("/labels/0/value/value");
            if name == "/name" || name.ends_with("/service") || is_empty_label {
                *value = "pay".to_owned();
            }
        }
        let (typed, _) = Typed::read(*family, &Fields(form.0));
        let draft = typed.draft(*family).expect("a draft");
        draft.check_new().unwrap_or_else(|refusal| panic!("{}: {}", family.kind(), refusal.info()));
    }
}
