//! Cluster membership, and changes of it that an operator requests. The leader makes them one at a time, each based on
//! the result of the previous one.
//!
//! A change that would stop the cluster is refused with a reason: a vote for a node that does not answer, an address at
//! which another node answers, a removal that leaves too few voters that answer. Every request may be repeated after an
//! unknown outcome; what is already done succeeds.
//!
//! A learner may be added before its node is started: it has no vote, so it cannot cost the cluster its majority, and a
//! wrong address is corrected by adding it again. Until it answers it only prevents a higher level of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use openraft::metrics::RaftMetrics;
use openraft::{ChangeMembers, Instant as _, Membership};

use super::forwarded::MembershipChange;
use super::leading::{ProposeOutcome, WriteError, refused, write_error};
use super::node::Node;
use crate::format::level::Level;
use crate::format::types::{Member, NodeId, TypeConfig};
use crate::peer::{Build, IntroduceError, REACHABLE_WITHIN};
use crate::tasks;

/// Time limit for a successor to win its election.
pub(super) const TRANSFER_WITHIN: Duration = Duration::from_secs(3);
/// Time limit for a member to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Time limit of a change for this node's metrics to have the new membership.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);
/// Maximum number of entries that a learner may lack when it gets its vote.
const PROMOTE_LAG_MAX: u64 = 1000;

/// Makes a change if this node leads. Runs on its own task: a change of voters takes two steps, and a caller that gives
/// up in between must not leave the cluster between them.
pub(super) async fn change(node: &Node, change: MembershipChange) -> ProposeOutcome {
    let node = node.clone();
    let outcome = tasks::errand(async move { change_in_turn(&node, change).await }).await;
    outcome.unwrap_or_else(|error| ProposeOutcome::Unknown(error.to_string()))
}

/// Makes a change only while the lease holds, as for a write: an entry of a leader that is cut off has no clear
/// outcome.
async fn change_in_turn(node: &Node, change: MembershipChange) -> ProposeOutcome {
    let _turn = node.inner().membership_turn.lock().await;
    if node.leading_term().is_none() {
        return ProposeOutcome::NotLeader;
    }
    match change {
        MembershipChange::Add { node_id, peer } => add(node, node_id, peer).await,
        MembershipChange::Promote { node_id } => promote(node, node_id).await,
        MembershipChange::Remove { node_id } => remove(node, node_id).await,
        MembershipChange::Transfer { node_id } => transfer(node, node_id).await,
    }
}

/// Returns all members with their peer addresses.
pub(super) fn addresses(membership: &Membership<NodeId, Member>) -> BTreeMap<NodeId, String> {
    membership.nodes().map(|(id, member)| (*id, member.peer.clone())).collect()
}

/// Returns all members but this node.
pub(super) fn other_members(node: &Node) -> Vec<NodeId> {
    node.member_ids().into_iter().filter(|id| *id != node.id()).collect()
}

impl Node {
    /// Returns the ids of all members.
    pub(crate) fn member_ids(&self) -> Vec<NodeId> {
        self.raft_metrics().membership_config.membership().nodes().map(|(id, _)| *id).collect()
    }

    /// Finishes a change of voters whose leader was lost between its two steps: until then every commit takes a
    /// majority of the old voters and one of the new ones.
    pub(crate) async fn finish_membership_change(&self) {
        if !Present::of(self).is_joint {
            return;
        }
        // A change that this node makes at the moment finishes by itself.
        let Ok(_turn) = self.inner().membership_turn.try_lock() else { return };
        match write(self, ChangeMembers::AddVoterIds(BTreeSet::new()), false).await {
            ProposeOutcome::Done { .. } => {
                tracing::info!("finished a membership change that an earlier leader began");
            }
            other => tracing::warn!(?other, "a membership change is unfinished"),
        }
    }

    /// Returns the build of this node or of a connected member.
    pub(super) fn build_of(&self, node_id: NodeId) -> Option<Build> {
        if node_id == self.id() {
            return Some(Build::own(self.store().levels(), self.state().catalog().level()));
        }
        self.inner().peers.build(node_id)
    }

    /// Returns the highest level that every member reads, learners included; `None` unless all are in reach.
    pub(crate) fn common_level(&self) -> Option<Level> {
        self.member_ids()
            .into_iter()
            .try_fold(Level(u8::MAX), |common, id| Some(common.min(self.build_of(id)?.levels.max)))
    }
}

/// The membership in force on this node.
struct Present {
    addresses: BTreeMap<NodeId, String>,
    voters: BTreeSet<NodeId>,
    /// True if there are two sets of voters: a change of them is unfinished.
    is_joint: bool,
    last_log: u64,
}

