use serde_json::{Value, json};

use super::*;
use crate::model::mesh::Dialect;
use crate::model::mesh::library::Library;
use crate::model::mesh::plan::TextMatch;
use crate::model::mesh::testing;
use crate::model::rule::Family;

const SIDECAR: Abilities = Abilities {
    dialect: Dialect::Envoy,
    is_gateway: false,
    has_caller_header: false,
    takes_large_expressions: false,
    is_callee_grpc: false,
    library: Library::Core,
};

fn rule(kind: &str, triggers: Value) -> Rule {
    let json =
        json!({ "name": "r", "namespace": "shop", "enable": true, "service": "pay", "type": kind, "rules": triggers });
    testing::rule(Family::RateLimit, &json)
}

/// Returns a local limit of 5 per second with these fields.
fn limit(fields: Value) -> Rule {
    let mut trigger = json!({ "amounts": [{ "maxAmount": 5, "validDuration": "1s" }] });
    trigger.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    rule("LOCAL", json!([trigger]))
}

fn arguments(arguments: Value) -> Rule {
    limit(json!({ "arguments": arguments }))
}

fn argument(kind: &str, key: &str, how: &str, value: &str) -> Value {
    json!({ "type": kind, "key": key, "value": { "type": how, "value": value } })
}

fn planned(rule: &Rule) -> LimitPlan {
    plan(&[rule], SIDECAR)
}

fn warning_texts(rule: &Rule) -> Vec<String> {
    let shown = |warning: &Warning| format!("{warning}{}", if warning.is_left_out { " (left out)" } else { "" });
    warnings(rule, SIDECAR).iter().filter(|warning| warning.number != 16).map(shown).collect()
}

fn text_of(part: &PartMatch) -> String {
    match &part.value {
        TextMatch::Present => format!("{} there", part.name),
        TextMatch::Exact(text) => format!("{}={text}", part.name),
        TextMatch::Not(text) => format!("{}!={text}", part.name),
        TextMatch::Expression(text) => format!("{}~{text}", part.name),
        TextMatch::NotExpression(text) => format!("{}!~{text}", part.name),
        TextMatch::Range(start, end) => format!("{} in {start}..{end}", part.name),
    }
}

/// Returns alternatives, queries, addresses and counters of the only limit.
fn conditions(rule: &Rule) -> Option<String> {
    let plan = planned(rule);
    let limit = plan.limits.first()?;
    let all = |parts: &[PartMatch]| parts.iter().map(text_of).collect::<Vec<_>>().join("&");
    let way = |way: &Way| format!("{}{}", all(&way.headers), if way.is_path_counted { " each path" } else { "" });
    let ways: Vec<String> = limit.ways.iter().map(way).collect();
    let queries: Vec<String> = limit.queries.iter().map(|query| all(query)).collect();
    let addresses = match &limit.addresses {
        Addresses::Every => String::new(),
        other => format!(" {other:?}"),
    };
    let counted = if limit.counted.is_empty() { String::new() } else { format!(" {:?}", limit.counted) };
    Some(format!("[{}] [{}]{addresses}{counted}", ways.join(" | "), queries.join(" | ")))
}

/// Arguments with the resulting conditions.
#[test]
fn arguments_become_conditions() {
    let rows = [
        (json!([]), "[] []"),
        (json!([argument("HEADER", "X-User", "EXACT", "a")]), "[x-user=a] []"),
        (json!([argument("HEADER", "X-User", "EXACT", "*")]), "[x-user there] [] [Header(\"x-user\")]"),
        (json!([argument("HEADER", "u", "NOT_EQUALS", "a")]), "[u!=a] [] [Header(\"u\")]"),
        (json!([argument("HEADER", "u", "RANGE", "1~5")]), "[u in 1..6] [] [Header(\"u\")]"),
        (json!([argument("METHOD", "", "EXACT", "GET")]), "[:method=GET] []"),
        (json!([argument("METHOD", "", "EXACT", "*")]), "[] [] [Header(\":method\")]"),
        (json!([argument("QUERY", "q", "EXACT", "1")]), "[] [q=1]"),
        (
            json!([argument("QUERY", "q", "EXACT", "*"), argument("HEADER", "u", "EXACT", "a")]),
            "[u=a] [q there] [Query(\"q\")]",
        ),
        (json!([argument("CALLER_IP", "", "EXACT", "10.0.0.1")]), "[] [] Listed([\"10.0.0.1\"])"),
        (json!([argument("CALLER_IP", "", "IN", "b,a,b")]), "[] [] Listed([\"a\", \"b\"])"),
        (json!([{ "type": "CALLER_IP" }]), "[] [] EachApart"),
        (json!([{ "type": "CALLER_IP" }, argument("CALLER_IP", "", "EXACT", "a")]), "[] [] Listed([\"a\"])"),
    ];
    for (given, expected) in rows {
        let found = conditions(&arguments(given.clone()));
        assert_eq!(found.as_deref(), Some(expected), "{given}");
    }
}

