//! Drafts of rules: their fields, their checks, and their application to a stored rule.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::{BodyPatch, Rule};
use crate::model::act_words::{SaysOfActs, SentFor, given_fields, is_text};
use crate::model::code::{Code, Refusal};
use crate::model::draft::{lay_over, replace, sparse};
use crate::model::stamp::Stamp;
use crate::model::wire::Uint32;
use crate::model::{limits, name};

/// Fields of a rule in a request; an absent field is not changed. The draft names the rule by id, or otherwise by
/// namespace and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleDraft {
    pub head: RuleHead,
    pub body: BodyPatch,
}

sparse! {
    /// Fields that rules of all families have.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct RuleHead {
        /// Printable ASCII of at most 128 characters; generated if absent.
        pub id: Option<String>,
        /// 1 to 128 characters, none of them a control character.
        pub name: Option<String>,
        /// Letters, digits and `- . / : _`, at most 64 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub namespace: Option<String>,
        /// True if the rule is enabled; the default for a new rule.
        pub enable: Option<bool>,
        /// Opposite of `enable`. An update that includes the current `revision` may change one of the two and send the
        /// other one as it was read.
        pub disable: Option<bool>,
        /// Text of at most 1024 characters.
        pub description: Option<String>,
        /// Priority; 0 is the highest.
        pub priority: Option<Uint32>,
        /// Map of at most 64 entries; keys of at most 128, values of at most 4096 characters.
        pub metadata: Option<BTreeMap<String, String>>,
        /// Expected revision of an update; any other than the current one is refused with 409000.
        pub revision: Option<String>,
        ..approval_options,
    }
}

impl RuleHead {
    /// Returns the id if the caller gave one; an empty one counts as absent.
    pub fn given_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Returns the switch by either of its names. If the two contradict each other, one of them is the stored value,
    /// and the caller has changed the other one.
    fn switch(&self, kept: bool) -> bool {
        match (self.enable, self.disable) {
            _ if self.is_contradictory() => !kept,
            (Some(enable), _) => enable,
            (None, Some(disable)) => !disable,
            (None, None) => kept,
        }
    }

    /// Reports whether `enable` and `disable` contradict each other.
    fn is_contradictory(&self) -> bool {
        self.enable.is_some() && self.enable == self.disable
    }

    /// Refuses a contradiction without a revision, because repeating such a request would toggle the switch each time.
    fn check_switch(&self, is_update: bool) -> Result<(), Refusal> {
        let names_revision = self.revision.as_deref().is_some_and(|revision| !revision.is_empty());
        if !self.is_contradictory() || (is_update && names_revision) {
            return Ok(());
        }
        let advice = if is_update { ": send one of them, or the revision that they were read with" } else { "" };
        let why = format!("enable and disable contradict each other{advice}");
        Err(Refusal::new(Code::InvalidParameter, why))
    }

    fn check_values(&self) -> Result<(), Refusal> {
        self.given_id().map_or(Ok(()), name::check_id)?;
        self.name.as_deref().map_or(Ok(()), |name| name::check_title("name", name))?;
        self.namespace.as_deref().map_or(Ok(()), name::check_namespace)?;
        let description = self.description.as_deref().unwrap_or("");
        name::check_length("description", description, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        self.metadata.as_ref().map_or(Ok(()), name::check_metadata)
    }

    fn check_name(&self) -> Result<(), Refusal> {
        name::check_title("name", self.name.as_deref().unwrap_or(""))?;
        name::check_namespace(self.namespace.as_deref().unwrap_or(""))
    }
}

impl RuleDraft {
    /// Checks a new rule, which needs name and namespace.
    pub fn check_new(&self) -> Result<(), Refusal> {
        self.head.check_name()?;
        self.head.check_switch(false)?;
        self.head.check_values()?;
        SentFor::Save.check(&self.head)?;
        let mut body = self.body.family().body();
        self.body.lay_over(&mut body);
        body.shape().check()?;
        Ok(body.shape_mut().settle()?)
    }

    pub fn check_update(&self) -> Result<(), Refusal> {
        self.check_named()?;
        self.head.check_switch(true)?;
        self.head.check_values()?;
        SentFor::Save.check(&self.head)?;
        let mut given = self.body.family().body();
        self.body.lay_over(&mut given);
        Ok(given.shape().check()?)
    }

    /// Checks a request to delete the rule, which may be sent as it was read.
    pub fn check_deletion(&self) -> Result<(), Refusal> {
        self.check_named()?;
        self.head.approval_options().check()?;
        SentFor::Deletion.check(&self.head)
    }

    /// Checks that the draft names a rule, by id, or by name and namespace.
    fn check_named(&self) -> Result<(), Refusal> {
        self.head.given_id().map_or_else(|| self.head.check_name(), name::check_id)
    }

    /// Creates a new rule from the draft.
    pub fn rule(&self, id: String, revision: String, stamp: Stamp) -> Result<Rule, Fault> {
        let mut rule = Rule {
            id,
            name: String::new(),
            namespace: String::new(),
            enable: true,
            description: String::new(),
            priority: 0,
            metadata: BTreeMap::new(),
            body: self.body.family().body(),
            created: stamp.clone(),
            modified: stamp,
            enabled_at: None,
            revision,
            versions: 0,
            removed_through: 0,
        };
        self.lay_over(&mut rule)?;
        Ok(rule)
    }

    /// Overwrites `rule` with the given fields; absent ones are not changed.
    pub fn lay_over(&self, rule: &mut Rule) -> Result<(), Fault> {
        lay_over!(self.head => rule: name, namespace, description, metadata);
        rule.enable = self.head.switch(rule.enable);
        replace(&mut rule.priority, &self.head.priority.map(|priority| priority.0));
        self.body.lay_over(&mut rule.body);
        let shape = rule.body.shape_mut();
        shape.drop_empty();
        shape.settle()
    }
}

impl SaysOfActs for RuleHead {
    fn said(&self) -> Vec<&'static str> {
        given_fields([
            ("enable", self.enable.is_some()),
            ("disable", self.disable.is_some()),
            ("description", is_text(&self.description)),
            ("priority", self.priority.is_some()),
            ("metadata", self.metadata.as_ref().is_some_and(|metadata| !metadata.is_empty())),
            ("revision", is_text(&self.revision)),
            ("request", is_text(&self.request)),
            ("request_set", is_text(&self.request_set)),
            ("hold", self.hold.is_some()),
            ("emergency", is_text(&self.emergency)),
        ])
    }
}
