//! Polls of a node: asks the other members and its leader for their progress.

use std::time::Duration;

use futures_util::future::join_all;
use openraft::async_runtime::WatchReceiver;
use tokio::time::{Instant, sleep};

use crate::format::types::NodeId;
use crate::peer::PeerProgress;
use crate::raft::clock::ToldTime;
use crate::raft::members::other_members;
use crate::raft::node::Node;
use crate::uptime;

/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause between two polls of the leader; shorter while it is in doubt, because a leader that was elected just now is
/// not acknowledged yet, and one that was cut off may be back at once.
const LEADER_PAUSE: Duration = Duration::from_millis(250);
const LEADER_PAUSE_IN_DOUBT: Duration = Duration::from_millis(100);
/// Timeout of a poll of a member, which is polled again in the next round.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Timeout of a poll of the leader. It is longer because over a slow link its answer waits for other ones.
const LEADER_ANSWER_WITHIN: Duration = Duration::from_secs(10);

impl Node {
    /// Polls a member now.
    pub(in crate::raft) async fn ask_progress(&self, node_id: NodeId, within: Duration) -> Option<PeerProgress> {
        let progress = self.inner().peers.progress(node_id, within).await.ok()?;
        self.inner().poll.keep(node_id, &progress);
        Some(progress)
    }
}

/// Polls all members but the leader in rounds, for as long as the node runs.
pub(in crate::raft) async fn keep_asking(node: Node) {
    loop {
        let (members, leader) = (other_members(&node), node.leader());
        node.inner().poll.forget_all_but(&members);
        let others = members.into_iter().filter(|id| Some(*id) != leader);
        join_all(others.map(|id| ask_one(&node, id))).await;
        sleep(PAUSE).await;
    }
}

async fn ask_one(node: &Node, node_id: NodeId) {
    let Some(progress) = node.ask_progress(node_id, ANSWER_WITHIN).await else { return };
    if let Some(time) = ToldTime::of(&progress) {
        node.state().clock.adopt(time);
    }
}

/// Polls the leader, and a new one at once, for as long as the node runs.
pub(in crate::raft) async fn keep_asking_leader(node: Node) {
    let mut server = node.inner().raft.server_metrics();
    loop {
        let (term, leader) = {
            let now = server.borrow_watched();
            (now.vote.leader_id.term, now.current_leader)
        };
        let asking = async {
            if let Some(leader) = leader.filter(|id| *id != node.id()) {
                ask_leader(&node, term, leader).await;
            }
            let is_in_doubt = node.inner().freshness.is_in_doubt();
            sleep(if is_in_doubt { LEADER_PAUSE_IN_DOUBT } else { LEADER_PAUSE }).await;
        };
        tokio::select! {
            () = asking => {}
            changed = server.changed() => if changed.is_err() { return },
        }
    }
}

async fn ask_leader(node: &Node, term: u64, leader: NodeId) {
    let (asked, begun) = (uptime::now(), Instant::now());
    let Some(progress) = node.ask_progress(leader, LEADER_ANSWER_WITHIN).await else { return };
    let (round_trip, freshness) = (begun.elapsed(), &node.inner().freshness);
    // A node that no longer leads does not report it.
    let is_acknowledged = progress.is_acknowledged.unwrap_or(true);
    freshness.take_word(term, is_acknowledged);
    if !is_acknowledged {
        return;
    }
    // If a leader does not report its commit index, the end of its log is an upper bound of it.
    let committed = progress.committed.or(progress.is_acknowledged.map(|_| progress.last_log));
    if let Some(committed) = committed {
        freshness.hear_committed(asked, committed, node.state().applied().index);
    }
    if let Some(time) = ToldTime::of(&progress).filter(|_| round_trip < ANSWER_WITHIN) {
        node.state().clock.follow(time, round_trip);
    }
}
