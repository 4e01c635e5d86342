//! Snapshotting and log compaction: a node writes snapshots, purges the log behind them, and gives the space back.
//!
//! A snapshot is written here and openraft is told of it when it is there: one that cannot be written,
//! for want of space mostly, is an alarm and is tried again, where openraft would end consensus, and on
//! all nodes at about the same time. Nodes do not write at the same moment either: each has a threshold
//! of its own, the leader's being the highest.
//!
//! The log is purged up to the newest snapshot, but for what is kept for peers that are a little behind;
//! not while a snapshot travels to one of them, nor shortly after: it will ask for the entries behind it.

use std::io;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use tokio::time::{Instant, timeout};

use super::capacity::LAST_PART;
use super::node::Node;
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::store::blocking;

/// Between two looks at what is to be done.
const ROUND: Duration = Duration::from_millis(200);
/// After a snapshot that could not be written; doubles up to the other.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(600);
/// Between two snapshots, or two compactions, that are made only because the disk is short: so long,
/// and so many times what the last one took.
const URGENT_PAUSE: Duration = Duration::from_secs(10);
const URGENT_PAUSE_TIMES: u32 = 10;
/// Time limit for openraft to take over a snapshot; it is offered again otherwise.
const OFFER_WITHIN: Duration = Duration::from_secs(2);

/// The log stays this long after the end of a transfer, in which the peer catches up with it,
const TRANSFER_AFTERMATH: Duration = Duration::from_secs(60);
/// but not beyond so many times what it is bounded to.
const HELD_BACK_TIMES_MAX: u64 = 4;
/// While the disk is short, this part of what is kept otherwise is kept of the log.
const URGENT_KEPT_DIVISOR: u64 = 16;

/// Steps of the thresholds of the nodes, in hundredths of the interval.
const STAGGER_STEP: u64 = 8;
const STAGGER_PERCENT: u64 = 25;

/// Between two looks at whether the files of the log are larger than the log,
const COMPACT_PAUSE: Duration = Duration::from_secs(10);
/// and how much larger they may be before those go that hold nothing of it any more,
const DROP_SLACK_BYTES: u64 = 16 * 1024 * 1024;
/// and before others are written anew.
const COMPACT_SLACK_BYTES: u64 = 128 * 1024 * 1024;
const COMPACT_SLACK_BYTES_URGENT: u64 = 4 * 1024 * 1024;

/// Bytes of a row in a snapshot beside its key and value.
const ROW_OVERHEAD_BYTES: u64 = 8;

/// Amount of log that makes a snapshot due, and amount that is kept behind one.
#[derive(Clone, Copy, Debug)]
pub struct LogBounds {
    pub snapshot_entries: u64,
    pub snapshot_bytes: u64,
    /// So that a peer that was away shortly needs no snapshot; of the two the smaller counts.
    pub entries_kept: u64,
    pub bytes_kept: u64,
}

impl LogBounds {
    /// True if so much log since the last snapshot makes another one due on this node.
    fn are_passed(&self, entries: u64, bytes: u64, node_id: NodeId, leads: bool) -> bool {
        let percent = if leads { 100 } else { 100 - node_id.wrapping_mul(STAGGER_STEP) % STAGGER_PERCENT };
        let share = |whole: u64| whole / 100 * percent + whole % 100 * percent / 100;
        entries >= share(self.snapshot_entries).max(1) || bytes >= share(self.snapshot_bytes).max(1)
    }

    /// Bounds while the disk is short: they keep less of the log.
    fn urgent(&self) -> LogBounds {
        let kept = |kept: u64| kept / URGENT_KEPT_DIVISOR;
        LogBounds { entries_kept: kept(self.entries_kept), bytes_kept: kept(self.bytes_kept), ..*self }
    }
}

/// State kept from one round to the next; held while a snapshot is written, so that two are never written at once.
pub(super) struct Compaction {
    bounds: LogBounds,
    /// Not before this, after a failure, and how long the pause was.
    retry: Option<(Instant, Duration)>,
    urgent: Urgency,
    /// That the log outgrew what a transfer may hold back was said.
    is_overgrown: bool,
}

impl Compaction {
    pub(super) fn new(bounds: LogBounds) -> Compaction {
        Compaction { bounds, retry: None, urgent: Urgency::default(), is_overgrown: false }
    }

