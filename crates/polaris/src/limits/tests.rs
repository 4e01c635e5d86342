use serde_json::{Value, json};

use super::*;
use crate::model::rule::Family;
use crate::testing::{key, lost, rule as made};

/// Returns a local limit of `pay` with these quotas; each has 10 requests a second unless it says otherwise.
fn limit(quotas: Value) -> Rule {
    let Value::Array(quotas) = quotas else { panic!("a list") };
    let with_amount = |mut quota: Value| {
        let amounts = json!([{ "maxAmount": 10, "validDuration": "1s" }]);
        quota.as_object_mut().expect("an object").entry("amounts").or_insert(amounts);
        quota
    };
    let quotas: Vec<_> = quotas.into_iter().map(with_amount).collect();
    made(Family::RateLimit, json!({ "type": "LOCAL", "service": "pay", "rules": quotas }))
}

fn mapped(rule: &Rule) -> Vec<v1::Rule> {
    rules(&[rule], AskedService { namespace: "old", service: "alias", target: &key("shop", "pay") })
}

fn arguments(rule: &v1::Rule) -> Vec<(i32, &str, Option<&str>)> {
    let values = rule.arguments.iter().map(|one| one.value.as_ref().and_then(|value| value.value.as_deref()));
    rule.arguments.iter().zip(values).map(|(one, value)| (one.r#type, one.key.as_str(), value)).collect()
}

#[test]
fn a_limit_has_every_field() {
    let rule = made(
        Family::RateLimit,
        json!({
            "type": "LOCAL", "service": "pay", "report": { "interval": "2s", "amountPercent": 40 },
            "cluster": { "service": "limiter", "namespace": "infra" },
            "rules": [{
                "name": "q", "apis": [{ "path": { "type": "REGEX", "value": "/a.*" } }],
                "amounts": [{
                    "maxAmount": 5, "validDuration": "1.500s", "precision": 2, "startAmount": 1, "minAmount": 3,
                }],
                "max_queue_delay": 4, "custom_response": { "body": "busy" }, "regex_combine": true,
                "failover": "FAILOVER_PASS", "action": "UNIRATE", "amount_mode": "SHARE_EQUALLY",
            }],
        }),
    );
    let [limit] = &mapped(&rule)[..] else { panic!("one") };
    assert_eq!((limit.id.as_deref(), limit.name.as_deref()), (Some("id"), Some("r.q")));
    assert_eq!((limit.namespace.as_deref(), limit.service.as_deref()), (Some("old"), Some("alias")));
    assert_eq!((limit.priority, limit.resource, limit.r#type), (Some(3), 0, 1), "LOCAL is 1");
    let method = limit.method.as_ref().expect("a method");
    assert_eq!((method.r#type, method.value.as_deref()), (1, Some("/a.*")));
    let duration = prost_types::Duration { seconds: 1, nanos: 500_000_000 };
    assert_eq!(
        limit.amounts,
        [v1::Amount {
            max_amount: Some(5),
            valid_duration: Some(duration),
            precision: Some(2),
            start_amount: Some(1),
            min_amount: Some(3),
        }]
    );
    assert_eq!((limit.action.as_deref(), limit.max_queue_delay), (Some("unirate"), Some(4)));
    let report = limit.report.as_ref().expect("a report");
    assert_eq!((report.interval.map(|one| one.seconds), report.amount_percent), (Some(2), Some(40)));
    let cluster = limit.cluster.as_ref().expect("a cluster");
    assert_eq!((cluster.service.as_deref(), cluster.namespace.as_deref()), (Some("limiter"), Some("infra")));
    assert_eq!((limit.regex_combine, limit.amount_mode, limit.failover), (Some(true), 1, 1));
    assert_eq!(limit.custom_response.as_ref().map(|one| one.body.as_str()), Some("busy"));
    assert_eq!((limit.disable, limit.revision.as_ref().map(String::len)), (Some(false), Some(32)));
    assert_eq!(lost(&rule), ("Yes".into(), vec![]));
}

#[test]
fn every_condition_has_its_place() {
    let table = [
        ("CUSTOM", "k", (0, "k", "k")),
        ("METHOD", "", (1, "", "$method")),
        ("HEADER", "k", (2, "k", "$header.k")),
        ("QUERY", "k", (3, "k", "$query.k")),
        ("CALLER_SERVICE", "ns", (4, "ns", "$caller_service.ns")),
        ("CALLER_IP", "", (5, "", "$caller_ip")),
        ("CALLER_METADATA", "k", (6, "k", "$caller_metadata.k")),
    ];
    for (kind, key, (number, expected, label)) in table {
        let rule = limit(json!([{ "arguments": [{ "type": kind, "key": key, "value": { "value": "v" } }] }]));
        let [limit] = &mapped(&rule)[..] else { panic!("one") };
        assert_eq!(arguments(limit), [(number, expected, Some("v"))], "{kind}");
        assert_eq!(limit.labels.keys().collect::<Vec<_>>(), [label]);
    }
    let path = limit(json!([{ "arguments": [{ "type": "PATH", "value": { "value": "/x" } }] }]));
    assert_eq!(mapped(&path)[0].method.as_ref().and_then(|method| method.value.as_deref()), Some("/x"));
    let verb = limit(json!([{ "apis": [{ "method": "GET" }] }]));
    assert_eq!(arguments(&mapped(&verb)[0]), [(1, "", Some("GET"))]);
    assert_eq!(lost(&verb), ("Partly".into(), vec![17]));
}

#[test]
fn what_an_sdk_would_refuse_is_left_out() {
    let argument = |kind: &str, comparison: &str| {
        let value = json!({ "type": comparison, "value": "1~2" });
        json!([{ "arguments": [{ "type": kind, "key": "k", "value": value }] }])
    };
    let path_twice = json!([{ "apis": [{ "path": { "value": "/a" } }],
        "arguments": [{ "type": "PATH", "value": { "value": "/b" } }] }]);
    let table = [
        (argument("COOKIE", "EXACT"), 11),
        (argument("HEADER", "RANGE"), 11),
        (path_twice, 11),
        (json!([{ "resource": "SYSTEM" }]), 12),
        (json!([{ "action": "tsf" }]), 13),
    ];
    for (quotas, number) in table {
        let rule = limit(quotas.clone());
        assert_eq!(mapped(&rule), [], "{quotas}");
        assert_eq!(lost(&rule), ("No".into(), vec![number]), "{quotas}");
    }
    let beside = limit(json!([{ "action": "tsf" }, { "action": "reject" }, { "disable": true }]));
    assert_eq!((mapped(&beside).len(), lost(&beside)), (1, ("Partly".into(), vec![13])));
}

#[test]
fn each_flattened_limit_has_an_id_and_a_revision_of_its_own() {
    let two = json!([{ "apis": [{ "path": { "value": "/a" } }, { "path": { "value": "/b" } }] }, { "name": "n" }]);
    let before = mapped(&limit(two.clone()));
    let ids: Vec<_> = before.iter().map(|one| one.id.as_deref().unwrap_or_default()).collect();
    assert_eq!(ids, ["id#0.0", "id#0.1", "id#1"]);
    let mut changed = two;
    changed[1]["amounts"] = json!([{ "maxAmount": 11, "validDuration": "1s" }]);
    let after = mapped(&limit(changed));
    let is_equal: Vec<_> = before.iter().zip(&after).map(|(one, other)| one.revision == other.revision).collect();
    assert_eq!(is_equal, [true, true, false]);
    let twins = mapped(&limit(json!([{}, {}])));
    assert_ne!(twins[0].revision, twins[1].revision, "equal content, two windows");
}

#[test]
fn places_and_resources_are_said() {
    let global = made(
        Family::RateLimit,
        json!({ "type": "GLOBAL", "service": "pay",
        "rules": [{ "amounts": [{ "maxAmount": 1, "validDuration": "1s" }] }] }),
    );
    assert_eq!((mapped(&global)[0].r#type, lost(&global)), (0, ("Partly".into(), vec![14])));
    let calls = limit(json!([{ "resource": "CONCURRENCY", "concurrency_amount": { "max_amount": 7 } }]));
    let [one] = &mapped(&calls)[..] else { panic!("one") };
    assert_eq!((one.resource, one.amounts.len(), one.concurrency_amount.map(|one| one.max_amount)), (1, 0, Some(7)));
    assert_eq!(lost(&calls), ("Partly".into(), vec![15]));
    let answer = limit(json!([{ "custom_response": { "code": "429", "body": "b" } }]));
    assert_eq!(lost(&answer), ("Partly".into(), vec![16]));
    let nothing = limit(json!([{ "amounts": [] }]));
    assert_eq!(mapped(&nothing), []);
}
