//! Room of a node: measures its disk and memory, and collects what the other members report.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{LAST_PART, Members, words_of_quota};
use crate::memory;
use crate::peer::{DiskRoom, Shortage};
use crate::raft::alarms::Alarm;
use crate::raft::node::Node;
use crate::tasks;

/// Pause between two checks, and while room is short.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
const LOOK_PAUSE_WHILE_SHORT: Duration = Duration::from_millis(250);

/// Returns the alarms about capacity: of this node by its last check, of the others by their last answers.
pub(in crate::raft) fn alarms(node: &Node) -> Vec<Alarm> {
    let capacity = &node.inner().upkeep.capacity;
    let mut members = other_members(node);
    let known = capacity.members.read().clone();
    members.disks.extend(known.disks.get(&node.id()).map(|disk| (node.id(), *disk)));
    members.memories.extend(known.memories.get(&node.id()).map(|memory| (node.id(), *memory)));
    members.voters = known.voters;
    let quota = capacity.alarms.quota.load(Ordering::Relaxed);
    let state_bytes = node.inner().machine.weight().counted();
    members.alarms(quota.then(|| words_of_quota(state_bytes, capacity.bounds.quota_bytes)))
}

/// Checks capacity periodically, for as long as the node runs.
pub(in crate::raft) async fn watch(node: Node) {
    loop {
        look(&node).await;
        let capacity = &node.inner().upkeep.capacity;
        let is_alarmed = capacity.alarms.all().iter().any(|(_, alarm)| alarm.load(Ordering::Relaxed));
        tokio::time::sleep(if is_alarmed { LOOK_PAUSE_WHILE_SHORT } else { LOOK_PAUSE }).await;
    }
}

/// Checks capacity before a proposal of this size, if a check is due.
pub(in crate::raft) async fn look_before(node: &Node, bytes: usize) {
    if node.inner().upkeep.capacity.is_look_due(bytes) {
        look(node).await;
    }
}

async fn look(node: &Node) {
    let capacity = &node.inner().upkeep.capacity;
    let store = node.store().clone();
    let is_full = node.store().waits_for_room();
    let (space, used_bytes) = match tasks::blocking(move || (store.disk_space(), memory::used())).await {
        (Ok(space), used_bytes) => (space, used_bytes),
        // An unknown amount does not count as short; a failing disk is found elsewhere.
        (Err(error), _) => return tracing::debug!(%error, "the free space of the disk could not be read"),
    };
    let (mut own, own_memory) = (capacity.judge(space), capacity.judge_memory(used_bytes));
    if is_full {
        own.shortage = Shortage::Exhausted;
    } else if own.shortage == Shortage::None && own.reserve_bytes > 0 {
        restore_ballast(node, own.reserve_bytes).await;
    }
    let mut members = if node.leading_term().is_some() { other_members(node) } else { Members::default() };
    members.disks.insert(node.id(), own);
    members.memories.extend(own_memory.map(|memory| (node.id(), memory)));
    members.voters = node.raft_metrics().membership_config.membership().voter_ids().collect();
    let state_bytes = node.inner().machine.weight().counted();
    capacity.note(members, state_bytes);
    node.metrics().memory_used.set(i64::try_from(used_bytes.unwrap_or_default()).unwrap_or(i64::MAX));
    measure(node, own);
}

/// Allocates the ballast again if it was released and there is room for it.
async fn restore_ballast(node: &Node, reserve_bytes: u64) {
    let store = node.store().clone();
    if let Err(error) = tasks::blocking(move || store.restore_ballast(reserve_bytes, LAST_PART)).await {
        tracing::debug!(%error, "the ballast could not be allocated");
    }
}

/// Returns disks and memory of the other reachable members, as they report them.
fn other_members(node: &Node) -> Members {
    let mut members = Members::default();
    for (id, progress) in node.inner().poll.said().into_iter().filter(|(id, _)| node.is_reachable(*id)) {
        members.disks.extend(progress.disk.map(|disk| (id, disk)));
        members.memories.extend(progress.memory.map(|memory| (id, memory)));
    }
    members
}

fn measure(node: &Node, own: DiskRoom) {
    let (capacity, metrics) = (&node.inner().upkeep.capacity, node.metrics());
    let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    metrics.disk_free.set(number(own.free_bytes));
    metrics.disk_reserve.set(number(own.reserve_bytes));
    metrics.quota_bytes.set(number(capacity.bounds.quota_bytes));
    metrics.memory_limit.set(number(capacity.bounds.memory_limit_bytes.unwrap_or_default()));
    for (reason, alarm) in capacity.alarms.all() {
        metrics.storage_alarm.with_label_values(&[reason]).set(i64::from(alarm.load(Ordering::Relaxed)));
    }
}
