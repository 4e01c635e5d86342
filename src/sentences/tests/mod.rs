//! Rules and their sentences.

mod clients;
mod effects;
mod random;
mod routes;
mod standings;

use serde::de::DeserializeSeed;
use serde_json::{Value, json};

use super::Language;
use super::phrases::PHRASES;
use super::story::SENTENCES_MAX;
use crate::model::rule::{Family, Rule, RuleDraft};
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;

/// Returns a rule of the namespace `shop`, from JSON as callers send it.
fn rule(family: Family, fields: &Value) -> Rule {
    let mut json = json!({ "name": "r", "namespace": "shop" });
    json.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    let head = serde_json::from_value(json.clone()).expect("a head");
    let draft = RuleDraft { head, body: family.deserialize(json).expect("a body") };
    let stamp = Stamp { time: Timestamp(0), by: "admin".into() };
    draft.rule("1".into(), String::new(), stamp).expect("a rule")
}

fn sentences_of(family: Family, fields: &Value) -> Vec<String> {
    super::rule(Language::English, &rule(family, fields))
}

/// Returns the sentence of the only sub-rule.
fn told_first(family: Family, fields: &Value) -> String {
    sentences_of(family, fields).swap_remove(0)
}

fn key(service: &str) -> Value {
    json!({ "service": service })
}

/// Returns a custom route for calls of `shop/pay`.
fn route(sub_rules: Value) -> Value {
    json!({ "routing_config": { "callee": key("pay"), "rules": sub_rules } })
}

fn version(version: &str) -> Value {
    json!({ "version": { "value": version } })
}

#[test]
fn every_condition_is_told_as_it_is_judged() {
    let value = |kind: &str, value: &str| json!({ "type": kind, "value": value });
    let long = "é".repeat(81);
    let cut = format!("header x = {}…", "é".repeat(79));
    #[rustfmt::skip]
    let rows = [
        ("HEADER", "x", value("EXACT", "1"), "header x = 1"),
        ("HEADER", "x", value("EXACT", &long), cut.as_str()),
        ("HEADER", "x", value("EXACT", " 1"), "header x = “ 1”"),
        ("HEADER", "x", value("EXACT", "a\nb\u{202e}"), "header x = a\u{fffd}b\u{fffd}"),
        ("HEADER", "x", value("EXACT", ""), "header x of any value"),
        ("HEADER", "x", value("EXACT", "*"), "header x of any value"),
        ("HEADER", "x", Value::Null, "header x of any value"),
        ("HEADER", "x", json!({ "value": "lane", "value_type": "PARAMETER" }),
            "header x of any value (parameter lane)"),
        ("CUSTOM", "x", value("NOT_EQUALS", "1"), "label x of any value but 1"),
        ("METHOD", "", value("IN", "GET, PUT"), "method that is one of (GET, “ PUT”)"),
        ("QUERY", "x", value("NOT_IN", "1,2"), "query parameter x of any value but (1, 2)"),
        ("QUERY", "x", value("IN", "1,2,3,4,5,6,7,8"), "query parameter x that is one of (1, 2, 3, 4, 5, 6, 2 more)"),
        ("CALLER_IP", "", value("EXACT", "10.0.0.1"), "caller address = 10.0.0.1"),
        ("PATH", "", value("REGEX", "v[0-9]"), "path in which the expression v[0-9] is found"),
        ("COOKIE", "x", value("RANGE", " 1 ~ 5"), "cookie x that is a whole number from 1 to 5"),
        ("CALLER_METADATA", "x", value("EXACT", "1"), "caller label x = 1"),
        ("CALLER_SERVICE", "*", value("EXACT", "web"), "calling service = web"),
        ("CALLER_SERVICE", "prod", value("EXACT", "web"), "calling service of namespace prod = web"),
    ];
    for (kind, key, value, expected) in rows {
        let mut argument = json!({ "type": kind, "key": key });
        if !value.is_null() {
            argument["value"] = value;
        }
        let config = route(json!([{ "arguments": { "arguments": [argument] }, "destinations": [{}] }]));
        let expected = format!("Calls to shop/pay with {expected} go to any instance.");
        assert_eq!(told_first(Family::Routing, &config), expected);
    }
}

const LIMITS_ALL: &str = "Every quota that matches a call counts it, of this rule and of others whatever their \
                          priorities, and each can refuse it.";