impl Present {
    fn of(node: &Node) -> Self {
        let metrics = node.raft_metrics();
        let membership = metrics.membership_config.membership();
        Present {
            addresses: addresses(membership),
            voters: membership.voter_ids().collect(),
            is_joint: membership.get_joint_config().len() > 1,
            last_log: metrics.last_log_index.unwrap_or_default(),
        }
    }

    fn unchanged(&self) -> ProposeOutcome {
        ProposeOutcome::Done { log_index: self.last_log }
    }
}

async fn write(node: &Node, change: ChangeMembers<NodeId, Member>, retain: bool) -> ProposeOutcome {
    let is_of_voters = matches!(&change, ChangeMembers::AddVoterIds(_) | ChangeMembers::RemoveVoters(_));
    match node.inner().raft.change_membership(change, retain).await {
        Ok(written) => {
            // The next change reads the membership from the metrics; a delay does not affect this change.
            let is_shown = |metrics: &RaftMetrics<TypeConfig>| {
                metrics.membership_config.log_id().as_ref() >= Some(&written.log_id)
            };
            let _ = node.inner().raft.wait(Some(SHOWN_WITHIN)).metrics(is_shown, "the membership is shown").await;
            ProposeOutcome::Done { log_index: written.log_id.index }
        }
        Err(error) => unwritten(error, is_of_voters),
    }
}

/// Classifies the error of a change. A change of voters takes two steps, and the error does not name the step: if the
/// leader lost its leadership, the first may have been made, and the next leader makes the second.
fn unwritten(error: WriteError, is_of_voters: bool) -> ProposeOutcome {
    match write_error(error) {
        ProposeOutcome::NotLeader if is_of_voters => ProposeOutcome::Unknown("the lead was lost on the way".to_owned()),
        other => other,
    }
}

/// Adds a new node as a learner, or changes the address of a known one, which keeps its vote.
async fn add(node: &Node, node_id: NodeId, peer: String) -> ProposeOutcome {
    if node.state().catalog().nodes.get(node_id).is_some_and(|known| known.removed) {
        return refused(format!("node id {node_id} was removed before and is spent, take another"));
    }
    let present = Present::of(node);
    let known = present.addresses.get(&node_id);
    if known == Some(&peer) {
        return present.unchanged();
    }
    if let Some((other, _)) = present.addresses.iter().find(|(id, address)| **id != node_id && **address == peer) {
        return refused(format!("{peer} is the address of node {other}"));
    }
    match (node.inner().peers.meet(node_id, &peer).await, known) {
        (Ok(_), _) => {}
        (Err(IntroduceError::Unreachable(why)), Some(known)) if node.is_reachable(node_id) => {
            return refused(format!("node {node_id} answers at {known}, and at {peer} nobody does: {why}"));
        }
        // The node catches up in the background once it answers: a large state takes longer than a request may.
        (Err(IntroduceError::Unreachable(why)), _) => {
            tracing::warn!(member = node_id, address = peer, why, "a member does not answer at its new address");
        }
        (Err(error), _) => return refused(format!("node {node_id} cannot be a member at {peer}: {error}")),
    }
    write(node, ChangeMembers::SetNodes(BTreeMap::from([(node_id, Member { peer })])), true).await
}

/// Makes a learner a voter. Refused if it is away or lags far: every commit would depend on the other voters.
async fn promote(node: &Node, node_id: NodeId) -> ProposeOutcome {
    let present = Present::of(node);
    let Some(address) = present.addresses.get(&node_id) else {
        return refused(format!("node {node_id} is not a member, add it first"));
    };
    if present.voters.contains(&node_id) && !present.is_joint {
        return present.unchanged();
    }
    // A leader elected just now has no acknowledgements yet.
    let is_heard = |metrics: &RaftMetrics<TypeConfig>| has_caught_up(metrics, node_id).is_ok();
    let _ = node.inner().raft.wait(Some(ANSWER_WITHIN)).metrics(is_heard, "the member has caught up").await;
    if let Err(why) = has_caught_up(&node.raft_metrics(), node_id) {
        return refused(why);
    }
    let voters: BTreeSet<NodeId> = present.voters.iter().copied().chain([node_id]).collect();
    let answering = answering(node, &voters).await;
    if !answering.contains(&node_id) {
        return refused(format!(
            "node {node_id} does not answer at {address}: bring it up first, or change its address"
        ));
    }
    if keeps_majority(&present.voters, &answering).is_err() {
        return ProposeOutcome::NotLeader;
    }
    if let Err(why) = keeps_majority(&voters, &answering) {
        return refused(why);
    }
    write(node, ChangeMembers::AddVoterIds(BTreeSet::from([node_id])), false).await
}

