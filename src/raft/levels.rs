//! The cluster's level goes up when every member can read the next one; see [`crate::format::level`].
//!
//! The leader asks the connections, not the announcements: what a member says when it is dialled is what
//! its present binary can do. One that is away holds the level where it is, for it may come back as the
//! version before. From the moment the level is raised, such a binary is refused at every door: by its
//! own data directory, and by its peers.

use super::leading::{self, ProposeOutcome};
use super::node::Node;
use crate::catalog::Command;
use crate::format::level::Level;
use crate::format::types::NodeId;
use crate::peer::Build;

impl Node {
    /// Build that a member announces: this node, or one that is connected.
    pub(super) fn build_of(&self, node_id: NodeId) -> Option<Build> {
        if node_id == self.id() {
            let level = self.state().catalog().level();
            let (version, levels) = (env!("CARGO_PKG_VERSION").to_owned(), self.store().levels());
            return Some(Build { version, levels, level, tls: true });
        }
        self.inner().peers.build(node_id)
    }

    /// The highest level that every member reads, learners included; `None` unless all are in reach.
    pub(super) fn common_level(&self) -> Option<Level> {
        let metrics = self.raft_metrics();
        let mut members = metrics.membership_config.membership().nodes().map(|(id, _)| *id);
        members.try_fold(Level(u8::MAX), |common, id| Some(common.min(self.build_of(id)?.levels.max)))
    }
}

/// One step at a time, each of them an entry of the log.
pub(super) async fn raise_if_due(node: &Node) {
    let next = {
        let catalog = node.state().catalog();
        if catalog.nodes.cluster_id().is_none() {
            return;
        }
        Level(catalog.level().0 + 1)
    };
    if node.leading_term().is_none() || node.common_level().is_none_or(|common| common < next) {
        return;
    }
    match leading::propose_here(node, Command::Raise { level: next }).await {
        ProposeOutcome::Done { .. } => {
            tracing::info!(level = %next, "every member reads this level: it is the cluster's now")
        }
        other => tracing::warn!(level = %next, ?other, "the level of the cluster could not be raised yet"),
    }
}
