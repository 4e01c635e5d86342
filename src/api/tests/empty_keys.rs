//! Empty keys in rules: a condition, label or header without a name would match nothing, or everything, silently.

use super::*;

/// Path of a family, its body, and the refusal.
fn refused() -> Vec<(&'static str, Value, String)> {
    let of_limit = |kind: &str, key: &str| json!({"rules": [{"arguments": [{"type": kind, "key": key}]}]});
    let of_route = |kind: &str, key: &str| {
        let rule = json!({"arguments": {"arguments": [{"type": kind, "key": key}]}});
        json!({"routing_config": {"rules": [rule]}})
    };
    let mut rows = Vec::new();
    for kind in ["CUSTOM", "HEADER", "QUERY", "COOKIE", "CALLER_METADATA"] {
        let why = |within: &str| format!("{within}arguments[0].key is empty: a condition on {kind} needs one");
        rows.push(("ratelimits", of_limit(kind, ""), why("rules[0].")));
        rows.push(("routings", of_route(kind, " "), why("routing_config.rules[0].arguments.")));
    }
    let labels = json!({"": {"value": "2"}});
    let header = json!([{"key": "k", "value": "v"}, {"key": "", "value": "v"}]);
    rows.extend([
        (
            "routings",
            json!({"routing_config": {"rules": [{"destinations": [{}, {"service": "s", "labels": labels}]}]}}),
            "routing_config.rules[0].destinations[1].labels has an empty key".into(),
        ),
        (
            "routings",
            json!({"route_policy": "MetadataPolicy", "routing_config": {"labels": {"": "2"}}}),
            "routing_config.labels has an empty key".into(),
        ),
        (
            "routings",
            json!({"route_policy": "MetadataPolicy", "routing_config": {"failover": {"labels": {"": "2"}}}}),
            "routing_config.failover.labels has an empty key".into(),
        ),
        (
            "ratelimits",
            json!({"rules": [{"custom_response": {"headers": {"": "v"}}}]}),
            "rules[0].custom_response.headers has an empty key".into(),
        ),
        (
            "faultdetectors",
            json!({"rules": [{}, {"http_config": {"headers": header}}]}),
            "rules[1].http_config.headers has an empty key".into(),
        ),
        ("faultdetectors", json!({"http_config": {"headers": header}}), "http_config.headers has an empty key".into()),
        (
            "circuitbreakers",
            json!({"fallback_config": {"response": {"headers": header}}}),
            "fallback_config.response.headers has an empty key".into(),
        ),
    ]);
    rows
}

fn named(body: &Value) -> Value {
    upstream::with(&json!({"namespace": "n", "name": "r"}), body)
}

#[tokio::test]
async fn an_empty_key_is_refused_by_its_place() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    for kind in ["ratelimits", "routings", "faultdetectors", "circuitbreakers"] {
        let path = format!("/naming/v1/{kind}");
        let (_, answer) = bench.send("POST", &path, Some(&token), named(&json!({"name": "stored"}))).await;
        assert_eq!(answer["code"], 200_000, "{answer}");
    }
    for (kind, body, why) in refused() {
        let path = format!("/naming/v1/{kind}");
        for (method, name) in [("POST", "new"), ("PUT", "stored")] {
            let body = upstream::with(&named(&body), &json!({ "name": name }));
            let (status, answer) = bench.send(method, &path, Some(&token), body).await;
            let item = &answer["responses"][0];
            assert_eq!((status, &item["code"]), (StatusCode::BAD_REQUEST, &json!(400_103)), "{method} {answer}");
            assert!(item["info"].as_str().is_some_and(|info| info.contains(&why)), "{method} {why}: {answer}");
        }
    }
    // Parts of which a request has one, and callers of any namespace.
    let arguments: Vec<_> =
        ["METHOD", "PATH", "CALLER_IP", "CALLER_SERVICE"].map(|kind| json!({"type": kind, "key": ""})).into();
    for (kind, body) in [
        ("ratelimits", json!({"rules": [{ "arguments": arguments }]})),
        ("routings", json!({"routing_config": {"rules": [{"arguments": { "arguments": arguments }}]}})),
    ] {
        let (_, answer) = bench.send("POST", &format!("/naming/v1/{kind}"), Some(&token), named(&body)).await;
        assert_eq!(answer["code"], 200_000, "{answer}");
    }
    bench.stop().await;
}
