//! Restore: a data directory of a new cluster from a backup.
//!
//! A cluster is founded from the backup once, on one node: its random values are in a file that is left next to the
//! backup ([`super::seed_file`]), from which the other nodes are created. A cluster of one node leaves none. A second
//! restore of the same backup is another cluster.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};

use super::atomic_file::{PartialFile, with_suffix};
use super::founding::{Founded, Founding, Origin, draw_cluster_id};
use super::owned;
use super::seed_file::{RebornFile, list, remove_if_alone};
use super::state_scan::{Survey, SurveyedFile, survey_file};
use crate::format::level::LevelRange;
use crate::format::types::NodeId;
use crate::metrics::Metrics;
use crate::store::{FileKind, StagingDir, read_file};

/// Arguments of a restore, checked by the command line.
#[derive(Clone, Debug)]
pub struct Restore {
    /// A backup, or the file that a restore of one has left for the other nodes.
    pub from: PathBuf,
    pub data_dir: PathBuf,
    pub node_id: NodeId,
    /// Members of the new cluster with their peer addresses, including this node. Not needed with a file that has the
    /// list; if given, it has to be the same.
    pub initial_cluster: Option<BTreeMap<NodeId, String>>,
    /// Path of the file for the other nodes; `None` for one next to the backup.
    pub reborn_out: Option<PathBuf>,
}

/// Result of a restore.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Cluster that the backup was taken from, and its log index at that time.
    pub origin_cluster_id: Option<String>,
    pub origin_index: u64,
    pub founded: Founded,
    /// File that the other nodes are created from. It is deleted if there are none, unless the caller chose its path.
    pub reborn: PathBuf,
}

impl Restore {
    pub fn run(&self) -> anyhow::Result<Restored> {
        let done = if self.is_from_reborn()? { self.take() } else { self.make() };
        owned(&self.data_dir, done)
    }

    /// Reports by its first bytes whether the file has the list of members.
    pub fn is_from_reborn(&self) -> anyhow::Result<bool> {
        let mut magic = Vec::new();
        let file = std::fs::File::open(&self.from).with_context(|| self.from.display().to_string())?;
        file.take(8).read_to_end(&mut magic).with_context(|| self.from.display().to_string())?;
        Ok(magic == FileKind::Reborn.magic())
    }

    /// Founds the cluster, and creates its first node.
    fn make(&self) -> anyhow::Result<Restored> {
        let Restore { from, data_dir, initial_cluster, reborn_out, .. } = self;
        let members =
            initial_cluster.as_ref().context("--initial-cluster has to name the members of the new cluster")?;
        let out = reborn_out.clone().map_or_else(|| with_suffix(from, ".reborn"), Ok)?;
        if out.exists() {
            let out = out.display();
            bail!(
                "{out} exists: a cluster was made of this backup. Its other nodes are made with --from {out}; for one \
                 more cluster name another file with --reborn-out"
            );
        }
        let SurveyedFile { contents, survey, .. } = survey_file(from)?;
        let Survey { progress, cluster, newest_notification_id, .. } = survey;
        let Some(cluster) = cluster else {
            bail!("{} holds the state of no cluster: nothing was founded yet", from.display());
        };
        let part = PartialFile::create(&out).context("the file for the other nodes, see --reborn-out")?;
        let nursery = StagingDir::open(data_dir)?;
        let term = progress.last_applied.map_or(0, |id| id.leader_id.term);
        let origin = Origin { cluster_id: Some(cluster.cluster_id), progress, term, newest_notification_id };
        let reborn = Founding::draw(draw_cluster_id(), origin, contents.level, members, None).write(part, |sink| {
            let again = read_file(from, sink)?;
            let is_same = again.digest == contents.digest;
            if is_same { Ok(()) } else { Err(std::io::Error::other("the backup was changed while it was read")) }
        })?;
        let restored = self.fill(nursery, &reborn, out.clone()).with_context(|| {
            format!("the cluster is in {0}, this node is not made: repeat with --from {0}", out.display())
        })?;
        if reborn_out.is_none() {
            remove_if_alone(&restored.founded, &out)?;
        }
        Ok(restored)
    }

    /// Creates another node of a cluster that was founded.
    fn take(&self) -> anyhow::Result<Restored> {
        let Restore { from, data_dir, node_id, initial_cluster, reborn_out } = self;
        if let Some(out) = reborn_out {
            bail!("{} is such a file already: --reborn-out {} is for a backup", from.display(), out.display());
        }
        let reborn = RebornFile::open(from)?;
        if let Some(given) = initial_cluster {
            let (given, holds) = (list(given), list(&reborn.members()));
            ensure!(given == holds, "--initial-cluster is {given}, and the list in {} is {holds}", from.display());
        }
        reborn.check_new(*node_id)?;
        self.fill(StagingDir::open(data_dir)?, &reborn, from.clone())
    }

    fn fill(&self, nursery: StagingDir, reborn: &RebornFile, path: PathBuf) -> anyhow::Result<Restored> {
        let header = &reborn.header;
        let store = nursery.store(self.node_id, LevelRange::OWN, Arc::new(Metrics::new()?))?;
        store.set_cluster_id(header.state.cluster_id.as_deref().unwrap_or_default())?;
        let founded = reborn.fill(store, self.node_id)?;
        nursery.finish()?;
        let (origin_cluster_id, origin_index) = (header.origin_cluster_id.clone(), header.origin_index);
        Ok(Restored { origin_cluster_id, origin_index, founded, reborn: path })
    }
}
