//! JSON view of a rule, with the fields that only answers have.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use thuban_model::rule::{Fields, Rule};
use thuban_model::time::Timestamp;

/// Fields that the rules of all families have.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rule")]
pub struct RuleView<'a> {
    #[serde(skip)]
    pub element: &'static str,
    id: &'a str,
    name: &'a str,
    namespace: &'a str,
    enable: bool,
    /// The opposite of `enable`.
    disable: bool,
    description: &'a str,
    /// Priority; 0 is the highest.
    priority: u32,
    metadata: &'a BTreeMap<String, String>, // bound: request
    /// Fields of the family, described by the family.
    #[serde(flatten)]
    #[schemars(skip)]
    fields: Option<Fields<'a>>,
    /// Empty fields of the family, described with the others.
    #[serde(flatten)]
    #[schemars(skip)]
    unset: Option<Unset>,
    revision: &'a str,
    ctime: String,
    mtime: String,
    /// Time at which the rule was last enabled; empty if never.
    etime: String,
    editable: bool,
    deleteable: bool,
}

/// Names of empty fields, which an answer includes.
struct Unset(Vec<&'static str>);

impl Serialize for Unset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|field| (field, ())))
    }
}

impl<'a> RuleView<'a> {
    pub fn new(rule: &'a Rule, with_body: bool) -> Self {
        RuleView {
            element: rule.family().element(),
            id: &rule.id,
            name: &rule.name,
            namespace: &rule.namespace,
            enable: rule.enable,
            disable: !rule.enable,
            description: &rule.description,
            priority: rule.priority,
            metadata: &rule.metadata,
            fields: with_body.then(|| rule.body.fields()),
            unset: with_body.then(|| Unset(rule.body.unset())),
            revision: &rule.revision,
            ctime: rule.created.time.text(),
            mtime: rule.modified.time.text(),
            etime: rule.enabled_at.map(Timestamp::text).unwrap_or_default(),
            editable: true,
            deleteable: true,
        }
    }
}
