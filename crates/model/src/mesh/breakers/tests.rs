use serde_json::{Value, json};

use super::*;
use crate::model::mesh::testing;
use crate::model::rule::Family;

fn rule(fields: Value) -> Rule {
    let mut json = json!({
        "name": "r", "namespace": "shop", "enable": true, "level": "INSTANCE", "max_ejection_percent": 50,
        "rule_matcher": { "source": { "service": "*", "namespace": "*" }, "destination": { "service": "pay" } },
    });
    json.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    testing::rule(Family::CircuitBreaker, &json)
}

fn errors(count: u32) -> Value {
    json!({ "trigger_type": "CONSECUTIVE_ERROR", "error_count": count })
}

fn rate(percent: u32) -> Value {
    json!({ "trigger_type": "ERROR_RATE", "error_percent": percent, "interval": 20, "minimum_request": 5 })
}

fn code(how: &str, value: &str) -> Value {
    json!({ "input_type": "RET_CODE", "condition": { "type": how, "value": value } })
}

fn block(errors: Value, triggers: Value) -> Value {
    json!({ "error_conditions": errors, "trigger_conditions": triggers })
}

fn planned(rules: &[Rule], dialect: Dialect) -> Vec<Breaker> {
    let called = ServiceKey { service: "pay".into(), namespace: "shop".into() };
    plan(&rules.iter().collect::<Vec<_>>(), &called, dialect)
}

/// Detection of the cluster of all instances for any caller: consecutive errors, percentage, ejection seconds, ejected
/// share.
type Shown = (Option<u32>, Option<u32>, u32, Option<u32>);

fn numbers_of(rules: &[Rule], dialect: Dialect) -> Option<Shown> {
    let found = detection(&planned(rules, dialect), false, |_| true)?;
    Some((
        found.consecutive_errors,
        found.error_rate.map(|rate| rate.percent),
        found.sleep_s,
        found.max_ejection_percent,
    ))
}

#[test]
fn triggers_become_detections() {
    let sleep = json!({ "sleep_window": 7, "consecutive_success": 2 });
    let rows = [
        (json!({ "trigger_condition": [errors(4)] }), Some((Some(4), None, 30, Some(50))), None),
        (
            json!({ "trigger_condition": [rate(40)], "recover_condition": sleep }),
            Some((None, Some(40), 7, Some(50))),
            Some((None, Some(40), 7, Some(50))),
        ),
        (
            json!({ "block_configs": [block(json!([]), json!([errors(4), rate(40)])), block(json!([]),
                json!([errors(3), rate(9)]))] }),
            Some((Some(3), Some(40), 30, Some(50))),
            Some((None, Some(40), 30, Some(50))),
        ),
        (
            json!({ "trigger_condition": [rate(40)], "max_ejection_percent": 0 }),
            Some((None, Some(40), 30, None)),
            Some((None, Some(40), 30, None)),
        ),
        (json!({ "trigger_condition": [] }), None, None),
        (json!({ "trigger_condition": [errors(0), rate(0)] }), None, None),
        (json!({ "trigger_condition": [rate(40)], "level": "SERVICE" }), None, None),
        (json!({ "trigger_condition": [rate(40)], "level": "METHOD" }), None, None),
        (json!({ "trigger_condition": [rate(40)], "level": "GROUP" }), None, None),
        (json!({ "trigger_condition": [rate(40)], "level": "UNKNOWN" }), None, None),
        (json!({ "trigger_condition": [rate(40)], "enable": false }), None, None),
        (
            json!({ "trigger_condition": [rate(40)], "error_conditions": [code("EXACT", "404")] }),
            None,
            Some((None, Some(40), 30, Some(50))),
        ),
        (
            json!({ "trigger_condition": [rate(40)],
                "error_conditions": [{ "input_type": "DELAY", "condition": { "value": "300" } }] }),
            None,
            None,
        ),
    ];
    for (fields, by_envoy, by_grpc) in rows {
        let rules = [rule(fields.clone())];
        assert_eq!(numbers_of(&rules, Dialect::Envoy), by_envoy, "Envoy: {fields}");
        assert_eq!(numbers_of(&rules, Dialect::Grpc), by_grpc, "gRPC: {fields}");
    }
}

#[test]
fn the_first_rule_of_a_level_watches_a_caller() {
    let from = |service: &str| json!({ "source": { "service": service }, "destination": { "service": "pay" } });
    let rules = [
        rule(json!({ "trigger_condition": [errors(1)], "rule_matcher": from("web") })),
        rule(json!({ "trigger_condition": [rate(20)], "level": "GROUP" })),
        rule(json!({ "trigger_condition": [errors(3), rate(30)] })),
        rule(json!({ "trigger_condition": [errors(4)] })),
    ];
    let breakers = planned(&rules, Dialect::Envoy);
    let of = |is_label_set: bool, caller: &str| {
        let end = |condition: &CallerCondition<'_>| match condition {
            CallerCondition::Is { end, .. } => end.covers("shop", caller),
            _ => false,
        };
        let found = detection(&breakers, is_label_set, end).expect("a detection");
        (found.consecutive_errors, found.error_rate.map(|rate| rate.percent))
    };
    assert_eq!(of(false, "web"), (Some(1), None));
    assert_eq!(of(true, "web"), (Some(1), Some(20)));
    assert_eq!(of(false, "other"), (Some(3), Some(30)));
    assert_eq!(of(true, "other"), (Some(3), Some(20)));
    assert_eq!(breakers[2].caller, None);
    let unknown =
        |breaker: &Breaker| matches!(breaker.caller, Some(CallerCondition::Is { is_met_by_unknown: false, .. }));
    assert!(unknown(&breakers[0]));
}

