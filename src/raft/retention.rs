//! The leader's part of retention: releases that are too many without a change of their own, because the
//! setting was lowered or the cluster has just come to keep to it, go piece by piece.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::leading::{self, ProposeOutcome};
use super::node::Node;
use crate::catalog::Command;

/// Between two looks at whether anything is too much.
const ROUND: Duration = Duration::from_secs(1);
/// Between two pieces while something is: the writes of others go in between.
const PIECE_PAUSE: Duration = Duration::from_millis(50);
/// Time limit of a piece before the next look.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

/// On nodes that do not lead it waits to become that.
pub(super) async fn watch_over(node: Node) {
    loop {
        let pause = if prune_piece(&node).await { PIECE_PAUSE } else { ROUND };
        sleep(pause).await;
    }
}

/// True if there was something to remove. A piece that is proposed again before it is applied finds
/// nothing left.
async fn prune_piece(node: &Node) -> bool {
    if node.leading_term().is_none() {
        return false;
    }
    let overfull = node.state().catalog().overfull();
    if overfull.is_empty() {
        return false;
    }
    let (files, rules) = (overfull.files.len(), overfull.rules.len());
    match timeout(COMMIT_WITHIN, leading::propose_here(node, Command::PruneReleases(overfull))).await {
        Ok(ProposeOutcome::Done { .. }) => tracing::info!(files, rules, "releases beyond what is kept are removed"),
        // Where there is no room even for this: that is said elsewhere, and this would be said again and again.
        Ok(ProposeOutcome::Refused(refusal)) => {
            tracing::debug!(?refusal, "the removal of surplus releases is not taken");
            return false;
        }
        Ok(other) => tracing::warn!(?other, "surplus releases could not be removed yet"),
        Err(_) => tracing::warn!("the removal of surplus releases was not committed within {COMMIT_WITHIN:?}"),
    }
    true
}
