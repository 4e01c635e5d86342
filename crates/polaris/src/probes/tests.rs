use serde_json::{Value, json};

use super::*;
use crate::model::rule::Family;
use crate::testing::{key, lost, rule as made};

fn detection(fields: Value) -> Rule {
    made(Family::FaultDetect, fields)
}

fn mapped(rule: &Rule) -> Vec<v1::FaultDetectRule> {
    rules(&[rule], AskedService { namespace: "old", service: "alias", target: &key("shop", "pay") })
}

#[test]
fn a_probe_has_every_field() {
    let rule = detection(json!({
        "target_service": { "service": "pay", "method": { "type": "REGEX", "value": "/a" } },
        "rules": [
            { "interval": 5, "timeout": 2, "port": 80, "protocol": "HTTP", "http_config": { "method": "GET",
                "url": "/health", "headers": [{ "key": "a", "value": "b" }], "body": "x" }, "tcp_config": {} },
            { "interval": 6, "timeout": 1, "protocol": "TCP", "tcp_config": { "send": "0x01", "receive": ["0x02"] } },
            { "interval": 7, "timeout": 1, "protocol": "UDP", "udp_config": { "send": "a" } },
            { "protocol": "HTTP", "disable": true },
        ],
    }));
    let [http, tcp, udp] = &mapped(&rule)[..] else { panic!("three") };
    assert_eq!((http.interval, http.timeout, http.port, http.protocol), (5, 2000, 80, 1), "milliseconds");
    let target = http.target_service.as_ref().expect("a target");
    assert_eq!((target.namespace.as_str(), target.service.as_str()), ("old", "alias"));
    let path = target.api.as_ref().and_then(|api| api.path.as_ref());
    assert_eq!((path, path.and_then(|path| path.value.as_deref())), (target.method.as_ref(), Some("/a")));
    let config = http.http_config.as_ref().expect("a config");
    assert_eq!(
        (config.method.as_str(), config.url.as_str(), config.headers.len(), config.body.as_str()),
        ("GET", "/health", 1, "x")
    );
    assert_eq!((&http.tcp_config, tcp.protocol, udp.protocol), (&None, 2, 3));
    let bytes = tcp.tcp_config.as_ref().expect("a config");
    assert_eq!((bytes.send.as_str(), &bytes.receive[..]), ("0x01", &["0x02".to_owned()][..]));
    assert_eq!(udp.udp_config.as_ref().map(|config| config.send.as_str()), Some("a"));
    assert_eq!([&http.id, &tcp.id, &udp.id], ["id#0", "id#1", "id#2"]);
    assert!(http.revision != tcp.revision && http.revision.len() == 32);
    assert_eq!(lost(&rule), ("Partly".into(), vec![21, 24]));
}

#[test]
fn one_probe_has_the_id_of_its_rule_in_either_form() {
    let nested = json!({ "service": "pay", "rules": [{ "interval": 1, "protocol": "TCP" }] });
    let flat = json!({ "service": "pay", "interval": 1, "protocol": "TCP" });
    for fields in [nested, flat] {
        let rule = detection(fields);
        let [probe] = &mapped(&rule)[..] else { panic!("one") };
        assert_eq!((probe.id.as_str(), probe.interval), ("id", 1));
        let target = probe.target_service.as_ref().expect("a target");
        assert_eq!(target.method.as_ref().and_then(|method| method.value.as_deref()), Some("*"));
    }
}

#[test]
fn what_no_sdk_probes_is_said() {
    let rule = detection(json!({ "service": "pay", "rules": [{ "interval": 1 }] }));
    assert_eq!((mapped(&rule).len(), lost(&rule)), (0, ("No".into(), vec![23])));
    let twice =
        detection(json!({ "service": "pay", "rules": [{ "protocol": "TCP" }, { "protocol": "TCP", "port": 9 }] }));
    assert_eq!(lost(&twice), ("Partly".into(), vec![21, 22, 22, 24]));
}
