//! Requests for approval: an act that would change what clients see and waits for approvers, with an immutable copy of
//! its content.

mod payload;
mod standing;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::config_file::{ConfigFileDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft};
use super::grant::{ReadScope, Verb};
use super::policy::{Gate, Place, PolicyKind};
use super::release::{ReleaseOp, ReleaseType};
use super::rollout::RolloutAction;
use super::rule::release::RuleReleaseDraft;
use super::rule::{End, Family, RuleDraft};
use super::sso::SsoAuthor;
use super::stamp::Stamp;
use super::time::Timestamp;
use super::wire::wire_enum;
use super::{limits, name};
pub use payload::{ActBrief, FileCopy, MeantRelease, Payload, Snapshot};
pub use standing::{Obstacle, RequestStanding};

/// Approval fields of a draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalOptions<'a> {
    /// Comment of the request for approval, if one is to be created.
    pub request: Option<&'a str>,
    /// Name shared by the acts that form one request.
    pub set: Option<&'a str>,
    /// True if the approved act waits until it is run.
    pub hold: bool,
    /// Reason for performing the act at once, without approval and despite a freeze.
    pub emergency: Option<&'a str>,
}

impl ApprovalOptions<'_> {
    pub fn check(self) -> Result<(), Refusal> {
        let of = |field: &str, text: &str| {
            name::check_length(field, text, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)
        };
        self.request.map_or(Ok(()), |comment| of("request", comment))?;
        if let Some(set) = self.set {
            let most = limits::REQUEST_SET_CHARS_MAX;
            name::check_length("request_set", set, most, Code::InvalidParameter)?;
            if self.request.is_none() {
                return Err(Refusal::new(Code::InvalidParameter, "request_set needs request"));
            }
        }
        if self.hold && self.request.is_none() {
            return Err(Refusal::new(Code::InvalidParameter, "hold needs request"));
        }
        let Some(reason) = self.emergency else { return Ok(()) };
        of("emergency", reason)?;
        if reason.trim().chars().count() < limits::EMERGENCY_CHARS_MIN {
            let why = format!("emergency: a reason of at least {} characters", limits::EMERGENCY_CHARS_MIN);
            return Err(Refusal::new(Code::InvalidParameter, why));
        }
        if self.request.is_some() {
            return Err(Refusal::new(Code::InvalidParameter, "request and emergency exclude each other"));
        }
        Ok(())
    }
}

/// Implements [`ApprovalOptions`] for drafts, from the fields of the same names.
macro_rules! approval_options {
    ($($draft:ty),+) => {
        $( impl $draft {
            /// Returns the approval fields.
            pub fn approval_options(&self) -> ApprovalOptions<'_> {
                ApprovalOptions {
                    request: self.request.as_deref().filter(|text| !text.is_empty()),
                    set: self.request_set.as_deref().filter(|text| !text.is_empty()),
                    hold: self.hold.unwrap_or_default(),
                    emergency: self.emergency.as_deref().filter(|text| !text.is_empty()),
                }
            }
        } )+
    };
}

approval_options!(RuleReleaseDraft, ConfigReleaseDraft, ConfigFileDraft, super::rule::RuleHead);

/// An act that changes what clients see, and that policies may gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GatedAction {
    PublishRule(Family, RuleReleaseDraft),
    PublishFile(ConfigReleaseDraft),
    WriteAndPublishFile(Box<ConfigPublish>),
    RuleRelease(Family, ReleaseOp, RuleReleaseDraft),
    FileRelease(ReleaseOp, ConfigReleaseDraft),
    DeleteRule(Box<RuleDraft>),
    DeleteFile(Box<ConfigFileDraft>),
}

impl GatedAction {
    /// Returns the gate of the act; `None` if policies do not gate it.
    pub fn gate(&self) -> Option<Gate> {
        let published = |release_type: ReleaseType| match release_type {
            ReleaseType::Normal => Gate::Publish,
            ReleaseType::Gray => Gate::Gray,
        };
        match self {
            GatedAction::PublishRule(_, draft) => {
                Some(published(ReleaseType::read(draft.release_type.as_deref()).unwrap_or_default()))
            }
            GatedAction::PublishFile(draft) => Some(published(draft.release_type())),
            GatedAction::WriteAndPublishFile(draft) => Some(published(draft.release.release_type())),
            GatedAction::RuleRelease(_, op, draft) => gate_of(*op, draft.to_previous, draft.action),
            GatedAction::FileRelease(op, draft) => gate_of(*op, draft.to_previous, draft.action),
            GatedAction::DeleteRule(_) | GatedAction::DeleteFile(_) => Some(Gate::Delete),
        }
    }

