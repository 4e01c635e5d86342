//! Contracts: constraints on config files and rules, as a JSON Schema or as CEL expressions.
//!
//! A contract selects objects by patterns, as a policy does. If several select one object, all of them apply. The node
//! that receives a request checks contracts, never apply: the engines of schemas and expressions may change with every
//! version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
use super::grant::check_pattern;
use super::policy::{Place, PolicyKind, check_names, groups_of, is_about};
use super::stamp::Stamp;
use super::wire::wire_enum;
use super::{limits, name};

wire_enum! {
    /// Effect of a violation.
    pub enum ContractMode {
        /// Adds a warning.
        Warn = "warn",
        /// Refuses the publication.
        Refuse = "refuse",
    }
}

/// An expression, and the message for its violation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContractRule {
    /// CEL expression over `new`, `old` (the version in force, or null), `kind`, `namespace`, `name` and `user`; at
    /// most 4096 bytes. It must evaluate to `true`.
    pub expression: String,
    /// Text of at most 1024 characters.
    pub message: String,
}

/// A contract. Its identity is its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    pub name: String,
    /// Pattern of namespaces.
    pub namespace: String,
    /// Patterns of names, one of which must match.
    pub names: Vec<String>,
    /// Kinds of objects; empty for all.
    pub kinds: Vec<PolicyKind>,
    pub mode: ContractMode,
    /// JSON Schema as compact JSON; empty if there are rules.
    pub schema: String,
    pub rules: Vec<ContractRule>,
    pub comment: String,
    pub created: Stamp,
    pub modified: Stamp,
    pub revision: String,
}

impl Contract {
    /// Creates a contract with a name and defaults.
    pub fn new(name: &str) -> Contract {
        let all = || "*".to_owned();
        Contract { name: name.to_owned(), namespace: all(), names: vec![all()], ..Contract::default() }
    }

    /// Reports whether the contract applies to an object at a place.
    pub fn applies_to(&self, kind: PolicyKind, place: &Place) -> bool {
        let names = self.names.iter().map(String::as_str);
        is_about((&self.kinds, &self.namespace, names), kind, place)
    }

    /// Returns the patterns of the names that grants must cover; for files those of their groups.
    pub fn scopes(&self) -> Vec<&str> {
        let covers_kind = |kind: &dyn Fn(&PolicyKind) -> bool| self.kinds.is_empty() || self.kinds.iter().any(kind);
        let of_files = covers_kind(&|kind| *kind == PolicyKind::ConfigFile);
        let of_rules = covers_kind(&|kind| *kind != PolicyKind::ConfigFile);
        let mut scopes = Vec::new();
        for pattern in &self.names {
            let groups = groups_of(pattern);
            let is_group = groups.contains(&pattern.as_str());
            scopes.extend(groups.into_iter().filter(|_| of_files));
            scopes.extend((of_rules && !(of_files && is_group)).then_some(pattern.as_str()));
        }
        scopes
    }
}

sparse! {
    /// Request for a contract; an absent field is not changed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ContractDraft {
        /// Letters, digits and `- . / : _`, at most 128 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub name: String,
        /// A namespace, a prefix followed by `*`, or `*` for all; `*` if absent.
        pub namespace: Option<String>,
        /// Names of rules, or `group/file` of config files; patterns as for the namespace. A pattern without a slash
        /// selects all files of the groups that it matches; `group//file` is for groups and files whose names contain
        /// slashes. A file is selected under every name that serves the same clients. All if absent.
        pub names: Option<Vec<String>>,
        /// Kinds of objects; all if absent.
        pub kinds: Option<Vec<PolicyKind>>,
        /// Effect of a violation; `warn` if absent.
        pub mode: Option<ContractMode>,
        /// JSON Schema 2020-12 of the content, at most 64 KiB; excludes `rules`.
        pub schema: Option<Value>,
        /// Expressions that must be true, 1 to 64; excludes `schema`.
        pub rules: Option<Vec<ContractRule>>,
        /// Text of at most 1024 characters.
        pub comment: Option<String>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
    }
}

impl ContractDraft {
    pub fn check_named(&self) -> Result<(), Refusal> {
        name::check_identifier("name", &self.name, limits::NAME_CHARS_MAX, Code::InvalidParameter)
    }

    /// Checks a new contract, which needs a schema or rules.
    pub fn check_new(&self) -> Result<(), Refusal> {
        self.check()?;
        if self.schema.is_none() && self.rules.is_none() {
            return Err(refused("one of schema and rules is required"));
        }
        Ok(())
    }