#[test]
fn a_limit_tells_its_amounts_and_the_fate_of_excess() {
    let amounts = json!([{ "maxAmount": 100, "validDuration": "1s" },
        { "maxAmount": 9, "validDuration": "60s", "startAmount": 1, "minAmount": 2, "precision": 3 }]);
    let header = json!({ "type": "HEADER", "key": "x", "value": { "type": "REGEX", "value": "." } });
    let apis = json!([{ "protocol": "http", "method": "GET" }, { "path": { "value": "/pay" } }]);
    let answer = json!({ "code": "429", "body": "later", "headers": { "retry-after": "1" } });
    let limit = json!({
        "type": "GLOBAL", "service": "pay", "cluster": key("limits"),
        "report": { "interval": "2s", "amountPercent": 80 },
        "rules": [
            { "amounts": amounts, "arguments": [header], "apis": apis, "custom_response": answer },
            { "amounts": [{ "maxAmount": 5, "validDuration": "1.5s" }], "action": "UNIRATE", "max_queue_delay": 3,
                "disable": true, "amount_mode": "SHARE_EQUALLY", "failover": "FAILOVER_PASS",
                "arguments": [header], "regex_combine": true },
        ],
    });
    let matched = "header x in which the expression . is found";
    assert_eq!(
        sentences_of(Family::RateLimit, &limit),
        [
            format!(
                "1. Calls to shop/pay with one of the interfaces [protocol = http and method = GET; path = /pay] and \
                 {matched}: at most 100 per 1 s and 9 per 60 s (rising from 1) (lowered to 2 at least) (with the \
                 precision 3). Each value of header x has a counter of its own. What is more is refused. Who is \
                 refused gets the code 429 and the body later and the header retry-after: 1. The amounts are for all \
                 instances together. While the server that counts cannot be reached, each client counts for itself."
            )
            .as_str(),
            format!(
                "2. (Switched off) Calls to shop/pay with {matched}: at most 5 per 1.5 s. All of these calls share one \
                 counter. What is more is left to the action UNIRATE, which lets it wait for up to 3 s. The amounts \
                 are for all instances together, each of which has an equal share. While the server that counts cannot \
                 be reached, all calls pass."
            )
            .as_str(),
            "The server that counts is shop/limits. Clients report their usage every 2 s. Clients report their usage \
             at once when 80 % of a quota is used.",
            LIMITS_ALL,
        ]
    );
}

/// Cases: type of the rule, sub-rule, start of the sentence.
#[test]
fn a_limit_without_much_tells_its_defaults() {
    let open = json!({ "path": { "type": "REGEX", "value": "^/a" } });
    #[rustfmt::skip]
    let rows = [
        ("LOCAL", json!({ "resource": "CONCURRENCY", "concurrency_amount": { "maxAmount": 7 }, "max_queue_delay": 2 }),
            "Calls to every service of shop: at most 7 at a time. All of these calls share one counter. What is more \
             waits for up to 2 s, and is refused then.", "Each instance counts for itself."),
        ("LOCAL", json!({ "resource": "CONCURRENCY", "amounts": [{ "maxAmount": 7 }, { "maxAmount": 5 }],
            "action": "other" }),
            "Calls to every service of shop: at most 5 at a time. All of these calls share one counter. What is more \
             is left to the action other.", "Each instance counts for itself."),
        ("METHOD", json!({ "resource": "SYSTEM", "amounts": [{ "maxAmount": 7, "validDuration": "1s" }],
            "apis": [open], "action": "reject" }),
            "Calls to every service of shop with path in which the expression ^/a is found: at most 7 per 1 s. The \
             resource is SYSTEM: what these amounts are of, a plug-in of the clients decides. Each value of path has a \
             counter of its own. What is more is refused.",
            "The rule's type is METHOD: clients decide where they count."),
        ("GLOBAL", json!({}), "Calls to every service of shop: no amount is given, so nothing is limited.", LIMITS_ALL),
    ];
    for (kind, trigger, expected, next) in rows {
        let limit = json!({ "type": kind, "rules": [trigger] });
        assert_eq!(sentences_of(Family::RateLimit, &limit)[..2], [expected, next]);
    }
    assert_eq!(sentences_of(Family::RateLimit, &json!({})), ["The rule has no sub-rules: it does nothing."]);
}

