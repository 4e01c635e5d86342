//! Policies: required approvals for acts on releases, and times at which such acts are not permitted.
//!
//! A policy selects objects by patterns and acts by gates, and defines the number of approvals and the freezes. If
//! several policies select one act, all of them apply. They are checked during apply.

mod calendar;
mod freeze;
mod place;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
use super::grant::check_pattern;
use super::rule::Family;
use super::stamp::Stamp;
use super::wire::wire_enum;
use super::{limits, name};
pub use calendar::Calendar;
pub use freeze::{Day, Freeze};
pub use place::{Place, groups_of, is_about};

wire_enum! {
    /// Acts that change what clients see, as policies gate them.
    pub enum Gate {
        Publish = "publish",
        Gray = "gray",
        Promote = "promote",
        Rollback = "rollback",
        Withdraw = "withdraw",
        Stop = "stop",
        Delete = "delete",
    }
}

impl Gate {
    /// Gates of a policy that names none: going back to an earlier state is not gated.
    pub const USUAL: &'static [Gate] = &[Gate::Publish, Gate::Gray, Gate::Promote, Gate::Withdraw, Gate::Delete];

    pub fn word(self) -> &'static str {
        super::wire::Words::word(self)
    }
}

/// Kind of an object with releases: a config file, or a rule of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyKind {
    ConfigFile,
    Rule(Family),
}

impl PolicyKind {
    /// Returns all kinds in the order of their display.
    pub fn all() -> impl Iterator<Item = PolicyKind> {
        [PolicyKind::ConfigFile].into_iter().chain(Family::LISTED.into_iter().map(PolicyKind::Rule))
    }

    pub fn word(self) -> &'static str {
        match self {
            PolicyKind::ConfigFile => "configfile",
            PolicyKind::Rule(family) => family.word(),
        }
    }

    pub fn of_word(word: &str) -> Option<PolicyKind> {
        PolicyKind::all().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for PolicyKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for PolicyKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        PolicyKind::of_word(&word).ok_or_else(|| {
            let words: Vec<_> = PolicyKind::all().map(PolicyKind::word).collect();
            Error::custom(format!("{word:?} is none of {}", words.join(", ")))
        })
    }
}

impl JsonSchema for PolicyKind {
    fn schema_name() -> Cow<'static, str> {
        "PolicyKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<_> = PolicyKind::all().map(PolicyKind::word).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

/// A policy. Its identity is its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub name: String,
    /// Pattern of namespaces.
    pub namespace: String,
    /// Patterns of names, one of which must match.
    pub names: Vec<String>,
    /// Kinds of objects; empty for all.
    pub kinds: Vec<PolicyKind>,
    pub approvals: u8,
    pub gates: Vec<Gate>,
    pub freezes: Vec<Freeze>,
    pub comment: String,
    pub created: Stamp,
    pub modified: Stamp,
    pub revision: String,
}

impl Policy {
    /// Creates a policy with a name and defaults.
    pub fn new(name: &str) -> Policy {
        Policy {
            name: name.to_owned(),
            namespace: "*".to_owned(),
            names: vec!["*".to_owned()],
            approvals: 1,
            gates: Gate::USUAL.to_vec(),
            ..Policy::default()
        }
    }

    /// Reports whether the policy applies to an act at a place.
    pub fn gates(&self, gate: Gate, kind: PolicyKind, place: &Place) -> bool {
        self.gates.contains(&gate) && is_about((&self.kinds, &self.namespace, self.patterns()), kind, place)
    }

    /// Returns the scopes that the policy and a place have in common: an approver needs the right on each of them.
    pub fn scopes_at(&self, place: &Place) -> impl Iterator<Item = (String, String)> {
        place.scopes_in(&self.namespace, self.patterns())
    }

    fn patterns(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

sparse! {
    /// Request for a policy; an absent field is not changed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct PolicyDraft {
        /// Letters, digits and `- . / : _`, at most 128 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub name: String,
        /// A namespace, a prefix followed by `*`, or `*` for all; `*` if absent.
        pub namespace: Option<String>,
        /// Names of rules and of services that rules affect, or `group/file` of config files; patterns as for the
        /// namespace. A pattern without a slash selects all files of the groups that it matches; `group//file` is for
        /// groups and files whose names contain slashes. A file is selected under every name that serves the same
        /// clients. All if absent.
        pub names: Option<Vec<String>>,
        /// Kinds of objects; all if absent.
        pub kinds: Option<Vec<PolicyKind>>,
        /// Number of required approvals by others: 0 to 5, 1 if absent.
        pub approvals: Option<u8>,
        /// Gated acts; `publish`, `gray`, `promote`, `withdraw` and `delete` if absent.
        pub gates: Option<Vec<Gate>>,
        /// Times at which the gated acts are not permitted.
        pub freezes: Option<Vec<Freeze>>,
        /// Text of at most 1024 characters.
        pub comment: Option<String>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
    }
}

impl PolicyDraft {
    pub fn check_named(&self) -> Result<(), Refusal> {
        name::check_identifier("name", &self.name, limits::NAME_CHARS_MAX, Code::InvalidParameter)
    }

    pub fn check(&self) -> Result<(), Refusal> {
        self.check_named()?;
        let refuse = |why: String| Err(Refusal::new(Code::InvalidParameter, why));
        self.namespace.as_deref().map_or(Ok(()), |pattern| check_pattern("namespace", pattern))?;
        check_names(self.names.as_deref())?;
        if self.approvals.is_some_and(|approvals| approvals > limits::APPROVALS_MAX) {
            return refuse(format!("approvals: at most {}", limits::APPROVALS_MAX));
        }
        if self.gates.as_ref().is_some_and(Vec::is_empty) {
            return refuse("gates: at least one, or none of the field".to_owned());
        }
        let freezes = self.freezes.as_deref().unwrap_or_default();
        if freezes.len() > limits::FREEZES_MAX {
            return refuse(format!("freezes: {} of them, at most {}", freezes.len(), limits::FREEZES_MAX));
        }
        freezes.iter().try_for_each(Freeze::check)?;
        let comment = self.comment.as_deref().unwrap_or("");
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)
    }

    /// Overwrites `policy` with the given fields; absent ones are not changed, nor is the name.
    pub fn lay_over(&self, policy: &mut Policy) {
        lay_over!(self => policy: namespace, names, kinds, approvals, gates, freezes, comment);
    }
}

/// Refuses an invalid list of name patterns.
pub fn check_names(names: Option<&[String]>) -> Result<(), Refusal> {
    let Some(names) = names else { return Ok(()) };
    if names.is_empty() || names.len() > limits::POLICY_NAMES_MAX {
        let why = format!("names: 1 to {} of them", limits::POLICY_NAMES_MAX);
        return Err(Refusal::new(Code::InvalidParameter, why));
    }
    names.iter().try_for_each(|pattern| check_pattern("names", pattern))
}
