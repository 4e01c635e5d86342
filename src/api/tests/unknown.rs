//! Unknown fields, and null fields.

use super::*;

/// Bodies with every field of a rule of each family, and of a release, and with unknown fields.
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
    let service = json!({"namespace": "n", "name": "s"});
    bench.send("POST", "/naming/v1/services", Some(&token), service).await;
    for (path, body, fields) in bodies() {
        let told: Vec<_> = fields.iter().map(|field| format!("{field} is not known")).collect();
        let (status, answer) = bench.send("POST", &format!("{path}?unknown=refuse"), Some(&token), json!([body])).await;
        let item = &answer["responses"][0];
        assert_eq!((status, &item["code"]), (StatusCode::BAD_REQUEST, &json!(400001)), "{answer}");
        assert!(item["info"].as_str().is_some_and(|info| info.contains(&told.join(", "))), "{answer}");
        assert_eq!(item["warnings"], Value::Null);
        let (status, answer) = bench.send("POST", path, Some(&token), json!([body])).await;
        let item = &answer["responses"][0];
        assert_eq!((status, unread(item)), (StatusCode::OK, told), "{answer}");
    }
    let (path, body, _) = &bodies()[1];
    let rules = json!([{"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]);
    let known = json!({"name": "known", "namespace": "n", "rules": rules, "disable": false});
    let (_, answer) = bench.send("POST", &format!("{path}?unknown=refuse"), Some(&token), known).await;
    assert_eq!((&answer["code"], unread(&answer["responses"][0])), (&json!(200000), vec![]), "{answer}");
    let (status, answer) = bench.send("POST", &format!("{path}?unknown=maybe"), Some(&token), json!([body])).await;
    assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!(400103)), "{answer}");
    bench.stop().await;
}

#[tokio::test]
async fn null_is_absent_at_every_depth() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let rows = [
        ("/naming/v1/services", json!({"name": "s", "namespace": "n", "metadata": {"k": null}, "ports": null})),
        (
            "/naming/v1/ratelimits",
            json!({"name": "r", "namespace": "n", "type": null, "metadata": null, "rules": [{"name": null, "apis": null,
                   "arguments": null, "amounts": [{"maxAmount": null, "validDuration": "1s"}],
                     "max_queue_delay": null}]}),
        ),
        (
            "/naming/v1/routings",
            json!({"name": "r", "namespace": "n", "routing_config": {"rules": [{"name": null, "arguments": {
                   "arguments": null, "random_percent": null}, "destinations": [{"service": "s", "namespace": "n",
                   "labels": {"v": {"type": null, "value": "1", "value_type": null}}, "weight": null}]}]}}),
        ),
        ("/config/v1/configfilegroups", json!({"name": "g", "namespace": "n", "comment": null})),
    ];
    for (path, body) in rows {
        let (_, answer) = bench.send("POST", path, Some(&token), json!([body])).await;
        assert_eq!(answer["code"], json!(200000), "{path} {answer}");
        assert_eq!(unread(&answer["responses"][0]), [""; 0], "{path} {answer}");
    }
    // The first request of a Go client.
    let question =
        json!({"type": "RATE_LIMIT", "filter": null, "service": {"namespace": "n", "name": "s", "revision": null}});
    let (_, answer) = bench.send("POST", "/v1/Discover", Some(&token), question).await;
    assert_eq!(answer["code"], json!(200000), "{answer}");
    // A null without a member name stays an error, which is named.
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

/// The fields of an instance that a caller may mean by another name, and a value that is replaced.
#[tokio::test]
async fn an_instance_loses_nothing_silently() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let of = |more: Value| {
        let address = json!({"namespace": "n", "service": "s", "host": "10.0.0.1", "port": 80});
        super::upstream::with(&address, &more)
    };
    let ttl = |ttl: u64| of(json!({"healthCheck": {"type": "HEARTBEAT", "heartbeat": {"ttl": ttl}}}));
    let replaced = "healthCheck.heartbeat.ttl is 600 s, which is not 1 to 60: 5 s is used";
    for (body, expected) in [
        (of(json!({"labels": {"version": "1"}})), vec!["labels is not known"]),
        (of(json!({"location": {"city": "x"}})), vec!["location.city is not known"]),
        (ttl(60), vec![]),
        (ttl(600), vec![replaced]),
    ] {
        for (method, path) in
            [("POST", "/v1/RegisterInstance"), ("POST", "/naming/v1/instances"), ("PUT", "/naming/v1/instances")]
        {
            let (_, answer) = bench.send(method, path, Some(&token), body.clone()).await;
            let item = answer["responses"].get(0).unwrap_or(&answer);
            let warnings: Vec<_> = item["warnings"].as_array().into_iter().flatten().collect();
            assert_eq!(warnings, expected, "{method} {path} {answer}");
        }
    }
    for (path, body) in [("/v1/Heartbeat", of(json!({"beat": 1}))), ("/v1/DeregisterInstance", of(json!({"beat": 1})))]
    {
        let (_, answer) = bench.send("POST", path, Some(&token), body).await;
        assert_eq!(unread(&answer), ["beat is not known"], "{path} {answer}");
    }
    bench.stop().await;
}
