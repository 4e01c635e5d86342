//! Removal of a node: learns of it, and closes what is open.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Removed;
use crate::model::limits;
use crate::raft::node::Node;
use crate::raft::peer_admission::KnownPeers;

/// Pause between two checks of the membership.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

impl Node {
    /// Returns the reason why this node is no longer a member, once it has learned of it.
    pub fn removed(&self) -> Option<&Removed> {
        self.inner().lifecycle.removal.why.get()
    }

    /// Stops serving: requests are refused from now on, and held requests are answered.
    pub(in crate::raft) fn hear_removed(&self, why: String) {
        if self.inner().lifecycle.removal.why.set(Removed(why.clone())).is_err() {
            return;
        }
        let ends_in_s = limits::REMOVED_SECONDS;
        tracing::error!(why, ends_in_s, "this node was removed from its cluster: it serves no requests and will exit");
        self.state().hub().close();
        self.inner().lifecycle.removal.heard.notify_waiters();
    }

    /// Waits until this node was removed, and then for [`limits::REMOVED_SECONDS`] more, in which load balancers,
    /// clients and operators notice it.
    pub async fn outlived(&self) -> Removed {
        loop {
            let heard = self.inner().lifecycle.removal.heard.notified();
            if let Some(removed) = self.removed() {
                sleep(Duration::from_secs(limits::REMOVED_SECONDS)).await;
                return removed.clone();
            }
            heard.await;
        }
    }

    /// Reports whether the membership applied here lacks this node although it was a member: only members announce
    /// themselves.
    fn has_applied_removal(&self) -> bool {
        let (id, metrics) = (self.id(), self.raft_metrics());
        let membership = &metrics.membership_config;
        let is_applied = membership.log_id().is_some() && *membership.log_id() <= metrics.last_applied;
        is_applied
            && membership.membership().nodes().all(|(member, _)| *member != id)
            && self.state().catalog().nodes.get(id).is_some()
    }
}

/// Checks the membership that is applied here, for as long as the node runs.
pub(in crate::raft) async fn watch(node: Node) {
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

/// Ends the membership once any peer refuses this node as removed.
pub(in crate::raft) async fn listen(node: Node, known_peers: Arc<KnownPeers>) {
    let why = known_peers.removed().await;
    node.hear_removed(why);
}
