//! Compaction on a node: takes snapshots and purges the log by what the node has applied.

use std::io;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use tokio::time::{Instant, timeout};

use super::{Compaction, Urgency};
use crate::model::code::{Code, Refusal};
use crate::raft::capacity::LAST_PART;
use crate::raft::node::Node;
use crate::store::blocking;

/// Pause between two rounds.
const ROUND: Duration = Duration::from_millis(200);
/// Pause after a snapshot that could not be written; doubled each time up to the maximum.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(600);

/// Time limit for openraft to accept a snapshot; after it, the snapshot is offered again.
const OFFER_WITHIN: Duration = Duration::from_secs(2);

/// Time for which the log is retained after a snapshot was sent, while the peer catches up.
const TRANSFER_AFTERMATH: Duration = Duration::from_secs(60);

/// Pause between two checks whether the log's files are larger than the log.
const COMPACT_PAUSE: Duration = Duration::from_secs(10);
/// Excess of the files above which those without live entries are dropped.
const DROP_SLACK_BYTES: u64 = 16 * 1024 * 1024;
/// Excess above which the log is compacted, normally and while the disk is short.
const COMPACT_SLACK_BYTES: u64 = 128 * 1024 * 1024;
const COMPACT_SLACK_BYTES_URGENT: u64 = 4 * 1024 * 1024;

/// Bytes of a row in a snapshot in addition to its key and value.
const ROW_OVERHEAD_BYTES: u64 = 8;

/// Compaction of the store's files, which frees disk space.
#[derive(Default)]
struct Compactor {
    looked_at: Option<Instant>,
    urgent: Urgency,
}

impl Compaction {
    /// Writes a snapshot if one is due, and follows up on it.
    async fn go_round(&mut self, node: &Node) {
        if self.is_snapshot_due(node) {
            // The failure was logged and counted, and the write is retried later.
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
        node.inner().upkeep.capacity.is_own_short() && self.urgent.is_due()
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
        node.inner()
            .upkeep
            .alarms
            .set_snapshot_failure(written.as_ref().err().map(|refusal| refusal.detail.to_string()));
        if let Err(refusal) = &written {
            let pause = self.retry.map_or(RETRY_PAUSE, |(_, pause)| (pause * 2).min(RETRY_PAUSE_MAX));
            self.retry = Some((Instant::now() + pause, pause));
            tracing::error!(
                reason = refusal.detail,
                again_in_s = pause.as_secs(),
                "a snapshot could not be written; the log is not purged until one is"
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

    /// Offers the newest snapshot to openraft and purges the log up to it.
    async fn follow_up(&mut self, node: &Node) {
        offer(node).await;
        let Some(through) = self.purge_through(node) else { return };
        if let Err(error) = node.inner().raft.trigger().purge_log(through).await {
            tracing::debug!(%error, "the log could not be purged");
        }
        if node.store().log_bytes() > self.log_bytes_max() || node.inner().upkeep.capacity.is_own_short() {
            cut_who_holds(node, through);
        }
    }

    /// Returns the index through which the log can be purged now, if any.
    fn purge_through(&mut self, node: &Node) -> Option<u64> {
        let metrics = node.raft_metrics();
        let snapshot = metrics.snapshot?.index;
        let purged = metrics.purged.map_or(0, |id| id.index);
        let is_urgent = node.inner().upkeep.capacity.is_own_short();
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
                "the log has grown too large and is purged although a snapshot is being sent to a peer"
            );
        }
        Some(through)
    }
}

/// Ends the append sessions of peers that lack entries to be purged. openraft defers a purge while such entries are in
/// flight, which is always the case for a peer that is slower than the writes. Without its session the peer gets a
/// snapshot instead.
fn cut_who_holds(node: &Node, through: u64) {
    let replication = node.raft_metrics().replication.unwrap_or_default();
    for (peer, matched) in replication {
        let matched = matched.map_or(0, |id| id.index);
        if peer != node.id() && matched < through && !node.inner().peers.is_sent_snapshot(peer) {
            tracing::warn!(
                peer,
                matched,
                purged = through,
                "a node is too far behind: it gets a snapshot, and the log is purged"
            );
            node.inner().peers.cut_appends(peer);
        }
    }
}

/// Returns the index that the newest finished snapshot covers.
fn covered(node: &Node) -> u64 {
    // A snapshot that cannot be read counts as none; the store verified it before.
    node.inner().machine.snapshot_index().ok().flatten().unwrap_or_default()
}

/// Returns the part of the reserve that deferrable work may not use.
fn last_part(node: &Node) -> u64 {
    node.inner().upkeep.capacity.own().map_or(0, |disk| disk.reserve_bytes / LAST_PART)
}

/// Offers the newest finished snapshot to openraft, if it does not know it.
async fn offer(node: &Node) {
    let newest = covered(node);
    let known = |node: &Node| node.raft_metrics().snapshot.map_or(0, |id| id.index);
    if newest <= known(node) {
        return;
    }
    if let Err(error) = node.inner().raft.trigger().snapshot().await {
        return tracing::debug!(%error, "consensus did not accept the snapshot");
    }
    let mut metrics = node.inner().raft.metrics();
    let taken = async { while known(node) < newest && metrics.changed().await.is_ok() {} };
    // Otherwise the next round offers it again.
    let _ = timeout(OFFER_WITHIN, taken).await;
}

/// Writes a snapshot on request, however recent the last one is.
pub(in crate::raft) async fn write_now(node: Node) -> Result<(), Refusal> {
    let mut compaction = node.inner().upkeep.compaction.lock().await;
    compaction.write(&node).await?;
    compaction.follow_up(&node).await;
    Ok(())
}

/// Runs snapshots, purges and compactions, for as long as the node runs.
pub(in crate::raft) async fn keep(node: Node) {
    let mut compactor = Compactor::default();
    loop {
        node.inner().upkeep.compaction.lock().await.go_round(&node).await;
        compactor.go_round(&node).await;
        tokio::time::sleep(ROUND).await;
    }
}

impl Compactor {
    async fn go_round(&mut self, node: &Node) {
        if self.looked_at.is_some_and(|last| last.elapsed() < COMPACT_PAUSE) {
            return;
        }
        self.looked_at = Some(Instant::now());
        let is_urgent = node.inner().upkeep.capacity.is_own_short();
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
        Ok(()) => tracing::debug!(family, "disk space was freed"),
        Err(error) => tracing::debug!(family, %error, "disk space could not be freed"),
    }
}