    pub fn approval_options(&self) -> ApprovalOptions<'_> {
        match self {
            GatedAction::PublishRule(_, draft) | GatedAction::RuleRelease(_, _, draft) => draft.approval_options(),
            GatedAction::PublishFile(draft) | GatedAction::FileRelease(_, draft) => draft.approval_options(),
            GatedAction::WriteAndPublishFile(draft) => draft.release.approval_options(),
            GatedAction::DeleteRule(draft) => draft.head.approval_options(),
            GatedAction::DeleteFile(draft) => draft.approval_options(),
        }
    }

    /// Returns the verbs that the author needs.
    pub fn verbs(&self) -> &'static [Verb] {
        match self {
            GatedAction::WriteAndPublishFile(_) => &[Verb::Edit, Verb::Release],
            GatedAction::DeleteRule(_) | GatedAction::DeleteFile(_) => &[Verb::Edit],
            GatedAction::PublishRule(..)
            | GatedAction::PublishFile(_)
            | GatedAction::RuleRelease(..)
            | GatedAction::FileRelease(..) => &[Verb::Release],
        }
    }

    /// Returns the planned time of a publication.
    pub fn publish_at(&self) -> Option<Timestamp> {
        match self {
            GatedAction::PublishRule(_, draft) => draft.publish_at(),
            GatedAction::PublishFile(draft) => draft.publish_at(),
            GatedAction::WriteAndPublishFile(draft) => draft.release.publish_at(),
            GatedAction::RuleRelease(..)
            | GatedAction::FileRelease(..)
            | GatedAction::DeleteRule(_)
            | GatedAction::DeleteFile(_) => None,
        }
    }

    /// Reports whether the act publishes with a rollout plan, whose last step promotes.
    pub fn has_plan(&self) -> bool {
        match self {
            GatedAction::PublishRule(_, draft) => draft.plan.is_some(),
            GatedAction::PublishFile(draft) => draft.plan.is_some(),
            GatedAction::WriteAndPublishFile(draft) => draft.release.plan.is_some(),
            GatedAction::RuleRelease(..)
            | GatedAction::FileRelease(..)
            | GatedAction::DeleteRule(_)
            | GatedAction::DeleteFile(_) => false,
        }
    }

    pub fn kind(&self) -> PolicyKind {
        match self {
            GatedAction::PublishRule(family, _) | GatedAction::RuleRelease(family, ..) => PolicyKind::Rule(*family),
            GatedAction::DeleteRule(draft) => PolicyKind::Rule(draft.body.family()),
            GatedAction::PublishFile(_)
            | GatedAction::WriteAndPublishFile(_)
            | GatedAction::FileRelease(..)
            | GatedAction::DeleteFile(_) => PolicyKind::ConfigFile,
        }
    }
}

/// Returns the gate of an operation on a release. Deleting an inactive release changes nothing for clients, nor does a
/// pause. Only the catalog knows whether a step of a rollout promotes.
fn gate_of(op: ReleaseOp, to_previous: Option<bool>, action: Option<RolloutAction>) -> Option<Gate> {
    match op {
        ReleaseOp::Rollback => Some(Gate::Rollback),
        ReleaseOp::StopGray => Some(Gate::Stop),
        ReleaseOp::Promote => Some(Gate::Promote),
        ReleaseOp::Withdraw if to_previous == Some(true) => Some(Gate::Rollback),
        ReleaseOp::Withdraw => Some(Gate::Withdraw),
        ReleaseOp::Rollout => match action? {
            RolloutAction::Advance => Some(Gate::Gray),
            RolloutAction::Stop => Some(Gate::Stop),
            RolloutAction::Pause | RolloutAction::Resume => None,
        },
        ReleaseOp::Delete | ReleaseOp::Signal => None,
    }
}

wire_enum! {
    /// State of a request for approval.
    pub enum RequestState {
        Open = "open",
        /// Approved often enough, but not performed: on hold, or delayed by a freeze.
        Approved = "approved",
        Refused = "refused",
        Withdrawn = "withdrawn",
        Done = "done",
        Failed = "failed",
        /// Outdated: the version in force is no longer the one at the time of the request.
        Stale = "stale",
        Expired = "expired",
    }
}

