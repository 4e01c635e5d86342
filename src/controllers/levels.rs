//! The cluster's level goes up when every member can read the next one; see [`crate::format::level`].
//!
//! The leader asks the connections, not the announcements: what a member says when it is dialled is what
//! its present binary can do. One that is away holds the level where it is, for it may come back as the
//! version before. From the moment the level is raised, such a binary is refused at every door: by its
//! own data directory, and by its peers.

use std::time::Duration;

use super::Controller;
use crate::catalog::Command;
use crate::format::level::Level;
use crate::raft::Lead;

/// Between two looks at the members.
const ROUND: Duration = Duration::from_millis(200);

pub(super) struct Levels;

impl Controller for Levels {
    async fn act(&mut self, lead: &Lead) -> Duration {
        lead.node().finish_membership_change().await;
        raise_if_due(lead).await;
        ROUND
    }
}

/// One step at a time, each of them an entry of the log.
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
        tracing::info!(level = %next, "the cluster's level is raised: every member reads it");
    }
}
