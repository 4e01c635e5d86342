use serde_json::{Value, json};

use super::*;
use crate::model::mesh::testing;
use crate::model::rule::Family;

fn rule(fields: Value) -> Rule {
    let mut json = json!({ "name": "r", "namespace": "shop", "enable": true, "target_service": { "service": "pay" } });
    json.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    testing::rule(Family::FaultDetect, &json)
}

fn probes(rules: Value) -> Rule {
    rule(json!({ "rules": rules }))
}

fn http(method: &str, host: Option<&str>, path: &str) -> Check {
    let (method, host, path) = (method.into(), host.map(str::to_owned), path.into());
    Check::Http(HttpCheck { method, host, path, headers: Vec::new(), body: String::new() })
}

#[test]
fn targets_are_read() {
    let rows = [
        ("", Some((None, "/"))),
        ("/healthy", Some((None, "/healthy"))),
        ("healthy?deep=1", Some((None, "/healthy?deep=1"))),
        ("http://pay:8080/a/b", Some((Some("pay:8080"), "/a/b"))),
        ("HTTP://pay", Some((Some("pay"), "/"))),
        ("http://pay?deep=1", Some((Some("pay"), "/?deep=1"))),
        ("https://pay/a", None),
        ("/a\nb", None),
        ("/é", Some((None, "/é"))),
    ];
    for (url, expected) in rows {
        let expected = expected.map(|(host, path): (Option<&str>, &str)| (host.map(str::to_owned), path.to_owned()));
        assert_eq!(target(url), expected, "{url}");
    }
}

/// Probes with their translations and warnings.
#[test]
fn probes_are_planned_or_left_out() {
    let tcp = |send: &str, receive: &[&str]| {
        json!({ "protocol": "TCP", "interval": 9,
        "tcp_config": { "send": send, "receive": receive } })
    };
    let web = |config: Value| json!({ "protocol": "HTTP", "interval": 9, "http_config": config });
    let rows: [(Value, Option<Check>, &str); 12] = [
        (json!({ "protocol": "HTTP", "interval": 9 }), Some(http("GET", None, "/")), ""),
        (web(json!({ "method": "head", "url": "http://a/b" })), Some(http("HEAD", Some("a"), "/b")), ""),
        (
            web(json!({ "url": "/", "headers": [{ "key": "Host", "value": "b" }] })),
            Some(http("GET", Some("b"), "/")),
            "",
        ),
        (
            web(json!({ "url": "/", "body": "x" })),
            Some(http("GET", None, "/")),
            "W15: rules[0]: http_config.body with GET is not carried by xDS",
        ),
        (web(json!({ "method": "CONNECT" })), None, "W15: rules[0]: http_config.method CONNECT is not carried by xDS"),
        (web(json!({ "url": "https://a" })), None, "W15: rules[0]: http_config.url https://a is not carried by xDS"),
        (
            web(json!({ "headers": [{ "key": ":path", "value": "b" }] })),
            None,
            "W15: rules[0]: http_config.headers :path is not carried by xDS",
        ),
        (tcp("", &[]), Some(Check::Tcp { send: String::new(), receive: None }), ""),
        (tcp("ping", &["pong", "pong"]), Some(Check::Tcp { send: "ping".into(), receive: Some("pong".into()) }), ""),
        (tcp("ping", &["a", "b"]), None, "W22: rules[0]: Envoy wants all of the texts received: not carried"),
        (json!({ "protocol": "UDP" }), None, "W23: rules[0]: UDP probes are not carried"),
        (json!({ "protocol": "UNKNOWN" }), None, "W15: rules[0]: protocol UNKNOWN is not carried by xDS"),
    ];
    let w21 = "W21: gRPC clients send no probes: they see health as registered";
    for (probe, check, warning) in rows {
        let rule = probes(json!([probe]));
        let planned: Vec<Check> = plan(&[&rule]).probe.into_iter().map(|probe| probe.check).collect();
        assert_eq!(planned, check.clone().into_iter().collect::<Vec<_>>(), "{probe}");
        let told = warnings(&rule);
        let texts: Vec<String> = told.iter().map(Warning::to_string).collect();
        let expected: Vec<&str> = [warning, w21].into_iter().filter(|text| !text.is_empty()).collect();
        assert_eq!(texts, expected, "{probe}");
        assert_eq!(told[0].is_left_out, check.is_none() || warning.is_empty(), "{probe}");
    }
}

#[test]
fn times_that_are_not_given_are_those_of_the_table() {
    let timed = |interval: u32, timeout: u32| {
        let rule = probes(json!([{ "protocol": "TCP", "interval": interval, "timeout": timeout }]));
        let planned = plan(&[&rule]).probe.expect("a probe");
        (planned.interval_s, planned.timeout_s)
    };
    assert_eq!(timed(0, 0), (5, 1));
    assert_eq!(timed(30, 3), (30, 3));
}

#[test]
fn a_service_has_one_probe() {
    let tcp = |port: u32| json!({ "protocol": "TCP", "port": port, "interval": 9 });
    let rules = [probes(json!([{ "protocol": "UDP" }, tcp(81), tcp(82)])), probes(json!([tcp(0)]))];
    let port = |rules: &[&Rule]| plan(rules).probe.map(|probe| probe.port);
    assert_eq!(port(&[&rules[0], &rules[1]]), Some(Some(81)));
    assert_eq!(port(&[&rules[1], &rules[0]]), Some(None));
    let told: Vec<String> = warnings(&rules[0]).iter().map(Warning::to_string).collect();
    assert_eq!(told[0], "W23: rules[0]: UDP probes are not carried");
    assert_eq!(told[1], "W15: rules[2]: a second probe is not carried by xDS: Envoy takes one a service");
}

#[test]
fn rules_that_are_off_probe_nothing_and_flat_ones_do() {
    let flat = json!({ "protocol": "TCP", "interval": 9, "tcp_config": { "send": "x" } });
    assert!(plan(&[&rule(flat.clone())]).probe.is_some());
    let mut off = rule(flat);
    off.enable = false;
    assert_eq!(plan(&[&off]), ProbePlan::default());
    assert_eq!(plan(&[&probes(json!([{ "protocol": "TCP", "disable": true }]))]), ProbePlan::default());
}

#[test]
fn many_probes_are_told() {
    assert_eq!(load("rules[0]", 1, 999, 1), None);
    assert_eq!(load("rules[0]", 2, 100, 19), None);
    let text = "W24: rules[0]: 100 proxies probe 20 instances each 2 s: 1000 a second";
    assert_eq!(load("rules[0]", 2, 100, 20).map(|warning| warning.to_string()), Some(text.into()));
    let told = |interval: u32| {
        let rule = probes(json!([{ "protocol": "TCP", "interval": interval }]));
        warnings(&rule).iter().any(|warning| warning.number == 24)
    };
    assert!(told(1) && !told(2) && !told(0));
    let target = json!({ "target_service": { "service": "pay", "api": { "method": "GET" } }, "rules": [] });
    let text = "W15: target_service.api is not carried by xDS: probes are of the service as a whole";
    assert_eq!(warnings(&rule(target))[0].to_string(), text);
}
