//! Fields that nothing reads, and fields that are null.

use super::*;

/// Some of everything that a rule of each family, and a release, may hold, with fields that are not known.
fn bodies() -> [(&'static str, Value, &'static [&'static str]); 6] {
    [
        (
            "/naming/v1/routings",
            json!({"name": "r", "namespace": "n", "route_policy": "RulePolicy", "colour": 1, "routing_config": {
                "rules": [{"name": "one", "filter": {}, "arguments": {"arguments": [
                    {"type": "HEADER", "key": "k", "value": {"type": "EXACT", "value": "v", "case": true}}]},
                    "destinations": [{"service": "s", "namespace": "n", "labels": {"l": {"value": "v", "x": 1}}}]}],
            }}),
            &[
                "colour",
                "routing_config.rules[0].arguments.arguments[0].value.case",
                "routing_config.rules[0].destinations[0].labels.l.x",
                "routing_config.rules[0].filter",
            ],
        ),
        (
            "/naming/v1/ratelimits",
            json!({"name": "r", "namespace": "n", "service": "s",
                   "rules": [{"amounts": [{"maxAmount": 1, "validDuration": "1s", "burst": 2}]}]}),
            &["rules[0].amounts[0].burst"],
        ),
        (
            "/naming/v1/faultdetectors",
            json!({"name": "r", "namespace": "n", "target_service": {"service": "s", "zone": "z"}, "jitter": 3}),
            &["jitter", "target_service.zone"],
        ),
        (
            "/naming/v1/circuitbreakers",
            json!({"name": "r", "namespace": "n", "level": 1, "ruleMatcher": {"source": {"region": "r"}},
                   "recoverCondition": {"sleep_window": 1, "attempts": 2}}),
            &["recoverCondition.attempts", "ruleMatcher.source.region"],
        ),
        ("/naming/v1/ratelimits/releases", json!({"rule_name": "r", "release_name": "one", "notes": "x"}), &["notes"]),
        (
            "/config/v1/configfiles/createandpub",
            json!({"namespace": "n", "group": "g", "file_name": "f", "content": "c", "contents": "d"}),
            &["contents"],
        ),
    ]
}

#[tokio::test]
async fn a_field_that_nothing_reads_is_told_of_or_refused() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    for (path, body, fields) in bodies() {
        let told: Vec<_> = fields.iter().map(|field| format!("{field} is not known")).collect();
        let (status, answer) = bench.send("POST", &format!("{path}?unknown=refuse"), Some(&token), json!([body])).await;
        let item = &answer["responses"][0];
        assert_eq!((status, &item["code"]), (StatusCode::BAD_REQUEST, &json!(400001)), "{answer}");
        assert!(item["info"].as_str().is_some_and(|info| info.contains(&told.join(", "))), "{answer}");
        assert_eq!(item["warnings"], Value::Null);
        let (status, answer) = bench.send("POST", path, Some(&token), json!([body])).await;
        let item = &answer["responses"][0];
        assert_eq!((status, &item["warnings"]), (StatusCode::OK, &json!(told)), "{answer}");
    }
    let (path, body, _) = &bodies()[1];
    let rules = json!([{"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]);
    let known = json!({"name": "known", "namespace": "n", "rules": rules, "disable": false});
    let (_, answer) = bench.send("POST", &format!("{path}?unknown=refuse"), Some(&token), known).await;
    assert_eq!((&answer["code"], &answer["responses"][0]["warnings"]), (&json!(200000), &Value::Null), "{answer}");
    let (status, answer) = bench.send("POST", &format!("{path}?unknown=maybe"), Some(&token), json!([body])).await;
    assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!(400103)), "{answer}");
    bench.stop().await;
}

#[tokio::test]
async fn null_is_absent_at_every_depth() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let rows = [
        (
            "/naming/v1/ratelimits",
            json!({"name": "r", "namespace": "n", "type": null, "metadata": null, "rules": [{"name": null, "apis": null,
                   "arguments": null, "amounts": [{"maxAmount": null, "validDuration": "1s"}], "max_queue_delay": null}]}),
        ),
        (
            "/naming/v1/routings",
            json!({"name": "r", "namespace": "n", "routing_config": {"rules": [{"name": null, "arguments": {
                   "arguments": null, "random_percent": null}, "destinations": [{"service": "s", "namespace": "n",
                   "labels": {"v": {"type": null, "value": "1", "value_type": null}}, "weight": null}]}]}}),
        ),
        ("/naming/v1/services", json!({"name": "s", "namespace": "n", "metadata": {"k": null}, "ports": null})),
        ("/config/v1/configfilegroups", json!({"name": "g", "namespace": "n", "comment": null})),
    ];
    for (path, body) in rows {
        let (_, answer) = bench.send("POST", path, Some(&token), json!([body])).await;
        assert_eq!(answer["code"], json!(200000), "{path} {answer}");
        assert_eq!(answer["responses"][0]["warnings"], Value::Null, "{path} {answer}");
    }
    // As the first question of a client in Go.
    let question =
        json!({"type": "RATE_LIMIT", "filter": null, "service": {"namespace": "n", "name": "s", "revision": null}});
    let (_, answer) = bench.send("POST", "/v1/Discover", Some(&token), question).await;
    assert_eq!(answer["code"], json!(200000), "{answer}");
    // What is no member stays an error, and is named.
    let (_, answer) = bench
        .send(
            "POST",
            "/naming/v1/ratelimits",
            Some(&token),
            json!([{"name": "x", "namespace": "n", "type": null, "rules": [null]}]),
        )
        .await;
    let info = answer["responses"][0]["info"].as_str().unwrap_or_default();
    assert!(answer["code"] == json!(400001) && info.contains("rules[0]"), "{answer}");
    bench.stop().await;
}

/// What other tools write is read for what it means, shown in the shape of the specification, and can be sent back.
#[tokio::test]
async fn rules_of_other_tools_lose_nothing() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let source = json!({"service": "web", "namespace": "n", "arguments": [
        {"type": "HEADER", "key": "x-user", "value": {"type": "EXACT", "value": "7", "value_type": "TEXT"}}]});
    let config = json!({"@type": "type.googleapis.com/v1.RuleRoutingConfig", "rules": [{"name": "one",
        "sources": [source], "destinations": [{"service": "pay", "namespace": "n", "weight": 100, "priority": 0}]}]});
    let limit = json!({"name": "r", "namespace": "n", "service": "pay", "resource": "QPS", "type": "LOCAL",
        "method": {"type": "EXACT", "value": "/pay"}, "amounts": [{"maxAmount": 5, "validDuration": "1s"}]});
    let rows = [
        ("routings", json!({"name": "r", "namespace": "n", "routing_policy": "RulePolicy", "routing_config": config})),
        ("ratelimits", limit),
        ("circuitbreakers", breaker()),
    ];
    for (kind, body) in rows {
        let path = format!("/naming/v1/{kind}?unknown=refuse");
        let (_, answer) = bench.send("POST", &path, Some(&token), json!([body])).await;
        assert_eq!(answer["code"], json!(200000), "{answer}");
        let (_, listed) = bench.send("GET", &format!("/naming/v1/{kind}?name=r"), Some(&token), Value::Null).await;
        let shown = &listed["data"][0];
        let (_, again) = bench.send("PUT", &path, Some(&token), json!([without_switch(shown)])).await;
        assert_eq!(again["code"], json!(200002), "{again}");
        if kind == "routings" {
            let arguments = &shown["routing_config"]["rules"][0]["arguments"]["arguments"];
            let seen = [&arguments[0]["type"], &arguments[0]["value"]["value"], &arguments[1]["key"]];
            assert_eq!(seen, [&json!("CALLER_SERVICE"), &json!("web"), &json!("x-user")], "{shown}");
        } else if kind == "ratelimits" {
            let rule = &shown["rules"][0];
            assert_eq!(
                (&rule["amounts"][0]["maxAmount"], &rule["apis"][0]["path"]["value"]),
                (&json!(5), &json!("/pay"))
            );
        }
    }
    bench.stop().await;
}

