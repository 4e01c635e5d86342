//! Cluster formation: a node without data that is named in the initial list becomes part of a cluster.
//!
//! It first asks its peers. A peer that knows its id under another data directory refuses it: the directory was wiped,
//! and the node may have voted and acknowledged entries under that id. A peer that has a log belongs to an existing
//! cluster, and this node waits until that cluster contacts it. If a peer was started with another list, both report it
//! and wait ([`super::initial_cluster`]). Only if EVERY peer of the list has welcomed the node does no cluster exist
//! yet, and the nodes form one: all of them write the same first entry, so the order of starts does not matter.
//!
//! A majority would not suffice: two of three nodes that lost their disks while the third is away would form a new,
//! empty cluster, and the node that has all the data would be refused. With `--form-with-majority` the operator vouches
//! that a peer that does not answer never had any data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::future::join_all;

use super::node::Node;
use super::peer_admission::KnownPeers;
use super::removal::Removed;
use crate::format::types::{Member, NodeId};
use crate::log_once::LogOnce;
use crate::peer::{IntroduceError, Refusal, RefusalReason, Welcome};

/// Pause between two rounds of asking the peers, and between two log lines about missing peers.
const MEET_PAUSE: Duration = Duration::from_millis(200);
const MEET_LOG_PAUSE: Duration = Duration::from_secs(5);

/// Inputs of the formation of a cluster.
pub(super) struct Formation {
    pub(super) node: Node,
    pub(super) known_peers: Arc<KnownPeers>,
    pub(super) initial_cluster: BTreeMap<NodeId, String>,
    /// True if a majority of the list suffices.
    pub(super) with_majority: bool,
}

/// Peers of the list that have answered this node since it started, and the reasons why the others have not.
#[derive(Default)]
struct Met {
    /// Per peer, true if it has a log already.
    welcomes: BTreeMap<NodeId, bool>,
    missing: BTreeMap<NodeId, String>,
    /// Peers with another list, whatever they have answered.
    differing: BTreeSet<NodeId>,
    /// Peers at whose address a node with another list answered last.
    displaced: BTreeSet<NodeId>,
}

/// Reason why a peer of the list has not welcomed this node.
#[derive(Debug)]
enum Absence {
    /// Unreachable, or another node is at its address.
    Missing(String),
    /// The node at its address was started with another list.
    OtherList,
}

/// Conclusion from the answers so far.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// A peer belongs to a cluster.
    Exists,
    /// No peer belongs to a cluster, and enough have answered.
    Nothing,
    /// A peer that may know of a cluster is missing, or one has another list.
    Unclear,
}

impl Met {
    fn note(&mut self, peer: NodeId, answer: Result<Welcome, Absence>) {
        self.displaced.remove(&peer);
        match answer {
            Ok(welcome) => {
                self.missing.remove(&peer);
                self.welcomes.insert(peer, welcome.initialized);
            }
            Err(Absence::OtherList) => {
                self.missing.remove(&peer);
                self.displaced.insert(peer);
            }
            // A peer that answered before is not missing: it did not object.
            Err(Absence::Missing(_)) if self.welcomes.contains_key(&peer) => {}
            Err(Absence::Missing(why)) => drop(self.missing.insert(peer, why)),
        }
    }

    /// Sets the peers of the list that were started with another one. Their answers do not count.
    fn note_differing(&mut self, differing: BTreeSet<NodeId>) {
        self.welcomes.retain(|peer, _| !differing.contains(peer));
        self.missing.retain(|peer, _| !differing.contains(peer));
        self.differing = differing;
    }

    /// Draws the conclusion for a list of `listed` nodes, this one included. While one of them has another list nothing
    /// is formed, because by that list there may be a majority as well.
    fn finding(&self, listed: usize, with_majority: bool) -> Finding {
        let needed = if with_majority { listed / 2 + 1 } else { listed };
        match self.welcomes.values().any(|has_log| *has_log) {
            true => Finding::Exists,
            false if !(self.differing.is_empty() && self.displaced.is_empty()) => Finding::Unclear,
            false if self.welcomes.len() + 1 >= needed => Finding::Nothing,
            false => Finding::Unclear,
        }
    }
}

impl Formation {
    /// Returns once this node has a cluster or has found that one exists. Fails if the node may not take part.
    pub(super) async fn form_or_join(&self) -> anyhow::Result<()> {
        let finding = self.meet_peers().await?;
        self.node.set_awaited(None);
        if finding == Finding::Nothing {
            self.form().await?;
        }
        Ok(())
    }

    /// Waits for the peers without a limit.
    async fn meet_peers(&self) -> anyhow::Result<Finding> {
        let mut met = Met::default();
        let log = LogOnce::every(MEET_LOG_PAUSE);
        loop {
            let others = self.initial_cluster.iter().filter(|(peer, _)| **peer != self.node.id());
            for (peer, answer) in join_all(others.map(|(peer, address)| self.meet(*peer, address))).await {
                met.note(peer, answer?);
            }
            let mut differing = self.known_peers.lists().differing();
            differing.retain(|peer| self.initial_cluster.contains_key(peer));
            met.note_differing(differing);
            let finding = met.finding(self.initial_cluster.len(), self.with_majority);
            if finding != Finding::Unclear {
                return Ok(finding);
            }
            let missing = self.missing_text(&met);
            if !missing.is_empty() && log.is_due(()) {
                tracing::info!(missing, "waiting for the peers of the initial cluster");
            }
            let missing = (!missing.is_empty()).then(|| format!("waiting for {missing}"));
            let lines = self.known_peers.lists().lines();
            self.node.set_awaited(Some(lines.into_iter().chain(missing).collect::<Vec<_>>().join("; ")));
            tokio::time::sleep(MEET_PAUSE).await;
        }
    }

