//! Sketches with their expected results according to the specification. Each file is a table of one family: rules as
//! callers send them, requests, and the sub-rules that must apply.

mod carried;
mod circuit_breaker;
mod conditions;
mod destinations;
mod fault_detect;
mod grays;
mod rate_limit;
mod routing;

use std::sync::Arc;

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::*;
use crate::model::rule::RuleDraft;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;

/// Returns saved rules; the name is also the id.
fn saved(family: Family, rules: &Value) -> Vec<Candidate> {
    let rules = rules.as_array().expect("a list of rules").iter();
    rules.map(|json| Candidate::saved(Arc::new(rule(family, json)))).collect()
}

fn rule(family: Family, json: &Value) -> Rule {
    let head = serde_json::from_value(json.clone()).expect("the head of a rule");
    let body = family.deserialize(json.clone()).expect("the body of a rule");
    let draft = RuleDraft { head, body };
    draft.check_new().expect("a rule that would be accepted");
    let created = Stamp { time: Timestamp(0), by: "admin".into() };
    draft.rule(json["name"].as_str().unwrap_or_default().to_owned(), String::new(), created).expect("a rule")
}

/// Returns the release `name` of a rule: a normal one, or a gray one for `audience`.
fn release(name: &str, version: u64, rule: Rule, audience: Option<Value>) -> RuleRelease {
    let said = audience.clone().unwrap_or_else(|| serde_json::json!({}));
    let draft: RuleReleaseDraft = serde_json::from_value(said).expect("an audience");
    draft.audience().check().expect("an audience that would be accepted");
    let stamp = Stamp { time: Timestamp(0), by: "admin".into() };
    RuleRelease {
        id: format!("id-of-{name}"),
        name: name.into(),
        description: String::new(),
        release_type: if audience.is_some() { ReleaseType::Gray } else { ReleaseType::Normal },
        client_labels: draft.labels().to_vec(),
        client_percent: draft.client_percent,
        plan: None,
        rollout: None,
        version,
        active: true,
        rule: Arc::new(rule),
        created: stamp.clone(),
        modified: stamp,
    }
}

fn sketch(json: Value) -> Sketch {
    let sketch: Sketch = serde_json::from_value(json).expect("a sketch");
    sketch.check().expect("a sketch that says who is called");
    sketch
}

/// Returns a request to `shop/order` with the additions of `more`.
fn request(more: Value) -> Sketch {
    let mut json = serde_json::json!({ "service": "order", "namespace": "shop" });
    json.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    sketch(json)
}

/// Returns the applying sub-rules in order, as `rule#index percent`.
fn applying(family: Family, candidates: &[Candidate], sketch: &Sketch) -> Vec<String> {
    let explanation = explain(family, sketch, candidates);
    let applies = explanation.applies.iter();
    applies.map(|part| format!("{}#{} {}", part.rule_name, part.index, part.share.percent())).collect()
}

/// Returns the results of all sub-rules in order, as `rule#index verdict`.
fn verdicts(family: Family, candidates: &[Candidate], sketch: &Sketch) -> Vec<String> {
    let explanation = explain(family, sketch, candidates);
    let parts = explanation.candidates.iter().flat_map(|judged| judged.rules.iter().map(move |part| (judged, part)));
    parts.map(|(judged, part)| format!("{}#{} {:?}", judged.rule_name, part.index, part.verdict)).collect()
}