#[test]
fn a_detector_tells_each_probe() {
    let http = json!({ "method": "POST", "url": "/health", "body": "b", "headers": [{ "key": "h", "value": "v" }] });
    let target = json!({ "service": "pay", "api": { "protocol": "*", "method": "GET" },
        "method": { "type": "NOT_EQUALS", "value": "PUT" } });
    let detector = json!({
        "target_service": target,
        "rules": [
            { "protocol": "HTTP", "http_config": http, "interval": 30, "timeout": 1, "port": 80 },
            { "protocol": "TCP", "tcp_config": { "send": "ping", "receive": ["pong", "", "yes"] }, "disable": true },
            { "protocol": "UDP" },
            {},
        ],
        "protocol": "HTTP",
    });
    let by_default = "as often as clients choose (proxies: every 5 s). The time after which one has failed, clients \
                      choose (proxies: 1 s).";
    assert_eq!(
        sentences_of(Family::FaultDetect, &detector),
        [
            "1. Instances of shop/pay are probed by the HTTP request POST /health with the body b and the header h: v \
             at port 80, every 30 s. One without a good answer within 1 s has failed. Proxies take the statuses 200 to \
             399 for good.",
            format!(
                "2. (Switched off) Instances of shop/pay are probed by a TCP connection that sends ping at the port of \
                 each instance, {by_default} Good answers are (pong, yes)."
            )
            .as_str(),
            format!("3. Instances of shop/pay are probed by UDP at the port of each instance, {by_default}").as_str(),
            "4. Instances of shop/pay are not probed: the protocol is none that clients know.",
            format!(
                "5. Instances of shop/pay are probed by the HTTP request GET / at the port of each instance, \
                 {by_default} Proxies take the statuses 200 to 399 for good."
            )
            .as_str(),
            "The probes are for the interface with method = GET and method of any value but PUT; proxies probe an \
             instance as a whole.",
            "Each of these probes watches the instances; of all rules for a service, proxies send the first probe \
             alone.",
        ]
    );
    assert_eq!(
        sentences_of(Family::FaultDetect, &json!({ "interval": 1 })),
        ["The rule names no service: it is for no calls."]
    );
    assert_eq!(
        sentences_of(Family::FaultDetect, &json!({ "service": "a" })),
        ["The rule has no sub-rules: it does nothing."]
    );
}

/// Returns a circuit breaker of calls to `shop/pay` on a level.
fn breaker(level: &str, fields: Value) -> Value {
    let mut breaker = json!({ "level": level, "rule_matcher": { "destination": key("pay") } });
    breaker.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    breaker
}

const WATCHES_ALONE: &str = "Its priority is 0: of the rules of its level that match a call, the one with the lowest \
                             number watches it alone.";

#[test]
fn a_breaker_tells_errors_triggers_and_the_way_back() {
    let error = |input: &str, kind: &str, value: &str| {
        let condition = json!({ "type": kind, "value": value });
        json!({ "input_type": input, "condition": condition })
    };
    let row = json!({ "trigger_type": "CONSECUTIVE_ERROR", "error_count": 5 });
    let rate = |interval: u32| {
        let mut rate = json!({ "trigger_type": "ERROR_RATE", "error_percent": 50, "minimum_request": 10 });
        rate["interval"] = interval.into();
        rate
    };
    let blocks = json!([
        { "error_conditions": [error("RET_CODE", "RANGE", "500~599"), error("DELAY", "EXACT", "300")],
            "trigger_conditions": [row, rate(60)] },
        { "api": { "path": { "value": "/slow" } }, "error_conditions": [error("DELAY", "RANGE", "5~9"),
            error("UNKNOWN", "EXACT", "")], "trigger_conditions": [{}, { "trigger_type": "ERROR_RATE" }, rate(0)] },
        {},
    ]);
    let fields = json!({
        "rule_matcher": { "source": { "service": "*", "namespace": "front" }, "destination": key("pay") },
        "block_configs": blocks, "recover_condition": { "sleep_window": 20, "consecutive_success": 3 },
        "max_ejection_percent": 30, "fault_detect_config": { "enable": true },
        "fallback_config": { "enable": true, "response": { "code": 503 } }, "priority": 2,
    });
    let calls = "Calls from every service of front to shop/pay";
    assert_eq!(
        sentences_of(Family::CircuitBreaker, &breaker("METHOD", fields)),
        [
            format!(
                "1. {calls}: an error is one with return code that is a whole number from 500 to 599 or a delay of 300 \
                 ms or more. After 5 errors in a row or 50 % errors or more among 10 calls or more within 60 s all \
                 calls of the interface are refused."
            )
            .as_str(),
            format!(
                "2. {calls} with path = /slow: an error is one with delay in ms that is a whole number from 5 to 9 or \
                 a condition of no known kind. After a trigger of no known kind or a number for ERROR_RATE that is not \
                 given or 50 % errors or more among 10 calls or more within the time that clients choose (proxies: 10 \
                 s) all calls of the interface are refused."
            )
            .as_str(),
            format!(
                "3. {calls}: an error is what clients themselves take for one. No trigger is given, so nothing is ever \
                 cut off."
            )
            .as_str(),
            "Each of these parts that matches a call counts its errors.",
            "After 20 s a few calls are let through, and after 3 successes in a row all are; proxies let all through \
             at once.",
            "Clients probe by the fault detection rules of the service too.",
            "Who is refused gets the code 503.",
            WATCHES_ALONE.replace('0', "2").as_str(),
        ]
    );
}

