//! A rule under edit: as a form, or as JSON.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde_json::Value;
use thuban_ctl::yaml;
use thuban_documents::{GIVEN, read_rule};

use super::fields::Fields;
use super::settle;
use super::sheet::FieldKind;
use super::sheet::edit::edited;
use super::sheet::read::Sent;
use crate::model::code::{Code, Refusal};
use crate::model::rule::{Family, RuleDraft, RuleHead, WithTypes};

/// Fields of acts, which their own buttons send.
const OF_ACTS: [&str; 4] = ["request", "request_set", "hold", "emergency"];

/// Input of a user, in the form in which it was typed.
#[derive(Clone)]
pub(super) enum Typed {
    Json(String),
    Yaml(String),
    Form(Value),
}

/// Fields of a rule that users set.
struct GivenFields;

impl WithTypes for GivenFields {
    type Output = FieldKind;

    fn run<B: JsonSchema, P: JsonSchema>() -> FieldKind {
        let is_of_draft = |field: &str| !GIVEN.contains(&field) && !OF_ACTS.contains(&field);
        FieldKind::of::<RuleHead>().without(|field| !is_of_draft(field)).and(FieldKind::of::<B>())
    }
}

/// Returns the schema of a family's form, derived once per family.
pub(super) fn kind_of(family: Family) -> &'static FieldKind {
    static KINDS: [OnceLock<FieldKind>; Family::ALL.len()] = [const { OnceLock::new() }; Family::ALL.len()];
    KINDS[family as usize].get_or_init(|| family.with_types::<GivenFields>())
}

impl Typed {
    /// Returns a rule for editing, in the form that the query selects.
    pub(super) fn of(family: Family, written: Value, query: &Fields) -> Typed {
        match query.get("as") {
            "json" => Typed::Json(compact(&written)),
            "yaml" => Typed::Yaml(as_yaml(written)),
            _ => Typed::Form(kind_of(family).opened(written)),
        }
    }

    /// Reads the submitted input; true if it is to be saved, false if a button within the form only changes the form.
    pub(super) fn read(family: Family, fields: &Fields) -> (Typed, bool) {
        if fields.get("as") == "json" {
            return (Typed::Json(fields.raw("text").to_owned()), true);
        }
        if fields.get("as") == "yaml" {
            return (Typed::Yaml(fields.raw("text").replace("\r\n", "\n")), true);
        }
        let kind = kind_of(family);
        let value = settle::cleaned(Sent::of(fields).value(kind));
        match fields.given("edit") {
            Some(asked) => (Typed::Form(settle::settled(edited(kind, value, &asked), &asked)), false),
            None => (Typed::Form(value), true),
        }
    }

    pub(super) fn draft(&self, family: Family) -> Result<RuleDraft, Refusal> {
        match self {
            Typed::Json(text) => read_rule(family, text),
            Typed::Yaml(text) => read_rule(family, &of_yaml(text)?.to_string()).map_err(without_place),
            Typed::Form(value) => {
                let written = kind_of(family).closed(value.clone())?.to_string();
                read_rule(family, &written).map_err(without_place)
            }
        }
    }

    /// Returns the whole draft as JSON, if it can be read.
    pub(super) fn whole(&self, family: Family) -> Option<String> {
        match self {
            Typed::Json(text) => {
                Some(serde_json::from_str(text).map_or_else(|_| text.clone(), |value: Value| compact(&value)))
            }
            Typed::Yaml(text) => Some(of_yaml(text).map_or_else(|_| text.clone(), |value| compact(&value))),
            Typed::Form(value) => kind_of(family).closed(value.clone()).ok().map(|value| compact(&value)),
        }
    }

    /// Returns the way of editing, as addresses name it.
    pub(super) fn way(&self) -> &'static str {
        match self {
            Typed::Json(_) => "json",
            Typed::Yaml(_) => "yaml",
            Typed::Form(_) => "form",
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Typed::Json(text) | Typed::Yaml(text) => text,
            Typed::Form(_) => "",
        }
    }
}

fn as_yaml(written: Value) -> String {
    let text = yaml::write(&without_nulls(written)).unwrap_or_default();
    text.trim_start_matches("---\n").to_owned()
}

/// Parses a text with one document.
fn of_yaml(text: &str) -> Result<Value, Refusal> {
    let refuse = |why: String| Refusal::new(Code::ParseException, why);
    let mut documents = yaml::read(text).map_err(|fault| refuse(format!("{fault:#}")))?;
    match (documents.pop(), documents.is_empty()) {
        (Some((_, document)), true) => Ok(document),
        _ => Err(refuse("one document is expected".to_owned())),
    }
}

/// Removes line and column from a fault, which refer to the JSON made from the form.
fn without_place(refusal: Refusal) -> Refusal {
    let is_place = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match refusal.detail.rsplit_once(" at line ") {
        Some((said, place)) if place.split(" column ").all(is_place) => Refusal::new(refusal.code, said),
        _ => refusal,
    }
}

fn pretty(written: &Value) -> String {
    serde_json::to_string_pretty(written).unwrap_or_default()
}

/// Formats a rule as JSON without absent fields.
pub(super) fn compact(written: &Value) -> String {
    pretty(&without_nulls(written.clone()))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let given = fields.into_iter().filter(|(_, value)| !value.is_null());
            given.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        value => value,
    }
}

/// Returns the initial value of a new rule, with values that proxies carry out.
pub(super) fn blank(family: Family) -> Value {
    let body = family.blank();
    let text = format!(r#"{{"namespace": "default", "name": "", "enable": true, "priority": 0, {body}}}"#);
    settle::begun(family, serde_json::from_str(&text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_of_a_form_has_a_field_and_no_place() {
        for family in Family::ALL {
            let mut written = blank(*family);
            written["priority"] = json!(-1);
            let json = Typed::Json(written.to_string()).draft(*family).expect_err("no such priority");
            let form = Typed::Form(kind_of(*family).opened(written)).draft(*family).expect_err("no such priority");
            assert!(json.detail.contains(" at line 1 column "), "{}", json.detail);
            assert!(form.detail.starts_with("priority: ") && !form.detail.contains(" at "), "{}", form.detail);
        }
    }

    #[test]
    fn what_one_begins_with_is_a_rule_but_for_its_name() {
        for family in Family::ALL {
            for query in ["", "as=json", "as=yaml"] {
                let typed = Typed::of(*family, blank(*family), &Fields::parse(query.as_bytes()));
                let refusal = typed.draft(*family).expect("it can be read").check_new().expect_err("it has no name");
                assert!(refusal.info().contains("name"), "{}", refusal.info());
            }
        }
    }
}
