//! `/admin/v1/cluster`: the cluster as this node sees it, and changes of its members.

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::http::{ApiResult, App, Caller, Doc, Object, Shape, envelope};
use crate::model::code::Code;
use crate::raft::MembershipChange;

const DOC: Doc = Doc::new("Cluster");
/// Codes that refuse a change of the membership; `info` has the reason.
const REFUSED: &[Code] = &[Code::BadRequest, Code::InvalidParameter];

#[derive(Serialize, JsonSchema)]
struct StatusBody {
    code: u32,
    info: &'static str,
    cluster_id: Option<String>,
    leader: Option<u64>,
    term: u64,
    members: Vec<MemberBody>,
    #[serde(rename = "self")]
    own_id: u64,
    state_hash: StateHash,
    /// Level of all stored and sent formats in the cluster; raised once every member can read the next one.
    level: u8,
    /// Alarms as this node sees them: fault, consequence, remedy.
    alarms: Vec<String>,
    /// True if no leader is in reach: members, level and progress are the last ones that this node knows.
    own_view: bool,
}

#[derive(Serialize, JsonSchema)]
struct MemberBody {
    id: u64,
    role: &'static str,
    voter: bool,
    api: String,
    compat: String,
    /// Address of gRPC, for xDS; empty if gRPC is off, and below level 8.
    grpc: String,
    peer: String,
    last_log: Option<u64>,
    applied: Option<u64>,
    reachable: bool,
    /// Milliseconds for which commits may be missing from the member's applied state: 0 on a leader with its lease,
    /// absent if it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh_ms: Option<u64>,
    /// Round trip from this node to the member in milliseconds, from the last pings; absent if none was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_ms: Option<f64>,
    /// Version of the member's binary; null if it has never reported one.
    version: Option<String>,
    /// Levels that the member reads and writes.
    level_min: Option<u8>,
    level_max: Option<u8>,
    /// Reason why this node and the member do not reach each other; absent if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// State hash: it must be equal on two nodes at the same index.
#[derive(Serialize, JsonSchema)]
struct StateHash {
    index: u64,
    hash: String,
}

pub(crate) const STATUS: Doc = DOC
    .says(
        "The cluster as this node sees it; needs no majority. Without a leader in reach it says so by `own_view`, and \
     admits by the grants that this node knew last.",
    )
    .gives(Shape::whole::<StatusBody>());

/// Answers with the status that this node knows, and the progress of members that answer at once.
pub(crate) async fn status(State(app): State<App>, _: Caller) -> Response {
    let status = app.node().member().cluster_survey().await;
    let members = status.members.into_iter().map(|member| MemberBody {
        id: member.id,
        role: member.role,
        voter: member.voter,
        api: member.api,
        compat: member.compat,
        grpc: member.grpc,
        peer: member.peer,
        last_log: member.last_log,
        applied: member.applied,
        reachable: member.reachable,
        fresh_ms: member.fresh_ms,
        round_trip_ms: member.round_trip.map(|time| (time.as_secs_f64() * 1e6).round() / 1e3),
        version: member.version,
        level_min: member.levels.map(|levels| levels.min.0),
        level_max: member.levels.map(|levels| levels.max.0),
        problem: member.problem,
    });
    let body = StatusBody {
        code: Code::ExecuteSuccess.number(),
        info: Code::ExecuteSuccess.info(),
        cluster_id: status.cluster_id,
        leader: status.leader,
        term: status.term,
        members: members.collect(),
        own_id: status.node_id,
        state_hash: StateHash { index: status.hash_index, hash: hex::encode(status.hash) },
        level: status.level.0,
        alarms: status.alarms.into_iter().map(|alarm| alarm.text).collect(),
        own_view: status.leader.is_none(),
    };
    envelope::answer(Code::ExecuteSuccess, &body)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Addition {
    id: u64,
    peer: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Member {
    id: u64,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Successor {
    to: u64,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

pub(crate) const ADD: Doc =
    DOC.says("Adds a new node as a learner, or changes the address of a member.").codes(&[REFUSED]);

pub(crate) async fn add(app: State<App>, caller: Caller, Object(order): Object<Addition>) -> ApiResult {
    let Addition { id, peer } = order;
    change(&app, &caller, MembershipChange::Add { node_id: id, peer }).await
}

pub(crate) const PROMOTE: Doc = DOC.says("Promotes a learner that has caught up to a voter.").codes(&[REFUSED]);

pub(crate) async fn promote(app: State<App>, caller: Caller, Object(order): Object<Member>) -> ApiResult {
    change(&app, &caller, MembershipChange::Promote { node_id: order.id }).await
}

pub(crate) const REMOVE: Doc = DOC
    .says("A member leaves for good, and its id is never reused; one that has left already is a success.")
    .codes(&[REFUSED]);

pub(crate) async fn remove(app: State<App>, caller: Caller, Object(order): Object<Member>) -> ApiResult {
    change(&app, &caller, MembershipChange::Remove { node_id: order.id }).await
}

pub(crate) const TRANSFER: Doc = DOC.says("Transfers leadership to another voter.").codes(&[REFUSED]);

pub(crate) async fn transfer(app: State<App>, caller: Caller, Object(order): Object<Successor>) -> ApiResult {
    change(&app, &caller, MembershipChange::Transfer { node_id: order.to }).await
}

pub(crate) const SNAPSHOT: Doc = DOC
    .says("This node writes a snapshot of its state and purges the log behind it; what takes longer goes on by itself.")
    .codes(&[&[Code::NoRoom, Code::StoreLayerException]]);

pub(crate) async fn snapshot(app: State<App>, _: Object<Nothing>) -> ApiResult {
    match app.node().member().snapshot().await? {
        true => Ok(envelope::done()),
        false => Ok(envelope::done_so_far("the snapshot is still being written")),
    }
}

async fn change(app: &App, caller: &Caller, change: MembershipChange) -> ApiResult {
    app.operations.change_membership(caller, change).await?;
    Ok(envelope::done())
}
