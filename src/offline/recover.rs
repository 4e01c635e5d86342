//! Recovery: a new cluster from the remaining node when the others are lost for good. It has this node alone, or a list
//! of nodes, the others of which are created from the file that is left for them ([`super::seed_file`]).
//!
//! The node treats everything in its log as committed, acknowledged or not: it has the only copy. It then continues
//! under the id of a new cluster, which members of the old one refuse should they come back, and with versions and ids
//! that were never used ([`crate::catalog::rekey`]).
//!
//! A crash may interrupt each step. The new cluster id is written first: from then on no member of the old cluster
//! accepts this node, so later steps cannot affect the old cluster. Then the tail of the log is applied, as by a node,
//! and the file is written. The last step is one batch. A repetition after a crash gives the same result; once the file
//! exists, which may have been copied, it is the same cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};

use super::atomic_file::{PartialFile, with_suffix};
use super::founding::{Founded, Founding, Origin, draw_cluster_id};
use super::owned;
use super::seed_file::{RebornFile, list, remove_if_alone};
use crate::format::level::LevelRange;
use crate::format::types::{Entry, LogId, NodeId, membership_of};
use crate::metrics::Metrics;
use crate::raft::machine::Machine;
use crate::store::{ReadOnlyStore, Store};
use crate::watch::Hub;

/// Maximum bytes of the log in memory.
const ENTRIES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Arguments of a recovery, checked by the command line.
#[derive(Clone, Debug)]
pub struct Recover {
    pub data_dir: PathBuf,
    pub node_id: NodeId,
    /// Members of the new cluster with their peer addresses, including this node; empty for this node alone.
    pub initial_cluster: BTreeMap<NodeId, String>,
    /// Path of the file for the other nodes; `None` for one next to the directory.
    pub reborn_out: Option<PathBuf>,
}

/// A stopped node that may continue without the others.
pub struct Survivor {
    reborn_out: PathBuf,
    /// True if the caller chose that path.
    is_out_chosen: bool,
    initial_cluster: BTreeMap<NodeId, String>,
    /// File that an earlier run has left for the other nodes.
    left: Option<RebornFile>,
    store: Store,
    machine: Machine,
    findings: Findings,
}

/// State of the remaining node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    pub node_id: NodeId,
    pub cluster_id: Option<String>,
    /// Index of the last entry that it has applied, and of the last one in its log.
    pub applied: u64,
    pub last: u64,
    /// Term of that last entry, and the newest term known to the node.
    pub last_term: u64,
    pub term: u64,
    /// All members, including the node, according to the end of its log.
    pub members: BTreeMap<NodeId, String>,
}

impl Findings {
    pub fn is_alone(&self) -> bool {
        self.members.len() == 1 && self.members.contains_key(&self.node_id)
    }
}

impl Survivor {
    /// Opens and checks the directory of the stopped node.
    pub fn open(order: &Recover) -> anyhow::Result<Survivor> {
        let Recover { data_dir: dir, node_id, initial_cluster, reborn_out } = order;
        let node_id = *node_id;
        // Opening it as a store would create a missing directory.
        drop(ReadOnlyStore::open(dir, LevelRange::OWN)?);
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
        let is_out_chosen = reborn_out.is_some();
        let reborn_out = reborn_out.clone().map_or_else(|| beside(dir), Ok)?;
        let initial_cluster = initial_cluster.clone();
        let mut survivor =
            Survivor { reborn_out, is_out_chosen, initial_cluster, left: None, store, machine, findings };
        if !survivor.findings.is_alone() && survivor.reborn_out.exists() {
            survivor.left = Some(survivor.left_before()?);
        }
        Ok(survivor)
    }

    /// Opens the existing file, which has to come from an earlier run on this directory. Any other file is left
    /// unchanged.
    fn left_before(&self) -> anyhow::Result<RebornFile> {
        let out = self.reborn_out.display();
        let exists = || format!("{out} exists; for another file name it with --reborn-out");
        let file = RebornFile::open(&self.reborn_out).with_context(exists)?;
        let is_ours = file.header.state.cluster_id == self.store.identity().cluster_id;
        ensure!(is_ours, "{}: it is of another cluster", exists());
        let (asked, holds) = (list(&self.members()), list(&file.members()));
        let may_differ = self.initial_cluster.is_empty() && is_of(&file, &self.findings);
        ensure!(may_differ || asked == holds, "{out} was made for the members {holds}, not for {asked}");
        Ok(file)
    }

    /// Reports whether an earlier run was completed: the directory belongs to a member of the cluster in the file.
    pub fn is_done(&self) -> bool {
        self.left.as_ref().is_some_and(|file| is_of(file, &self.findings))
    }

    /// Returns the members of the new cluster.
    fn members(&self) -> BTreeMap<NodeId, String> {
        if !self.initial_cluster.is_empty() {
            return self.initial_cluster.clone();
        }
        let node_id = self.findings.node_id;
        let peer = self.findings.members.get(&node_id).cloned().unwrap_or_default();
        [(node_id, peer)].into()
    }

    /// Returns the path of the file for the other nodes.
    pub fn reborn_out(&self) -> &Path {
        &self.reborn_out
    }

    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Makes the node a member of a new cluster.
    pub fn go_on(self) -> anyhow::Result<Founded> {
        let (dir, out, is_out_chosen) = (self.store.dir().to_owned(), self.reborn_out.clone(), self.is_out_chosen);
        let done = self.make().and_then(|founded| {
            if !is_out_chosen {
                remove_if_alone(&founded, &out)?;
            }
            Ok(founded)
        });
        owned(&dir, done)
    }

    fn make(self) -> anyhow::Result<Founded> {
        let members = self.members();
        let Survivor { reborn_out, left, store, machine, findings, .. } = self;
        let Findings { node_id, cluster_id, term, .. } = findings;
        if let Some(reborn) = left {
            drop(machine);
            return reborn.fill(store, node_id);
        }
        // Before any change, since the path may not be writable.
        let part = PartialFile::create(&reborn_out).context("the file for the other nodes, see --reborn-out")?;
        let new_cluster_id = draw_cluster_id();
        store.retie(&new_cluster_id)?;
        for_each_unapplied(&store, machine.progress().last_applied, |entries| {
            machine.replay(&entries).context("the log cannot be applied")
        })?;
        let newest_notification_id = machine.state().catalog().configs.newest_notification_id();
        let origin = Origin { cluster_id, progress: machine.progress(), term, newest_notification_id };
        drop(machine);
        let founding = Founding::draw(new_cluster_id, origin, store.identity().level, &members, Some(node_id));
        let reader = store.clone();
        founding.write(part, move |sink| reader.for_each_row(sink))?.fill(store, node_id)
    }
}

/// Reports whether the state is that of the file already.
fn is_of(file: &RebornFile, findings: &Findings) -> bool {
    file.header.state.cluster_id == findings.cluster_id
}

/// Returns the default path of the file.
fn beside(dir: &Path) -> anyhow::Result<PathBuf> {
    with_suffix(dir, ".reborn").context("--reborn-out has to name a file")
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
