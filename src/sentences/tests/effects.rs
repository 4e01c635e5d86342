//! Rules, one request, and the sentences on what happens to it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Family, Language, breaker, key, route, rule, version};
use crate::model::explain::{Candidate, Rollout, Sketch, explain};
use crate::model::release::ReleaseType;
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;
use crate::sentences::effect;

fn sketch(more: &Value) -> Sketch {
    let mut json = json!({ "service": "pay", "namespace": "shop" });
    json.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    serde_json::from_value(json).expect("a sketch")
}

fn of_drafts(language: Language, family: Family, rules: &[Value], request: &Value) -> Vec<String> {
    let candidates: Vec<_> = rules.iter().map(|fields| Candidate::saved(Arc::new(rule(family, fields)))).collect();
    let sketch = sketch(request);
    effect(language, &explain(family, &sketch, &candidates))
}

fn effect_of(family: Family, fields: &Value, request: &Value) -> String {
    let mut lines = of_drafts(Language::English, family, std::slice::from_ref(fields), request);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.swap_remove(0)
}

fn limit(kind: &str, trigger: &Value) -> Value {
    json!({ "type": kind, "service": "pay", "rules": [trigger] })
}

/// Returns a release of a rate limit of `shop/pay`: a normal one, or a gray one for `audience`.
fn release(version: u64, count: u32, audience: Option<Value>) -> RuleRelease {
    let release_type = if audience.is_some() { ReleaseType::Gray } else { ReleaseType::Normal };
    let draft: RuleReleaseDraft = serde_json::from_value(audience.unwrap_or_else(|| json!({}))).expect("an audience");
    let amounts = json!([{ "maxAmount": count, "validDuration": "1s" }]);
    let fields = json!({ "name": "pay-limit", "service": "pay", "rules": [{ "amounts": amounts }] });
    let stamp = Stamp { time: Timestamp(0), by: "admin".into() };
    RuleRelease {
        id: format!("id-of-{version}"),
        name: "some".into(),
        description: String::new(),
        release_type,
        client_labels: draft.labels().to_vec(),
        client_percent: draft.client_percent,
        plan: None,
        rollout: None,
        version,
        active: true,
        rule: Arc::new(rule(Family::RateLimit, &fields)),
        created: stamp.clone(),
        modified: stamp,
    }
}

#[test]
fn a_canary_and_the_live_release_differ_in_their_effect() {
    let labels = json!([{ "key": "zone", "value": { "value": "a" } }]);
    let canary = release(3, 50, Some(json!({ "client_labels": labels })));
    let share = release(4, 70, Some(json!({ "client_percent": { "by": "host", "percent": 10 } })));
    let live = release(2, 100, None);
    let rollouts = |grays: &[&RuleRelease]| {
        let grays = grays.iter().map(|gray| Arc::new((*gray).clone())).collect();
        [Rollout { grays, normal: Some(Arc::new(live.clone())) }]
    };
    #[rustfmt::skip]
    let rows = [
        (json!({ "client_labels": { "zone": "a" } }), Some(&canary),
            "zone=a → limit 50 per 1 s, shared by all callers (pay-limit v3, canary)"),
        (json!({}), Some(&live), "every call → limit 100 per 1 s, shared by all callers (pay-limit v2, live)"),
        (json!({ "client_labels": { "host": "c" } }), Some(&share),
            "10 % of the clients by host → limit 70 per 1 s, shared by all callers (pay-limit v4, canary)"),
        (json!({}), None, "no rule of this family applies: pay-limit v3 is a canary for zone=a; \
            pay-limit v4 is a canary for 10 % of the clients by host"),
    ];
    for (request, seen, expected) in rows {
        let (sketch, rollouts) = (sketch(&request), rollouts(&[&canary, &share]));
        let candidates: Vec<_> = seen.into_iter().map(Candidate::released).collect();
        let explanation = explain(Family::RateLimit, &sketch, &candidates).with_grays(&sketch, &rollouts);
        assert_eq!(effect(Language::English, &explanation), [expected]);
    }
}

