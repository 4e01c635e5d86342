//! Contracts: list, form, and validation of a file while it is typed.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Console;
use super::fields::Fields;
use super::file_form::{FileEdit, FileForm, named_file};
use super::frame::{Section, page};
use super::kinds::ResourceKind;
use super::lists::{Row, ThingsPage, kinds_of};
use super::pager::Pager;
use super::session::SessionUser;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::ConfigFileDraft;
use crate::model::contract::{Contract, ContractMode, ContractRule};
use crate::model::grant::Verb;
use crate::model::policy::PolicyKind;
use crate::model::wire::Words;

const SCHEMA: &str = "schema";

/// Fields of a contract in its form.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the form is made from its description alone")]
pub(super) struct ContractForm {
    name: String,
    /// Namespace, or a pattern with a trailing `*`; `*` for all.
    namespace: Option<String>,
    /// Names of rules, or `group/file` of config files; a trailing `*` matches any rest.
    names: Option<Vec<String>>,
    /// Kinds; all if none is chosen.
    kinds: Option<Vec<PolicyKind>>,
    mode: Option<ContractMode>,
    /// JSON Schema 2020-12, instead of rules.
    schema: Option<String>,
    /// Expressions that must be true, over `new`, `old`, `kind`, `namespace`, `name` and `user`.
    rules: Option<Vec<ContractRule>>,
    comment: Option<String>,
}

/// Returns the submitted draft without empty fields.
pub(super) fn typed(mut given: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    given.retain(|field, value| match field.as_str() {
        "kinds" | "comment" => true,
        _ => !matches!(value, Value::String(text) if text.trim().is_empty()) && *value != Value::Array(Vec::new()),
    });
    if let Some(Value::String(text)) = given.get(SCHEMA) {
        let schema = serde_json::from_str(text)
            .map_err(|error| Refusal::new(Code::InvalidParameter, format!("schema: {error}")))?;
        given.insert(SCHEMA.to_owned(), schema);
    }
    Ok(given)
}

pub(super) async fn list(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let frame = visitor.frame(Section::Setup);
    let name = query.name_filter("name");
    let contracts = console.node().state().catalog().contracts.clone();
    let listed = contracts.list(&name, &visitor.caller.read_scope(), &Pager::page_of(&query));
    let pager = Pager::new("/ui/contracts", &query, &listed);
    let t = frame.t;
    let row = |contract: &Arc<Contract>| {
        let kinds = kinds_of(&contract.kinds);
        let about = vec![contract.namespace.clone(), contract.names.join(", "), kinds, contract.comment.clone()];
        let class = if contract.mode == ContractMode::Refuse { "fault" } else { "warn" };
        Row { name: contract.name.clone(), about, badge: (class, contract.mode.word()), changed: None }
    };
    let rows = listed.rows.iter().map(row).collect();
    let columns = vec![t.namespace, t.things_named, t.kind, t.comment];
    let (sort, edits) = (ResourceKind::Contracts, visitor.may_somewhere(Verb::Edit));
    page(&ThingsPage { badges: Some(t.mode), frame, sort, query, columns, rows, pager, edits })
}

/// Faults of a text.
#[derive(Serialize)]
struct Faults {
    faults: Vec<String>,
}

/// Reports the faults that would prevent a publish of a text. Stores nothing.
pub(super) async fn check(State(console): State<Console>, form: FileEdit) -> Response {
    let FileForm { visitor, fields, key } = form;
    let content = Some(fields.raw("text").replace("\r\n", "\n"));
    let draft = ConfigFileDraft { content, format: fields.given("format"), ..named_file(&key) };
    if let Err(refusal) = draft.check(console.operations.bounds().config_content_chars_max) {
        return Json(Faults { faults: vec![refusal.info()] }).into_response();
    }
    match console.operations.faults(&visitor.caller, vec![Ok(draft)]).await {
        Ok((_, faults)) => Json(Faults { faults: faults.into_iter().flatten().collect() }).into_response(),
        Err(refusal) => visitor.barred(&console, &refusal),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> Result<Value, Refusal> {
        typed(value.as_object().expect("fields").clone()).map(Value::Object)
    }

    #[test]
    fn what_is_not_typed_is_not_said() {
        let given = json!({ "name": "c", "namespace": "", "names": [], "kinds": [], "schema": " ", "rules": [] });
        assert_eq!(of(given), Ok(json!({ "name": "c", "kinds": [] })));
        let given = json!({ "name": "c", "schema": "{\"const\":null}", "rules": [{ "expression": "true" }] });
        let read = json!({ "name": "c", "schema": { "const": null }, "rules": [{ "expression": "true" }] });
        assert_eq!(of(given), Ok(read));
        let refusal = of(json!({ "name": "c", "schema": "{" })).expect_err("no JSON");
        assert!(refusal.detail.starts_with("schema: "), "{refusal:?}");
    }
}
