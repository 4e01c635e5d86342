use serde_json::json;

use super::*;
use crate::model::rule::Family;
use crate::testing::{key, lost, rule as made};

#[test]
fn a_rule_of_the_policy_is_packed() {
    let rule = made(
        Family::Routing,
        json!({ "route_policy": "NearbyPolicy", "routing_config": {
        "service": "pay", "namespace": "shop", "match_level": "ZONE", "max_match_level": "ALL", "strict_nearby": true,
    } }),
    );
    let [one] = &rules(&[&rule], AskedService { namespace: "old", service: "alias", target: &key("shop", "pay") })[..]
    else {
        panic!("one")
    };
    assert_eq!((one.enable, one.routing_policy, one.priority, one.revision.len()), (true, 2, 3, 32));
    let any = one.routing_config.as_ref().expect("a config");
    assert_eq!(any.type_url, "type.googleapis.com/v1.NearbyRoutingConfig");
    let near = v1::NearbyRoutingConfig::decode(&any.value[..]).expect("a message");
    assert_eq!((near.service.as_str(), near.namespace.as_str()), ("alias", "old"));
    assert_eq!((near.match_level, near.max_match_level, near.strict_nearby), (2, 4, true));
    assert_eq!(lost(&rule), ("Partly".into(), vec![10]));
}

#[test]
fn a_rule_by_metadata_is_for_no_sdk() {
    let rule = made(
        Family::Routing,
        json!({ "route_policy": "MetadataPolicy",
        "routing_config": { "service": "pay", "labels": { "a": "b" } } }),
    );
    assert_eq!(rules(&[&rule], AskedService { namespace: "shop", service: "pay", target: &key("shop", "pay") }), []);
    assert_eq!(lost(&rule), ("No".into(), vec![9]));
}