#[test]
fn rules_for_calls_of_others_are_none() {
    let to = |destination: Value| {
        let matcher = json!({ "source": { "service": "pay" }, "destination": destination });
        planned(&[rule(json!({ "trigger_condition": [errors(1)], "rule_matcher": matcher }))], Dialect::Envoy).len()
    };
    assert_eq!(to(json!({ "service": "cart" })), 0);
    assert_eq!(to(json!({ "service": "pay", "namespace": "other" })), 0);
    assert_eq!(to(json!({ "service": "pay" })), 1);
    assert_eq!(to(json!({ "service": "*", "namespace": "*" })), 1);
}

#[test]
fn an_empty_rule_keeps_later_ones_of_its_level_away() {
    let rules = [rule(json!({})), rule(json!({ "trigger_condition": [errors(3)] }))];
    assert_eq!(numbers_of(&rules, Dialect::Envoy), None);
}

#[test]
fn what_is_not_carried_is_told() {
    let told = |fields: &Value| -> Vec<String> {
        let rule = rule(fields.clone());
        let Body::CircuitBreaker(body) = &rule.body else { panic!("a breaker") };
        let shown = |warning: &Warning| {
            let left_out = if warning.is_left_out { " left out" } else { "" };
            let dialects: Vec<&str> = warning.dialects.iter().map(|dialect| dialect.label()).collect();
            format!("{}{left_out}: {warning}", dialects.join("+"))
        };
        warnings(body).iter().map(shown).collect()
    };
    let whole = "xDS knows errors as a whole: condition";
    let rows: [(Value, Vec<String>); 9] = [
        (json!({ "trigger_condition": [rate(40)] }), vec![]),
        (
            json!({ "trigger_condition": [errors(4)] }),
            vec![
                "grpc left out: W17: trigger_condition[0]: gRPC counts no consecutive errors: carried to Envoy \
                only"
                    .into(),
            ],
        ),
        (
            json!({ "level": "SERVICE" }),
            vec!["grpc+envoy left out: W20: level: level SERVICE is not carried by xDS".into()],
        ),
        (
            json!({ "level": "GROUP", "fallback_config": { "enable": true } }),
            vec![
                "grpc+envoy: W19: level: of a group each instance is left out for itself".into(),
                "grpc+envoy: W20: fallback_config: fallback is not carried by xDS".into(),
            ],
        ),
        (
            json!({ "block_configs": [block(json!([code("RANGE", "500~599")]), json!([rate(40)]))] }),
            vec![format!(
                "grpc: W18: block_configs[0].error_conditions[0]: {whole} RET_CODE RANGE 500~599 is \
                not carried"
            )],
        ),
        (
            json!({ "error_conditions": [code("EXACT", "404")] }),
            vec![
                format!("envoy left out: W18: error_conditions[0]: {whole} RET_CODE EXACT 404 is not carried"),
                format!("grpc: W18: error_conditions[0]: {whole} RET_CODE EXACT 404 is not carried"),
            ],
        ),
        (
            json!({ "error_conditions": [code("IN", "500,503")] }),
            vec![
                format!("envoy: W18: error_conditions[0]: {whole} RET_CODE IN 500,503 is not carried"),
                format!("grpc: W18: error_conditions[0]: {whole} RET_CODE IN 500,503 is not carried"),
            ],
        ),
        (
            json!({ "error_conditions": [code("NOT_EQUALS", "0")] }),
            vec![format!("envoy: W18: error_conditions[0]: {whole} RET_CODE NOT_EQUALS 0 is not carried")],
        ),
        (
            json!({ "max_ejection_percent": 0, "recover_condition": { "consecutive_success": 1 },
                "trigger_condition": [rate(1), rate(2)] }),
            vec![
                "grpc+envoy left out: W15: trigger_condition[1]: a second trigger_type ERROR_RATE is not \
                    carried by xDS"
                    .into(),
                "grpc+envoy: W15: recover_condition: consecutive_success is not carried by xDS: an instance \
                    comes back whole"
                    .into(),
                "grpc+envoy: W15: max_ejection_percent is not set: clients of xDS leave out a tenth of the \
                    instances at most"
                    .into(),
            ],
        ),
    ];
    for (fields, expected) in rows {
        assert_eq!(told(&fields), expected, "{fields}");
    }
}
