//! Stalled peers of a node, as their leader sees them.

use std::time::Duration;

use openraft::ServerState;
use tokio::time::{Instant, sleep};

use crate::format::types::NodeId;
use crate::raft::alarms::{Alarm, AlarmKind};
use crate::raft::node::Node;

/// Pause between two checks.
const PAUSE: Duration = Duration::from_secs(1);

impl Node {
    /// Returns alarms about peers that this node, as their leader, finds stuck.
    pub(in crate::raft) fn stuck_peers(&self) -> Vec<Alarm> {
        let stuck = self.inner().standstills.stuck(Instant::now());
        let tell = |(peer, matched, stood): (NodeId, u64, Duration)| {
            let text = format!(
                "node {peer} is heard and has taken no entry beyond {matched} for {} s: its link or its disk is too \
                 slow for what is written",
                stood.as_secs()
            );
            Alarm::of_node(AlarmKind::Peer, peer, text)
        };
        stuck.into_iter().map(tell).collect()
    }
}

/// Checks the peers periodically, for as long as the node runs.
pub(in crate::raft) async fn watch(node: Node) {
    loop {
        look(&node);
        let stuck = node.inner().standstills.stuck(Instant::now());
        node.metrics().peer_stuck.reset();
        for id in crate::raft::members::other_members(&node) {
            let is_stuck = stuck.iter().any(|(peer, ..)| *peer == id);
            node.metrics().peer_stuck.with_label_values(&[&id.to_string()]).set(i64::from(is_stuck));
        }
        sleep(PAUSE).await;
    }
}

fn look(node: &Node) {
    let metrics = node.raft_metrics();
    let leads = metrics.state == ServerState::Leader;
    let replication = metrics.replication.filter(|_| leads).unwrap_or_default();
    let peers = replication.into_iter().filter(|(peer, _)| *peer != node.id()).map(|(peer, matched)| {
        let counts = node.is_reachable(peer) && !node.inner().peers.is_sent_snapshot(peer);
        (peer, counts.then(|| matched.map_or(0, |id| id.index)))
    });
    let last_log = metrics.last_log_index.unwrap_or_default();
    node.inner().standstills.look(last_log, peers.collect(), Instant::now());
}