    /// One look: a snapshot where one is due, and what follows from it.
    async fn go_round(&mut self, node: &Node) {
        if self.is_snapshot_due(node) {
            // Said, counted and tried again later.
            let _ = self.write(node).await;
        }
        self.follow_up(node).await;
    }

    fn is_snapshot_due(&mut self, node: &Node) -> bool {
        if self.retry.is_some_and(|(not_before, _)| Instant::now() < not_before) {
            return false;
        }
        let applied = node.state().applied().index;
        let covered = covered(node);
        let entries = applied.saturating_sub(covered);
        if entries == 0 {
            return false;
        }
        let leads = node.leader() == Some(node.id());
        if self.bounds.are_passed(entries, node.store().log_bytes_after(covered), node.id(), leads) {
            return true;
        }
        node.inner().capacity.is_own_short() && self.urgent.is_due()
    }

    /// Writes a snapshot, unless the newest one covers everything.
    async fn write(&mut self, node: &Node) -> Result<(), Refusal> {
        let began = Instant::now();
        let written = self.try_write(node).await;
        self.urgent.ended(began);
        if written.is_ok() {
            self.retry = None;
        }
        node.metrics().snapshot_failing.set(i64::from(written.is_err()));
        node.inner().alarms.set_snapshot_failure(written.as_ref().err().map(|refusal| refusal.detail.to_string()));
        if let Err(refusal) = &written {
            let pause = self.retry.map_or(RETRY_PAUSE, |(_, pause)| (pause * 2).min(RETRY_PAUSE_MAX));
            self.retry = Some((Instant::now() + pause, pause));
            tracing::error!(
                reason = refusal.detail,
                again_in_s = pause.as_secs(),
                "no snapshot could be written; the log is not purged until one is"
            );
        }
        written
    }

    async fn try_write(&self, node: &Node) -> Result<(), Refusal> {
        if covered(node) >= node.state().applied().index {
            return Ok(());
        }
        let machine = node.inner().machine.clone();
        let store = node.store().clone();
        let weight = machine.weight();
        let needed = weight.bytes() + weight.rows() * ROW_OVERHEAD_BYTES;
        let reserve = last_part(node);
        let work = move || match store.disk_space() {
            Ok(space) if space.free_bytes < needed.saturating_add(reserve) => Ok(Err(space.free_bytes)),
            _ => machine.write_snapshot().map(Ok),
        };
        match blocking(work).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(free)) => {
                let text =
                    format!("a snapshot takes about {needed} bytes beside {reserve} of reserve, {free} are free");
                Err(Refusal::new(Code::NoRoom, text))
            }
            Err(error) => Err(Refusal::new(Code::StoreLayerException, error.to_string())),
        }
    }

    /// Tells openraft of the newest snapshot and purges behind it.
    async fn follow_up(&mut self, node: &Node) {
        offer(node).await;
        let Some(through) = self.purge_through(node) else { return };
        if let Err(error) = node.inner().raft.trigger().purge_log(through).await {
            tracing::debug!(%error, "the log could not be purged");
        }
        if node.store().log_bytes() > self.log_bytes_max() || node.inner().capacity.is_own_short() {
            cut_who_holds(node, through);
        }
    }

    /// The log is not larger than this, but for what comes between two looks.
    fn log_bytes_max(&self) -> u64 {
        self.bounds.snapshot_bytes.saturating_add(self.bounds.bytes_kept).saturating_mul(HELD_BACK_TIMES_MAX)
    }

    /// The index through which the log can go now, if anything can.
    fn purge_through(&mut self, node: &Node) -> Option<u64> {
        let metrics = node.raft_metrics();
        let snapshot = metrics.snapshot?.index;
        let purged = metrics.purged.map_or(0, |id| id.index);
        let is_urgent = node.inner().capacity.is_own_short();
        let bounds = if is_urgent { self.bounds.urgent() } else { self.bounds };
        let by_entries = snapshot.saturating_sub(bounds.entries_kept);
        let by_bytes = node.store().log_cut(snapshot, bounds.bytes_kept).unwrap_or_default();
        let through = by_entries.max(by_bytes).min(snapshot);
        if through <= purged {
            return None;
        }
        let is_held_back = node.inner().peers.sent_snapshot_within(TRANSFER_AFTERMATH) && !is_urgent;
        if !is_held_back {
            self.is_overgrown = false;
            return Some(through);
        }
        let bytes_max = self.log_bytes_max();
        if node.store().log_bytes() <= bytes_max {
            return None;
        }
        if !std::mem::replace(&mut self.is_overgrown, true) {
            tracing::warn!(
                bytes_max,
                "the log is purged although a snapshot is on its way to a peer: it has grown too large"
            );
        }
        Some(through)
    }
}