/// Cases: type, quota, request, effect.
#[test]
fn a_limit_has_its_amounts_its_counter_and_the_fate_of_excess() {
    let amounts = json!([{ "maxAmount": 50, "validDuration": "1s" }, { "maxAmount": 3000, "validDuration": "1.5s" }]);
    let one = json!([{ "maxAmount": 9, "validDuration": "60s" }]);
    let tenant = json!({ "type": "HEADER", "key": "x", "value": { "value": "t", "value_type": "PARAMETER" } });
    let regex = json!({ "type": "PATH", "value": { "type": "REGEX", "value": "^/a" } });
    let answer = json!({ "code": "429", "headers": { "retry-after": "1" } });
    #[rustfmt::skip]
    let rows = [
        ("GLOBAL", json!({ "amounts": amounts }), json!({}),
            "every call → limit 50 per 1 s and 3000 per 1.5 s, shared by all callers (r, draft)"),
        ("GLOBAL", json!({ "amounts": one, "amount_mode": "SHARE_EQUALLY" }), json!({}),
            "every call → limit 9 per 60 s, an equal part of it in each instance, shared by all callers (r, draft)"),
        ("LOCAL", json!({ "amounts": one, "apis": [{ "method": "PUT" }, { "path": { "value": "/pay" } }] }),
            json!({ "path": "/pay" }),
            "path = /pay → limit 9 per 60 s in each instance, shared by all callers (r, draft)"),
        ("LOCAL", json!({ "amounts": one, "arguments": [tenant] }), json!({ "headers": { "x": "acme" } }),
            "header x of any value (parameter t) → limit 9 per 60 s in each instance, for each value of header x \
             (r, draft)"),
        ("LOCAL", json!({ "amounts": one, "arguments": [regex], "regex_combine": true, "max_queue_delay": 3 }),
            json!({ "path": "/a/b" }),
            "path in which the expression ^/a is found → limit 9 per 60 s in each instance, shared by all callers; \
             what is more waits for up to 3 s, and is refused then (r, draft)"),
        ("LOCAL", json!({ "resource": "CONCURRENCY", "concurrency_amount": { "maxAmount": 7 }, "action": "other",
            "custom_response": answer }), json!({}),
            "every call → limit 7 at a time in each instance, shared by all callers; what is more is left to the \
             action other; who is refused gets the code 429 and the header retry-after: 1 (r, draft)"),
        ("GLOBAL", json!({ "amounts": one, "resource": "SYSTEM" }), json!({}),
            "every call → limit 9 per 60 s, shared by all callers; the resource is SYSTEM: what these amounts are of, \
             a plug-in of the clients decides (r, draft)"),
        ("GLOBAL", json!({}), json!({}), "no rule of this family applies: r matches, but has nothing to do"),
        ("GLOBAL", json!({ "amounts": one, "disable": true }), json!({}),
            "no rule of this family applies: r is switched off"),
        ("GLOBAL", json!({ "amounts": one, "apis": [{ "path": { "value": "/pay" } }] }), json!({}),
            "no rule of this family applies: r is for calls with path = /pay"),
    ];
    for (kind, trigger, request, expected) in rows {
        assert_eq!(effect_of(Family::RateLimit, &limit(kind, &trigger), &request), expected);
    }
}

