//! Consistency check on a node: compares the state hashes of the members.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tokio::time::sleep;

use crate::format::types::NodeId;
use crate::peer::PeerProgress;
use crate::raft::alarms::{Alarm, AlarmKind};
use crate::raft::checkpoint_hashes::{self, Difference};
use crate::raft::node::Node;
use crate::tasks;

/// Pause between two comparisons.
const COMPARE_PAUSE: Duration = Duration::from_secs(2);
/// Consecutive comparisons that have to find this node wrong before it stops: with two voters the leader counts as
/// right, and for a moment two nodes may disagree on which of them leads.
const ROUNDS_MIN: u32 = 2;

impl Node {
    /// Returns the reason why this node no longer serves requests: its state differs from the others', or it was
    /// removed. `None` while it serves.
    pub fn out_of_service(&self) -> Option<&str> {
        let removed = || self.removed().map(|removed| removed.0.as_str());
        self.diverged().or_else(removed)
    }

    /// Returns the reason why this node's state was found wrong, if it was.
    pub(in crate::raft) fn diverged(&self) -> Option<&str> {
        self.inner().upkeep.divergence.retired.get().map(String::as_str)
    }

    /// Reports whether the state of a member was found wrong.
    pub fn is_odd(&self, node_id: NodeId) -> bool {
        let found = self.inner().upkeep.divergence.found.lock();
        found.difference.as_ref().is_some_and(|difference| difference.odd.contains(&node_id))
    }

    /// Returns alarms about differing states.
    pub(in crate::raft) fn divergence_alarms(&self) -> Vec<Alarm> {
        let own = self.diverged().map(|why| Alarm::of_node(AlarmKind::State, self.id(), why));
        let found = self.inner().upkeep.divergence.found.lock();
        let others = found.difference.as_ref().and_then(|difference| describe(difference, self.id()));
        own.into_iter().chain(others.map(|text| Alarm::of_cluster(AlarmKind::State, text))).collect()
    }
}

/// Restores what an earlier run of this node found about itself.
pub(in crate::raft) fn recall(node: &Node) -> io::Result<()> {
    if let Some(why) = node.store().retired()? {
        tracing::error!(why, "this node's state differs from the others': it serves no requests");
        stand_aside(node, why);
    }
    Ok(())
}

fn stand_aside(node: &Node, why: String) {
    node.metrics().state_diverged.set(1);
    // The first reason is as good as any later one.
    let _ = node.inner().upkeep.divergence.retired.set(why);
    // Held long polls are answered, and their clients turn to another node.
    node.state().hub().close();
}

pub(in crate::raft) async fn watch(node: Node) {
    loop {
        sleep(COMPARE_PAUSE).await;
        compare(&node).await;
        if node.diverged().is_some() {
            node.hand_over().await;
        }
    }
}

async fn compare(node: &Node) {
    let metrics = node.raft_metrics();
    let membership = metrics.membership_config.membership();
    let members: BTreeSet<NodeId> = membership.nodes().map(|(id, _)| *id).collect();
    // A node that is no member compares itself with no one.
    if !members.contains(&node.id()) {
        return;
    }
    let said = node.inner().poll.said().into_iter().filter(|(id, _)| members.contains(id) && node.is_reachable(*id));
    let told = said.map(|(id, PeerProgress { checkpoints, .. })| (id, checkpoints));
    let known = told.chain([(node.id(), node.inner().machine.checkpoints())]).collect();
    let found = checkpoint_hashes::difference(&membership.voter_ids().collect(), metrics.current_leader, &known);
    if let Some(why) = take_in(node, found) {
        retire(node, why).await;
    }
}

/// Publishes a finding; returns the reason why this node has to stop, if it has to.
fn take_in(node: &Node, difference: Option<Difference>) -> Option<String> {
    let is_retired = node.diverged().is_some();
    node.metrics().state_diverged.set(i64::from(difference.is_some() || is_retired));
    let mut found = node.inner().upkeep.divergence.found.lock();
    let odd_before = found.difference.as_ref().map(|difference| difference.odd.clone());
    if let Some(difference) = &difference
        && odd_before.as_ref() != Some(&difference.odd)
    {
        let (index, odd) = (difference.index, names(difference.odd.iter()));
        let compared = names(difference.compared.iter());
        tracing::error!(log.index = index, compared, odd, "members of the cluster hold different states");
    }
    let own = difference.as_ref().filter(|difference| difference.odd.contains(&node.id()));
    found.rounds = if own.is_some() { found.rounds + 1 } else { 0 };
    let why = own.filter(|_| found.rounds >= ROUNDS_MIN && !is_retired).map(|difference| farewell(node, difference));
    found.difference = difference;
    why
}

fn farewell(node: &Node, difference: &Difference) -> String {
    let (id, index) = (node.id(), difference.index);
    format!(
        "the state of node {id} is not that of the others, at index {index} at the latest: it serves nobody any more. \
         Replace it: `thuban cluster remove --id {id}` through another node, then start one with an empty data \
         directory, a new --node-id and no --initial-cluster, `thuban cluster add` and `thuban cluster promote` it"
    )
}

/// Stops serving, for good.
async fn retire(node: &Node, why: String) {
    tracing::error!(why, "this node stops serving");
    let (store, kept) = (node.store().clone(), why.clone());
    if let Err(error) = tasks::blocking(move || store.retire(&kept)).await {
        tracing::error!(%error, "the finding that this node's state is wrong could not be saved");
    }
    stand_aside(node, why);
}

/// Returns the alarm about a difference, for all nodes but a wrong node itself.
fn describe(difference: &Difference, own_id: NodeId) -> Option<String> {
    let index = difference.index;
    if difference.odd.is_empty() {
        let nodes = names(difference.compared.iter());
        return Some(format!(
            "the states of {nodes} are not the same at index {index}, and it cannot be told which is right while other \
             voters are away"
        ));
    }
    let others: BTreeSet<&NodeId> = difference.odd.iter().filter(|id| **id != own_id).collect();
    let nodes = names(others.iter().copied());
    (!others.is_empty()).then(|| {
        format!("the state of {nodes} is not that of the others at index {index}: remove it and let a new node join")
    })
}

fn names<'a>(ids: impl Iterator<Item = &'a NodeId>) -> String {
    ids.map(|id| format!("node {id}")).collect::<Vec<_>>().join(", ")
}
