//! Random rules: their sentences are neither empty nor too long.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{Family, Language, rule};
use crate::sentences;
use crate::sentences::story::{CHARS_MAX, SENTENCES_MAX};

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(vec!["", "*", "a", "a,b,,c", "1~5", "5~1", "^a(", "*/x", "\u{202e}\n", " ", "{x}", "<b>", "300"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,200}",
        1 => Just("长".repeat(5_000)),
        1 => Just("x,".repeat(5_000)),
    ]
}

fn number() -> impl Strategy<Value = u32> {
    select(vec![0, 1, 5, 100, u32::MAX])
}

fn list(item: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec(item, 0..9).prop_map(Value::from)
}

fn map(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(word(), value, 0..9).prop_map(|entries| entries.into_iter().collect())
}

fn condition() -> impl Strategy<Value = Value> {
    (0_u32..6, word(), 0_u32..2).prop_map(|(kind, value, of)| json!({ "type": kind, "value": value, "value_type": of }))
}

fn argument() -> impl Strategy<Value = Value> {
    (0_u32..9, word(), prop::option::of(condition())).prop_map(|(kind, key, value)| {
        let mut argument = json!({ "type": kind, "key": key });
        value.into_iter().for_each(|value| argument["value"] = value);
        argument
    })
}

fn api() -> impl Strategy<Value = Value> {
    (word(), word(), condition())
        .prop_map(|(protocol, method, path)| json!({ "protocol": protocol, "method": method, "path": path }))
}

fn key() -> impl Strategy<Value = Value> {
    (word(), word()).prop_map(|(service, namespace)| json!({ "service": service, "namespace": namespace }))
}

fn group() -> impl Strategy<Value = Value> {
    let numbers = (prop::option::of(number()), prop::option::of(0_u32..9), any::<bool>());
    (key(), map(condition()), word(), numbers).prop_map(|(mut group, labels, transfer, (weight, priority, isolate))| {
        (group["labels"], group["transfer"], group["isolate"]) = (labels, transfer.into(), isolate.into());
        weight.into_iter().for_each(|weight| group["weight"] = weight.into());
        priority.into_iter().for_each(|priority| group["priority"] = priority.into());
        group
    })
}

fn routing() -> impl Strategy<Value = Value> {
    let sub_rule = (list(argument()), 0_u32..2, number(), list(group())).prop_map(|(arguments, mode, part, groups)| {
        let arguments = json!({ "arguments": arguments, "matchMode": mode, "random_percent": part });
        json!({ "arguments": arguments, "destinations": groups })
    });
    let ends = (prop::option::of(key()), prop::option::of(key()));
    let custom = (ends, list(sub_rule)).prop_map(|((caller, callee), rules)| {
        let mut config = json!({ "rules": rules });
        caller.into_iter().for_each(|caller| config["caller"] = caller);
        callee.into_iter().for_each(|callee| config["callee"] = callee);
        json!({ "routing_config": config })
    });
    let pairs = || map(word().prop_map(Value::from));
    let metadata = (key(), pairs(), 0_u32..3, pairs()).prop_map(|(mut config, labels, range, others)| {
        config["labels"] = labels;
        config["failover"] = json!({ "failover_range": range, "labels": others });
        json!({ "route_policy": "MetadataPolicy", "routing_config": config })
    });
    let nearby = (key(), 0_u32..5, 0_u32..5, any::<bool>()).prop_map(|(mut config, first, last, is_strict)| {
        (config["match_level"], config["max_match_level"]) = (first.into(), last.into());
        config["strict_nearby"] = is_strict.into();
        json!({ "route_policy": "NearbyPolicy", "routing_config": config })
    });
    prop_oneof![2 => custom, 1 => metadata, 1 => nearby]
}