    pub fn check(&self) -> Result<(), Refusal> {
        self.check_named()?;
        self.namespace.as_deref().map_or(Ok(()), |pattern| check_pattern("namespace", pattern))?;
        check_names(self.names.as_deref())?;
        if self.schema.is_some() && self.rules.is_some() {
            return Err(refused("schema and rules: one of them"));
        }
        if self.schema.as_ref().is_some_and(|schema| schema.to_string().len() > limits::CONTRACT_SCHEMA_BYTES_MAX) {
            return Err(refused(format!("schema: at most {} bytes", limits::CONTRACT_SCHEMA_BYTES_MAX)));
        }
        if let Some(rules) = &self.rules {
            if rules.is_empty() || rules.len() > limits::CONTRACT_RULES_MAX {
                return Err(refused(format!("rules: 1 to {} of them", limits::CONTRACT_RULES_MAX)));
            }
            rules.iter().try_for_each(ContractRule::check)?;
        }
        let comment = self.comment.as_deref().unwrap_or("");
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)
    }

    /// Overwrites `contract` with the given fields; absent ones are not changed, nor is the name.
    pub fn lay_over(&self, contract: &mut Contract) {
        lay_over!(self => contract: namespace, names, kinds, mode, comment);
        if let Some(schema) = &self.schema {
            contract.schema = schema.to_string();
            contract.rules = Vec::new();
        }
        if let Some(rules) = &self.rules {
            contract.rules.clone_from(rules);
            contract.schema = String::new();
        }
    }
}

impl ContractRule {
    fn check(&self) -> Result<(), Refusal> {
        name::check_length("rules: message", &self.message, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        if self.expression.trim().is_empty() || self.expression.len() > limits::CONTRACT_EXPRESSION_BYTES_MAX {
            let why = format!("rules: expression: 1 to {} bytes", limits::CONTRACT_EXPRESSION_BYTES_MAX);
            return Err(refused(why));
        }
        Ok(())
    }
}

/// A violation of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub contract: String,
    pub mode: ContractMode,
    /// JSON Pointer; `/` for the whole document.
    pub path: String,
    /// Line in a file, counted from 1.
    pub line: Option<usize>,
    pub message: String,
}

impl Violation {
    /// Formats the violation in one line, for refusals and warnings.
    pub fn text(&self) -> String {
        let line = self.line.map(|line| format!("line {line}, ")).unwrap_or_default();
        format!("contract {}: {line}{}: {}", self.contract, self.path, self.message)
    }
}

fn refused(why: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidParameter, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rule::Family;

    #[test]
    fn drafts_are_checked() {
        let read = |json: &str| serde_json::from_str::<ContractDraft>(json).expect("a draft");
        let long = "x".repeat(limits::CONTRACT_EXPRESSION_BYTES_MAX + 1);
        for (json, why) in [
            (r#"{"schema":{}}"#.to_owned(), "name"),
            (r#"{"name":"c"}"#.to_owned(), "schema and rules"),
            (r#"{"name":"c","schema":{},"rules":[{"expression":"true"}]}"#.to_owned(), "one of them"),
            (r#"{"name":"c","rules":[]}"#.to_owned(), "rules"),
            (r#"{"name":"c","rules":[{"message":"m"}]}"#.to_owned(), "expression"),
            (format!(r#"{{"name":"c","rules":[{{"expression":"{long}"}}]}}"#), "4096 bytes"),
            (r#"{"name":"c","schema":{},"names":["a*b"]}"#.to_owned(), "names"),
            (format!(r#"{{"name":"c","schema":{{"title":"{}"}}}}"#, "x".repeat(65_536)), "65536 bytes"),
        ] {
            let refusal = read(&json).check_new().expect_err(why);
            assert!(refusal.info().contains(why), "{refusal:?}");
        }
        assert!(read(r#"{"name":"c","schema":true}"#).check_new().is_ok());
        assert!(read(r#"{"name":"c","comment":"changed"}"#).check().is_ok());
    }

    #[test]
    fn a_schema_takes_the_place_of_rules_and_the_other_way_round() {
        let read = |json: &str| serde_json::from_str::<ContractDraft>(json).expect("a draft");
        let mut contract = Contract::new("c");
        read(r#"{"name":"c","schema":{"const":null}}"#).lay_over(&mut contract);
        assert_eq!((contract.schema.as_str(), contract.rules.len()), (r#"{"const":null}"#, 0));
        read(r#"{"name":"c","rules":[{"expression":"true"}]}"#).lay_over(&mut contract);
        assert_eq!((contract.schema.as_str(), contract.rules.len()), ("", 1));
        read(r#"{"name":"c","mode":"refuse"}"#).lay_over(&mut contract);
        assert_eq!((contract.mode, contract.rules.len()), (ContractMode::Refuse, 1));
    }

    #[test]
    fn scopes_are_those_that_grants_judge() {
        let contract = |names: &[&str], kinds: &[PolicyKind]| Contract {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            kinds: kinds.to_vec(),
            ..Contract::new("c")
        };
        let routing = PolicyKind::Rule(Family::Routing);
        assert_eq!(contract(&["pay*"], &[]).scopes(), ["pay*"]);
        assert_eq!(contract(&["pay/app.yml"], &[PolicyKind::ConfigFile]).scopes(), ["pay"]);
        assert_eq!(contract(&["pay/app.yml"], &[routing]).scopes(), ["pay/app.yml"]);
        assert_eq!(contract(&["pay/app.yml", "x"], &[]).scopes(), ["pay", "pay/app.yml", "x"]);
        assert_eq!(contract(&["pay/eu/app.yml"], &[PolicyKind::ConfigFile]).scopes(), ["pay", "pay/eu"]);
        assert_eq!(contract(&["pay/eu//app.yml"], &[PolicyKind::ConfigFile]).scopes(), ["pay/eu"]);
    }
}
