//! The file from which all nodes of a cluster with an earlier state are created. It has the random values of that
//! cluster, so it is written once and copied.
//!
//! Its layout is that of a snapshot with a different magic ([`FileKind::Reborn`]), including the checksum: a version
//! without support for the file refuses it, and never takes it for a backup. All nodes have to be created by the
//! version that wrote the file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::atomic_file::PartialFile;
use super::founding::Founded;
use crate::format::codec;
use crate::format::header::StateHeader;
use crate::format::types::{NodeId, Vote};
use crate::store::{Contents, FileKind, Store, read_file};

/// Header of the file, in MessagePack with field names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RebornHeader {
    /// Header of the state, which is the same on every node.
    pub(super) state: StateHeader,
    /// Node that continues in its own directory, and is not created from the file.
    pub(super) survivor: Option<NodeId>,
    /// Cluster that the state comes from, and its log index.
    pub(super) origin_cluster_id: Option<String>,
    pub(super) origin_index: u64,
}

/// A file that was read and verified completely.
pub(super) struct RebornFile {
    path: PathBuf,
    contents: Contents,
    pub(super) header: RebornHeader,
}

impl RebornFile {
    /// Gives a complete file its name.
    pub(super) fn kept(part: PartialFile, contents: Contents, header: RebornHeader) -> anyhow::Result<Self> {
        let path = part.keep()?;
        Ok(RebornFile { path, contents, header })
    }

    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let contents = read_file(path, |_, _| Ok(()))?;
        ensure!(contents.kind == FileKind::Reborn, "{} is a backup, and no .reborn file", path.display());
        let header = header_of(path, &contents)?;
        let (own, theirs) = (env!("CARGO_PKG_VERSION"), &header.state.version);
        ensure!(
            theirs == own,
            "{} was made by thuban {theirs}, this is {own}: all nodes of its cluster are made by one version",
            path.display()
        );
        Ok(RebornFile { path: path.to_owned(), contents, header })
    }

    pub(super) fn members(&self) -> BTreeMap<NodeId, String> {
        let membership = self.header.state.last_membership.membership();
        membership.nodes().map(|(id, member)| (*id, member.peer.clone())).collect()
    }

    /// Checks that a directory of this node can be created from the file.
    pub(super) fn check_new(&self, node_id: NodeId) -> anyhow::Result<()> {
        if self.header.survivor == Some(node_id) {
            bail!("{}: node {node_id} goes on in its own directory, the file is for the others", self.path.display());
        }
        if !self.members().contains_key(&node_id) {
            bail!("{} does not name node {node_id}, its list is {}", self.path.display(), list(&self.members()));
        }
        Ok(())
    }

    /// Replaces everything in the directory of `store` by the state of the file.
    pub(super) fn fill(&self, store: Store, node_id: NodeId) -> anyhow::Result<Founded> {
        let StateHeader { last_log_id, cluster_id, state_hash, .. } = &self.header.state;
        let last = last_log_id.with_context(|| format!("{} does not say where its log begins", self.path.display()))?;
        let file = store.stage(self.contents.level, codec::to_bytes(&self.header.state), |sink| {
            let again = read_file(&self.path, sink)?;
            let is_same = again.digest == self.contents.digest;
            if is_same { Ok(()) } else { Err(io::Error::other("the file was changed while it was read")) }
        })?;
        // The vote is not committed: there is no leader yet, and this node can vote in the next term.
        store.begin_anew(&file, last, Vote::new(last.leader_id.term, node_id))?;
        Ok(Founded {
            cluster_id: cluster_id.clone().unwrap_or_default(),
            index: last.index,
            state_hash: state_hash.clone(),
            members: self.members(),
        })
    }
}

/// Deletes the file of a cluster of one node, which needs it only to repeat an interrupted run.
pub(super) fn remove_if_alone(founded: &Founded, path: &Path) -> anyhow::Result<()> {
    if founded.members.len() > 1 {
        return Ok(());
    }
    std::fs::remove_file(path).with_context(|| path.display().to_string())
}

/// Decodes the header of such a file.
pub(super) fn header_of(path: &Path, contents: &Contents) -> anyhow::Result<RebornHeader> {
    codec::from_bytes(&contents.header).with_context(|| format!("the header of {}", path.display()))
}

/// Formats a list as the value of `--initial-cluster`.
pub(super) fn list(members: &BTreeMap<NodeId, String>) -> String {
    members.iter().map(|(id, peer)| format!("{id}={peer}")).collect::<Vec<_>>().join(",")
}
