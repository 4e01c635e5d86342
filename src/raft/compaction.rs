//! Snapshots and log compaction: a node writes snapshots, purges the log up to them, and frees the disk space.
//!
//! A snapshot is written here, and openraft learns of it when it is finished. If it cannot be written, mostly for lack
//! of space, that is an alarm and a retry; openraft would end consensus, and on all nodes at about the same time. Nodes
//! do not write at the same moment either: each has its own threshold, and the leader's is the highest.
//!
//! The log is purged up to the newest snapshot, except for a part that is retained for peers that lag a little. It is
//! not purged while a snapshot is sent to a peer, nor shortly after: the peer will need the entries that follow it.

mod on_node;

use std::time::Duration;

use tokio::time::Instant;

use crate::format::types::NodeId;

pub(super) use self::on_node::{keep, write_now};

/// Pause between two snapshots, or two compactions, that are done only because the disk is short: the sum of this and
/// of a multiple of the duration of the last one.
const URGENT_PAUSE: Duration = Duration::from_secs(10);
const URGENT_PAUSE_TIMES: u32 = 10;

/// Multiple of the log's bounds above which it is purged all the same.
const HELD_BACK_TIMES_MAX: u64 = 4;
/// Divisor of the retained log while the disk is short.
const URGENT_KEPT_DIVISOR: u64 = 16;

/// Parameters of the nodes' different thresholds, in hundredths of the interval.
const STAGGER_STEP: u64 = 8;
const STAGGER_PERCENT: u64 = 25;

/// Amount of log that makes a snapshot due, and amount that is retained before one.
#[derive(Clone, Copy, Debug)]
pub struct LogBounds {
    pub snapshot_entries: u64,
    pub snapshot_bytes: u64,
    /// Retained log, so that a peer that was away briefly needs no snapshot; the smaller of the two applies.
    pub entries_kept: u64,
    pub bytes_kept: u64,
}

impl LogBounds {
    /// Reports whether this much log since the last snapshot makes another one due on this node.
    fn are_passed(&self, entries: u64, bytes: u64, node_id: NodeId, leads: bool) -> bool {
        let percent = if leads { 100 } else { 100 - node_id.wrapping_mul(STAGGER_STEP) % STAGGER_PERCENT };
        let share = |whole: u64| whole / 100 * percent + whole % 100 * percent / 100;
        entries >= share(self.snapshot_entries).max(1) || bytes >= share(self.snapshot_bytes).max(1)
    }

    /// Returns the bounds while the disk is short: they retain less of the log.
    fn urgent(&self) -> LogBounds {
        let kept = |kept: u64| kept / URGENT_KEPT_DIVISOR;
        LogBounds { entries_kept: kept(self.entries_kept), bytes_kept: kept(self.bytes_kept), ..*self }
    }
}

/// State of snapshots and purges. It is locked while a snapshot is written, so that two are never written at once.
pub(super) struct Compaction {
    bounds: LogBounds,
    /// Earliest time of the next attempt after a failure, and the length of the pause.
    retry: Option<(Instant, Duration)>,
    urgent: Urgency,
    /// True if it was logged that the log outgrew what a transfer may hold back.
    is_overgrown: bool,
}

impl Compaction {
    pub(super) fn new(bounds: LogBounds) -> Compaction {
        Compaction { bounds, retry: None, urgent: Urgency::default(), is_overgrown: false }
    }

    /// Returns the maximum size of the log, not counting what is appended between two rounds.
    fn log_bytes_max(&self) -> u64 {
        self.bounds.snapshot_bytes.saturating_add(self.bounds.bytes_kept).saturating_mul(HELD_BACK_TIMES_MAX)
    }
}

/// Pause between two runs of work that is done only because the disk is short.
#[derive(Default)]
struct Urgency {
    not_before: Option<Instant>,
}

impl Urgency {
    fn is_due(&self) -> bool {
        self.not_before.is_none_or(|not_before| Instant::now() >= not_before)
    }

    fn ended(&mut self, began: Instant) {
        self.not_before = Some(Instant::now() + URGENT_PAUSE + began.elapsed() * URGENT_PAUSE_TIMES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: LogBounds =
        LogBounds { snapshot_entries: 1000, snapshot_bytes: 1_000_000, entries_kept: 500, bytes_kept: 800 };

    #[test]
    fn nodes_do_not_write_their_snapshots_at_the_same_moment() {
        let threshold = |node_id, leads| (1..).find(|entries| BOUNDS.are_passed(*entries, 0, node_id, leads));
        let thresholds: Vec<_> = (1..=3).map(|id| threshold(id, false).expect("some")).collect();
        assert_eq!(thresholds, [920, 840, 760]);
        assert_eq!(threshold(3, true), Some(1000), "the leader is the last");
        for id in 1..1000 {
            let entries = threshold(id, false).expect("some");
            assert!((750..=1000).contains(&entries), "{entries} on node {id}");
        }
    }

    #[test]
    fn bytes_make_a_snapshot_due_as_entries_do() {
        assert!(!BOUNDS.are_passed(1, 999_999, 1, true));
        assert!(BOUNDS.are_passed(1, 1_000_000, 1, true));
        let one = LogBounds { snapshot_entries: 1, snapshot_bytes: u64::MAX, ..BOUNDS };
        assert!(one.are_passed(1, 0, 3, false), "the smallest interval is one entry, on every node");
    }

    #[test]
    fn less_is_kept_while_the_disk_is_short() {
        let LogBounds { entries_kept, bytes_kept, snapshot_entries, .. } = BOUNDS.urgent();
        assert_eq!((entries_kept, bytes_kept, snapshot_entries), (31, 50, 1000));
    }
}