/// A circuit breaker as Polaris answers with it, all fields set.
fn breaker() -> Value {
    json!({"id": "5f1bb5a5e0e14bd8b6a60a3a8bd6b1ac", "name": "r", "namespace": "n", "enable": true, "revision": "",
        "ctime": "2025-01-02 03:04:05", "mtime": "2025-01-02 03:04:05", "etime": "", "priority": 1,
        "description": "d", "metadata": {"k": "v"}, "editable": true, "deleteable": true, "level": "METHOD",
        "ruleMatcher": {"source": {"service": "*", "namespace": "*"}, "destination": {"service": "pay",
            "namespace": "n", "method": {"type": "EXACT", "value": "/pay", "valueType": "TEXT"}}},
        "errorConditions": [{"inputType": "RET_CODE", "condition": {"type": "IN", "value": "500,503"}}],
        "triggerCondition": [{"triggerType": "CONSECUTIVE_ERROR", "errorCount": 5, "errorPercent": 0, "interval": 0,
            "minimumRequest": 0}],
        "blockConfigs": [{"name": "slow", "api": {"protocol": "*", "method": "*", "path": {"type": "EXACT",
            "value": "/pay"}}, "errorConditions": [{"inputType": "DELAY", "condition": {"value": "300"}}],
            "triggerConditions": [{"triggerType": "ERROR_RATE", "errorPercent": 50, "interval": 60,
            "minimumRequest": 10}]}],
        "maxEjectionPercent": 30, "recoverCondition": {"sleepWindow": 20, "consecutiveSuccess": 3},
        "faultDetectConfig": {"enable": true}, "fallbackConfig": {"enable": true, "response": {"code": 503,
            "headers": [{"key": "Retry-After", "value": "20"}], "body": "later"}}})
}

fn without_switch(rule: &Value) -> Value {
    let mut rule = rule.clone();
    rule.as_object_mut().expect("a rule").remove("disable");
    rule
}
