//! Elections: the silence after which a leader counts as gone, and the candidature that follows.
//!
//! openraft knows one election time-out for all distances, fixed when it starts. Here it follows the round trip to the
//! peers as their pings have it, so that a cluster on one site has a new leader in less than a second and one over
//! continents does not lose its leader to the length of the way. openraft's own timer is off and its lease so long that
//! it never decides (`start::config`): this task sends the leader's heartbeats, ends the lease of a leader that has
//! fallen silent, and has this node stand for election.
//!
//! Any byte of an append counts as a sign of life: behind a thin link an entry takes longer than any time-out.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use tokio::time::timeout;

use super::lease;
use super::node::Node;
use crate::format::types::{NodeId, Vote};
use crate::uptime;

/// The election time-out where all are near.
const TIMEOUT_MIN: Duration = Duration::from_millis(400);
/// However long a round trip takes, or seems to.
const TIMEOUT_MAX: Duration = Duration::from_secs(8);
/// Round trips in an election time-out, beside a pause between heartbeats: the last one that was acknowledged is one
/// old when that is heard, the next is heard one later, and a vote takes another.
const ROUND_TRIPS: u32 = 4;
/// Heartbeats in an election time-out, and the longest pause between two.
const BEATS: u32 = 4;
const BEAT_PAUSE_MAX: Duration = Duration::from_millis(100);
/// Part of the election time-out, drawn anew each time, between the end of the lease and the candidature.
const STAND_AFTER: std::ops::Range<f64> = 0.625..1.0;
/// Between two looks of a node that neither leads nor may stand.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Between two candidatures of a node that needs no other's vote.
const ALONE_PAUSE: Duration = Duration::from_millis(50);
/// From this round trip on a peer is far, which is said once.
const FAR: Duration = Duration::from_millis(50);

/// The election time-out in force.
pub(super) struct Elections {
    /// The operator's, instead of a measured one.
    fixed: Option<Duration>,
    now_us: AtomicU64,
    /// See [`decisive`].
    round_trip_us: AtomicU64,
}

impl Elections {
    pub(super) fn new(fixed: Option<Duration>) -> Self {
        let elections = Elections { fixed, now_us: AtomicU64::default(), round_trip_us: AtomicU64::default() };
        elections.measure(Duration::ZERO);
        elections
    }

    /// A leader may be silent for so long, and a majority may acknowledge nothing.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_micros(self.now_us.load(Ordering::Relaxed))
    }

    /// The round trip after which a majority has answered, as the last pings had it.
    pub(super) fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip_us.load(Ordering::Relaxed))
    }

    fn measure(&self, round_trip: Duration) {
        let timeout =
            self.fixed.unwrap_or_else(|| (round_trip * ROUND_TRIPS + BEAT_PAUSE_MAX).clamp(TIMEOUT_MIN, TIMEOUT_MAX));
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.now_us.store(micros(timeout), Ordering::Relaxed);
        self.round_trip_us.store(micros(round_trip), Ordering::Relaxed);
    }
}

/// The round trip after which a majority has answered a node that has these to the other voters, `None` where none is
/// known; and to the leader.
fn decisive(others: &mut [Option<Duration>], leader: Option<Duration>) -> Duration {
    others.sort_by_key(|round_trip| round_trip.unwrap_or(Duration::MAX));
    // Of so many voters, this one among them, a majority beside it.
    let needed = others.len().div_ceil(2);
    let majority = needed.checked_sub(1).and_then(|last| others[last]);
    majority.unwrap_or_default().max(leader.unwrap_or_default())
}

/// Sends heartbeats while this node leads, and stands for election when its leader has fallen silent.
pub(super) async fn hold(node: Node) {
    let mut server = node.inner().raft.server_metrics();
    let (mut watch, mut told) = (Watch::default(), BTreeSet::new());
    loop {
        let (state, leader, vote, voters) = {
            let now = server.borrow_watched();
            let voters: BTreeSet<NodeId> = now.membership_config.membership().voter_ids().collect();
            (now.state, now.current_leader, now.vote, voters)
        };
        measure(&node, &voters, leader, &mut told);
        let pause = match state {
            ServerState::Leader => beat(&node).await,
            ServerState::Follower | ServerState::Candidate if voters.contains(&node.id()) => {
                watch.look(&node, vote, voters.len() == 1).await
            }
            _ => IDLE_PAUSE,
        };
        if let Ok(Err(_)) = timeout(pause, server.changed()).await {
            // Consensus has ended.
            return;
        }
    }
}

