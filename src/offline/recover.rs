//! A cluster of one out of the node that is left, when the others are lost for good.
//!
//! The node takes everything in its log for done, acknowledged or not: it has the only copy. It then
//! goes on under the id of a new cluster, which the members of the old one turn away, should they come
//! back, and with versions and ids that nobody has seen ([`crate::catalog::rebirth`]).
//!
//! Each step may be cut short by a crash. The new cluster id comes first: from then on nobody of the
//! old cluster listens to this node, and what it does to itself is its own affair. Then the tail of the
//! log is applied, as a node does. The last step is one batch. Whoever runs it again after a crash gets
//! the same end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};

use super::founding::{Founded, Founding};
use crate::catalog::rebirth::Rebirth;
use crate::format::level::LevelRange;
use crate::format::types::{Entry, LogId, Member, NodeId, membership_of};
use crate::metrics::Metrics;
use crate::raft::machine::Machine;
use crate::store::{Peek, Store};
use crate::watch::Hub;

/// Bytes of the log that are held at a time.
const ENTRIES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A stopped node that may go on alone.
pub struct Survivor {
    store: Store,
    machine: Machine,
    findings: Findings,
}

/// What it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    pub node_id: NodeId,
    pub cluster_id: Option<String>,
    /// Index of the last entry that it has applied, and of the last one in its log.
    pub applied: u64,
    pub last: u64,
    /// Of that last entry, and the newest that it has heard of.
    pub last_term: u64,
    pub term: u64,
    /// All members, itself included, as its log has them last.
    pub members: BTreeMap<NodeId, String>,
}

impl Findings {
    pub fn is_alone(&self) -> bool {
        self.members.len() == 1 && self.members.contains_key(&self.node_id)
    }
}

impl Survivor {
    /// Opens the directory of the stopped node `node_id` and looks at it.
    pub fn open(dir: &Path, node_id: NodeId) -> anyhow::Result<Survivor> {
        // Opening for real would make a directory where there is none.
        drop(Peek::open(dir, LevelRange::OWN)?);
        let metrics = Arc::new(Metrics::new()?);
        let store = Store::open(dir, node_id, LevelRange::OWN, metrics.clone())?;
        let machine = Machine::load(store.clone(), Hub::new(0), metrics)?;
        let progress = machine.progress();
        let extent = store.log_extent();
        let mut membership = progress.membership.clone();
        for_each_unapplied(&store, progress.last_applied, |entries| {
            if let Some(newer) = entries.iter().rev().find_map(membership_of) {
                membership = newer;
            }
            Ok(())
        })?;
        let members = membership.membership().nodes().map(|(id, member)| (*id, member.peer.clone())).collect();
        let last_term = extent.last.map_or(0, |id| id.leader_id.term);
        let findings = Findings {
            node_id,
            cluster_id: machine.state().catalog().nodes.cluster_id().map(str::to_owned),
            applied: progress.index(),
            last: extent.last.map_or(0, |id| id.index).max(progress.index()),
            last_term,
            term: extent.vote.map_or(0, |vote| vote.leader_id().term).max(last_term),
            members,
        };
        if findings.cluster_id.is_none() {
            bail!("{} holds the state of no cluster: there is nothing to go on with", dir.display());
        }
        if !findings.members.contains_key(&node_id) {
            bail!("node {node_id} is no member of its cluster any more: another node has to go on, or a backup");
        }
        Ok(Survivor { store, machine, findings })
    }

    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Makes it the only member of a new cluster.
    pub fn go_on_alone(self) -> anyhow::Result<Founded> {
        let Survivor { store, machine, findings } = self;
        let Findings { node_id, members, term, .. } = findings;
        let cluster_id = hex::encode(rand::random::<[u8; 16]>());
        store.retie(&cluster_id)?;
        for_each_unapplied(&store, machine.progress().last_applied, |entries| {
            machine.replay(&entries).context("the log cannot be applied")
        })?;
        let origin = machine.progress();
        drop(machine);
        let peer = members.get(&node_id).cloned().unwrap_or_default();
        let founding = Founding {
            rebirth: Rebirth { cluster_id, survivor: Some(node_id) },
            node_id,
            members: BTreeMap::from([(node_id, Member { peer })]),
            term: term + 1,
            origin,
            level: store.identity().level,
        };
        let reader = store.clone();
        founding.carry_out(store, move |sink| reader.for_each_row(sink))
    }
}

fn for_each_unapplied(
    store: &Store,
    applied: Option<LogId>,
    mut visit: impl FnMut(Vec<Entry>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut next = applied.map_or(0, |id| id.index + 1);
    loop {
        let entries = store.entries_from(next, ENTRIES_BYTES_MAX)?;
        let Some(last) = entries.last() else { return Ok(()) };
        next = last.log_id.index + 1;
        visit(entries)?;
    }
}
