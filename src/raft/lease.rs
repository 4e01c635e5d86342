//! Who can lead at this moment, as far as this node can tell.
//!
//! Raft goes on naming the last leader until another one is elected, and a leader that was cut off goes
//! on believing in itself. What can be known: a leader is one for as long as a majority has acknowledged
//! it within its lease, which nobody else's election can undercut; and a follower hears its leader many
//! times a second. Whoever would wait for more than that, waits for somebody who may never answer.
//!
//! A leader that has lost its majority is still heard by the learners beside it, and by a minority of the
//! voters. So whoever follows asks, twice a second, and takes a leader that says so for none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use openraft::{Instant as _, ServerState};
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::node::{ClusterRaft, Node};
use super::peer::PeerProgress;
use super::start::ELECTION_MS_MAX;
use crate::format::types::{NodeId, TypeConfig};

/// A follower grants its vote to nobody for this long after it has heard its leader: as long as the last
/// acknowledgement of a majority is younger, there is no other leader. openraft takes writes by the same
/// measure.
pub(super) const LEASE: Duration = Duration::from_millis(ELECTION_MS_MAX);
/// A leader that was not heard for this long is asked for nothing: by then its followers elect another.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// Readiness bears more than an election: a balancer must not take all nodes out for that.
const LED_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks at whether there is a leader that can lead, and how long there is none before that is told.
const LOOK: Duration = Duration::from_millis(500);
const LOOK_IN_DOUBT: Duration = Duration::from_millis(100);
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// When the leader that this node follows was heard last, and what it says of itself.
pub(super) struct Contact {
    started: Instant,
    /// Microseconds after `started`; 0 before the first time.
    heard: AtomicU64,
    /// The term of a leader that has no majority by its own word, and since when leaders have said that.
    doubt: Mutex<Option<(u64, Instant)>>,
}

impl Contact {
    pub(super) fn new() -> Self {
        Contact { started: Instant::now(), heard: AtomicU64::new(0), doubt: Mutex::new(None) }
    }

    pub(super) fn hear(&self) {
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard.store(micros.max(1), Ordering::Relaxed);
    }

    fn is_within(&self, limit: Duration) -> bool {
        let heard = self.heard.load(Ordering::Relaxed);
        heard != 0 && self.started.elapsed().saturating_sub(Duration::from_micros(heard)) < limit
    }

    /// The leader of this term says whether a majority acknowledges it.
    fn take_word(&self, term: u64, is_acknowledged: bool) {
        let mut doubt = self.doubt.lock();
        *doubt = match is_acknowledged {
            true => None,
            false => Some((term, doubt.map_or_else(Instant::now, |(_, since)| since))),
        };
    }

    fn is_doubted_in(&self, term: u64) -> bool {
        self.doubt.lock().is_some_and(|(doubted, _)| doubted == term)
    }

    /// Whether a leader was heard within `limit` that had not said by then that it cannot lead.
    fn was_sure_within(&self, limit: Duration) -> bool {
        let doubt = *self.doubt.lock();
        doubt.map_or_else(|| self.is_within(limit), |(_, since)| since.elapsed() < limit)
    }
}

/// The term in which this node leads, while its lease holds.
pub(super) fn leading_term(raft: &ClusterRaft) -> Option<u64> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    is_acknowledged(&metrics, LEASE).then_some(metrics.current_term)
}

/// Whether this node leads and a majority has acknowledged that within `limit`.
fn is_acknowledged(metrics: &RaftMetrics<TypeConfig>, limit: Duration) -> bool {
    metrics.state == ServerState::Leader
        && (metrics.last_quorum_acked.is_some_and(|acknowledged| acknowledged.elapsed() < limit) || is_alone(metrics))
}

/// Its own vote is a majority.
fn is_alone(metrics: &RaftMetrics<TypeConfig>) -> bool {
    metrics.membership_config.membership().voter_ids().all(|voter| voter == metrics.id)
}

impl Node {
    /// The term in which this node leads, while its lease holds.
    pub(super) fn leading_term(&self) -> Option<u64> {
        leading_term(&self.inner().raft)
    }

    /// Leads as far as it knows, but not for sure: its lease has run out.
    pub(super) fn leads_unsurely(&self) -> bool {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.state == ServerState::Leader && !is_acknowledged(&metrics, LEASE)
    }

    /// The leader, if there is a point in asking it for anything.
    pub(super) fn leader_in_touch(&self) -> Option<NodeId> {
        self.leader_within(LEASE, SILENCE_MAX)
    }

    /// Whether there is a leader that can lead: for balancers and for people.
    pub(super) fn is_led(&self) -> bool {
        self.leader_within(LED_WITHIN, LED_WITHIN).is_some()
    }

