//! Detection of stalled replication: peers that acknowledge heartbeats, but get none of the entries that they lack.

mod on_node;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::format::types::NodeId;

pub(super) use self::on_node::watch;

/// Time without progress after which a peer counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The peers of a leader, with their progress and the start of their standstill.
#[derive(Default)]
pub(super) struct StallDetector(Mutex<BTreeMap<NodeId, Standstill>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standstill {
    matched: u64,
    /// Time of the first check that found entries outstanding after `matched`.
    since: Option<Instant>,
}

impl StallDetector {
    /// Records the progress of each peer in a log that ends at `last_log`; `None` for a peer that gets a snapshot or is
    /// away.
    fn look(&self, last_log: u64, matched: BTreeMap<NodeId, Option<u64>>, now: Instant) {
        let mut known = self.0.lock();
        known.retain(|peer, _| matched.contains_key(peer));
        for (peer, matched) in matched {
            let Some(matched) = matched else {
                known.remove(&peer);
                continue;
            };
            let before = known.get(&peer).copied().filter(|before| before.matched == matched);
            let since = (matched < last_log).then(|| before.and_then(|before| before.since).unwrap_or(now));
            known.insert(peer, Standstill { matched, since });
        }
    }

    /// Returns the stuck peers, each with its last entry and the duration.
    fn stuck(&self, now: Instant) -> Vec<(NodeId, u64, Duration)> {
        let known = self.0.lock();
        let stuck = known.iter().filter_map(|(peer, standstill)| {
            let stood = now.saturating_duration_since(standstill.since?);
            (stood >= STUCK_AFTER).then_some((*peer, standstill.matched, stood))
        });
        stuck.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_stuck_that_moves_by_nothing_while_entries_wait_for_it() {
        let (standstills, start) = (StallDetector::default(), Instant::now());
        let look = |second: u64, last_log: u64, matched: Option<u64>| {
            let now = start + Duration::from_secs(second);
            standstills.look(last_log, BTreeMap::from([(2, matched)]), now);
            standstills.stuck(now).len()
        };
        assert_eq!([look(0, 5, Some(5)), look(20, 5, Some(5))], [0, 0], "nothing to do");
        assert_eq!([look(21, 6, Some(5)), look(30, 7, Some(5)), look(31, 8, Some(5))], [0, 0, 1]);
        assert_eq!([look(32, 8, Some(6)), look(41, 8, Some(6)), look(42, 8, Some(6))], [0, 0, 1], "it moved once");
        assert_eq!([look(43, 8, None), look(44, 8, Some(6)), look(53, 8, Some(6))], [0, 0, 0], "away, or by snapshot");
        assert_eq!([look(54, 8, Some(6)), look(55, 8, Some(8))], [1, 0]);
    }
}