/// Cases: one sub-rule, request, effects.
#[test]
fn a_route_has_its_groups_with_their_shares() {
    let header = |name: &str, value: &str| json!({ "type": "HEADER", "key": name, "value": { "value": value } });
    let split = json!([{ "labels": version("v2"), "weight": 20 }, { "labels": version("v1"), "weight": 80 }]);
    let either = json!({ "arguments": [header("x", "1"), header("y", "2")], "matchMode": "OR" });
    let lane = json!({ "lane": { "value": "lane", "value_type": "PARAMETER" } });
    let of_lane = json!({ "type": "HEADER", "key": "lane", "value": { "value_type": "PARAMETER" } });
    let zones = json!({ "zone": { "type": "IN", "value": "a,b" }, "version": { "value": "v1" } });
    #[rustfmt::skip]
    let rows = [
        (json!({ "destinations": split }), json!({}),
            &["every call → version=v2 (20 %) and version=v1 (80 %) (r, draft)"][..]),
        (json!({ "arguments": either, "destinations": [{ "labels": zones }] }), json!({ "headers": { "y": "2" } }),
            &["header y = 2 → [version=v1, zone that is one of (a, b)] (r, draft)"]),
        (json!({ "arguments": either, "destinations": [{}] }), json!({ "headers": { "y": "1" } }),
            &["no rule of this family applies: r is for calls with header x = 1 or header y = 2"]),
        (json!({ "arguments": { "random_percent": 30 }, "destinations": [{ "transfer": "bin", "namespace": "prod" }] }),
            json!({}),
            &["every call → any instance of prod/bin (30 %) (r, draft)",
              "the other 70 % of these calls → no custom route takes them"]),
        (json!({ "destinations": [{ "labels": version("v2"), "isolate": true }, { "labels": version("v1") }] }),
            json!({}), &["every call → version=v1; no calls go to version=v2: it is isolated (r, draft)"]),
        (json!({ "destinations": [{ "labels": version("v2"), "isolate": true }] }), json!({}),
            &["no rule of this family applies: r matches, but has nothing to do"]),
        (json!({ "destinations": [{ "labels": version("v1"), "priority": 1 },
            { "labels": version("v0"), "priority": 0 }, { "service": "bin" }] }), json!({}),
            &["every call → version=v0, or version=v1 while none of these is available, or any instance of shop/bin \
               while none of these is available (r, draft)"]),
        (json!({ "arguments": { "arguments": [of_lane] }, "destinations": [{ "labels": lane }] }),
            json!({ "headers": { "lane": "blue" } }), &["header lane of any value → lane=blue (r, draft)"]),
    ];
    for (sub_rule, request, expected) in rows {
        let rules = [route(json!([sub_rule]))];
        assert_eq!(of_drafts(Language::English, Family::Routing, &rules, &request), expected);
    }
    let mut two = route(json!([
        { "arguments": { "arguments": [header("x", "1")] }, "destinations": [{}] },
        { "destinations": [{ "labels": version("v1") }] },
    ]));
    two["routing_config"]["caller"] = key("web");
    let from_web = json!({ "caller_service": "web" });
    assert_eq!(effect_of(Family::Routing, &two, &from_web), "from shop/web → version=v1 (r, sub-rule 2, draft)");
    assert_eq!(
        effect_of(Family::Routing, &two, &json!({ "headers": { "x": "1" } })),
        "no rule of this family applies: r is for calls from shop/web"
    );
    assert_eq!(
        of_drafts(Language::English, Family::Routing, &[], &json!({})),
        ["no rule of this family applies: none is for shop/pay"]
    );
}

#[test]
fn policies_have_the_instances_that_they_prefer() {
    let policy = |policy: &str, config: Value| json!({ "route_policy": policy, "routing_config": config });
    let nearby =
        policy("NearbyPolicy", json!({ "service": "pay", "match_level": "ZONE", "max_match_level": "REGION" }));
    let labels = policy("MetadataPolicy", json!({ "service": "pay", "labels": { "track": "stable" } }));
    assert_eq!(
        of_drafts(Language::English, Family::Routing, &[nearby, labels], &json!({})),
        [
            "every call → instances of the caller's zone, or those of its region while none of these is available, or \
             all others while none of these is available (r, draft)",
            "every call → instances with track=stable, and no others (r, draft)",
        ]
    );
}