/// Ends the append sessions of the peers that are behind the purge: openraft puts it off while entries of before it are
/// on their way, which those of a peer that is slower than the writes always are. With its session ended, the peer gets
/// a snapshot instead.
fn cut_who_holds(node: &Node, through: u64) {
    let replication = node.raft_metrics().replication.unwrap_or_default();
    for (peer, matched) in replication {
        let matched = matched.map_or(0, |id| id.index);
        if peer != node.id() && matched < through && !node.inner().peers.is_sent_snapshot(peer) {
            tracing::warn!(
                peer,
                matched,
                purged = through,
                "a peer is too far behind: it gets a snapshot, and the log is purged"
            );
            node.inner().peers.cut_appends(peer);
        }
    }
}

/// Pause between two runs of the work that is done only because the disk is short: it is not done all the time.
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

/// The index that the newest finished snapshot covers.
fn covered(node: &Node) -> u64 {
    // One that cannot be read is none; the store has verified it before.
    node.inner().machine.snapshot_index().ok().flatten().unwrap_or_default()
}

/// The part of the reserve that nothing that could wait may use.
fn last_part(node: &Node) -> u64 {
    node.inner().capacity.own().map_or(0, |disk| disk.reserve_bytes / LAST_PART)
}

/// Lets openraft take over the newest finished snapshot, if it does not know it.
async fn offer(node: &Node) {
    let newest = covered(node);
    let known = |node: &Node| node.raft_metrics().snapshot.map_or(0, |id| id.index);
    if newest <= known(node) {
        return;
    }
    if let Err(error) = node.inner().raft.trigger().snapshot().await {
        return tracing::debug!(%error, "consensus does not take the snapshot");
    }
    let mut metrics = node.inner().raft.metrics();
    let taken = async { while known(node) < newest && metrics.changed().await.is_ok() {} };
    // Else the next round says it again.
    let _ = timeout(OFFER_WITHIN, taken).await;
}

/// Writes a snapshot because somebody wants it, however long ago the last one was.
pub(super) async fn write_now(node: Node) -> Result<(), Refusal> {
    let mut compaction = node.inner().compaction.lock().await;
    compaction.write(&node).await?;
    compaction.follow_up(&node).await;
    Ok(())
}

/// Keeps what is kept within its bounds, for as long as the node runs.
pub(super) async fn keep(node: Node) {
    let mut compactor = Compactor::default();
    loop {
        node.inner().compaction.lock().await.go_round(&node).await;
        compactor.go_round(&node).await;
        tokio::time::sleep(ROUND).await;
    }
}

/// Gives space back to the disk.
#[derive(Default)]
struct Compactor {
    looked_at: Option<Instant>,
    urgent: Urgency,
}

impl Compactor {
    async fn go_round(&mut self, node: &Node) {
        if self.looked_at.is_some_and(|last| last.elapsed() < COMPACT_PAUSE) {
            return;
        }
        self.looked_at = Some(Instant::now());
        let is_urgent = node.inner().capacity.is_own_short();
        let store = node.store().clone();
        let is_larger_by = |slack: u64| store.log_files_bytes() > store.log_bytes().saturating_add(slack);
        if is_larger_by(DROP_SLACK_BYTES) {
            report("log", store.drop_log_files().await);
        }
        if is_larger_by(if is_urgent { COMPACT_SLACK_BYTES_URGENT } else { COMPACT_SLACK_BYTES }) {
            let store = store.clone();
            report("log", blocking(move || store.compact_log()).await);
        }
        if is_urgent && self.urgent.is_due() {
            let began = Instant::now();
            let spare_bytes = last_part(node);
            report("state", blocking(move || store.make_room(spare_bytes)).await);
            self.urgent.ended(began);
        }
    }
}

fn report(family: &str, given_back: io::Result<()>) {
    match given_back {
        Ok(()) => tracing::debug!(family, "space given back"),
        Err(error) => tracing::debug!(family, %error, "no space could be given back"),
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
