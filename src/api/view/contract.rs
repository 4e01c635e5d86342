//! Contracts as the management surface shows them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::contract::{Contract, ContractMode, ContractRule};
use crate::model::policy::PolicyKind;

/// Schema or expressions that config files and rules must satisfy.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Contract")]
pub(crate) struct ContractView<'a> {
    name: &'a str,
    namespace: &'a str,
    names: &'a [String],
    /// Kinds in its scope; empty for all.
    kinds: &'a [PolicyKind],
    mode: ContractMode,
    /// JSON Schema 2020-12; absent if there are rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    schema: Option<&'a RawValue>,
    /// Expressions; absent if there is a schema.
    #[serde(skip_serializing_if = "<[ContractRule]>::is_empty")]
    rules: &'a [ContractRule],
    comment: &'a str,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// Revision, new after every change.
    revision: &'a str,
}

impl<'a> ContractView<'a> {
    pub(crate) fn new(contract: &'a Contract) -> Self {
        ContractView {
            name: &contract.name,
            namespace: &contract.namespace,
            names: &contract.names,
            kinds: &contract.kinds,
            mode: contract.mode,
            schema: serde_json::from_str(&contract.schema).ok(),
            rules: &contract.rules,
            comment: &contract.comment,
            ctime: contract.created.time.text(),
            create_by: &contract.created.by,
            mtime: contract.modified.time.text(),
            modify_by: &contract.modified.by,
            revision: &contract.revision,
        }
    }
}