#[test]
fn interfaces_are_ways_in_their_order() {
    let path = |how: &str, value: &str| json!({ "path": { "type": how, "value": value } });
    let apis = |apis: Value| limit(json!({ "apis": apis }));
    let a = ":path~/a(?:\\?.*)?";
    let rows = [
        (apis(json!([{ "protocol": "*", "method": "*" }])), "[] []".to_owned()),
        (apis(json!([path("EXACT", "/a")])), format!("[{a}] []")),
        (apis(json!([path("IN", "/a"), {}, path("EXACT", "/b")])), format!("[{a} each path | ] []")),
        (apis(json!([{ "protocol": "GRPC" }])), "[content-type~application/grpc.*] []".into()),
        (apis(json!([{ "protocol": "dubbo" }, { "protocol": "http", "method": "PUT" }])), "[:method=PUT] []".into()),
        (
            limit(json!({ "apis": [path("IN", "/a")], "regex_combine": true,
                "arguments": [argument("HEADER", "u", "EXACT", "*")] })),
            format!("[{a}&u there] []"),
        ),
    ];
    for (rule, expected) in rows {
        assert_eq!(conditions(&rule), Some(expected));
    }
    let text = "W15: rules[0].apis[0]: protocol dubbo is not carried by xDS (left out)";
    let dubbo = apis(json!([{ "protocol": "dubbo" }]));
    assert_eq!((conditions(&dubbo), warning_texts(&dubbo)), (None, vec![text.to_owned()]));
}

/// Rules that are not carried, or only in part, with their warnings.
#[test]
fn what_is_not_carried_is_told() {
    let w6 = "W6: rules[0].arguments[0]: an Envoy at the callee knows no";
    let unless = "not carried there (left out)";
    let address = "Envoy compares caller addresses with single values only: not carried (left out)";
    let rows = [
        (arguments(json!([argument("CALLER_SERVICE", "", "EXACT", "a")])), false, format!("{w6} caller: {unless}")),
        (
            arguments(json!([argument("CALLER_METADATA", "k", "EXACT", "a")])),
            false,
            format!("{w6} labels of the caller: {unless}"),
        ),
        (
            arguments(json!([argument("CALLER_IP", "", "REGEX", "10.*")])),
            false,
            format!("W6: rules[0].arguments[0]: {address}"),
        ),
        (
            limit(json!({ "arguments": [argument("CALLER_IP", "", "IN", "a,b")], "regex_combine": true })),
            false,
            format!("W6: rules[0].arguments[0]: {address}"),
        ),
        (
            arguments(json!([argument("CUSTOM", "k", "EXACT", "a")])),
            false,
            "W4: rules[0].arguments[0]: gRPC and Envoy have no custom labels: this never holds there (left out)".into(),
        ),
        (
            arguments(json!([argument("COOKIE", "k", "EXACT", "*")])),
            false,
            "W15: rules[0]: a counter for each value of cookie k is not carried by xDS (left out)".into(),
        ),
        (
            limit(json!({ "resource": "SYSTEM" })),
            false,
            "W15: rules[0]: resource SYSTEM is not carried by xDS (left out)".into(),
        ),
        (limit(json!({ "max_queue_delay": 3 })), true, "W15: rules[0]: max_queue_delay is not carried by xDS".into()),
        (limit(json!({ "action": "UNIRATE" })), true, "W15: rules[0]: action is not carried by xDS".into()),
        (limit(json!({ "action": "reject" })), true, String::new()),
        (
            limit(json!({ "amounts": [{ "maxAmount": 5, "validDuration": "1s", "startAmount": 1 }] })),
            true,
            "W15: rules[0]: start_amount is not carried by xDS".into(),
        ),
        (
            arguments(json!([argument("HEADER", "u", "EXACT", "*")])),
            true,
            "W11: rules[0]: a counter for each value: an Envoy keeps the 10000 used last".into(),
        ),
        (
            rule("GLOBAL", json!([{ "amounts": [{ "maxAmount": 5, "validDuration": "1s" }] }])),
            true,
            "W12: rules[0]: a global amount is shared out among the instances that are registered and not isolated, \
             healthy or not; each has 1 at least"
                .into(),
        ),
        (limit(json!({ "disable": true, "resource": "SYSTEM" })), false, String::new()),
        (limit(json!({ "amounts": [] })), false, String::new()),
    ];
    for (rule, is_carried, text) in rows {
        assert_eq!(planned(&rule).limits.len(), usize::from(is_carried), "{text}");
        assert_eq!(warning_texts(&rule), if text.is_empty() { vec![] } else { vec![text] });
    }
    let w16 = Warning::left_out(16, GRPC, "rate limits do not reach gRPC clients without a proxy");
    let gateway = Warning::approximate(16, &[], "a gateway counts no limits: proxies beside the instances do");
    assert_eq!(warnings(&limit(json!({})), SIDECAR), [w16, gateway]);
}

#[test]
fn too_many_ways_are_left_out() {
    let apis: Vec<Value> = (0..33).map(|number| json!({ "path": { "value": format!("/{number}") } })).collect();
    let many = limit(json!({ "apis": apis }));
    assert_eq!(planned(&many).limits, []);
    let text = "W7: rules[0].apis[32]: more than 32 ways to meet the conditions: not carried (left out)";
    assert_eq!(warning_texts(&many), [text]);
    let few = limit(json!({ "apis": apis[..32] }));
    assert_eq!(planned(&few).limits[0].ways.len(), 32);
}

