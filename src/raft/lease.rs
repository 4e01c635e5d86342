//! Leader lease: which node can lead at this moment, as far as this node can know.
//!
//! Raft names the last leader until another one is elected, and a leader that was cut off still believes that it leads.
//! Two facts are certain: a leader is valid while a majority has acknowledged it within its lease, during which no
//! other node can be elected, and a follower hears from its leader many times a second. Waiting for more than that may
//! mean waiting for a node that never answers.
//!
//! A leader that has lost its majority may still reach learners and a minority of the voters. So followers poll it
//! several times a second, and do not trust a leader that reports that it is not acknowledged.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use openraft::{Instant as _, ServerState};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::node::{Node, NodeError};
use crate::format::types::{NodeId, TypeConfig};
use crate::uptime;

/// Silence after which no request is sent to a leader, unless the election timeout is longer: by then its followers
/// elect another one.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// Silence that readiness of a follower tolerates: longer than an election, during which a load balancer must not
/// remove all nodes.
const LED_WITHIN: Duration = Duration::from_secs(2);
/// Time within which a leader that had applied everything it had committed counts as up to date.
const APPLIED_WITHIN: Duration = Duration::from_secs(1);
/// Time since the start after which a node that has met no leader counts as alone.
const ALONE_AFTER: Duration = Duration::from_millis(1500);
/// Pause between two checks for a leader, and time without one after which that is logged.
const LOOK: Duration = Duration::from_millis(500);
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Reports whether this node leads and a majority has acknowledged that within `limit`.
fn is_acknowledged(metrics: &RaftMetrics<TypeConfig>, limit: Duration) -> bool {
    metrics.state == ServerState::Leader
        && (metrics.last_quorum_acked.is_some_and(|acknowledged| acknowledged.elapsed() < limit) || is_alone(metrics))
}

/// Reports whether this node is the only voter.
fn is_alone(metrics: &RaftMetrics<TypeConfig>) -> bool {
    metrics.membership_config.membership().voter_ids().all(|voter| voter == metrics.id)
}

/// Reports whether this node has applied everything that it knows to be committed, including an entry of its own term.
pub(super) fn has_committed(node: &Node) -> bool {
    let metrics = node.inner().raft.metrics();
    let metrics = metrics.borrow_watched();
    let own = metrics.cluster_committed.filter(|id| id.committed_leader_id().term == metrics.current_term);
    own.is_some_and(|id| metrics.last_applied >= Some(id))
}

impl Node {
    /// Returns the lease of a leader. A follower grants no vote for this long after it has heard from its leader, so
    /// while the last acknowledgement of a majority is younger there is no other leader.
    fn lease(&self) -> Duration {
        self.inner().elections.timeout()
    }

