//! Releases of rules, as in the table "RuleRelease" of the specification.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Family, Rule, RuleType};
use crate::model::act_words::{
    SaysOfActs, SentFor, check_narrowed, check_type, given_fields, is_list, is_text, said_of_releases,
};
use crate::model::audience::{Audience, ClientLabel, ClientPercent};
use crate::model::code::{Code, Refusal};
use crate::model::draft::sparse;
use crate::model::release::{GivenTime, Pin, Plan, ReleaseOp, ReleaseState, ReleaseType};
use crate::model::rollout::{RolloutAction, RolloutPlan, StagedRollout, rollout_control_fields};
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;
use crate::model::wire::{Uint64, of_no_caller};
use crate::model::{limits, name};

/// An immutable copy of a published rule. Only `active`, `version`, `modified` and, with a rollout, its share change
/// later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleRelease {
    pub id: String,
    /// Name, unique among the releases of the rule.
    pub name: String,
    pub description: String,
    pub release_type: ReleaseType,
    pub client_labels: Vec<ClientLabel>,
    /// Share of the clients of a gray release; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_percent: Option<ClientPercent>,
    /// Schedule of a release that is not published yet, or whose publication failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Progress of a gray release that was published with a rollout plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Box<StagedRollout>>,
    /// Number of the release in one count per rule; a rollback assigns a new one.
    pub version: u64,
    pub active: bool,
    /// The rule as released.
    pub rule: Arc<Rule>,
    /// Time and author of the publication.
    pub created: Stamp,
    /// Time and author of the last change of its state.
    pub modified: Stamp,
}

impl RuleRelease {
    pub fn state(&self) -> ReleaseState {
        ReleaseState::of(self.release_type, self.active, self.plan.as_ref())
    }

    pub fn audience(&self) -> Audience<'_> {
        Audience { labels: &self.client_labels, percent: self.client_percent.as_ref() }
    }
}

sparse! {
    /// Request for a new release, or for an operation on an existing one.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct RuleReleaseDraft {
        /// Id of the release. On publish without `rule_id` and `rule_name`, the id of the rule.
        pub id: Option<String>,
        #[serde(alias = "ruleId")]
        pub rule_id: Option<String>,
        #[serde(alias = "ruleName")]
        pub rule_name: Option<String>,
        /// Namespace of the rule, if its name is not unique.
        pub namespace: Option<String>,
        /// Name of the release; generated on publish if absent.
        #[serde(alias = "releaseName")]
        pub release_name: Option<String>,
        pub description: Option<String>,
        /// `normal` (also `ReleaseTypeNormal`, or absent) or `gray` (also `beta`, `ReleaseTypeGray`).
        #[serde(alias = "releaseType")]
        pub release_type: Option<String>,
        /// Conditions on client labels, all of which must match; a gray release needs at least one, or
        /// `client_percent`.
        #[serde(alias = "clientLabels")]
        pub client_labels: Option<Vec<ClientLabel>>,
        /// Share of the clients of a gray release, in addition to labels or instead of them.
        #[serde(alias = "clientPercent")]
        pub client_percent: Option<ClientPercent>,
        /// Time at which the current draft is published: RFC 3339, or `YYYY-MM-DD HH:MM:SS` in UTC. A time in the past
        /// means now.
        #[serde(alias = "publishAt")]
        pub publish_at: Option<GivenTime>,
        /// Expected revision of the rule, for publish; any other than the current one is refused with 409000.
        pub revision: Option<String>,
        /// Name of the normal release, for promote; generated if absent.
        #[serde(alias = "newReleaseName")]
        pub new_release_name: Option<String>,
        /// True if withdraw puts the previous normal release into force again; otherwise clients see none.
        #[serde(alias = "toPrevious")]
        pub to_previous: Option<bool>,
        ..approval_options,
        /// Plan by which the share of a gray release grows, for publish instead of `client_percent`.
        pub plan: Option<RolloutPlan>,
        /// Action of a rollout operation.
        pub action: Option<RolloutAction>,
        /// Value of a signal; `false` stops the rollout.
        pub ok: Option<bool>,
        /// Reason of a signal, at most 1024 characters.
        pub reason: Option<String>,
        /// Comment on a rollout operation, at most 1024 characters.
        pub comment: Option<String>,
        /// State for which contracts were checked. Ignored in requests of callers.
        #[serde(deserialize_with = "of_no_caller")]
        #[schemars(skip)]
        pub pin: Option<Pin>,
        /// Assigned by the server; its type is checked, and its value is ignored.
        #[serde(skip_serializing)]
        pub version: Option<Uint64>,
        /// Determined by the path; a contradiction is refused with 400103.
        #[serde(skip_serializing)]
        pub resource: Option<RuleType>,
    }
}

fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl RuleReleaseDraft {
    pub fn given_id(&self) -> Option<&str> {
        given(&self.id)
    }

    pub fn given_rule_id(&self) -> Option<&str> {
        given(&self.rule_id)
    }

    pub fn given_rule_name(&self) -> Option<&str> {
        given(&self.rule_name)
    }

    pub fn given_namespace(&self) -> Option<&str> {
        given(&self.namespace)
    }

    pub fn given_release_name(&self) -> Option<&str> {
        given(&self.release_name)
    }

    pub fn labels(&self) -> &[ClientLabel] {
        self.client_labels.as_deref().unwrap_or_default()
    }

    pub fn audience(&self) -> Audience<'_> {
        Audience { labels: self.labels(), percent: self.client_percent.as_ref() }
    }

    pub fn publish_at(&self) -> Option<Timestamp> {
        self.publish_at.map(|given| given.0)
    }

    /// Reports whether the rule is named, by id or by name.
    pub fn names_rule(&self) -> bool {
        self.given_rule_id().is_some() || self.given_rule_name().is_some()
    }

    /// Checks a publication, which must name the rule.
    pub fn check_publish(&self, family: Family) -> Result<(), Refusal> {
        self.check_values(family)?;
        if !self.names_rule() && self.given_id().is_none() {
            return Err(Refusal::new(Code::InvalidParameter, "rule_id, rule_name or id (of the rule) is required"));
        }
        SentFor::Publication.check(self)?;
        let release_type = ReleaseType::read(self.release_type.as_deref())?;
        check_narrowed(release_type, self)?;
        self.rollout_control().check_publish(release_type, self.client_percent.as_ref())?;
        self.audience().check()
    }

    /// Checks an operation other than publish, which must name the release.
    pub fn check_named(&self, family: Family, op: ReleaseOp) -> Result<(), Refusal> {
        self.check_values(family)?;
        SentFor::Change(op).check(self)?;
        check_type(op, self.release_type.as_deref())?;
        self.rollout_control().check(op)?;
        let is_named = self.given_id().is_some() || (self.names_rule() && self.given_release_name().is_some());
        if is_named {
            return Ok(());
        }
        Err(Refusal::new(Code::InvalidParameter, "id, or rule_id or rule_name with release_name, is required"))
    }

    fn check_values(&self, family: Family) -> Result<(), Refusal> {
        if let Some(resource) = self.resource
            && resource != family.resource()
        {
            let why = format!("resource is {resource:?}, the path is one of {:?}", family.resource());
            return Err(Refusal::new(Code::InvalidParameter, why));
        }
        self.approval_options().check()?;
        for id in [self.given_id(), self.given_rule_id()].into_iter().flatten() {
            name::check_id(id)?;
        }
        let description = self.description.as_deref().unwrap_or("");
        name::check_length("description", description, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        self.given_rule_name().map_or(Ok(()), |name| name::check_title("rule_name", name))?;
        self.given_namespace().map_or(Ok(()), name::check_namespace)?;
        self.given_release_name().map_or(Ok(()), |name| name::check_title("release_name", name))?;
        given(&self.new_release_name).map_or(Ok(()), |name| name::check_title("new_release_name", name))
    }
}

impl SaysOfActs for RuleReleaseDraft {
    fn said(&self) -> Vec<&'static str> {
        said_of_releases!(self, "client_labels": client_labels, "description": description,
            ("revision", is_text(&self.revision)))
    }
}

rollout_control_fields!(RuleReleaseDraft: description);
