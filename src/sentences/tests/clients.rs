//! Rules, and the line on the clients of xDS that enforce each.

use serde_json::json;

use super::{Family, Language, rule};
use crate::model::mesh::carried::CarriedOutBy;
use crate::sentences::enforced;

#[test]
fn clients_that_enforce_a_rule_alike_are_named_together() {
    let by = |family, fields| enforced(Language::English, &CarriedOutBy::of(&rule(family, &fields)));
    let on =
        |kind: &str, value: &str| json!({ "type": kind, "key": "k", "value": { "type": "EXACT", "value": value } });
    let routing = |conditions| {
        let sub_rule = json!({ "arguments": { "arguments": conditions }, "destinations": [{ "service": "pay" }] });
        by(Family::Routing, json!({ "routing_config": { "rules": [sub_rule] } }))
    };
    assert_eq!(routing(json!([on("HEADER", "1")])), "Envoy sidecar and gateway, gRPC, Polaris SDKs yes");
    let query = routing(json!([on("QUERY", "1")]));
    assert!(query.starts_with("Envoy sidecar and gateway, Polaris SDKs yes; gRPC no (W4: rules[0]"), "{query}");
    let caller = routing(json!([on("CALLER_IP", "10.0.0.1")]));
    assert!(caller.starts_with("Envoy sidecar, gRPC, Polaris SDKs yes; Envoy gateway no (W6: rules[0]"), "{caller}");
    let twice = routing(
        json!([on("PATH", "/p.S/Pay"), { "type": "METHOD", "value": { "type": "NOT_EQUALS", "value": "Void" } }]),
    );
    assert!(twice.contains("gRPC C++/Python/Ruby/PHP, Polaris SDKs yes"), "{twice}");
    assert!(twice.contains("gRPC Go, gRPC Java, gRPC Node no (W27: rules[0]"), "{twice}");
    let amounts = json!([{ "maxAmount": 5, "validDuration": "1s" }]);
    let limit = json!({ "service": "pay", "type": "LOCAL", "rules": [{ "amounts": amounts }] });
    assert_eq!(
        by(Family::RateLimit, limit),
        "Envoy sidecar, Polaris SDKs yes; Envoy gateway no (W16: a gateway counts no limits: proxies beside the \
         instances do); gRPC no (W16: rate limits do not reach gRPC clients without a proxy)"
    );
    let many = vec![json!({ "amounts": amounts, "action": "x".repeat(9) }); 50];
    let limits = by(Family::RateLimit, json!({ "service": "pay", "type": "LOCAL", "rules": many }));
    assert!(limits.starts_with("Envoy sidecar partly (W15") && limits.contains('…'), "{limits}");
    assert!(limits.chars().count() < 1000, "{limits}");
    let chinese = enforced(
        Language::Chinese,
        &CarriedOutBy::of(&rule(
            Family::FaultDetect,
            &json!({
                "service": "pay", "rules": [{ "protocol": "TCP" }],
            }),
        )),
    );
    assert!(chinese.starts_with("Envoy sidecar 和 gateway、Polaris SDKs：是；gRPC：否（W21"), "{chinese}");
}
