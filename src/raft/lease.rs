//! Leader lease: the node that can lead at this moment, as far as this node can tell.
//!
//! Raft goes on naming the last leader until another one is elected, and a leader that was cut off goes
//! on believing in itself. What can be known: a leader is one for as long as a majority has acknowledged
//! it within its lease, which nobody else's election can undercut; and a follower hears its leader many
//! times a second. Whoever would wait for more than that, waits for somebody who may never answer.
//!
//! A leader that has lost its majority is still heard by the learners beside it, and by a minority of the
//! voters. So whoever follows asks, twice a second, and takes a leader that says so for none.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use openraft::{Instant as _, ServerState};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::node::{Node, NodeError};
use crate::format::types::{NodeId, TypeConfig};
use crate::uptime;

/// A leader that was not heard for this long, or an election time-out, is asked for nothing: by then its followers
/// elect another.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// Readiness of a follower bears more than an election: a balancer must not take all nodes out for that.
const LED_WITHIN: Duration = Duration::from_secs(2);
/// A leader that had applied all it had committed so lately is up to date.
const APPLIED_WITHIN: Duration = Duration::from_secs(1);
/// A node that has met no leader for so long since its start is alone.
const ALONE_AFTER: Duration = Duration::from_millis(1500);
/// Between two looks at whether there is a leader that can lead, and how long there is none before that is told.
const LOOK: Duration = Duration::from_millis(500);
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// True if this node leads and a majority has acknowledged that within `limit`.
fn is_acknowledged(metrics: &RaftMetrics<TypeConfig>, limit: Duration) -> bool {
    metrics.state == ServerState::Leader
        && (metrics.last_quorum_acked.is_some_and(|acknowledged| acknowledged.elapsed() < limit) || is_alone(metrics))
}

/// Its own vote is a majority.
fn is_alone(metrics: &RaftMetrics<TypeConfig>) -> bool {
    metrics.membership_config.membership().voter_ids().all(|voter| voter == metrics.id)
}

/// True where this node has applied all that it knows to be committed, an entry of its own term among it.
pub(super) fn has_committed(node: &Node) -> bool {
    let metrics = node.inner().raft.metrics();
    let metrics = metrics.borrow_watched();
    let own = metrics.cluster_committed.filter(|id| id.committed_leader_id().term == metrics.current_term);
    own.is_some_and(|id| metrics.last_applied >= Some(id))
}

impl Node {
    /// The lease of a leader: a follower grants its vote to nobody for this long after it has heard it, so as long as
    /// the last acknowledgement of a majority is younger there is no other leader.
    fn lease(&self) -> Duration {
        self.inner().elections.timeout()
    }

    /// The term in which this node leads, while its lease holds.
    pub(super) fn leading_term(&self) -> Option<u64> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        is_acknowledged(&metrics, self.lease()).then_some(metrics.current_term)
    }

    /// Leads as far as it knows, but not for sure: its lease has run out.
    pub(crate) fn leads_unsurely(&self) -> bool {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.state == ServerState::Leader && !is_acknowledged(&metrics, self.lease())
    }

    /// The leader, if there is a point in asking it for anything.
    pub(crate) fn leader_in_touch(&self) -> Option<NodeId> {
        self.leader_heard_within(SILENCE_MAX)
    }

    /// True while there is a leader that can lead: for balancers and for people. A leader says so of itself by the
    /// predicate that admits its writes.
    pub(super) fn is_led(&self) -> bool {
        self.leader_heard_within(LED_WITHIN).is_some()
    }

    /// True if the lead of this node is acknowledged, as it tells its followers; `None` if it does not lead.
    pub(super) fn is_acknowledged_leader(&self) -> Option<bool> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.state == ServerState::Leader).then(|| is_acknowledged(&metrics, self.lease().max(LED_WITHIN)))
    }

    /// The index up to which everything is committed, by a leader that has committed an entry of its own term.
    pub(super) fn committed_as_leader(&self) -> Option<u64> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        let own = metrics.cluster_committed.filter(|id| id.committed_leader_id().term == metrics.current_term);
        // What is applied may have been acknowledged before the metrics show that it is committed.
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

    /// For how long something may have been committed that is not applied here; `None` if this node has not been in
    /// touch since it started.
    pub fn age(&self) -> Option<Duration> {
        let as_of = self.inner().freshness.as_of(self.state().applied().index);
        let age = as_of.map(|as_of| uptime::now().saturating_sub(as_of));
        // Between commit and apply of each write it lags for a moment, which is none of its age.
        let leads_fresh = has_committed(self) || age.is_some_and(|age| age < APPLIED_WITHIN);
        if self.leading_term().is_some() && leads_fresh { Some(Duration::ZERO) } else { age }
    }

    /// True where everything is applied here that was committed so long ago.
    pub fn is_fresh_within(&self, limit: Duration) -> bool {
        // Every request asks. What is known without a look at consensus suffices nearly always.
        let known_age = self.inner().freshness.known_as_of().map(|as_of| uptime::now().saturating_sub(as_of));
        known_age.is_some_and(|age| age < limit) || self.age().is_some_and(|age| age < limit)
    }

    /// Tokens are believed while this node is that fresh. One that has met no leader since its start, for
    /// longer than that takes where there is one, believes what it kept for as long, so that a node that is left alone
    /// can be looked at.
    pub fn trusts_tokens(&self, limit: Duration) -> bool {
        self.is_fresh_within(limit) || self.inner().freshness.is_unmet_for(ALONE_AFTER..limit)
    }

    /// [`Node::await_linearizable`] for who may have what this node does not know of; a node that is alone is not asked
    /// to wait.
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

    /// Returns when somebody else than `leader` leads.
    pub(super) async fn leader_other_than(&self, leader: NodeId) {
        let mut server = self.inner().raft.server_metrics();
        while server.borrow_watched().current_leader.is_none_or(|now| now == leader) {
            if server.changed().await.is_err() {
                // Consensus has ended: nobody will ever lead here.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// One line when no leader is in reach, and one when there is one again.
pub(super) async fn tell_of_leaders(node: Node) {
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

/// Since when there is no leader, and whether that was told.
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
