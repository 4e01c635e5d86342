//! Elections: the silence after which a leader counts as failed, and the election that follows.
//!
//! openraft has one election timeout for all distances, fixed at start. Here it follows the round trip to the peers as
//! measured by pings, so that a cluster on one site has a new leader in less than a second and one across continents
//! does not lose its leader to the distance. openraft's own timer is off and its lease is so long that it never decides
//! (`start::config`). This task sends the leader's heartbeats, ends the lease of a silent leader, and starts elections.
//!
//! Any byte of an append counts as a sign of life: over a slow link an entry takes longer than any timeout.

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

/// Minimum election timeout.
const TIMEOUT_MIN: Duration = Duration::from_millis(400);
/// Maximum election timeout, whatever the round trip.
const TIMEOUT_MAX: Duration = Duration::from_secs(8);
/// Round trips in an election timeout, in addition to a pause between heartbeats: the last acknowledged heartbeat is
/// one round trip old when the acknowledgement arrives, the next one arrives a round trip later, and a vote takes
/// another.
const ROUND_TRIPS: u32 = 4;
/// Heartbeats in an election timeout, and the maximum pause between two.
const BEATS: u32 = 4;
const BEAT_PAUSE_MAX: Duration = Duration::from_millis(100);
/// Part of the election timeout, drawn at random each time, between the end of the lease and the election.
const STAND_AFTER: std::ops::Range<f64> = 0.625..1.0;
/// Pause between two checks of a node that neither leads nor may start an election.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two elections of a node that needs no other vote.
const ALONE_PAUSE: Duration = Duration::from_millis(50);
/// Round trip from which on a peer counts as far, which is logged once.
const FAR: Duration = Duration::from_millis(50);

/// The current election timeout.
pub(super) struct Elections {
    /// Timeout set by the operator, instead of a measured one.
    fixed: Option<Duration>,
    now_us: AtomicU64,
    /// Decisive round trip, see [`decisive`].
    round_trip_us: AtomicU64,
}

impl Elections {
    pub(super) fn new(fixed: Option<Duration>) -> Self {
        let elections = Elections { fixed, now_us: AtomicU64::default(), round_trip_us: AtomicU64::default() };
        elections.measure(Duration::ZERO);
        elections
    }

    /// Returns the time for which a leader may be silent, and for which a majority may acknowledge nothing.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_micros(self.now_us.load(Ordering::Relaxed))
    }

    /// Returns the round trip within which a majority has answered, as measured by the last pings.
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

/// Returns the round trip within which a majority of the voters and the leader answer this node, given its round trips
/// to the other voters and to the leader. Unknown ones are `None`.
fn decisive(others: &mut [Option<Duration>], leader: Option<Duration>) -> Duration {
    others.sort_by_key(|round_trip| round_trip.unwrap_or(Duration::MAX));
    // Number of other voters that form a majority together with this one.
    let needed = others.len().div_ceil(2);
    let majority = needed.checked_sub(1).and_then(|last| others[last]);
    majority.unwrap_or_default().max(leader.unwrap_or_default())
}

/// Sends heartbeats while this node leads, and starts an election when its leader has fallen silent.
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

/// Sends a heartbeat; returns the pause until the next one.
async fn beat(node: &Node) -> Duration {
    let freshness = &node.inner().freshness;
    // Silence is counted from the moment at which it stops leading.
    freshness.hear();
    if lease::has_committed(node) && node.leading_term().is_some() {
        freshness.reach(uptime::now());
    }
    if let Err(error) = node.inner().raft.trigger().heartbeat().await {
        tracing::debug!(%error, "a heartbeat could not be sent");
    }
    (node.inner().elections.timeout() / BEATS).min(BEAT_PAUSE_MAX)
}

/// Observation of the leader's silence by a voter.
#[derive(Default)]
struct Watch {
    /// Silence at the last check, and the vote.
    silence: Duration,
    vote: Option<Vote>,
    /// True once the leader's lease was ended.
    has_ended: bool,
    /// Silence at which this node starts an election.
    stands_at: Option<Duration>,
}

impl Watch {
    /// Checks the silence and acts on it; returns the pause until the next check.
    async fn look(&mut self, node: &Node, vote: Vote, is_alone: bool) -> Duration {
        if is_alone {
            self.stand(node, false).await;
            return ALONE_PAUSE;
        }
        let (silence, was_heard) = node.inner().freshness.silence();
        let election_timeout = node.inner().elections.timeout();
        // If no leader was heard since the start, there is no lease to wait for.
        let lease = if was_heard { election_timeout } else { Duration::ZERO };
        let wait = || election_timeout.mul_f64(rand::random_range(STAND_AFTER));
        if silence < self.silence || self.stands_at.is_none() {
            (self.has_ended, self.stands_at) = (false, Some(lease + wait()));
        } else if self.vote != Some(vote) {
            // The candidate that got the vote has time to win with it.
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
            tracing::debug!(%error, "an election could not be started");
        }
    }
}

/// Ends the leader's lease by the message of a leadership transfer to a node that does not exist.
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
        // Round trips to the other voters and to the leader, and the decisive one.
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