impl RequestState {
    /// Reports whether the request may still be decided or performed.
    pub fn is_pending(self) -> bool {
        matches!(self, RequestState::Open | RequestState::Approved)
    }
}

/// An approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenApproval {
    pub user: String,
    pub time: Timestamp,
    pub comment: String,
    /// Id of the approver, who may have used a service token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub person: String,
    /// Claims of an approver of an identity provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Arc<SsoAuthor>>,
}

/// A request for approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    pub id: String,
    pub state: RequestState,
    pub kind: PolicyKind,
    pub namespace: String,
    /// Name; `group/file` for a config file.
    pub name: String,
    /// Group of a config file; both group and file may hold slashes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Services whose calls the rule affects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<End>,
    pub act: Gate,
    pub comment: String,
    pub hash: String,
    /// Version in force for all clients at the time of the request; 0 for none.
    pub base_version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub hold: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<GivenApproval>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused_by: String,
    /// Reason of the refusal, or of the failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub created: Stamp,
    /// Id of the requester, who may have used a service token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub person: String,
    /// Claims of a requester of an identity provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Arc<SsoAuthor>>,
    pub modified: Stamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<Payload>>,
    /// Name that the requester gives to all acts of a set; stored with the first of them, the head.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub set: String,
    /// Number of further acts in the set whose head this is.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub parts: u64,
    /// Id of the head of its set; empty for the head itself and for a request of one act.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part_of: String,
}

impl ApprovalRequest {
    /// Returns the name that grants cover: the group of a config file, the name of a rule.
    pub fn scope_name(&self) -> &str {
        match self.kind {
            PolicyKind::ConfigFile => &self.group,
            PolicyKind::Rule(_) => &self.name,
        }
    }

    /// Returns the name of the object within its group, if it has one.
    pub fn own_name(&self) -> &str {
        match self.kind {
            PolicyKind::ConfigFile => self.name.get(self.group.len() + 1..).unwrap_or_default(),
            PolicyKind::Rule(_) => &self.name,
        }
    }

    /// Returns the object by its name at the time of the request.
    pub fn place(&self) -> Place {
        match self.kind {
            PolicyKind::ConfigFile => {
                Place::File(ConfigKey::new(self.namespace.as_str(), self.group.as_str(), self.own_name()))
            }
            PolicyKind::Rule(_) => Place::Rule { namespace: self.namespace.clone(), name: self.name.clone() },
        }
    }

    /// Reports whether a reader may see the request: one who sees the object or a service that the rule affects.
    pub fn is_seen_by(&self, read_scope: &ReadScope) -> bool {
        read_scope.sees(&self.namespace, self.scope_name())
            || self.ends.iter().any(|end| read_scope.touches(&end.namespace, &end.service))
    }

    /// Returns the requester, whose limit the request counts against.
    pub fn payer(&self) -> &str {
        if self.person.is_empty() { &self.created.by } else { &self.person }
    }

    /// Returns the id of the head of its set; its own, unless it is a part.
    pub fn head_id(&self) -> &str {
        if self.part_of.is_empty() { &self.id } else { &self.part_of }
    }
}

/// Operations on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestOp {
    Approve,
    Refuse,
    Withdraw,
    Run,
}

impl RequestOp {
    pub const ALL: [RequestOp; 4] = [RequestOp::Approve, RequestOp::Refuse, RequestOp::Withdraw, RequestOp::Run];

    /// Reports whether the operation may let the state grow.
    pub fn adds(self) -> bool {
        matches!(self, RequestOp::Approve | RequestOp::Run)
    }

    /// Returns the name in paths, commands and the audit trail.
    pub fn word(self) -> &'static str {
        match self {
            RequestOp::Approve => "approve",
            RequestOp::Refuse => "refuse",
            RequestOp::Withdraw => "withdraw",
            RequestOp::Run => "run",
        }
    }
}

/// Request for an operation on a request for approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestDraft {
    /// Id of the request.
    pub id: String,
    /// Text of at most 1024 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Number of further acts of a request with several, as the caller read it. An approval with another number is
    /// refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u64>,
}

impl RequestDraft {
    pub fn check(&self) -> Result<(), Refusal> {
        name::check_id(&self.id)?;
        let comment = self.comment.as_deref().unwrap_or("");
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)
    }
}
