//! Gray releases: whether the client of the sketch belongs to the audience of each.

use serde_json::{Value, json};

use super::*;
use crate::model::audience::Judge;

fn limit(service: &str) -> Rule {
    let rules = json!([{ "amounts": [{ "maxAmount": 5, "validDuration": "1s" }] }]);
    let json = json!({ "name": "limit", "namespace": "shop", "service": service, "rules": rules });
    rule(Family::RateLimit, &json)
}

fn rollout(grays: Vec<RuleRelease>, normal: Option<RuleRelease>) -> Rollout {
    Rollout { grays: grays.into_iter().map(Arc::new).collect(), normal: normal.map(Arc::new) }
}

fn zone() -> Option<Value> {
    let zone = json!({ "key": "zone", "value": { "type": "IN", "value": "a,b" } });
    Some(json!({ "client_labels": [zone, { "key": "os", "value": { "value": "linux" } }] }))
}

fn share(by: &str) -> Option<Value> {
    Some(json!({ "client_percent": { "by": by, "percent": 40 } }))
}

/// The label `c` has number 30 of 100 by SHA-256, and `a` number 50.
#[test]
fn every_gray_release_says_whether_the_client_is_one_of_its_own_and_why_not() {
    let newest = release("share", 4, limit("order"), share("host"));
    let rollouts = [rollout(
        vec![newest, release("zone", 3, limit("order"), zone())],
        Some(release("first", 1, limit("order"), None)),
    )];
    let no_host = (GrayState::NotMatched, "the client has no label host");
    let wrong = |info| (GrayState::NotMatched, info);
    let sees = (GrayState::InForce, "the client sees it");
    let rows = [
        (json!({}), no_host, wrong("the client has no label zone")),
        (json!({ "zone": "c", "os": "mac" }), no_host, wrong("client label zone is c: does not meet IN a,b")),
        (json!({ "zone": "a", "os": "mac" }), no_host, wrong("client label os is mac: does not meet EXACT linux")),
        (json!({ "zone": "a", "os": "linux" }), no_host, sees),
        (
            json!({ "zone": "a", "os": "linux", "host": "c" }),
            sees,
            (GrayState::Shadowed, "the client sees share v4, which is newer"),
        ),
        (
            json!({ "host": "a" }),
            wrong("client label host is a, number 50 of 100: is not in the first 40"),
            wrong("the client has no label zone"),
        ),
    ];
    for (labels, of_share, of_zone) in rows {
        let sketch = request(json!({ "client_labels": labels }));
        let explanation = explain(Family::RateLimit, &sketch, &[]).with_grays(&sketch, &rollouts);
        let told: Vec<_> = explanation.grays.iter().map(|gray| (gray.state, gray.info.as_str())).collect();
        assert_eq!(told, [of_share, of_zone], "{labels}");
        for (gray, release) in explanation.grays.iter().zip(&rollouts[0].grays) {
            let admitted = Judge::default().admits(release.audience(), |key| sketch.client_label(key));
            assert_eq!(gray.state != GrayState::NotMatched, admitted, "as clients are judged: {labels}");
        }
    }
}

#[test]
fn a_gray_release_is_shown_with_all_that_it_asks_of_a_client() {
    let both = json!({
        "client_labels": [{ "key": "zone", "value": { "type": "IN", "value": "a,b" } }],
        "client_percent": { "by": "CLIENT_IP", "percent": 40 },
    });
    let rollouts = [rollout(vec![release("some", 2, limit("order"), Some(both))], None)];
    let shown = |labels: Value| {
        let sketch = request(json!({ "client_labels": labels }));
        let explanation = explain(Family::RateLimit, &sketch, &[]).with_grays(&sketch, &rollouts);
        serde_json::to_value(&explanation.grays).expect("gray releases")
    };
    // 10.0.0.1 has number 58.
    assert_eq!(
        shown(json!({ "zone": "a", "CLIENT_IP": "10.0.0.1" })),
        json!([{
            "rule_id": "limit", "rule_name": "limit", "namespace": "shop",
            "release": { "id": "id-of-some", "release_name": "some", "release_type": "gray", "version": 2 },
            "state": "not_matched",
            "info": "client label CLIENT_IP is 10.0.0.1, number 58 of 100: is not in the first 40",
            "client_labels": [{
                "key": "zone", "condition": { "type": "IN", "value": "a,b", "value_type": "TEXT" }, "value": "a",
                "matched": true, "info": "client label zone is a: meets IN a,b",
            }],
            "client_percent": {
                "by": "CLIENT_IP", "percent": 40, "value": "10.0.0.1", "number": 58, "matched": false,
                "info": "client label CLIENT_IP is 10.0.0.1, number 58 of 100: is not in the first 40",
            },
        }])
    );
    let percent = &shown(json!({ "zone": "a" }))[0]["client_percent"];
    assert_eq!(percent["info"], "the address of the client is not given, as client label CLIENT_IP");
    assert_eq!((&percent["value"], &percent["number"]), (&Value::Null, &Value::Null));
}

/// Includes rules that some clients of the service see, or all except some.
#[test]
fn a_gray_release_is_told_of_where_it_changes_something_for_clients_of_the_service() {
    let for_zone = |service: &str| vec![release("zone", 3, limit(service), zone())];
    let normal = |service: &str| Some(release("first", 1, limit(service), None));
    let route = |end: &str| {
        let mut config = json!({ "rules": [{ "destinations": [{ "service": "stock", "namespace": "shop" }] }] });
        config[end] = json!({ "service": "order", "namespace": "shop" });
        let json =
            json!({ "name": "route", "namespace": "shop", "route_policy": "RulePolicy", "routing_config": config });
        vec![release("zone", 3, rule(Family::Routing, &json), zone())]
    };
    let rows = [
        ("new to all", rollout(for_zone("order"), None), Some("the client sees it")),
        ("comes", rollout(for_zone("order"), normal("stock")), Some("the client sees it")),
        (
            "goes",
            rollout(for_zone("stock"), normal("order")),
            Some("the client sees it, and it is about other services"),
        ),
        ("of another service", rollout(for_zone("stock"), normal("stock")), None),
        ("of calls to it", rollout(route("callee"), None), Some("the client sees it")),
        ("of calls by it", rollout(route("caller"), None), None),
    ];
    let sketch = request(json!({ "client_labels": { "zone": "a", "os": "linux" } }));
    for (what, rollout, expected) in rows {
        let rollouts = [rollout];
        let explanation = explain(Family::RateLimit, &sketch, &[]).with_grays(&sketch, &rollouts);
        let told: Vec<_> = explanation.grays.iter().map(|gray| (gray.state, gray.info.as_str())).collect();
        let expected: Vec<_> = expected.into_iter().map(|info| (GrayState::InForce, info)).collect();
        assert_eq!(told, expected, "{what}");
    }
}