/// Cases: level, end of the first sentence, and the sentences between it and the last.
#[test]
fn a_breaker_cuts_off_what_its_level_says() {
    let sleep = "After a time that clients choose (proxies: 30 s) calls are let through again.";
    let ejects = "How many of the instances are left out at a time at most, clients choose (those of xDS: a tenth).";
    let rows = [
        ("SERVICE", "all calls to the service are refused.", &[sleep][..]),
        ("METHOD", "all calls of the interface are refused.", &[sleep]),
        ("GROUP", "of a group of instances the group is left out.", &[sleep, ejects]),
        ("INSTANCE", "of an instance the instance is left out.", &[sleep, ejects]),
    ];
    for (level, cut_off, between) in rows {
        let triggers = json!([{ "trigger_type": "CONSECUTIVE_ERROR", "error_count": 5 }]);
        let told = sentences_of(Family::CircuitBreaker, &breaker(level, json!({ "trigger_condition": triggers })));
        let first = format!(
            "Calls to shop/pay: an error is what clients themselves take for one. After 5 errors in a row {cut_off}"
        );
        assert_eq!(told[0], first);
        assert_eq!(told[1..told.len() - 1], *between);
        assert_eq!(told[told.len() - 1], WATCHES_ALONE);
    }
    assert_eq!(
        sentences_of(Family::CircuitBreaker, &breaker("UNKNOWN", json!({}))),
        ["The rule says on no level what is cut off: clients pass it over."]
    );
    assert_eq!(sentences_of(Family::CircuitBreaker, &json!({})), ["The rule names no service: it is for no calls."]);
}

#[test]
fn a_rule_of_many_sub_rules_is_told_up_to_a_bound() {
    let told = sentences_of(Family::Routing, &route(vec![json!({ "destinations": [{}] }); 100].into()));
    assert_eq!(told.len(), SENTENCES_MAX + 1);
    assert_eq!(told[SENTENCES_MAX - 1], "39. Calls to shop/pay go to any instance.");
    assert_eq!(told[SENTENCES_MAX], "And 63 more.");
}

#[test]
fn both_languages_have_every_hole() {
    for (name, holes, english, chinese) in PHRASES {
        for phrase in [english, chinese] {
            let mut found: Vec<&str> =
                phrase.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(hole, _)| hole).collect();
            let mut expected = holes.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{name}: {phrase}");
            assert!(!phrase.trim().is_empty(), "{name}");
        }
        let is_han = |letter: char| ('\u{4e00}'..='\u{9fff}').contains(&letter);
        let letters: Vec<_> = chinese.chars().collect();
        let foreign = letters.windows(2).find(|pair| is_han(pair[0]) && ",:;?!(".contains(pair[1]));
        assert_eq!(foreign, None, "{name}: behind Chinese stand Chinese marks");
    }
}

#[test]
fn a_rule_is_told_in_chinese() {
    let header = json!({ "type": "HEADER", "key": "x", "value": { "value": "1" } });
    let split = json!([{ "labels": version("v2"), "weight": 20 }, { "labels": version("v1"), "weight": 80 }]);
    let config = route(json!([{ "arguments": { "arguments": [header] }, "destinations": split }]));
    let told = super::rule(Language::Chinese, &rule(Family::Routing, &config));
    assert_eq!(
        told,
        [
            "对 shop/pay 的调用中满足请求头 x = 1 的，转到 version=v2（20%） 和 version=v1（80%）。",
            "没有子规则处理的调用由后面的规则决定。",
            "优先级为 0：数字更小的自定义路由先匹配，数字相同时按 ID 排序。",
        ]
    );
}
