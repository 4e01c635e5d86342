//! Retention: releases that are too many without a change of their own, because the setting was lowered or the cluster
//! has just come to keep to it, go piece by piece.

use std::time::Duration;

use super::Controller;
use crate::catalog::Command;
use crate::raft::{Lead, NotCommitted};

/// Between two looks at whether anything is too much.
const ROUND: Duration = Duration::from_secs(1);
/// Between two pieces while something is: the writes of others go in between.
const PIECE_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Retention;

impl Controller for Retention {
    /// Removes a piece. One that is proposed again before it is applied finds nothing left.
    async fn act(&mut self, lead: &Lead) -> Duration {
        let overfull = lead.catalog().overfull();
        if overfull.is_empty() {
            return ROUND;
        }
        let (files, rules) = (overfull.files.len(), overfull.rules.len());
        match lead.propose("the removal of surplus releases", Command::PruneReleases(overfull)).await {
            Ok(()) => tracing::info!(files, rules, "releases beyond what is kept are removed"),
            Err(NotCommitted::Refused(_)) => return ROUND,
            Err(NotCommitted::Failed) => {}
        }
        PIECE_PAUSE
    }
}
