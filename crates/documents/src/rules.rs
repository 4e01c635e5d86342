//! Rules as JSON, in the form that the management API reads and writes.

use std::marker::PhantomData;

use serde_json::Value;
use serde_json::value::RawValue;
use thuban_model::code::{Code, Refusal};
use thuban_model::rule::{Family, Rule, RuleDraft, RuleHead};

use super::parsing::{parse_noting, refuse_unknown};
use super::upstream::folded;
use super::view::RuleView;

/// Fields that users do not write: set by the cluster, or derived from another field.
pub const GIVEN: [&str; 8] = ["id", "disable", "revision", "ctime", "mtime", "etime", "editable", "deleteable"];

/// Returns the fields of a rule that users write; none without a rule.
pub fn written(rule: Option<&Rule>) -> Value {
    let Some(rule) = rule else { return Value::Object(serde_json::Map::new()) };
    let mut value = serde_json::to_value(RuleView::new(rule, true)).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|field, _| !GIVEN.contains(&field.as_str()));
    }
    value
}

/// Parses a rule that a user wrote; an unknown field is refused with its path.
pub fn read_rule(family: Family, text: &str) -> Result<RuleDraft, Refusal> {
    let raw: &RawValue =
        serde_json::from_str(text).map_err(|error| Refusal::new(Code::ParseException, error.to_string()))?;
    let folded = folded(family, raw.get()).and_then(|text| RawValue::from_string(text).ok());
    let (rule, fields) = parse_rule(family, folded.as_deref().unwrap_or(raw));
    refuse_unknown(rule, fields).0
}

/// Parses the common fields and those of the family one after the other from the same object, so that a wrong type is
/// refused with the path of its field. Also returns the fields that neither knows.
pub fn parse_rule(family: Family, raw: &RawValue) -> (Result<RuleDraft, Refusal>, Vec<String>) {
    let (head, of_head) = parse_noting(PhantomData::<RuleHead>, raw);
    let (body, of_body) = parse_noting(family, raw);
    let is_known_to_head = |field: &String| !field.contains(['.', '[']) && !of_head.contains(field);
    let unread = of_body.into_iter().filter(|field| !is_known_to_head(field)).collect();
    (head.and_then(|head| Ok(RuleDraft { head, body: body? })), unread)
}
