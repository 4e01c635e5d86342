//! Fault detection: all probes of the rules for the service.

use serde_json::{Value, json};

use super::*;

#[test]
fn all_probes_of_the_service_are_at_work() {
    let target = |service: &str, namespace: &str| json!({ "service": service, "namespace": namespace });
    let pay =
        json!({ "service": "order", "namespace": "shop", "api": { "path": { "value": "/pay" }, "method": "GET" } });
    let old = json!({ "service": "order", "namespace": "shop", "method": { "type": "IN", "value": "GET,HEAD" } });
    let http = json!({ "protocol": "HTTP", "port": 80, "interval": 5 });
    let rules = json!([
        { "name": "two", "namespace": "shop", "priority": 2, "target_service": target("order", "shop"),
            "rules": [http, { "protocol": "TCP" }, { "protocol": "UDP", "disable": true }] },
        { "name": "flat", "namespace": "shop", "priority": 1, "target_service": target("order", ""),
            "protocol": "TCP", "interval": 30 },
        { "name": "every", "namespace": "shop", "priority": 3, "target_service": target("*", "*"), "rules": [http] },
        { "name": "off", "namespace": "shop", "enable": false, "target_service": target("order", "shop"),
            "rules": [http] },
        { "name": "pay", "namespace": "shop", "priority": 4, "target_service": pay, "rules": [http] },
        { "name": "old", "namespace": "shop", "priority": 5, "target_service": old, "rules": [http] },
        { "name": "stock", "namespace": "shop", "target_service": target("stock", "shop"), "rules": [http] },
        { "name": "elsewhere", "namespace": "shop", "target_service": target("*", "test"), "rules": [http] },
        { "name": "none", "namespace": "shop", "priority": 6, "target_service": target("order", "shop"), "rules": [] },
    ]);
    let candidates = saved(Family::FaultDetect, &rules);
    let always = ["flat#0 100", "two#0 100", "two#1 100", "every#0 100"];
    let rows: [(Value, &[&str]); 4] = [
        (json!({}), &["pay#0 100", "old#0 100"]),
        (json!({ "path": "/pay", "method": "GET" }), &["pay#0 100", "old#0 100"]),
        (json!({ "path": "/pay", "method": "HEAD" }), &["old#0 100"]),
        (json!({ "path": "/list", "method": "PUT" }), &[]),
    ];
    for (more, expected) in rows {
        let shown = more.to_string();
        let expected: Vec<&str> = always.iter().chain(expected).copied().collect();
        assert_eq!(applying(Family::FaultDetect, &candidates, &request(more)), expected, "{shown}");
    }
    let sketch = request(json!({}));
    let explanation = explain(Family::FaultDetect, &sketch, &candidates);
    let shown: Vec<_> = explanation.candidates.iter().map(|judged| (judged.rule_name, judged.verdict)).collect();
    assert!(shown.contains(&("off", Verdict::Disabled)) && shown.contains(&("none", Verdict::Empty)), "{shown:?}");
    assert!(!shown.iter().any(|(name, _)| ["stock", "elsewhere"].contains(name)), "{shown:?}");
    assert_eq!(explanation.info, "6 probes watch the instances of the service");
    let infos: Vec<_> = explanation.candidates.iter().map(|judged| judged.info.as_str()).collect();
    assert_eq!((infos[0], infos[2]), ("sub-rule 1: switched off", "sub-rule 1: probes port 80 by HTTP every 5 s"));
    assert_eq!(infos.last(), Some(&"has no sub-rules"));
}

#[test]
fn a_released_rule_says_of_which_release_it_is() {
    let json = json!({ "name": "r", "namespace": "shop", "service": "order", "rules": [{ "protocol": "TCP" }] });
    let release = release("spring", 3, rule(Family::FaultDetect, &json), Some(json!({})));
    let candidates = [Candidate::released(&release)];
    let sketch = request(json!({}));
    let shown = serde_json::to_value(explain(Family::FaultDetect, &sketch, &candidates)).expect("an explanation");
    let expected = json!({ "id": "id-of-spring", "release_name": "spring", "release_type": "gray", "version": 3 });
    assert_eq!(shown["candidates"][0]["release"], expected);
    assert_eq!(shown["applies"], json!([{ "rule_id": "r", "rule_name": "r", "index": 0, "name": "", "share": 100.0 }]));
}
