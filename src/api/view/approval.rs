//! Policies and requests for approval as the management surface shows them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::approval::{ApprovalRequest, RequestStanding, RequestState};
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::policy::{Freeze, Gate, Policy, PolicyKind};
use crate::model::release::ReleaseType;
use crate::model::rollout::RolloutPlan;
use crate::model::time::Timestamp;
use crate::model::{is_false, is_zero};
use crate::sentences::{self, Language};

/// Acts that need approval, and times at which they are frozen.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Policy")]
pub(crate) struct PolicyView<'a> {
    name: &'a str,
    namespace: &'a str,
    names: &'a [String],
    /// Kinds in its scope; empty for all.
    kinds: &'a [PolicyKind],
    approvals: u8,
    gates: &'a [Gate],
    freezes: &'a [Freeze],
    comment: &'a str,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// Revision, new after every change.
    revision: &'a str,
}

impl<'a> PolicyView<'a> {
    pub(crate) fn new(policy: &'a Policy) -> Self {
        PolicyView {
            name: &policy.name,
            namespace: &policy.namespace,
            names: &policy.names,
            kinds: &policy.kinds,
            approvals: policy.approvals,
            gates: &policy.gates,
            freezes: &policy.freezes,
            comment: &policy.comment,
            ctime: policy.created.time.text(),
            create_by: &policy.created.by,
            mtime: policy.modified.time.text(),
            modify_by: &policy.modified.by,
            revision: &policy.revision,
        }
    }
}

/// Request for approval.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ApprovalRequest")]
pub(crate) struct RequestView<'a> {
    id: &'a str,
    state: RequestState,
    kind: PolicyKind,
    namespace: &'a str,
    /// Name of the rule; `group/file` for a config file.
    name: &'a str,
    /// Group of a config file.
    group: &'a str,
    act: Gate,
    /// Name of the release that the act makes, if one was given, or that it is about. Like the following fields,
    /// present while the request is open.
    #[serde(skip_serializing_if = "str::is_empty")]
    release_name: &'a str,
    /// Version of the release that the act is about; the act fails if the version has changed.
    #[serde(skip_serializing_if = "is_zero")]
    release_version: u64,
    /// Type of the release that a publish makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    release_type: Option<ReleaseType>,
    /// Labels of the clients of the gray release.
    #[serde(skip_serializing_if = "<[ClientLabel]>::is_empty")]
    client_labels: &'a [ClientLabel],
    /// Share of the clients of the gray release.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_percent: Option<&'a ClientPercent>,
    /// Steps by which the release would reach all clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a RolloutPlan>,
    /// Present step of the rollout, for an `advance`.
    #[serde(skip_serializing_if = "is_no_step")]
    step: u32,
    /// True for a withdrawal that reactivates the previous release.
    #[serde(skip_serializing_if = "is_false")]
    to_previous: bool,
    /// Name of the previous release.
    #[serde(skip_serializing_if = "str::is_empty")]
    previous_release: &'a str,
    /// Services on whose calls the rule acts, `namespace/service`; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    acts_on: Vec<String>,
    /// User who made the request.
    user: &'a str,
    comment: &'a str,
    /// SHA-256 of the act, in hex.
    hash: &'a str,
    /// Active normal version when the request was made; 0 for none.
    base_version: u64,
    /// Time of a planned publish; empty for none.
    publish_at: String,
    hold: bool,
    approvals: Vec<ApprovalView<'a>>,
    /// Number of approvals that it needs; after its end the number that it had.
    approvals_needed: usize,
    /// Sentence on what was decided, what that changed, and what the request waits for.
    standing: String,
    refused_by: &'a str,
    /// Reason of a refusal or of a failure.
    reason: &'a str,
    /// Number of further acts that are decided with it: requests that have its id as `part_of`.
    parts: u64,
    /// Id of the request with which it is decided; empty if it is decided alone.
    part_of: &'a str,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    mtime: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Approval")]
struct ApprovalView<'a> {
    user: &'a str,
    time: String,
    comment: &'a str,
}

impl<'a> RequestView<'a> {
    pub(crate) fn new(request: &'a ApprovalRequest, standing: Option<&RequestStanding>) -> Self {
        let approvals = request.approvals.iter().map(|given| ApprovalView {
            user: &given.user,
            time: given.time.text(),
            comment: &given.comment,
        });
        let brief = request.payload.as_ref().map(|payload| payload.brief()).unwrap_or_default();
        RequestView {
            id: &request.id,
            state: request.state,
            kind: request.kind,
            namespace: &request.namespace,
            name: &request.name,
            group: &request.group,
            act: request.act,
            release_name: brief.release_name,
            release_version: brief.release_version,
            release_type: brief.release_type,
            client_labels: brief.client_labels,
            client_percent: brief.client_percent,
            plan: brief.plan,
            step: brief.step,
            to_previous: !brief.previous_release.is_empty(),
            previous_release: brief.previous_release,
            acts_on: request.ends.iter().map(|end| format!("{end:?}")).collect(),
            user: &request.created.by,
            comment: &request.comment,
            hash: &request.hash,
            base_version: request.base_version,
            publish_at: request.publish_at.map(Timestamp::text).unwrap_or_default(),
            hold: request.hold,
            approvals: approvals.collect(),
            approvals_needed: standing.map_or(0, |standing| standing.needed),
            standing: standing.map(|standing| sentences::standing(Language::English, standing)).unwrap_or_default(),
            refused_by: &request.refused_by,
            reason: &request.reason,
            parts: request.parts,
            part_of: &request.part_of,
            ctime: request.created.time.text(),
            mtime: request.modified.time.text(),
        }
    }
}

fn is_no_step(step: &u32) -> bool {
    *step == 0
}
