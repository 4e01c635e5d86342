//! Elections on a node: sends heartbeats and begins elections.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use tokio::time::timeout;

use super::{BEAT_PAUSE_MAX, decisive};
use crate::format::types::{NodeId, Vote};
use crate::raft::lease;
use crate::raft::node::Node;
use crate::uptime;

/// Heartbeats in an election timeout, and the maximum pause between two.
const BEATS: u32 = 4;

/// Part of the election timeout, drawn at random each time, between the end of the lease and the election.
const STAND_AFTER: std::ops::Range<f64> = 0.625..1.0;
/// Pause between two checks of a node that neither leads nor may start an election.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two elections of a node that needs no other vote.
const ALONE_PAUSE: Duration = Duration::from_millis(50);
/// Round trip from which on a peer counts as far, which is logged once.
const FAR: Duration = Duration::from_millis(50);

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

/// Sends heartbeats while this node leads, and starts an election when its leader has fallen silent.
pub(in crate::raft) async fn hold(node: Node) {
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
            "a node is far away: writes wait for it where a majority needs it"
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
