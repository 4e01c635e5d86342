//! Periodic poll of the other members for their progress, time and free resources.
//!
//! The last answer of each member is stored with its arrival time. A leader without a majority may still reach the
//! learners and a minority of the voters, so a follower does not trust a leader that reports that it lost its majority,
//! and takes the time only from a leader that is acknowledged. The leader is polled separately, so that a silent member
//! does not delay the next poll: the leader's answers date the state of this node ([`super::freshness`]).

mod on_node;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::format::types::NodeId;
use crate::model::time::Timestamp;
use crate::peer::PeerProgress;

pub(super) use self::on_node::{keep_asking, keep_asking_leader};

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
