//! Read barrier for ids that this node does not know. A client may name an id, a version or a log index that came from
//! another node, from another cluster, or from this one before it was restored.
//!
//! The barrier is a linearizable read. Once this node has applied everything that the leader had at the time of the
//! call, an id that it does not know was never returned by any node of the cluster.

use std::time::Duration;

use super::node::Node;

/// Time for which a node that passed the barrier may reject far higher ids without another one.
const FRESH_FOR: Duration = Duration::from_secs(1);

impl Node {
    /// Waits until this node has applied everything that any node had before the call; returns false if that is not
    /// confirmed within the limit.
    pub async fn await_horizon(&self, limit: Duration) -> bool {
        self.await_linearizable_within(limit).await.is_ok()
    }

    /// Reports whether this node passed the barrier a moment ago. Ids further ahead than a cluster can count in that
    /// time are then known to be foreign without another request.
    pub fn was_at_horizon_lately(&self) -> bool {
        self.is_fresh_within(FRESH_FOR)
    }
}