    /// Whether this node heard a leader that could lead, or was one, within `limit`, or has not run for longer:
    /// what it does not know yet is no older than that.
    pub fn was_led_within(&self, limit: Duration) -> bool {
        let contact = &self.inner().contact;
        let is_led = self.leader_within(limit, limit).is_some();
        is_led || contact.was_sure_within(limit) || contact.started.elapsed() < limit
    }

    /// What this node says of its lead to who follows it; nothing if it does not lead.
    pub(super) fn is_acknowledged_leader(&self) -> Option<bool> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.state == ServerState::Leader).then(|| is_acknowledged(&metrics, LED_WITHIN))
    }

    fn leader_within(&self, acknowledged: Duration, heard: Duration) -> Option<NodeId> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader?;
        let can_lead = match leader == metrics.id {
            true => is_acknowledged(&metrics, acknowledged),
            false => {
                let contact = &self.inner().contact;
                contact.is_within(heard) && !contact.is_doubted_in(metrics.current_term)
            }
        };
        can_lead.then_some(leader)
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

/// Asks the leader that this node follows whether it can lead.
pub(super) async fn question_the_leader(node: Node) {
    loop {
        // One that was elected this moment is not acknowledged yet, and one that was cut off may be back at once.
        let is_in_doubt = node.inner().contact.doubt.lock().is_some();
        sleep(if is_in_doubt { LOOK_IN_DOUBT } else { LOOK }).await;
        let metrics = node.raft_metrics();
        let Some(leader) = metrics.current_leader.filter(|leader| *leader != metrics.id) else { continue };
        // One that does not answer is not heard either, and one of a version that does not say is believed.
        let told = node.inner().peers.progress(leader, LOOK).await;
        if let Ok(PeerProgress { is_acknowledged: Some(word), .. }) = told {
            node.inner().contact.take_word(metrics.current_term, word);
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
            Some(News::Lost) => {
                tracing::warn!("no leader is in reach: writes and linearizable reads are refused until there is one");
            }
            Some(News::Back(after)) => {
                tracing::info!(raft.leader = node.leader(), after_ms = after.as_millis(), "a leader is in reach again");
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum News {
    Lost,
    Back(Duration),
}

/// Since when there is no leader, and whether that was told.
#[derive(Default)]
struct Leaderless(Option<(Instant, bool)>);

impl Leaderless {
    fn look(&mut self, is_led: bool, now: Instant) -> Option<News> {
        if is_led {
            let (since, told) = self.0.take()?;
            return told.then(|| News::Back(now - since));
        }
        let (since, told) = self.0.get_or_insert((now, false));
        let is_due = !*told && now - *since >= TOLD_AFTER;
        *told |= is_due;
        is_due.then_some(News::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_leader_is_in_touch_until_it_falls_silent() {
        let contact = Contact::new();
        assert!(!contact.is_within(Duration::from_secs(3600)), "never heard");
        contact.hear();
        tokio::time::sleep(SILENCE_MAX - Duration::from_millis(1)).await;
        assert!(contact.is_within(SILENCE_MAX));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!contact.is_within(SILENCE_MAX) && contact.is_within(LED_WITHIN));
    }

    /// It is heard all the while, and by its own word it has no majority.
    #[tokio::test(start_paused = true)]
    async fn a_leader_without_a_majority_is_believed_no_longer_than_one_that_is_silent() {
        let (contact, limit) = (Contact::new(), Duration::from_secs(10));
        let go_on = async |seconds| {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            contact.hear();
        };
        go_on(1).await;
        contact.take_word(7, true);
        assert!(!contact.is_doubted_in(7) && contact.was_sure_within(limit));
        contact.take_word(7, false);
        assert!(contact.is_doubted_in(7) && !contact.is_doubted_in(8), "the next leader is another");
        go_on(6).await;
        contact.take_word(8, false);
        assert!(contact.is_doubted_in(8) && contact.was_sure_within(limit));
        go_on(6).await;
        assert!(!contact.was_sure_within(limit), "12 s after the first doubt");
        contact.take_word(8, true);
        assert!(!contact.is_doubted_in(8) && contact.was_sure_within(limit));
    }

    #[test]
    fn a_loss_is_told_once_and_an_election_not_at_all() {
        let start = Instant::now();
        let mut leaderless = Leaderless::default();
        let mut look = |ms, is_led| leaderless.look(is_led, start + Duration::from_millis(ms));
        assert_eq!([look(0, true), look(500, false), look(1000, true)], [None, None, None], "an election");
        assert_eq!([look(1500, false), look(2000, false)], [None, None]);
        assert_eq!(look(2500, false), Some(News::Lost));
        assert_eq!([look(3000, false), look(60_000, false)], [None, None]);
        assert_eq!(look(61_500, true), Some(News::Back(Duration::from_secs(60))));
        assert_eq!(look(62_000, true), None);
    }
}
