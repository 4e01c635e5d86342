//! Rules and instances for the tests of this module.

use serde::de::DeserializeSeed;
use serde_json::Value;

use crate::model::instance::{Instance, InstanceDraft};
use crate::model::rule::{Family, Rule, RuleDraft};
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;

/// Returns an instance as callers register it.
pub(super) fn instance(json: &Value) -> Instance {
    serde_json::from_value::<InstanceDraft>(json.clone()).expect("an instance").registered()
}

/// Returns a rule as callers send it; its name is its id.
pub(super) fn rule(family: Family, json: &Value) -> Rule {
    let head = serde_json::from_value(json.clone()).expect("the head of a rule");
    let body = family.deserialize(json.clone()).expect("the body of a rule");
    let draft = RuleDraft { head, body };
    draft.check_new().expect("a rule that would be accepted");
    let id = json["name"].as_str().unwrap_or_default().to_owned();
    let created = Stamp { time: Timestamp(0), by: "admin".into() };
    draft.rule(id, String::new(), created).expect("a rule")
}