/// Cases: level, block, request, effect.
#[test]
fn a_breaker_has_its_trigger_its_recovery_and_its_errors() {
    let error = json!([{ "input_type": "RET_CODE", "condition": { "type": "RANGE", "value": "500~599" } }]);
    let row = json!([{ "trigger_type": "CONSECUTIVE_ERROR", "error_count": 5 }]);
    let fields = |block: Value| json!({ "block_configs": [block], "recover_condition": { "sleep_window": 30 } });
    #[rustfmt::skip]
    let rows = [
        ("SERVICE", json!({ "error_conditions": error, "trigger_conditions": row }), json!({}),
            "every call → after 5 errors in a row all calls to the service are refused; after 30 s calls are let \
             through again; an error is one with return code that is a whole number from 500 to 599 (r, draft)"),
        ("INSTANCE", json!({ "trigger_conditions": row }), json!({}),
            "every call → after 5 errors in a row of an instance the instance is left out; after 30 s calls are let \
             through again; how many of the instances are left out at a time at most, clients choose (those of xDS: a \
             tenth); an error is what clients themselves take for one (r, draft)"),
        ("METHOD", json!({ "trigger_conditions": row, "api": { "path": { "value": "/pay" } } }),
            json!({ "path": "/pay" }),
            "path = /pay → after 5 errors in a row all calls of the interface are refused; after 30 s calls are let \
             through again; an error is what clients themselves take for one (r, draft)"),
        ("METHOD", json!({ "trigger_conditions": row, "api": { "path": { "value": "/pay" } } }), json!({}),
            "no rule of this family applies: r is for calls with path = /pay"),
        ("UNKNOWN", json!({ "trigger_conditions": row }), json!({}),
            "no rule of this family applies: r says on no level what is cut off"),
        ("SERVICE", json!({}), json!({}), "no rule of this family applies: r matches, but has nothing to do"),
    ];
    for (level, block, request, expected) in rows {
        assert_eq!(effect_of(Family::CircuitBreaker, &breaker(level, fields(block)), &request), expected);
    }
    let mut from_web = breaker("SERVICE", json!({ "trigger_condition": row }));
    from_web["rule_matcher"]["source"] = key("web");
    assert_eq!(
        effect_of(Family::CircuitBreaker, &from_web, &json!({ "caller_service": "cart" })),
        "no rule of this family applies: r is for calls from shop/web"
    );
    let both = [breaker("SERVICE", json!({ "trigger_condition": row })), from_web];
    let lines = of_drafts(Language::English, Family::CircuitBreaker, &both, &json!({ "caller_service": "web" }));
    assert_eq!(lines.len(), 1, "the first of a level decides: {lines:?}");
    assert!(lines[0].starts_with("every call → after 5 errors in a row"), "{lines:?}");
}

#[test]
fn a_detector_has_its_probes_with_their_intervals() {
    let probes = json!([
        { "protocol": "HTTP", "http_config": { "url": "/health" }, "interval": 30, "timeout": 2, "port": 80 },
        { "protocol": "TCP", "tcp_config": { "send": "ping", "receive": ["pong"] }, "disable": true },
        { "protocol": "UDP" },
    ]);
    let detector = json!({ "target_service": { "service": "pay", "method": { "value": "GET" } }, "rules": probes });
    assert_eq!(
        of_drafts(Language::English, Family::FaultDetect, std::slice::from_ref(&detector), &json!({})),
        [
            "every instance of shop/pay → probed by the HTTP request GET /health at port 80, every 30 s; one without a \
             good answer within 2 s has failed; proxies take the statuses 200 to 399 for good (r, sub-rule 1, draft)",
            "every instance of shop/pay → probed by UDP at the port of each instance, as often as clients choose \
             (proxies: every 5 s); the time after which one has failed, clients choose (proxies: 1 s) (r, sub-rule 3, \
             draft)",
        ]
    );
    assert_eq!(
        effect_of(Family::FaultDetect, &detector, &json!({ "method": "PUT" })),
        "no rule of this family applies: r is for calls with method = GET"
    );
    let off = json!({ "service": "pay", "rules": [{ "protocol": "TCP" }], "enable": false });
    assert_eq!(effect_of(Family::FaultDetect, &off, &json!({})), "no rule of this family applies: r is switched off");
    assert_eq!(
        effect_of(Family::FaultDetect, &json!({ "service": "pay" }), &json!({})),
        "no rule of this family applies: r has no sub-rules"
    );
}

#[test]
fn an_effect_is_told_in_chinese() {
    let amounts = json!([{ "maxAmount": 50, "validDuration": "1s" }]);
    let header = json!({ "type": "HEADER", "key": "x", "value": { "value": "1" } });
    let rules = [limit("LOCAL", &json!({ "amounts": amounts, "arguments": [header] }))];
    let of = |request: Value| of_drafts(Language::Chinese, Family::RateLimit, &rules, &request);
    assert_eq!(
        of(json!({ "headers": { "x": "1" } })),
        ["请求头 x = 1 → 每个实例限制为每 1 秒 50 次，所有调用方共用（r、草稿）"]
    );
    assert_eq!(of(json!({})), ["没有此类规则起作用：r 只针对满足 请求头 x = 1 的调用"]);
}

#[test]
fn the_effect_of_many_rules_has_a_bound() {
    let amounts = json!([{ "maxAmount": 50, "validDuration": "1s" }]);
    let many = json!({ "service": "pay", "rules": vec![json!({ "amounts": amounts }); 100] });
    let lines = of_drafts(Language::English, Family::RateLimit, &[many], &json!({}));
    assert_eq!((lines.len(), lines[40].as_str()), (41, "And 60 more."));
}
