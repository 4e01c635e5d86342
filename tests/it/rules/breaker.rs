//! The family of circuit breakers, as `families` has the others.

use serde_json::{Value, json};

use super::edges;
use super::families::{Family, MATCH_TYPES, VALUE_TYPES, condition, head, of};
use super::suite::merged;

pub(super) const CIRCUIT_BREAKER: Family = Family {
    kind: "circuitbreakers",
    element: "circuitBreaker",
    resource: "CircuitBreakerRules",
    discovery: ("CIRCUIT_BREAKER", "circuitBreaker"),
    in_force: Value::clone,
    samples: || {
        let errors = json!([
            {"input_type": "RET_CODE", "condition": condition("RANGE", "500~599")},
            {"input_type": "DELAY", "condition": condition("EXACT", "300")},
        ]);
        let triggers = json!([{
            "trigger_type": "ERROR_RATE", "error_count": 5, "error_percent": 50, "interval": 60, "minimum_request": 10,
        }]);
        let block = json!({
            "name": "slow ones",
            "api": {"protocol": "http", "method": "GET", "path": condition("REGEX", "^/v1/")},
            "error_conditions": errors,
            "trigger_conditions": triggers,
        });
        let body = json!({
            "enable": false,
            "level": "METHOD",
            "rule_matcher": {
                "source": {"service": "main", "namespace": "samples"},
                "destination": {
                    "service": "target", "namespace": "elsewhere", "method": condition("EXACT", "/pay"),
                },
            },
            "error_conditions": errors,
            "trigger_condition": triggers,
            "block_configs": [block],
            "max_ejection_percent": 30,
            "recover_condition": {"sleep_window": 20, "consecutive_success": 3},
            "fault_detect_config": {"enable": true},
            "fallback_config": {
                "enable": true,
                "response": {"code": 503, "headers": [{"key": "Retry-After", "value": "20"}], "body": "later"},
            },
        });
        vec![("breaker", of(head("breaker"), body))]
    },
    bare: || {
        let none = json!({
            "level": "UNKNOWN",
            "rule_matcher": {
                "source": {"service": "", "namespace": ""}, "destination": {"service": "", "namespace": ""},
            },
            "error_conditions": [],
            "trigger_condition": [],
            "block_configs": [],
            "max_ejection_percent": 0,
            "recover_condition": {"sleep_window": 0, "consecutive_success": 0},
            "fault_detect_config": {"enable": false},
            "fallback_config": {"enable": false},
        });
        let error = json!({
            "input_type": "UNKNOWN", "condition": {"type": "EXACT", "value": "", "value_type": "TEXT"},
        });
        let trigger = json!({
            "trigger_type": "UNKNOWN", "error_count": 0, "error_percent": 0, "interval": 0, "minimum_request": 0,
        });
        let block = json!({
            "name": "", "api": {"protocol": "", "method": ""}, "error_conditions": [error],
            "trigger_conditions": [trigger],
        });
        vec![
            (json!({}), none.clone()),
            (
                json!({
                    "rule_matcher": {}, "recover_condition": {}, "fault_detect_config": {},
                    "fallback_config": {"response": {}},
                    "block_configs": [{"api": {}, "error_conditions": [{}], "trigger_conditions": [{}]}],
                }),
                merged(
                    &none,
                    &json!({
                        "block_configs": [block],
                        "fallback_config": {"enable": false, "response": {"code": 0, "headers": [], "body": ""}},
                    }),
                ),
            ),
        ]
    },
    words: &[
        ("breaker", "/level", &["UNKNOWN", "SERVICE", "METHOD", "GROUP", "INSTANCE"]),
        ("breaker", "/error_conditions/0/input_type", &["UNKNOWN", "RET_CODE", "DELAY"]),
        ("breaker", "/error_conditions/0/condition/type", MATCH_TYPES),
        ("breaker", "/trigger_condition/0/trigger_type", &["UNKNOWN", "ERROR_RATE", "CONSECUTIVE_ERROR"]),
        (
            "breaker",
            "/block_configs/0/trigger_conditions/0/trigger_type",
            &["UNKNOWN", "ERROR_RATE", "CONSECUTIVE_ERROR"],
        ),
        ("breaker", "/block_configs/0/api/path/type", MATCH_TYPES),
        ("breaker", "/rule_matcher/destination/method/value_type", VALUE_TYPES),
    ],
    edges: edges::circuit_breaker,
    changes: || {
        vec![
            ("level", json!("INSTANCE"), json!("INSTANCE")),
            ("block_configs", json!([]), json!([])),
            ("trigger_condition", json!([]), json!([])),
            (
                "rule_matcher",
                json!({"destination": {"service": "new"}}),
                json!({
                    "source": {"service": "", "namespace": ""}, "destination": {"service": "new", "namespace": ""},
                }),
            ),
            ("recover_condition", json!({"sleep_window": 5}), json!({"sleep_window": 5, "consecutive_success": 0})),
            ("fallback_config", json!({}), json!({"enable": false})),
        ]
    },
    ends: |namespace, service| {
        let key = json!({"namespace": namespace, "service": service});
        vec![
            json!({"rule_matcher": {"destination": key}}),
            json!({"rule_matcher": {"source": key}}),
            json!({"rule_matcher": {"source": {"namespace": "*", "service": "*"}, "destination": key}}),
        ]
    },
    nameless_is_for_all: false,
};