fn measure(node: &Node, voters: &BTreeSet<NodeId>, leader: Option<NodeId>, told: &mut BTreeSet<NodeId>) {
    let peers = &node.inner().peers;
    let others = voters.iter().filter(|id| **id != node.id());
    let mut round_trips: Vec<Option<Duration>> = others.clone().map(|id| peers.round_trip(*id)).collect();
    let to_leader = leader.filter(|id| *id != node.id()).and_then(|id| peers.round_trip(id));
    let far: Vec<(NodeId, Duration)> = others
        .zip(&round_trips)
        .filter_map(|(id, round_trip)| Some((*id, (*round_trip)?)))
        .filter(|(id, round_trip)| *round_trip >= FAR && !told.contains(id))
        .collect();
    node.inner().elections.measure(decisive(&mut round_trips, to_leader));
    for (peer, round_trip) in far {
        told.insert(peer);
        tracing::warn!(
            peer,
            round_trip_ms = round_trip.as_millis(),
            election_timeout_ms = node.inner().elections.timeout().as_millis(),
            "a peer is far: writes wait for it where a majority needs it"
        );
    }
}

/// Says that this node leads; returns when to say it again.
async fn beat(node: &Node) -> Duration {
    let freshness = &node.inner().freshness;
    // When it leads no more, silence begins.
    freshness.hear();
    if lease::has_committed(node) && node.leading_term().is_some() {
        freshness.reach(uptime::now());
    }
    if let Err(error) = node.inner().raft.trigger().heartbeat().await {
        tracing::debug!(%error, "no heartbeat could be sent");
    }
    (node.inner().elections.timeout() / BEATS).min(BEAT_PAUSE_MAX)
}

/// A voter's memory of the silence of its leader.
#[derive(Default)]
struct Watch {
    /// The silence at the last look, and the vote.
    silence: Duration,
    vote: Option<Vote>,
    /// The leader's lease has been ended.
    has_ended: bool,
    /// At which silence this node stands.
    stands_at: Option<Duration>,
}

impl Watch {
    /// Returns when to look again.
    async fn look(&mut self, node: &Node, vote: Vote, is_alone: bool) -> Duration {
        if is_alone {
            self.stand(node, false).await;
            return ALONE_PAUSE;
        }
        let (silence, was_heard) = node.inner().freshness.silence();
        let election_timeout = node.inner().elections.timeout();
        // Where none was heard since the start nobody has promised anything to one.
        let lease = if was_heard { election_timeout } else { Duration::ZERO };
        let wait = || election_timeout.mul_f64(rand::random_range(STAND_AFTER));
        if silence < self.silence || self.stands_at.is_none() {
            (self.has_ended, self.stands_at) = (false, Some(lease + wait()));
        } else if self.vote != Some(vote) {
            // Whoever got the vote has time to win with it.
            self.stands_at = Some(silence.max(lease) + wait());
        }
        (self.silence, self.vote) = (silence, Some(vote));
        if silence < lease {
            return lease - silence;
        }
        if !self.has_ended {
            self.has_ended = end_lease(node, vote).await;
        }
        let stands_at = self.stands_at.expect("set above");
        if silence >= stands_at {
            self.stand(node, true).await;
            self.stands_at = Some(silence + wait());
        }
        self.stands_at.expect("set above").saturating_sub(silence)
    }

    async fn stand(&self, node: &Node, asks_first: bool) {
        if let Err(error) = node.inner().raft.trigger().elect(asks_first).await {
            tracing::debug!(%error, "no election could be begun");
        }
    }
}

/// The message of a leader that gives the lead to somebody else does no more than end its lease, on all but that node.
async fn end_lease(node: &Node, vote: Vote) -> bool {
    let nobody = !node.id();
    node.inner().raft.handle_transfer_leader(TransferLeaderRequest::new(vote, nobody, None)).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_decides_which_round_trip_counts() {
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        // To the other voters, to the leader, and the one that counts.
        type Row<'a> = (&'a [Option<Duration>], Option<Duration>, u64);
        let rows: &[Row<'_>] = &[
            (&[], None, 0),
            (&[ms(1)], None, 1),
            (&[ms(300), ms(2)], None, 2),
            (&[ms(300), ms(2)], ms(300), 300),
            (&[ms(300), None], None, 300),
            (&[None, None], None, 0),
            (&[ms(9), ms(1), ms(5), ms(70)], None, 5),
            (&[ms(9), ms(1), ms(5)], None, 5),
        ];
        for (others, leader, expected) in rows {
            let decided = decisive(&mut others.to_vec(), *leader);
            assert_eq!(decided, Duration::from_millis(*expected), "{others:?}, {leader:?}");
        }
    }

    #[test]
    fn the_timeout_follows_the_round_trip_within_its_limits() {
        let after = |fixed: Option<u64>, round_trip_ms| {
            let elections = Elections::new(fixed.map(Duration::from_millis));
            elections.measure(Duration::from_millis(round_trip_ms));
            elections.timeout().as_millis()
        };
        let rows = [(None, 0, 400), (None, 75, 400), (None, 150, 700), (None, 300, 1300), (None, 60_000, 8000)];
        for (fixed, round_trip, expected) in rows {
            assert_eq!(after(fixed, round_trip), expected, "{round_trip} ms");
        }
        assert_eq!(after(Some(1500), 3000), 1500, "the operator knows better");
    }
}
