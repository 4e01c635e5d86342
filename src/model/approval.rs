//! Requests for approval: an act on what clients see that waits for others, with an immutable copy of what it releases.

mod payload;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::config_file::{ConfigFileDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft, Stamp};
use super::grant::{ReadScope, Verb};
use super::policy::{Gate, Place, PolicyKind};
use super::release::{ReleaseOp, ReleaseType};
use super::rollout::RolloutAction;
use super::rule::release::RuleReleaseDraft;
use super::rule::{End, Family, RuleDraft};
use super::time::Timestamp;
use super::wire::wire_enum;
use super::{limits, name};
pub use payload::{ActBrief, FileCopy, MeantRelease, Payload, Snapshot};

/// Words of a caller for a policy, in a draft of an act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalOptions<'a> {
    /// Asks others for their approval, with this comment.
    pub request: Option<&'a str>,
    /// Word that is shared by the acts that are to be one request.
    pub set: Option<&'a str>,
    /// Holds what is approved until it is run.
    pub hold: bool,
    /// Does it without approval and in a freeze, for this reason.
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

/// Gives a draft its [`ApprovalOptions`], from the fields of the same names.
macro_rules! approval_options {
    ($($draft:ty),+) => {
        $( impl $draft {
            /// Words for the policies that gate the act.
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

/// One act on what clients see, of those that policies may gate.
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
    /// The gate that it goes through; `None` for one that no policy is about.
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

    /// Verbs that whoever does it needs.
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

    /// The time for which a publish is planned.
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

    /// True for a publish that is rolled out by steps, of which the last one promotes.
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

/// The gate of an operation on a release. Deleting one that is not in force changes nothing for clients, nor does a
/// pause. The last step of a rollout, which promotes, is known to the catalog alone.
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
        /// Approved by as many as it takes, and not carried out: it is held, or there was a freeze.
        Approved = "approved",
        Refused = "refused",
        Withdrawn = "withdrawn",
        Done = "done",
        Failed = "failed",
        /// Something else is in force by now than when it was asked for.
        Stale = "stale",
        Expired = "expired",
    }
}

impl RequestState {
    /// True while something may still come of it.
    pub fn is_pending(self) -> bool {
        matches!(self, RequestState::Open | RequestState::Approved)
    }
}

/// An approval that somebody gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenApproval {
    pub user: String,
    pub time: Timestamp,
    pub comment: String,
    /// Id of the user who gave it, by themselves or by a service token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub person: String,
}

/// A request for approval as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    pub id: String,
    pub state: RequestState,
    pub kind: PolicyKind,
    pub namespace: String,
    /// Of a config file `group/file`.
    pub name: String,
    /// Group of a config file; both group and file may hold slashes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Services on whose calls the rule acts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<End>,
    pub act: Gate,
    pub comment: String,
    pub hash: String,
    /// The version in force for all clients when it was asked for; 0 for none.
    pub base_version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub hold: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<GivenApproval>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused_by: String,
    /// Of a refusal, or why nothing came of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub created: Stamp,
    /// Id of the user who asked, by themselves or by a service token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub person: String,
    pub modified: Stamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<Payload>>,
    /// Word that its requester gives to all acts of one set; kept with the first of them, which is its head.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub set: String,
    /// Number of further acts in the set that it is the head of.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub parts: u64,
    /// Id of the head of the set that it belongs to; empty for the head itself, and for a request of one act.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part_of: String,
}

impl ApprovalRequest {
    /// The part of the name that grants are about: the group of a config file, the name of a rule.
    pub fn scope_name(&self) -> &str {
        match self.kind {
            PolicyKind::ConfigFile => &self.group,
            PolicyKind::Rule(_) => &self.name,
        }
    }

    /// Name of the thing within its group, if it has one.
    pub fn own_name(&self) -> &str {
        match self.kind {
            PolicyKind::ConfigFile => self.name.get(self.group.len() + 1..).unwrap_or_default(),
            PolicyKind::Rule(_) => &self.name,
        }
    }

    /// The thing as it was called when that was asked for.
    pub fn place(&self) -> Place {
        match self.kind {
            PolicyKind::ConfigFile => {
                Place::File(ConfigKey::new(self.namespace.as_str(), self.group.as_str(), self.own_name()))
            }
            PolicyKind::Rule(_) => Place::Rule { namespace: self.namespace.clone(), name: self.name.clone() },
        }
    }

    /// Seen by who sees the thing, or something on whose calls the rule acts.
    pub fn is_seen_by(&self, read_scope: &ReadScope) -> bool {
        read_scope.sees(&self.namespace, self.scope_name())
            || self.ends.iter().any(|end| read_scope.touches(&end.namespace, &end.service))
    }

    /// The person that its place counts for, who asked.
    pub fn payer(&self) -> &str {
        if self.person.is_empty() { &self.created.by } else { &self.person }
    }

    /// Id of the head of its set: its own, unless it is a part.
    pub fn head_id(&self) -> &str {
        if self.part_of.is_empty() { &self.id } else { &self.part_of }
    }
}

/// Acts on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestOp {
    Approve,
    Refuse,
    Withdraw,
    Run,
}

impl RequestOp {
    pub const ALL: [RequestOp; 4] = [RequestOp::Approve, RequestOp::Refuse, RequestOp::Withdraw, RequestOp::Run];

    /// True if the state may grow by it.
    pub fn adds(self) -> bool {
        matches!(self, RequestOp::Approve | RequestOp::Run)
    }

    /// Word of paths, commands and the audit trail.
    pub fn word(self) -> &'static str {
        match self {
            RequestOp::Approve => "approve",
            RequestOp::Refuse => "refuse",
            RequestOp::Withdraw => "withdraw",
            RequestOp::Run => "run",
        }
    }
}

/// Names a request that something is to become of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestDraft {
    /// Id of the request.
    pub id: String,
    /// At most 1024 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Of a request of several acts: number of its further acts, as it was read. It is approved with no others.
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
