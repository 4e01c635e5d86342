//! Read barrier for ids that this node does not know. A client may name an id, a version or a log index that another
//! node gave out, or another cluster, or this one before it was restored.
//!
//! The question is that of a linearizable read. Once this node has applied all that the leader had when
//! it was asked, what it does not know, no node of the cluster has ever shown to anyone.

use std::time::Duration;

use super::node::Node;

/// For how long a node that has applied all that there was tells of what is far above it.
const FRESH_FOR: Duration = Duration::from_secs(1);

impl Node {
    /// Waits until this node has applied everything that any node had before the call; false where
    /// that cannot be said within the limit.
    pub async fn await_horizon(&self, limit: Duration) -> bool {
        self.await_linearizable_within(limit).await.is_ok()
    }

    /// True if this node was at that horizon a moment ago: what is further away than a cluster can count in that time
    /// is then known to be from elsewhere without another request.
    pub fn was_at_horizon_lately(&self) -> bool {
        self.is_fresh_within(FRESH_FOR)
    }
}
