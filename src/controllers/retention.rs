//! Retention: removes surplus releases in pieces, mostly after the setting was lowered.

use std::time::Duration;

use super::Controller;
use crate::catalog::Command;
use crate::raft::{Lead, NotCommitted};

/// Interval between two checks for surplus.
const ROUND: Duration = Duration::from_secs(1);
/// Pause between two pieces, in which other writes get their turn.
const PIECE_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Retention;

impl Controller for Retention {
    /// Removes a piece. If it is proposed again before it is applied, the second one finds nothing to remove.
    async fn act(&mut self, lead: &Lead) -> Duration {
        let overfull = lead.catalog().overfull();
        if overfull.is_empty() {
            return ROUND;
        }
        let (files, rules) = (overfull.files.len(), overfull.rules.len());
        match lead.propose("the removal of surplus releases", Command::PruneReleases(overfull)).await {
            Ok(()) => tracing::info!(files, rules, "surplus releases were removed"),
            Err(NotCommitted::Refused(_)) => return ROUND,
            Err(NotCommitted::Failed) => {}
        }
        PIECE_PAUSE
    }
}