fn limit() -> impl Strategy<Value = Value> {
    let amount = (number(), number(), number()).prop_map(|(max, start, precision)| {
        json!({ "maxAmount": max, "validDuration": "1s", "startAmount": start, "precision": precision })
    });
    let what = (list(api()), list(argument()), list(amount), 0_u32..3);
    let how = (word(), number(), any::<bool>(), any::<bool>(), number());
    let trigger = (what, how, (word(), word(), word()), (0_u32..2, 0_u32..2)).prop_map(|(what, how, answer, modes)| {
        let (apis, arguments, amounts, resource) = what;
        let (action, delay, disable, is_combined, at_a_time) = how;
        json!({
            "apis": apis, "arguments": arguments, "amounts": amounts, "resource": resource, "action": action,
            "max_queue_delay": delay, "disable": disable, "regex_combine": is_combined,
            "concurrency_amount": { "maxAmount": at_a_time }, "failover": modes.0, "amount_mode": modes.1,
            "custom_response": { "code": answer.0, "body": answer.1, "headers": { (answer.2): "v" } },
        })
    });
    (0_u32..11, list(trigger), key(), key(), word()).prop_map(|(kind, rules, cluster, callee, service)| {
        json!({ "type": kind, "rules": rules, "cluster": cluster, "callee": callee, "service": service,
            "report": { "interval": "1s", "amountPercent": 1 } })
    })
}

fn detector() -> impl Strategy<Value = Value> {
    let socket = (word(), list(word().prop_map(Value::from)))
        .prop_map(|(send, receive)| json!({ "send": send, "receive": receive }));
    let http = (word(), word(), word()).prop_map(|(method, url, body)| {
        json!({ "method": method, "url": url, "body": body, "headers": [{ "key": url, "value": body }] })
    });
    let probe = ((number(), number(), number()), 0_u32..4, socket, http, any::<bool>()).prop_map(
        |((interval, timeout, port), protocol, socket, http, disable)| {
            json!({ "interval": interval, "timeout": timeout, "port": port, "protocol": protocol, "disable": disable,
                "tcp_config": socket, "udp_config": socket, "http_config": http })
        },
    );
    (list(probe), key(), api(), condition(), word()).prop_map(|(rules, mut target, api, method, service)| {
        (target["api"], target["method"]) = (api, method);
        json!({ "rules": rules, "target_service": target, "service": service })
    })
}

fn breaker() -> impl Strategy<Value = Value> {
    let error =
        (0_u32..3, condition()).prop_map(|(input, condition)| json!({ "input_type": input, "condition": condition }));
    let trigger = (0_u32..3, number(), number(), number()).prop_map(|(kind, count, percent, interval)| {
        json!({ "trigger_type": kind, "error_count": count, "error_percent": percent, "interval": interval })
    });
    let block = (api(), list(error), list(trigger)).prop_map(
        |(api, errors, triggers)| json!({ "api": api, "error_conditions": errors, "trigger_conditions": triggers }),
    );
    let ends = (key(), key(), condition());
    (0_u32..5, ends, list(block), (number(), number(), number(), word(), any::<bool>())).prop_map(
        |(level, (source, mut destination, method), blocks, (sleep, successes, percent, body, is_on))| {
            destination["method"] = method;
            json!({
                "level": level, "rule_matcher": { "source": source, "destination": destination },
                "block_configs": blocks, "max_ejection_percent": percent,
                "recover_condition": { "sleep_window": sleep, "consecutive_success": successes },
                "fault_detect_config": { "enable": is_on },
                "fallback_config": { "enable": is_on, "response": { "code": percent, "body": body } },
            })
        },
    )
}

fn some_rule() -> impl Strategy<Value = (Family, Value)> {
    prop_oneof![
        routing().prop_map(|fields| (Family::Routing, fields)),
        limit().prop_map(|fields| (Family::RateLimit, fields)),
        detector().prop_map(|fields| (Family::FaultDetect, fields)),
        breaker().prop_map(|fields| (Family::CircuitBreaker, fields)),
    ]
}

proptest! {
    #![proptest_config(crate::test_seed::cases(400))]

    #[test]
    fn every_rule_is_told_in_sentences_of_a_bound((family, mut fields) in some_rule(), is_on in any::<bool>()) {
        fields["enable"] = is_on.into();
        let rule = rule(family, &fields);
        for language in [Language::English, Language::Chinese] {
            let told = sentences::rule(language, &rule);
            prop_assert!((1..=SENTENCES_MAX + 1).contains(&told.len()));
            for sentence in &told {
                let chars = sentence.chars().count();
                prop_assert!((1..=CHARS_MAX).contains(&chars) && !sentence.trim().is_empty(), "{sentence:?}");
                prop_assert!(!sentence.chars().any(char::is_control), "{sentence:?}");
                prop_assert!(sentence.ends_with(['.', '。', '…']), "{sentence:?}");
            }
            prop_assert_eq!(&told, &sentences::rule(language, &rule), "it is told alike each time");
        }
    }
}
