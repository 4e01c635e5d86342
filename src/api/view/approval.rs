//! Policies and requests for approval as the management surface shows them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::approval::{ApprovalRequest, RequestState};
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::policy::{Freeze, Gate, Policy, PolicyKind};
use crate::model::release::ReleaseType;
use crate::model::rollout::RolloutPlan;
use crate::model::time::Timestamp;
use crate::model::{is_false, is_zero};

/// Acts that need approval, and times at which they may not be done.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Policy")]
pub(crate) struct PolicyView<'a> {
    name: &'a str,
    namespace: &'a str,
    names: &'a [String],
    /// Empty for all.
    kinds: &'a [PolicyKind],
    approvals: u8,
    gates: &'a [Gate],
    freezes: &'a [Freeze],
    comment: &'a str,
    /// `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// Changes with every write that changes something.
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
    /// Of a config file `group/file`.
    name: &'a str,
    /// Group of a config file.
    group: &'a str,
    act: Gate,
    /// Name of the release that is made, where one was given, or that the act is about. As the fields below it, it is
    /// there while the request waits.
    #[serde(skip_serializing_if = "str::is_empty")]
    release_name: &'a str,
    /// Version of the release that the act is about; it is done to this one, or not at all.
    #[serde(skip_serializing_if = "is_zero")]
    release_version: u64,
    /// Type of the release that a publish makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    release_type: Option<ReleaseType>,
    /// Clients that a gray release would be for.
    #[serde(skip_serializing_if = "<[ClientLabel]>::is_empty")]
    client_labels: &'a [ClientLabel],
    /// Share of the clients that it would be for.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_percent: Option<&'a ClientPercent>,
    /// Steps by which it would reach all clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a RolloutPlan>,
    /// Step that the rollout is at, for an `advance`.
    #[serde(skip_serializing_if = "is_no_step")]
    step: u32,
    /// True for a withdrawal that brings an earlier release back,
    #[serde(skip_serializing_if = "is_false")]
    to_previous: bool,
    /// and the name of that one.
    #[serde(skip_serializing_if = "str::is_empty")]
    previous_release: &'a str,
    /// Services on whose calls the rule acts, `namespace/service`; `*` stands for every one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    acts_on: Vec<String>,
    /// Name of whoever asked.
    user: &'a str,
    comment: &'a str,
    /// SHA-256 of what would be done, in hex.
    hash: &'a str,
    /// The version in force for all clients when it was asked for; 0 for none.
    base_version: u64,
    /// Time for which a publish is planned; empty for none.
    publish_at: String,
    hold: bool,
    approvals: Vec<ApprovalView<'a>>,
    refused_by: &'a str,
    /// Of a refusal, or why nothing came of it.
    reason: &'a str,
    /// Number of further acts that are decided with it: the requests with its id as `part_of`.
    parts: u64,
    /// Id of the request that it is a part of; empty for one that is decided by itself.
    part_of: &'a str,
    /// `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
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
    pub(crate) fn new(request: &'a ApprovalRequest) -> Self {
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
