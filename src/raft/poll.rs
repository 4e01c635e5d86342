//! The one question that members ask each other again and again: how far they are, what time it is, how much room they
//! have. What each said last is kept with its time, and whoever wants to know reads that.
//!
//! A leader that has lost its majority is still heard by the learners beside it, and by a minority of the voters. So
//! whoever follows takes a leader that says so for none; and it takes the time from one that can lead.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::members::other_members;
use super::node::Node;
use crate::format::types::NodeId;
use crate::model::time::Timestamp;
use crate::peer::PeerProgress;

/// Between two rounds, and while the leader is in doubt: one that was elected this moment is not acknowledged yet, and
/// one that was cut off may be back at once.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_IN_DOUBT: Duration = Duration::from_millis(100);
/// A member that does not answer in this time is asked again in the next round.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// An answer of a member counts for so long.
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

    /// The answers of a moment ago.
    pub(super) fn said(&self) -> BTreeMap<NodeId, PeerProgress> {
        let said = self.0.lock();
        let lately = said.iter().filter(|(_, said)| said.at.elapsed() < KEPT_FOR);
        lately.map(|(id, said)| (*id, said.progress.clone())).collect()
    }

    fn forget_all_but(&self, members: &[NodeId]) {
        self.0.lock().retain(|id, _| members.contains(id));
    }
}

impl Node {
    /// Asks a member now.
    pub(super) async fn ask_progress(&self, node_id: NodeId, within: Duration) -> Option<PeerProgress> {
        let progress = self.inner().peers.progress(node_id, within).await.ok()?;
        self.inner().poll.keep(node_id, &progress);
        Some(progress)
    }
}

/// Asks round after round, for as long as the node runs.
pub(super) async fn keep_asking(node: Node) {
    loop {
        let members = other_members(&node);
        node.inner().poll.forget_all_but(&members);
        join_all(members.into_iter().map(|id| ask_one(&node, id))).await;
        let is_in_doubt = node.inner().freshness.is_in_doubt();
        sleep(if is_in_doubt { PAUSE_IN_DOUBT } else { PAUSE }).await;
    }
}

async fn ask_one(node: &Node, node_id: NodeId) {
    let asked = Instant::now();
    let (term, leader) = {
        let metrics = node.raft_metrics();
        (metrics.current_term, metrics.current_leader)
    };
    let Some(progress) = node.ask_progress(node_id, ANSWER_WITHIN).await else { return };
    let round_trip = asked.elapsed();
    let (clock, time) = (&node.state().clock, progress.time_ms.map(Timestamp));
    if leader != Some(node_id) {
        if let Some(time) = time {
            clock.adopt(time);
        }
        return;
    }
    // One of a version that does not say is believed.
    let is_acknowledged = progress.is_acknowledged.unwrap_or(true);
    node.inner().freshness.take_word(term, is_acknowledged);
    if let Some(time) = time.filter(|_| is_acknowledged) {
        clock.follow(time, round_trip);
    }
}
