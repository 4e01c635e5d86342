//! Periodic poll of the other members for their progress, time and free resources.
//!
//! The last answer of each member is stored with its arrival time. A leader without a majority may still reach the
//! learners and a minority of the voters, so a follower does not trust a leader that reports that it lost its majority,
//! and takes the time only from a leader that is acknowledged. The leader is polled separately, so that a silent member
//! does not delay the next poll: the leader's answers date the state of this node ([`super::freshness`]).

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::clock::ToldTime;
use super::members::other_members;
use super::node::Node;
use crate::format::types::NodeId;
use crate::model::time::Timestamp;
use crate::peer::PeerProgress;
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
/// Time for which a member's answer counts.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// The members' last answers.
#[derive(Default)]
pub(super) struct Poll(Mutex<BTreeMap<NodeId, Said>>);

struct Said {
    at: Instant,
    progress: PeerProgress,
}

impl Poll {
    fn keep(&self, node_id: NodeId, progress: &PeerProgress) {
        self.0.lock().insert(node_id, Said { at: Instant::now(), progress: progress.clone() });
    }

    /// Returns the answers that still count.
    pub(super) fn said(&self) -> BTreeMap<NodeId, PeerProgress> {
        recent(&self.0.lock()).map(|(id, said)| (id, said.progress.clone())).collect()
    }

    /// Returns the members' wall clocks as of now, extrapolated from their last answers.
    pub(super) fn clocks(&self) -> BTreeMap<NodeId, Timestamp> {
        let shown = |said: &Said| {
            let since_ms = u64::try_from(said.at.elapsed().as_millis()).unwrap_or(u64::MAX);
            said.progress.wall_ms.map(|ms| Timestamp(ms).plus_ms(since_ms))
        };
        recent(&self.0.lock()).filter_map(|(id, said)| Some((id, shown(said)?))).collect()
    }

    fn forget_all_but(&self, members: &[NodeId]) {
        self.0.lock().retain(|id, _| members.contains(id));
    }
}

/// Returns the answers that still count.
fn recent(said: &BTreeMap<NodeId, Said>) -> impl Iterator<Item = (NodeId, &Said)> {
    said.iter().filter(|(_, said)| said.at.elapsed() < KEPT_FOR).map(|(id, said)| (*id, said))
}

impl Node {
    /// Polls a member now.
    pub(super) async fn ask_progress(&self, node_id: NodeId, within: Duration) -> Option<PeerProgress> {
        let progress = self.inner().peers.progress(node_id, within).await.ok()?;
        self.inner().poll.keep(node_id, &progress);
        Some(progress)
    }
}

/// Polls all members but the leader in rounds, for as long as the node runs.
pub(super) async fn keep_asking(node: Node) {
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
pub(super) async fn keep_asking_leader(node: Node) {
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
