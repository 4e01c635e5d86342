//! Raising of the cluster's level once every member reads the next one; see [`crate::format::level`].
//!
//! The leader uses the builds on open connections, not the announcements: they describe the running binaries. A member
//! that is away prevents a higher level, because it may come back with the previous version. Once the level is raised,
//! such a binary is refused everywhere: by its own data directory, and by its peers.

use std::time::Duration;

use super::Controller;
use crate::catalog::Command;
use crate::format::level::Level;
use crate::raft::Lead;

/// Interval between two checks of the members.
const ROUND: Duration = Duration::from_millis(200);

pub(super) struct Levels;

impl Controller for Levels {
    async fn act(&mut self, lead: &Lead) -> Duration {
        lead.node().finish_membership_change().await;
        raise_if_due(lead).await;
        ROUND
    }
}

/// Raises the level by one, if every member reads it. Each step is an entry of the log.
async fn raise_if_due(lead: &Lead) {
    let next = {
        let catalog = lead.catalog();
        if catalog.nodes.cluster_id().is_none() {
            return;
        }
        Level(catalog.level().0 + 1)
    };
    if lead.node().common_level().is_none_or(|common| common < next) {
        return;
    }
    if lead.propose("the level of the cluster", Command::Raise { level: next }).await.is_ok() {
        tracing::info!(level = %next, "data format of the cluster upgraded: every member reads it");
    }
}
