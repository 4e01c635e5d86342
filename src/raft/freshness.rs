//! Freshness of this node, measured by `as_of`: the latest moment of which this node knows that everything committed by
//! then is applied here.
//!
//! This node asks its leader several times a second for its commit index ([`super::poll`]). Once it has applied that
//! index, it is as fresh as the moment at which it asked, because the leader read the index later than that. Appends
//! name a commit index too, but give no date: over a slow link they arrive long after they were sent, and the clocks of
//! two nodes cannot be compared. The answer of a leader that no majority acknowledges, or that has committed nothing in
//! its own term yet, does not count: other nodes may have committed more.
//!
//! Trust in tokens, readiness, the age of local reads, and the conclusion that an id unknown here is unknown
//! everywhere, all compare this moment with a limit.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum number of answers whose commit index is not applied yet; a further one replaces the newest.
const PENDING_MAX: usize = 64;

/// The last sign of life of the leader, whether it is acknowledged, and the resulting freshness. Moments are those of
/// [`crate::uptime`], except for silence, which passes only while this node runs.
pub(super) struct Freshness {
    started: Instant,
    /// Microseconds after `started`; 0 before the first sign of life.
    heard: AtomicU64,
    known: Mutex<Known>,
    /// Notified when `as_of` may have changed.
    changed: Notify,
}

#[derive(Default)]
struct Known {
    as_of: Option<Duration>,
    /// Times of polls, and the commit indexes in their answers.
    pending: VecDeque<(Duration, u64)>,
    /// Term of a leader that reported that it has no majority.
    doubted: Option<u64>,
}

impl Known {
    fn hear(&mut self, asked: Duration, committed: u64, applied: u64) {
        self.catch_up(applied);
        if committed <= applied {
            self.pending.clear();
            self.as_of = self.as_of.max(Some(asked));
            return;
        }
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_back();
        }
        self.pending.push_back((asked, committed));
    }

    fn catch_up(&mut self, applied: u64) {
        while let Some((asked, committed)) = self.pending.front()
            && *committed <= applied
        {
            self.as_of = self.as_of.max(Some(*asked));
            self.pending.pop_front();
        }
    }
}

impl Freshness {
    pub(super) fn new() -> Self {
        Freshness { started: Instant::now(), heard: AtomicU64::new(0), known: Mutex::default(), changed: Notify::new() }
    }

    /// Records a sign of life of the leader.
    pub(super) fn hear(&self) {
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard.store(micros.max(1), Ordering::Relaxed);
    }

    /// Records that a leader acknowledged by a majority, asked at `asked`, had committed up to `committed`.
    pub(super) fn hear_committed(&self, asked: Duration, committed: u64, applied: u64) {
        self.known.lock().hear(asked, committed, applied);
        self.changed.notify_waiters();
    }

    /// Records that everything committed at that moment is applied here: this node leads with a majority, or passed a
    /// read barrier.
    pub(super) fn reach(&self, at: Duration) {
        let mut known = self.known.lock();
        let was_unknown = known.as_of.is_none();
        known.as_of = known.as_of.max(Some(at));
        drop(known);
        if was_unknown {
            self.changed.notify_waiters();
        }
    }

    /// Records whether the leader of this term reports that a majority acknowledges it.
    pub(super) fn take_word(&self, term: u64, is_acknowledged: bool) {
        let mut known = self.known.lock();
        known.doubted = (!is_acknowledged).then_some(term);
        if !is_acknowledged {
            known.pending.clear();
        }
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.known.lock().doubted.is_some()
    }

    pub(super) fn is_doubted_in(&self, term: u64) -> bool {
        self.known.lock().doubted == Some(term)
    }

    /// Returns [`Freshness::as_of`] as of its last call or change, which is never too late.
    pub(super) fn known_as_of(&self) -> Option<Duration> {
        self.known.lock().as_of
    }

    /// Returns `as_of`, given the applied index.
    pub(super) fn as_of(&self, applied: u64) -> Option<Duration> {
        let mut known = self.known.lock();
        known.catch_up(applied);
        known.as_of
    }

    /// Returns the time since the last sign of life of a leader, and whether there was one since this node started.
    pub(super) fn silence(&self) -> (Duration, bool) {
        let heard = self.heard.load(Ordering::Relaxed);
        (self.started.elapsed().saturating_sub(Duration::from_micros(heard)), heard != 0)
    }

    pub(super) fn is_heard_within(&self, limit: Duration) -> bool {
        let (silence, was_heard) = self.silence();
        was_heard && silence < limit
    }

    /// Reports whether no leader was heard since the start, and the start lies within the range `ago`.
    pub(super) fn is_unmet_for(&self, ago: Range<Duration>) -> bool {
        let (since_start, was_heard) = self.silence();
        !was_heard && ago.contains(&since_start)
    }

    /// Waits until something was recorded that may change `as_of`.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_is_as_fresh_as_the_last_answer_that_it_has_applied() {
        let freshness = Freshness::new();
        assert_eq!(freshness.as_of(100), None, "never heard");
        freshness.hear();
        assert_eq!(freshness.as_of(100), None, "heard, without a word of how far it is");
        freshness.hear_committed(at(2), 7, 5);
        freshness.hear_committed(at(3), 9, 5);
        assert_eq!(freshness.as_of(6), None);
        assert_eq!(freshness.as_of(7), Some(at(2)));
        freshness.hear_committed(at(4), 9, 8);
        assert_eq!(freshness.as_of(8), Some(at(2)), "it is heard all the while, and nothing arrives");
        assert_eq!(freshness.as_of(9), Some(at(4)));
    }

    #[test]
    fn it_moves_on_however_many_contacts_are_ahead() {
        let freshness = Freshness::new();
        for second in 0..10 * PENDING_MAX as u64 {
            freshness.hear_committed(at(second), 1000 + second, 0);
        }
        assert_eq!(freshness.as_of(1010), Some(at(10)));
        assert_eq!(freshness.as_of(u64::MAX), Some(at(10 * PENDING_MAX as u64 - 1)), "the newest is kept");
    }

    /// The leader is heard all the time, and reports that it has no majority.
    #[test]
    fn a_leader_without_a_majority_makes_nobody_fresh() {
        let freshness = Freshness::new();
        freshness.hear_committed(at(1), 1, 1);
        freshness.hear_committed(at(2), 2, 1);
        freshness.take_word(7, false);
        assert!(freshness.is_doubted_in(7) && !freshness.is_doubted_in(8), "the next leader is another");
        assert_eq!(freshness.as_of(2), Some(at(1)), "what it said before is forgotten");
        freshness.take_word(8, true);
        freshness.hear_committed(at(4), 2, 2);
        assert_eq!(freshness.as_of(2), Some(at(4)));
    }

    #[test]
    fn a_leader_is_fresh_by_itself_as_is_who_has_asked() {
        let freshness = Freshness::new();
        freshness.hear_committed(at(1), 50, 10);
        freshness.reach(at(5));
        assert_eq!(freshness.as_of(10), Some(at(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_is_heard_until_it_falls_silent() {
        let (freshness, limit) = (Freshness::new(), at(1));
        assert!(!freshness.is_heard_within(at(3600)), "never heard");
        freshness.hear();
        tokio::time::sleep(limit - Duration::from_millis(1)).await;
        assert!(freshness.is_heard_within(limit));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!freshness.is_heard_within(limit) && freshness.is_heard_within(limit * 2));
    }
}
