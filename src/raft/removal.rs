//! End of this node's membership: it hears that it was removed, says so to its clients and its operator, and ends.
//!
//! Whoever leads stops sending to a member that it removes, often before that one has the entry which says so. So there
//! are two ways to hear of it: the membership that this node has applied, and its peers, which refuse a removed node by
//! that reason, and close what it has open to them. A peer says so of an entry that it has applied, so one peer
//! suffices. A node that is cut off from all of them cannot hear it, and goes on as any node that is cut off.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::node::Node;
use super::peer_admission::KnownPeers;
use crate::model::limits;

/// Between two looks at the membership.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Reason why this node has left its cluster for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Removed(pub String);

/// Knowledge of this node about its own removal.
#[derive(Default)]
pub(super) struct Removal {
    why: OnceLock<Removed>,
    heard: Notify,
}

impl Node {
    /// Reason why this node is no member any more, once it has heard of it.
    pub fn removed(&self) -> Option<&Removed> {
        self.inner().removal.why.get()
    }

    /// Stops serving: requests are refused from now on, and those that are held are answered.
    pub(super) fn hear_removed(&self, why: String) {
        if self.inner().removal.why.set(Removed(why.clone())).is_err() {
            return;
        }
        let ends_in_s = limits::REMOVED_SECONDS;
        tracing::error!(why, ends_in_s, "this node was removed from its cluster: it serves no requests, and ends");
        self.state().hub().close();
        self.inner().removal.heard.notify_waiters();
    }

    /// Returns so long after this node has heard of its removal that balancers, clients and operators have, too.
    pub async fn outlived(&self) -> Removed {
        loop {
            let heard = self.inner().removal.heard.notified();
            if let Some(removed) = self.removed() {
                sleep(Duration::from_secs(limits::REMOVED_SECONDS)).await;
                return removed.clone();
            }
            heard.await;
        }
    }

    /// True where the membership that is applied here does not have this node, which was a member before: it has
    /// announced itself, which only members do.
    fn has_applied_removal(&self) -> bool {
        let (id, metrics) = (self.id(), self.raft_metrics());
        let membership = &metrics.membership_config;
        let is_applied = membership.log_id().is_some() && *membership.log_id() <= metrics.last_applied;
        is_applied
            && membership.membership().nodes().all(|(member, _)| *member != id)
            && self.state().catalog().nodes.get(id).is_some()
    }
}

/// Looks again and again at the membership that is applied here, for as long as the node runs.
pub(super) async fn watch(node: Node) {
    loop {
        if node.has_applied_removal() {
            let id = node.id();
            node.hear_removed(format!(
                "node {id} was removed from the cluster; its id is spent, start it under a new one"
            ));
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// Takes the word of the first peer that refuses this node as removed.
pub(super) async fn listen(node: Node, known_peers: Arc<KnownPeers>) {
    let why = known_peers.removed().await;
    node.hear_removed(why);
}
