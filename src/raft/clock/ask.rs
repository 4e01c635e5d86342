//! Query of the other members' time by a new leader before its first stamp.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::ToldTime;
use crate::format::types::NodeId;
use crate::model::time::Timestamp;
use crate::peer::PeerProgress;
use crate::raft::members::other_members;
use crate::raft::node::Node;

/// Time limits of the query: for all members in reach, and for the rest once a majority has answered, because the rest
/// may include the previous leader, which may have stopped.
const ALL_WITHIN: Duration = Duration::from_millis(1500);
const OTHERS_WITHIN: Duration = Duration::from_millis(50);

/// Answers of the other members.
#[derive(Default)]
struct Told {
    /// Latest time among the members that know it, in that member's count: an entry that sets the time may be applied
    /// here before all have answered.
    latest: Option<ToldTime>,
    /// Wall clocks of the members that do not know the time.
    walls: Vec<Timestamp>,
}

/// Determines the time before the leader of `term` stamps for the first time.
pub(crate) async fn settle(node: &Node, term: u64) {
    let _one_at_a_time = node.inner().settling.lock().await;
    let clock = &node.state().clock;
    if clock.has_begun(term) {
        return;
    }
    let Told { latest, mut walls } = ask(node).await;
    if !clock.is_anchored() {
        match latest {
            Some(told) => clock.adopt(told),
            None => {
                walls.push(clock.wall_time());
                let (clocks, time) = (walls.len(), middle(walls));
                tracing::info!(
                    clocks,
                    time = %time.rfc3339(),
                    "cluster clock set from local clocks: no member knew it"
                );
                clock.adopt_own(time);
            }
        }
    }
    clock.begin(term, latest);
}

async fn ask(node: &Node) -> Told {
    let asked = Instant::now();
    let others = other_members(node).into_iter().filter(|id| node.is_reachable(*id));
    let mut answers: FuturesUnordered<_> =
        others.map(|id| async move { (id, node.ask_progress(id, ALL_WITHIN).await) }).collect();
    let voters: BTreeSet<NodeId> = node.raft_metrics().membership_config.membership().voter_ids().collect();
    let (mut told, mut heard, mut deadline) = (Told::default(), BTreeSet::from([node.id()]), asked + ALL_WITHIN);
    loop {
        let answer = tokio::select! {
            answer = answers.next() => answer,
            () = sleep_until(deadline) => None,
        };
        let Some((id, answer)) = answer else { return told };
        let Some(progress) = answer else { continue };
        heard.insert(id);
        match progress {
            PeerProgress { time_ms: Some(_), .. } => {
                told.latest = told.latest.into_iter().chain(ToldTime::of(&progress)).max_by_key(ToldTime::unmoved_ms);
            }
            PeerProgress { wall_ms: Some(ms), .. } => told.walls.push(Timestamp(ms)),
            _ => {}
        }
        if voters.intersection(&heard).count() * 2 > voters.len() {
            deadline = deadline.min(Instant::now() + OTHERS_WITHIN);
        }
    }
}

/// Returns the median, the lower one of an even number: a time that is too low catches up, one that is too high stays
/// in the log.
pub(crate) fn middle(mut clocks: Vec<Timestamp>) -> Timestamp {
    clocks.sort_unstable();
    clocks[(clocks.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_clock_that_is_wrong_does_not_decide() {
        let rows = [(vec![5], 5), (vec![900, 5], 5), (vec![900, 5, 6], 6), (vec![1, 5, 6], 5), (vec![9, 1, 8, 2], 2)];
        for (clocks, expected) in rows {
            assert_eq!(middle(clocks.iter().copied().map(Timestamp).collect()), Timestamp(expected), "{clocks:?}");
        }
    }
}