#[test]
fn what_runs_at_a_time_is_limited_without_conditions() {
    let running = |kind: &str, fields: Value| {
        let mut trigger = json!({ "resource": "CONCURRENCY" });
        trigger.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        rule(kind, json!([trigger]))
    };
    let amount = json!({ "max_amount": 7 });
    let text = "W13: rules[0]: concurrency is limited for the service as a whole, roughly, in Envoy";
    let rows = [
        (running("LOCAL", json!({ "concurrency_amount": amount })), Some((7, false)), vec![text.to_owned()]),
        (
            running("LOCAL", json!({ "amounts": [{ "maxAmount": 9 }, { "maxAmount": 8 }] })),
            Some((8, false)),
            vec![text.into()],
        ),
        (running("LOCAL", json!({})), None, vec![]),
        (
            running("LOCAL", json!({ "concurrency_amount": amount, "apis": [{ "method": "GET" }] })),
            None,
            vec![format!("{text}: not carried with conditions (left out)")],
        ),
    ];
    for (rule, expected, warnings) in rows {
        let concurrency = planned(&rule).concurrency;
        assert_eq!(concurrency.first().map(|amount| (amount.total, amount.is_shared)), expected);
        assert_eq!(warning_texts(&rule), warnings);
    }
    assert!(planned(&running("GLOBAL", json!({ "concurrency_amount": amount }))).concurrency[0].is_shared);
}

#[test]
fn shares_are_whole_and_never_nothing_of_something() {
    let rows = [((10, true), 3, 3), ((10, true), 20, 1), ((10, true), 0, 10), ((0, true), 3, 0), ((10, false), 3, 10)];
    for ((total, is_shared), instances, expected) in rows {
        assert_eq!(Amount { total, is_shared }.share(instances), expected, "{total} {instances}");
    }
}

/// Responses with the resulting status, header names and warnings.
#[test]
fn answers_are_those_that_proxies_give() {
    let answering = |response: &Value| limit(json!({ "custom_response": response }));
    let w14 = |text: &str| format!("W14: rules[0]: {text}");
    let many: serde_json::Map<String, Value> = (0..11).map(|number| (format!("h{number:02}"), json!("v"))).collect();
    let rows = [
        (json!({ "code": "503" }), 503, vec![], vec![]),
        (json!({ "code": "" }), 429, vec![], vec![]),
        (json!({ "code": "200" }), 429, vec![], vec![w14("code 200 is not carried: it is 429 there")]),
        (json!({ "code": "499" }), 429, vec![], vec![w14("code 499 is not carried: it is 429 there")]),
        (json!({ "code": "busy" }), 429, vec![], vec![w14("code busy is not carried: it is 429 there")]),
        (json!({ "body": "later" }), 429, vec![], vec![w14("body is not carried")]),
        (
            json!({ "headers": { "Retry-After": "1", ":status": "200", "host": "a", "bad": "a\nb", "a b": "c" } }),
            429,
            vec!["Retry-After"],
            [":status", "a b", "bad", "host"]
                .iter()
                .map(|name| w14(&format!("header {name} is not carried")))
                .collect(),
        ),
        (
            json!({ "headers": many }),
            429,
            vec!["h00", "h01", "h02", "h03", "h04", "h05", "h06", "h07", "h08", "h09"],
            vec![w14("header h10 is not carried")],
        ),
    ];
    for (response, status, headers, warnings) in rows {
        let rule = answering(&response);
        let answer = planned(&rule).answer;
        let names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((answer.status, names), (status, headers), "{response}");
        assert_eq!(warning_texts(&rule), warnings, "{response}");
    }
}

#[test]
fn the_first_answer_is_that_of_all() {
    let amounts = json!([{ "maxAmount": 5, "validDuration": "1s" }]);
    let trigger = |code: &str| json!({ "amounts": amounts, "custom_response": { "code": code } });
    let rule = rule("LOCAL", json!([{ "amounts": amounts }, trigger("503"), trigger("503"), trigger("403")]));
    assert_eq!(planned(&rule).answer.status, 503);
    let text = "W14: rules[3]: Envoy has one answer for all limits of a service, that of the first";
    assert_eq!(warning_texts(&rule), [text]);
}

#[test]
fn every_limit_has_a_key_and_rules_that_are_off_have_none() {
    let triggers = json!([{ "amounts": [{ "maxAmount": 5, "validDuration": "1s" }, { "maxAmount": 9,
        "validDuration": "1.5s" }] },
        { "amounts": [{ "maxAmount": 5, "validDuration": "1s" }] }]);
    let mut rule = rule("LOCAL", triggers);
    let plan = planned(&rule);
    let keys: Vec<(&str, usize)> = plan.limits.iter().map(|limit| (limit.key.as_str(), limit.periods.len())).collect();
    assert_eq!(keys, [("r/0", 2), ("r/1", 1)]);
    rule.enable = false;
    assert_eq!(planned(&rule), LimitPlan::default());
}
