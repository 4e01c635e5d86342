use serde_json::{Value, json};

use super::*;
use crate::model::rule::Family;
use crate::testing::{key, lost, rule as made};

fn breaker(fields: Value) -> Rule {
    made(Family::CircuitBreaker, fields)
}

fn mapped(rule: &Rule) -> Vec<v1::CircuitBreakerRule> {
    rules(&[rule], AskedService { namespace: "old", service: "alias", target: &key("shop", "pay") })
}

fn block(path: Option<&str>, code: &str) -> Value {
    json!({
        "name": code, "api": path.map(|path| json!({ "path": { "value": path } })),
        "error_conditions": [{ "input_type": "RET_CODE", "condition": { "value": code } }],
        "trigger_conditions": [{ "trigger_type": "ERROR_RATE", "error_count": 1, "error_percent": 2, "interval": 3,
            "minimum_request": 4 }],
    })
}

#[test]
fn a_breaker_has_every_field() {
    let rule = breaker(json!({
        "level": "SERVICE",
        "rule_matcher": { "source": { "service": "web" }, "destination": { "service": "pay", "namespace": "shop" } },
        "block_configs": [block(None, "500")], "max_ejection_percent": 30,
        "recover_condition": { "sleep_window": 5, "consecutive_success": 6 },
        "fault_detect_config": { "enable": true },
        "fallback_config": { "enable": true, "response": { "code": 503, "headers": [{ "key": "a", "value": "b" }],
            "body": "later" } },
    }));
    let [one] = &mapped(&rule)[..] else { panic!("one") };
    assert_eq!((one.id.as_str(), one.name.as_str(), one.namespace.as_str(), one.enable), ("id", "r", "shop", true));
    assert_eq!((one.level, one.max_ejection_percent, one.priority, one.description.as_str()), (1, 30, 3, "text"));
    let matcher = one.rule_matcher.as_ref().expect("a matcher");
    let source = matcher.source.as_ref().expect("a source");
    assert_eq!((source.namespace.as_str(), source.service.as_str()), ("shop", "web"));
    let to = matcher.destination.as_ref().expect("a destination");
    assert_eq!((to.namespace.as_str(), to.service.as_str()), ("old", "alias"), "the name that was asked");
    assert_eq!(to.method.as_ref().and_then(|method| method.value.as_deref()), Some("*"), "Go needs one");
    let [config] = &one.block_configs[..] else { panic!("one") };
    assert_eq!(config.error_conditions, one.error_conditions);
    assert_eq!(config.trigger_conditions, one.trigger_condition);
    assert_eq!(one.error_conditions[0].input_type, 1);
    let expected =
        v1::TriggerCondition { trigger_type: 1, error_count: 1, error_percent: 2, interval: 3, minimum_request: 4 };
    assert_eq!(one.trigger_condition, [expected]);
    let recover = one.recover_condition.as_ref().expect("a recovery");
    assert_eq!((recover.sleep_window, recover.consecutive_success), (5, 6));
    assert_eq!(one.fault_detect_config.map(|one| one.enable), Some(true));
    let fallback = one.fallback_config.as_ref().expect("a fallback");
    let response = fallback.response.as_ref().expect("a response");
    assert_eq!(
        (fallback.enable, response.code, response.body.as_str(), response.headers.len()),
        (true, 503, "later", 1)
    );
    assert_eq!((one.revision.len(), lost(&rule)), (32, ("Yes".into(), vec![])));
}

#[test]
fn older_fields_become_a_block() {
    let rule = breaker(json!({
        "level": "METHOD",
        "rule_matcher": { "destination": { "service": "*", "namespace": "*",
            "method": { "type": "REGEX", "value": "/a" } } },
        "error_conditions": [{ "input_type": "DELAY", "condition": { "value": "100" } }],
        "trigger_condition": [{ "trigger_type": "CONSECUTIVE_ERROR", "error_count": 3 }],
    }));
    let [one] = &mapped(&rule)[..] else { panic!("one") };
    let api = one.block_configs[0].api.as_ref().expect("an interface");
    let path = api.path.as_ref().expect("a path");
    assert_eq!(
        (api.protocol.as_str(), api.method.as_str(), path.r#type, path.value.as_deref()),
        ("*", "*", 1, Some("/a"))
    );
    let matcher = one.rule_matcher.as_ref().expect("a matcher");
    let to = matcher.destination.as_ref().expect("a destination");
    assert_eq!((to.namespace.as_str(), to.service.as_str(), to.method.as_ref()), ("*", "*", Some(path)));
    let source = matcher.source.as_ref().expect("a source");
    assert_eq!((source.namespace.as_str(), source.service.as_str()), ("*", "*"));
    assert_eq!((one.error_conditions[0].input_type, one.trigger_condition[0].trigger_type), (2, 2));
    assert_eq!(lost(&rule), ("Yes".into(), vec![]));
}

#[test]
fn blocks_by_level() {
    let of = |level: &str, blocks: Value| {
        breaker(json!({ "level": level, "rule_matcher": { "destination": { "service": "pay" } },
            "block_configs": blocks }))
    };
    let two = || json!([block(Some("/a"), "500"), block(Some("/b"), "502")]);
    let methods = of("METHOD", two());
    let ids: Vec<_> = mapped(&methods).into_iter().map(|one| (one.id, one.block_configs.len())).collect();
    assert_eq!(ids, [("id#0".to_owned(), 1), ("id#1".to_owned(), 1)]);
    assert_eq!(lost(&methods), ("Yes".into(), vec![]));
    for level in ["SERVICE", "INSTANCE"] {
        let rule = of(level, two());
        let [one] = &mapped(&rule)[..] else { panic!("one") };
        assert_eq!((one.block_configs.len(), one.error_conditions.len()), (2, 1));
        assert_eq!(lost(&rule), ("Partly".into(), vec![18]));
    }
    assert_eq!(lost(&of("METHOD", json!([block(None, "500")]))), ("Partly".into(), vec![19]));
    for level in ["GROUP", "UNKNOWN"] {
        let rule = of(level, two());
        assert_eq!((mapped(&rule).len(), lost(&rule)), (0, ("No".into(), vec![20])));
    }
}

#[test]
fn only_the_breakers_of_a_callee_are_its_own() {
    let rule = breaker(json!({ "level": "SERVICE",
        "rule_matcher": { "source": { "service": "pay" }, "destination": { "service": "mail" } } }));
    assert_eq!(mapped(&rule), []);
}
