//! Rules as JSON, for the console and the command line, in the form that this surface reads and writes.

use serde_json::Value;
use serde_json::value::RawValue;

use super::drafts::parse_rule;
use super::upstream;
use crate::api::http::Unknown;
use crate::api::view::RuleView;
use crate::model::code::{Code, Refusal};
use crate::model::rule::{Family, Rule, RuleDraft};

/// Fields that users do not write: set by the cluster, or derived from another field.
pub(crate) const GIVEN: [&str; 8] = ["id", "disable", "revision", "ctime", "mtime", "etime", "editable", "deleteable"];

/// Returns the fields of a rule that users write; none without a rule.
pub(crate) fn written(rule: Option<&Rule>) -> Value {
    let Some(rule) = rule else { return Value::Object(serde_json::Map::new()) };
    let mut value = serde_json::to_value(RuleView::new(rule, true)).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|field, _| !GIVEN.contains(&field.as_str()));
    }
    value
}

/// Parses a rule that a user wrote; an unknown field is refused with its path.
pub(crate) fn read_rule(family: Family, text: &str) -> Result<RuleDraft, Refusal> {
    let raw: &RawValue =
        serde_json::from_str(text).map_err(|error| Refusal::new(Code::ParseException, error.to_string()))?;
    let folded = upstream::folded(family, raw.get()).and_then(|text| RawValue::from_string(text).ok());
    let (rule, fields) = parse_rule(family, folded.as_deref().unwrap_or(raw));
    Unknown::Refuse.judge(rule, fields).0
}
