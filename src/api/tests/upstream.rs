//! Rules as servers of the Polaris family return them, in both generations: every field is stored or reported.

use std::collections::BTreeSet;

use super::*;

/// Returns the fields that such a server adds to every rule.
fn head(name: &str, more: Value) -> Value {
    let by_itself = json!({"id": format!("id-of-{name}"), "name": name, "namespace": "n", "revision": "",
        "ctime": "2025-01-02 03:04:05", "mtime": "2025-01-02 03:04:05", "priority": 61,
          "metadata": {"m-key": "m-value"},
        "editable": true, "deleteable": true});
    with(&by_itself, &more)
}

fn matching(kind: &str, value: &str) -> Value {
    json!({"type": kind, "value": value, "valueType": "PARAMETER"})
}

fn destination() -> Value {
    json!({"service": "d-service", "namespace": "d-namespace", "labels": {"d-label": matching("IN", "d-1,d-2")},
        "priority": 7, "weight": 71, "transfer": "d-transfer", "isolate": true, "name": "d-name"})
}

/// Returns kind, body, and its fields that the specification's rules do not have.
fn bodies() -> Vec<(&'static str, Value, &'static [&'static str])> {
    let condition = json!({"type": "HEADER", "key": "a-key", "value": matching("REGEX", "a.*")});
    let source = json!({"service": "s-service", "namespace": "s-namespace", "arguments": [condition]});
    let route = |name: &str, policy: &str, config: Value| {
        let body = json!({"enable": true, "etime": "", "description": "words", "extendInfo": {"x": "y"},
            "routing_policy": policy, "routing_config": config});
        ("routings", head(name, body), &["extendInfo"][..])
    };
    let of_rules = "type.googleapis.com/v1.RuleRoutingConfig";
    let arguments = json!({"arguments": [condition], "randomPercent": 63, "matchMode": "OR"});
    let quota = |more: Value| {
        let quota = json!({"resource": "CONCURRENCY", "action": "UNIRATE", "max_queue_delay": 41,
            "amounts": [{"maxAmount": 42, "validDuration": "43s", "precision": 44, "startAmount": 45, "minAmount": 46}],
            "concurrencyAmount": {"maxAmount": 47}, "customResponse": {"body": "r-body"}, "regex_combine": true,
            "amountMode": "SHARE_EQUALLY", "failover": "FAILOVER_PASS", "arguments": [condition]});
        with(&quota, &more)
    };
    let of_limit = json!({"type": "LOCAL", "disable": true, "report": {"interval": "51s", "amountPercent": 52},
        "cluster": {"service": "c-service", "namespace": "c-namespace"}});
    let flat_limit = quota(json!({"service": "l-service", "method": matching("EXACT", "/l-path"), "etime": "",
        "labels": {"l": matching("EXACT", "old")}, "subset": {}, "adjuster": {"climb": {}}, "service_token": "t"}));
    let nested_limit = json!({"callee": {"service": "l-service", "namespace": "l-namespace"}, "rules": [quota(json!({
        "name": "q-name", "disable": true, "apis": [{"protocol": "q-protocol", "method": "POST",
        "path": matching("EXACT", "/q-path")}], "custom_response": {"code": "429", "headers": {"r-key": "r-value"},
        "body": "r-body"}, "customResponse": null}))]});
    let target = json!({"service": "t-service", "namespace": "t-namespace", "method": matching("EXACT", "t-method"),
        "api": {"protocol": "t-protocol", "method": "PUT", "path": matching("EXACT", "/t-path")}});
    let probe = |style: fn(&str) -> String| {
        let mut probe = json!({"interval": 21, "timeout": 22, "port": 8023, "protocol": "TCP"});
        probe[style("http")] = json!({"method": "HEAD", "url": "/h-url",
            "headers": [{"key": "h-key", "value": "h-value"}],
            "body": "h-body"});
        probe[style("tcp")] = json!({"send": "t-send", "receive": ["t-receive"]});
        probe[style("udp")] = json!({"send": "u-send", "receive": ["u-receive"]});
        probe
    };
    let flat_probe = probe(|of| format!("{of}Config"));
    let mut nested_probe = probe(|of| format!("{of}_config"));
    nested_probe["disable"] = json!(true);
    vec![
        route(
            "of-sources",
            "RulePolicy",
            json!({"@type": of_rules, "rules": [
            {"name": "r-name", "sources": [source], "destinations": [destination()]}]}),
        ),
        route(
            "flat-sources",
            "RulePolicy",
            json!({"@type": of_rules, "sources": [source], "destinations": [destination()]}),
        ),
        route(
            "custom",
            "RulePolicy",
            json!({"@type": "type.googleapis.com/v1.CustomRoute",
                "caller": {"service": "s-service", "namespace": "s-namespace"},
            "callee": {"service": "d-service", "namespace": "d-namespace"},
            "rules": [{"name": "r-name", "arguments": arguments, "destinations": [destination()]}]}),
        ),
        route(
            "metadata",
            "MetadataPolicy",
            json!({"@type": "type.googleapis.com/v1.MetadataRoutingConfig",
                "service": "m-service", "namespace": "m-namespace", "labels": {"m-label": "m-1"},
            "failover": {"failoverRange": "OTHER_KEYS", "labels": {"f-label": "f-1"}}}),
        ),
        route(
            "nearby",
            "NearbyPolicy",
            json!({"@type": "type.googleapis.com/v1.NearbyRoutingConfig",
                "service": "n-service", "namespace": "n-namespace", "matchLevel": "CAMPUS", "maxMatchLevel": "REGION",
            "strictNearby": true}),
        ),
        ("ratelimits", head("flat", with(&of_limit, &flat_limit)), &["adjuster", "labels", "service_token", "subset"]),
        ("ratelimits", head("nested", with(&of_limit, &nested_limit)), &[]),
        (
            "faultdetectors",
            head(
                "flat",
                with(&json!({"targetService": target, "description": "words", "extend_info": {"x": "y"}}), &flat_probe),
            ),
            &["extend_info"],
        ),
        ("faultdetectors", head("nested", json!({"target_service": target, "rules": [nested_probe]})), &[]),
        ("circuitbreakers", head("breaker", breaker()), &[]),
    ]
}

pub(super) fn with(one: &Value, other: &Value) -> Value {
    let mut both = one.clone();
    both.as_object_mut().expect("an object").extend(other.as_object().expect("an object").clone());
    both
}

fn breaker() -> Value {
    json!({"enable": true, "etime": "", "description": "words", "level": "METHOD",
        "ruleMatcher": {"source": {"service": "s-service", "namespace": "s-namespace"}, "destination": {
            "service": "d-service", "namespace": "d-namespace", "method": matching("EXACT", "/d-method")}},
        "errorConditions": [{"inputType": "RET_CODE", "condition": matching("IN", "500,503")}],
        "triggerCondition": [{"triggerType": "CONSECUTIVE_ERROR", "errorCount": 31, "errorPercent": 32, "interval": 33,
            "minimumRequest": 34}],
        "blockConfigs": [{"name": "b-name", "api": {"protocol": "b-protocol", "method": "PATCH",
            "path": matching("EXACT", "/b-path")},
            "errorConditions": [{"inputType": "DELAY", "condition": {"type": "EXACT", "value": "350"}}],
            "triggerConditions": [{"triggerType": "ERROR_RATE", "errorPercent": 36, "interval": 37,
              "minimumRequest": 38}]}],
        "maxEjectionPercent": 39, "recoverCondition": {"sleepWindow": 20, "consecutiveSuccess": 3},
        "faultDetectConfig": {"enable": true}, "fallbackConfig": {"enable": true, "response": {"code": 503,
            "headers": [{"key": "f-key", "value": "f-value"}], "body": "f-body"}}})
}

/// Collects every value as text, keys of maps included; leaves out fields set by a server, and reported ones.
fn values(value: &Value, aside: &[&str], found: &mut BTreeSet<String>) {
    const BY_ITSELF: [&str; 6] = ["revision", "ctime", "mtime", "etime", "editable", "deleteable"];
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter().filter(|(key, _)| !BY_ITSELF.contains(&key.as_str())) {
                if !aside.contains(&key.as_str()) {
                    found.extend(key.contains('-').then(|| key.clone()));
                    values(member, aside, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| values(item, aside, found)),
        Value::String(text) => found.extend((!text.is_empty()).then(|| text.clone())),
        Value::Number(number) => found.extend([number.to_string()]),
        Value::Bool(_) | Value::Null => {}
    }
}

/// Rules are parsed by their meaning, returned in the shape of the specification, and can be sent back unchanged.
#[tokio::test]
async fn rules_of_other_tools_lose_nothing() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    for (kind, body, unknown) in bodies() {
        let path = format!("/naming/v1/{kind}");
        let (_, answer) = bench.send("POST", &path, Some(&token), json!([body])).await;
        let item = &answer["responses"][0];
        assert_eq!(answer["code"], 200_000, "{body}: {answer}");
        let told: Vec<_> = unknown.iter().map(|field| format!("{field} is not known")).collect();
        assert_eq!(unread(item), told, "{body}");
        let query = format!("{path}?namespace=n&name={}", body["name"].as_str().expect("a name"));
        let (_, listed) = bench.send("GET", &query, Some(&token), Value::Null).await;
        let shown = &listed["data"][0];
        let (mut sent, mut kept) = (BTreeSet::new(), BTreeSet::new());
        // The values of a source that became an argument differ.
        values(&body, unknown, &mut sent);
        values(shown, &[], &mut kept);
        let lost: Vec<_> = sent.difference(&kept).collect();
        assert!(lost.is_empty(), "{kind}: {lost:?} of {body} is not in {shown}");
        let (_, again) = bench.send("PUT", &format!("{path}?unknown=refuse"), Some(&token), json!([shown])).await;
        assert_eq!(again["code"], 200_002, "{shown}: {again}");
    }
    // The caller of a source precedes its arguments.
    let (_, listed) = bench.send("GET", "/naming/v1/routings?name=*-sources", Some(&token), Value::Null).await;
    assert_eq!(listed["amount"], 2, "{listed}");
    for route in listed["data"].as_array().expect("a list") {
        let arguments = &route["routing_config"]["rules"][0]["arguments"]["arguments"];
        let seen = [&arguments[0]["type"], &arguments[0]["key"], &arguments[0]["value"]["value"], &arguments[1]["key"]];
        assert_eq!(seen, ["CALLER_SERVICE", "s-namespace", "s-service", "a-key"], "{route}");
    }
    let (_, listed) = bench.send("GET", "/naming/v1/ratelimits?name=flat", Some(&token), Value::Null).await;
    let quotas = &listed["data"][0]["rules"];
    assert_eq!((quotas.as_array().map(Vec::len), &quotas[0]["apis"][0]["path"]["value"]), (Some(1), &json!("/l-path")));
    bench.stop().await;
}
