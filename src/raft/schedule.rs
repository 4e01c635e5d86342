//! The leader's part of releases that are published later: it looks at the clock of the cluster, and proposes those
//! whose time has come. Apply carries each out once, whoever proposes it and how often; so nothing is lost with a
//! leader but the moment until the next one looks.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::leading::{self, ProposeOutcome};
use super::node::Node;
use crate::catalog::Command;

/// Between two looks at what is due, and so how late a release may be.
const ROUND: Duration = Duration::from_millis(500);
/// Time limit of a publication before the next look.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

/// Between two tries while what is due is refused, for want of room say: a release is late by that at most, once there is.
const ROUND_WHILE_REFUSED: Duration = Duration::from_secs(5);

/// On nodes that do not lead it waits to become that.
pub(super) async fn watch_over(node: Node) {
    let mut was_refused = false;
    loop {
        let is_refused = publish_due(&node, was_refused).await;
        was_refused = is_refused;
        sleep(pause(is_refused)).await;
    }
}

fn pause(is_refused: bool) -> Duration {
    if is_refused { ROUND_WHILE_REFUSED } else { ROUND }
}

/// Publishes the releases that are due; true if that was refused. It logs the refusal once: a lack of room is reported
/// by itself.
async fn publish_due(node: &Node, was_refused: bool) -> bool {
    // The clock of a leader that has just come may not be that of the cluster yet.
    if node.leading_term().is_none() || !node.has_caught_up() {
        return false;
    }
    let due = node.state().catalog().due(node.now());
    if due.is_empty() {
        return false;
    }
    let count = due.len();
    match timeout(COMMIT_WITHIN, leading::propose_here(node, Command::PublishDue(due))).await {
        Ok(ProposeOutcome::Done { .. }) => tracing::info!(releases = count, "releases that were due are published"),
        Ok(ProposeOutcome::Refused(refusal)) => {
            if !was_refused {
                tracing::warn!(?refusal, releases = count, "releases that are due are not taken, and are tried again");
            }
            return true;
        }
        Ok(other) => tracing::warn!(?other, releases = count, "releases that are due could not be published yet"),
        Err(_) => tracing::warn!("the publication of what is due was not committed within {COMMIT_WITHIN:?}"),
    }
    false
}
