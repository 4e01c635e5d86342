//! Rules for tests, from the fields of their bodies in JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::carried::SdkExtent;
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, Family, Rule};
use crate::model::stamp::Stamp;

/// Returns a rule `r` of the namespace `shop`, with id `id` and priority 3.
pub(crate) fn rule(family: Family, fields: Value) -> Rule {
    let body = match family {
        Family::Routing => Body::Routing(serde_json::from_value(fields).expect("a body")),
        Family::RateLimit => Body::RateLimit(serde_json::from_value(fields).expect("a body")),
        Family::CircuitBreaker => Body::CircuitBreaker(serde_json::from_value(fields).expect("a body")),
        Family::FaultDetect => Body::FaultDetect(serde_json::from_value(fields).expect("a body")),
    };
    Rule {
        id: "id".into(),
        name: "r".into(),
        namespace: "shop".into(),
        enable: true,
        description: "text".into(),
        priority: 3,
        metadata: BTreeMap::new(),
        body,
        created: Stamp::default(),
        modified: Stamp::default(),
        enabled_at: None,
        revision: String::new(),
        versions: 1,
        removed_through: 0,
    }
}

pub(crate) fn key(namespace: &str, service: &str) -> ServiceKey {
    ServiceKey { namespace: namespace.into(), service: service.into() }
}

/// Returns the numbers of the losses of a rule, with the extent as text.
pub(crate) fn lost(rule: &Rule) -> (String, Vec<u8>) {
    let SdkExtent { extent, losses } = SdkExtent::of(rule);
    (format!("{extent:?}"), losses.iter().map(|loss| loss.number).collect())
}