    /// Returns the term in which this node leads, while its lease holds.
    pub(super) fn leading_term(&self) -> Option<u64> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        is_acknowledged(&metrics, self.lease()).then_some(metrics.current_term)
    }

    /// Reports whether this node leads as far as it knows, but its lease has expired.
    pub(crate) fn leads_unsurely(&self) -> bool {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.state == ServerState::Leader && !is_acknowledged(&metrics, self.lease())
    }

    /// Returns the leader if requests to it are likely to be answered.
    pub(crate) fn leader_in_touch(&self) -> Option<NodeId> {
        self.leader_heard_within(SILENCE_MAX)
    }

    /// Reports whether there is a leader that can lead, for load balancers and operators. On the leader it is the
    /// condition under which its writes are admitted.
    pub(super) fn is_led(&self) -> bool {
        self.leader_heard_within(LED_WITHIN).is_some()
    }

    /// Reports whether this leader is acknowledged, as it reports it to its followers; `None` if it does not lead.
    pub(super) fn is_acknowledged_leader(&self) -> Option<bool> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.state == ServerState::Leader).then(|| is_acknowledged(&metrics, self.lease().max(LED_WITHIN)))
    }

    /// Returns the commit index of this leader, if it has committed an entry of its own term.
    pub(super) fn committed_as_leader(&self) -> Option<u64> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        let own = metrics.cluster_committed.filter(|id| id.committed_leader_id().term == metrics.current_term);
        // An applied entry may have been acknowledged before the metrics have its commit.
        let committed = own?.index.max(self.state().applied().index);
        (metrics.state == ServerState::Leader).then_some(committed)
    }

    fn leader_heard_within(&self, limit: Duration) -> Option<NodeId> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader?;
        let can_lead = match leader == metrics.id {
            true => is_acknowledged(&metrics, self.lease()),
            false => {
                let freshness = &self.inner().freshness;
                freshness.is_heard_within(limit.max(self.lease())) && !freshness.is_doubted_in(metrics.current_term)
            }
        };
        can_lead.then_some(leader)
    }

    /// Returns the time during which entries may have been committed that are not applied here; `None` if this node has
    /// had no contact since it started.
    pub fn age(&self) -> Option<Duration> {
        let as_of = self.inner().freshness.as_of(self.state().applied().index);
        let age = as_of.map(|as_of| uptime::now().saturating_sub(as_of));
        // Between commit and apply of each write it lags for a moment, which does not count.
        let leads_fresh = has_committed(self) || age.is_some_and(|age| age < APPLIED_WITHIN);
        if self.leading_term().is_some() && leads_fresh { Some(Duration::ZERO) } else { age }
    }

    /// Reports whether everything that was committed `limit` ago is applied here.
    pub fn is_fresh_within(&self, limit: Duration) -> bool {
        // Called for every request: the known age nearly always suffices, without a look at consensus.
        let known_age = self.inner().freshness.known_as_of().map(|as_of| uptime::now().saturating_sub(as_of));
        known_age.is_some_and(|age| age < limit) || self.age().is_some_and(|age| age < limit)
    }

    /// Reports whether tokens are accepted: while this node is at most `limit` old. A node that has met no leader also
    /// accepts its stored tokens from `ALONE_AFTER` until `limit` after its start, so that an operator can inspect a
    /// node that is left alone.
    pub fn trusts_tokens(&self, limit: Duration) -> bool {
        self.is_fresh_within(limit) || self.inner().freshness.is_unmet_for(ALONE_AFTER..limit)
    }

    /// Waits like [`Node::await_linearizable`], for a caller that this node may not know yet; fails on a node that is
    /// alone.
    pub async fn await_news(&self) -> Result<(), NodeError> {
        let alone = async {
            let (since_start, _) = self.inner().freshness.silence();
            sleep(ALONE_AFTER.saturating_sub(since_start)).await;
            if !self.inner().freshness.is_unmet_for(ALONE_AFTER..Duration::MAX) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            reached = self.await_linearizable() => reached,
            () = alone => Err(NodeError::NoLeader),
        }
    }

    /// Waits until another node than `leader` leads.
    pub(super) async fn leader_other_than(&self, leader: NodeId) {
        let mut server = self.inner().raft.server_metrics();
        while server.borrow_watched().current_leader.is_none_or(|now| now == leader) {
            if server.changed().await.is_err() {
                // Consensus has ended: no other leader will be known here.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Logs when no leader is in reach, and when there is one again.
pub(super) async fn log_leaders(node: Node) {
    let (mut ticks, mut leaderless) = (interval(LOOK), Leaderless::default());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match leaderless.look(node.is_led(), Instant::now()) {
            None => {}
            Some(LeaderChange::Lost) => {
                tracing::warn!("no leader is in reach: writes and linearizable reads are refused until there is one");
            }
            Some(LeaderChange::Back(after)) => {
                tracing::info!(raft.leader = node.leader(), after_ms = after.as_millis(), "a leader is in reach again");
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LeaderChange {
    Lost,
    Back(Duration),
}

/// Time since when there is no leader, and whether that was logged.
#[derive(Default)]
struct Leaderless(Option<(Instant, bool)>);

impl Leaderless {
    fn look(&mut self, is_led: bool, now: Instant) -> Option<LeaderChange> {
        if is_led {
            let (since, told) = self.0.take()?;
            return told.then(|| LeaderChange::Back(now - since));
        }
        let (since, told) = self.0.get_or_insert((now, false));
        let is_due = !*told && now - *since >= TOLD_AFTER;
        *told |= is_due;
        is_due.then_some(LeaderChange::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_once_and_an_election_not_at_all() {
        let start = Instant::now();
        let mut leaderless = Leaderless::default();
        let mut look = |ms, is_led| leaderless.look(is_led, start + Duration::from_millis(ms));
        assert_eq!([look(0, true), look(500, false), look(1000, true)], [None, None, None], "an election");
        assert_eq!([look(1500, false), look(2000, false)], [None, None]);
        assert_eq!(look(2500, false), Some(LeaderChange::Lost));
        assert_eq!([look(3000, false), look(60_000, false)], [None, None]);
        assert_eq!(look(61_500, true), Some(LeaderChange::Back(Duration::from_secs(60))));
        assert_eq!(look(62_000, true), None);
    }
}