/// Checks that the log reaches a member and has arrived there, by the leader's own metrics.
fn has_caught_up(metrics: &RaftMetrics<TypeConfig>, node_id: NodeId) -> Result<(), String> {
    if node_id == metrics.id {
        return Ok(());
    }
    let replication = metrics.replication.as_ref();
    let matched = replication.and_then(|known| known.get(&node_id)).and_then(Option::as_ref).map_or(0, |id| id.index);
    let last = metrics.last_log_index.unwrap_or_default();
    if matched + PROMOTE_LAG_MAX < last {
        return Err(format!("node {node_id} has {matched} of {last} log entries, let it catch up first"));
    }
    let acknowledged = metrics.heartbeat.as_ref().and_then(|known| known.get(&node_id)).copied().flatten();
    match acknowledged {
        Some(at) if at.elapsed() <= REACHABLE_WITHIN => Ok(()),
        Some(at) => Err(format!("node {node_id} has not acknowledged anything for {} s", at.elapsed().as_secs())),
        None => Err(format!("node {node_id} has not acknowledged anything yet")),
    }
}

/// Removes a member. Refused if the remaining voters could not commit without it.
async fn remove(node: &Node, node_id: NodeId) -> ProposeOutcome {
    let present = Present::of(node);
    if !present.addresses.contains_key(&node_id) {
        // It was a member once: an earlier request got this far, and its caller marks the id as removed.
        return match node.state().catalog().nodes.get(node_id) {
            Some(_) => present.unchanged(),
            None => refused(format!("node {node_id} is not a member and was never heard of")),
        };
    }
    if node_id == node.id() {
        return refused(format!("node {node_id} leads, transfer the lead first"));
    }
    if !present.voters.contains(&node_id) {
        return write(node, ChangeMembers::RemoveNodes(BTreeSet::from([node_id])), false).await;
    }
    if present.voters.len() <= 2 {
        let count = present.voters.len();
        return refused(format!(
            "{count} voters are left; add one before removing one, or, to go on with one alone, stop all nodes and \
             make a cluster of one with `thuban recover` on its data directory"
        ));
    }
    let answering = answering(node, &present.voters).await;
    if keeps_majority(&present.voters, &answering).is_err() {
        return ProposeOutcome::NotLeader;
    }
    let left: BTreeSet<NodeId> = present.voters.iter().copied().filter(|voter| *voter != node_id).collect();
    if let Err(why) = keeps_majority(&left, &answering) {
        return refused(why);
    }
    write(node, ChangeMembers::RemoveVoters(BTreeSet::from([node_id])), false).await
}

/// Returns the members that answer now. They are asked, because the last pong of a node that has just failed still
/// counts as recent.
async fn answering(node: &Node, members: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let asked = members.iter().map(|id| async move {
        let answers = *id == node.id() || node.ask_progress(*id, ANSWER_WITHIN).await.is_some();
        answers.then_some(*id)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Checks that `voters` could commit with those of them that answer.
fn keeps_majority(voters: &BTreeSet<NodeId>, answering: &BTreeSet<NodeId>) -> Result<(), String> {
    let silent: Vec<String> = voters.difference(answering).map(NodeId::to_string).collect();
    let (answer, needed) = (voters.len() - silent.len(), voters.len() / 2 + 1);
    if answer >= needed {
        return Ok(());
    }
    Err(format!(
        "of the {} voters that there would be {needed} have to answer, and {answer} do; without an answer: {}",
        voters.len(),
        silent.join(", ")
    ))
}

async fn transfer(node: &Node, to: NodeId) -> ProposeOutcome {
    let present = Present::of(node);
    if !present.voters.contains(&to) {
        return refused(format!("node {to} is not a voter"));
    }
    if to == node.id() {
        return present.unchanged();
    }
    if node.is_odd(to) {
        return refused(format!("the state of node {to} is not that of the others, it may not lead"));
    }
    if let Err(error) = node.inner().raft.trigger().transfer_leader(to).await {
        return ProposeOutcome::Unknown(error.to_string());
    }
    match node.await_leader(TRANSFER_WITHIN, |leader| leader == Some(to)).await {
        true => present.unchanged(),
        false => refused(format!("node {to} did not take the lead within {TRANSFER_WITHIN:?}")),
    }
}

#[cfg(test)]
mod tests;