    /// Asks one peer. The inner error is the reason of its absence, the outer one the reason why this node may not take
    /// part. Another node at the address of a peer is no reason against this node.
    async fn meet(&self, peer: NodeId, address: &str) -> (NodeId, anyhow::Result<Result<Welcome, Absence>>) {
        let answer = match self.node.inner().peers.meet(peer, address).await {
            Ok(welcome) => Ok(Ok(welcome)),
            Err(IntroduceError::Unreachable(why)) => Ok(Err(Absence::Missing(why))),
            Err(IntroduceError::Refused(Refusal { reason: RefusalReason::OtherList, .. })) => {
                Ok(Err(Absence::OtherList))
            }
            Err(IntroduceError::Refused(Refusal { reason: RefusalReason::OtherNode, text })) => {
                Ok(Err(Absence::Missing(text)))
            }
            Err(IntroduceError::Refused(Refusal { reason: RefusalReason::Removed, text })) => Err(Removed(text).into()),
            Err(error) => Err(anyhow!("node {peer} at {address} and this node do not go together: {error}")),
        };
        (peer, answer)
    }

    fn missing_text(&self, met: &Met) -> String {
        let tell = |(peer, why): (&NodeId, &String)| match self.initial_cluster.get(peer) {
            Some(address) => format!("node {peer} at {address} ({why})"),
            None => format!("node {peer} ({why})"),
        };
        met.missing.iter().map(tell).collect::<Vec<_>>().join(", ")
    }

    async fn form(&self) -> anyhow::Result<()> {
        let member = |(id, peer): (&NodeId, &String)| (*id, Member { peer: peer.clone() });
        let members: BTreeMap<NodeId, Member> = self.initial_cluster.iter().map(member).collect();
        let raft = &self.node.inner().raft;
        match raft.initialize(members).await {
            Ok(()) => Ok(()),
            // A peer was faster and has already replicated to this node.
            Err(_) if raft.is_initialized().await.unwrap_or(false) => Ok(()),
            Err(error) => Err(error).context("the cluster could not be formed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Build;

    fn welcome(node_id: NodeId, initialized: bool) -> Result<Welcome, Absence> {
        let instance = format!("data of {node_id}");
        let (cluster_id, knows_you, build, list) = (None, false, Build::default(), None);
        Ok(Welcome { cluster_id, node_id, instance, initialized, knows_you, build, list })
    }

    #[test]
    fn only_all_of_the_list_can_say_that_there_is_nothing_yet() {
        let away = || Err(Absence::Missing("connection refused".to_owned()));
        type Answers = [Result<Welcome, Absence>; 2];
        let rows: [(Answers, Finding, Finding); 6] = [
            ([away(), away()], Finding::Unclear, Finding::Unclear),
            ([welcome(2, false), away()], Finding::Unclear, Finding::Nothing),
            ([away(), welcome(3, false)], Finding::Unclear, Finding::Nothing),
            ([welcome(2, false), welcome(3, false)], Finding::Nothing, Finding::Nothing),
            ([welcome(2, true), away()], Finding::Exists, Finding::Exists),
            ([welcome(2, false), welcome(3, true)], Finding::Exists, Finding::Exists),
        ];
        for (answers, with_all, with_majority) in rows {
            let told = format!("{answers:?}");
            let mut met = Met::default();
            for (peer, answer) in [2, 3].into_iter().zip(answers) {
                met.note(peer, answer);
            }
            assert_eq!((met.finding(3, false), met.finding(3, true)), (with_all, with_majority), "{told}");
        }
    }

    #[test]
    fn nothing_is_formed_while_a_node_of_the_list_has_another_one() {
        let mut met = Met::default();
        for peer in [2, 3, 4, 5] {
            met.note(peer, welcome(peer, false));
        }
        // Three of five nodes have the same list; by the list of the fifth, there may be a majority as well.
        met.note_differing([5].into());
        assert_eq!((met.finding(5, false), met.finding(5, true)), (Finding::Unclear, Finding::Unclear));
        met.note_differing(BTreeSet::new());
        assert_eq!((met.finding(5, false), met.finding(5, true)), (Finding::Unclear, Finding::Nothing));
        met.note(5, welcome(5, false));
        assert_eq!(met.finding(5, false), Finding::Nothing);
        met.note_differing([5].into());
        met.note(2, welcome(2, true));
        assert_eq!(met.finding(5, false), Finding::Exists, "a cluster that is there is joined, not formed");
    }

    /// A node with another list may count a majority of its own.
    #[test]
    fn nothing_is_formed_while_a_node_with_another_list_is_at_the_address_of_a_peer() {
        let mut met = Met::default();
        met.note(2, welcome(2, false));
        met.note(3, Err(Absence::OtherList));
        assert_eq!((met.finding(3, false), met.finding(3, true)), (Finding::Unclear, Finding::Unclear));
        met.note(3, Err(Absence::Missing("connection refused".into())));
        assert_eq!((met.finding(3, false), met.finding(3, true)), (Finding::Unclear, Finding::Nothing));
        met.note(3, welcome(3, false));
        assert_eq!(met.finding(3, false), Finding::Nothing);
    }

    #[test]
    fn a_peer_that_was_there_once_is_not_missing() {
        let mut met = Met::default();
        let refused = || Err(Absence::Missing("refused".into()));
        met.note(2, refused());
        assert_eq!(met.missing.len(), 1);
        met.note(2, welcome(2, false));
        met.note(2, refused());
        assert!(met.missing.is_empty());
        assert_eq!(met.finding(2, false), Finding::Nothing);
    }
}
