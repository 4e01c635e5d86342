//! Capacity admission: disk and memory of the members, and the quota of the cluster.
//!
//! Each node checks its own disk and memory, and reports them when it is polled ([`super::poll`]). A proposal that adds
//! to the state is refused while any reachable voter is short, because every voter has to store what the leader
//! accepts. A short learner raises the alarm only: no write needs it. No state has to be reset: a node with enough room
//! again reports it in its next answer.

mod on_node;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::alarms::{Alarm, AlarmKind};
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::peer::{DiskRoom, MemoryRoom, Shortage};
use crate::store::DiskSpace;

pub(super) use self::on_node::{alarms, look_before, watch};

/// Divisor of the free space at the last check that gives the bytes that may be appended before the next one, and the
/// bounds of these bytes. Other programs may fill a disk within a second, and the space that the log has preallocated
/// is a few times the upper bound.
const LOOK_DIVISOR: u64 = 256;
const LOOK_BYTES_MIN: u64 = 64 * 1024;
const LOOK_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Divisor of the reserve; with less free space than that nothing is proposed at all.
pub(super) const LAST_PART: u64 = 10;
/// Divisor of a limit that gives its hysteresis, so that a disk at the limit does not change its state with every
/// write.
const SLACK_DIVISOR: u64 = 32;

/// End of the text about a member that no write waits for.
const NO_VOTER: &str = "it does not vote, so nothing is refused for it";

/// Limits of disk, state and memory.
#[derive(Clone, Copy, Debug)]
pub struct RoomBounds {
    /// Reserve; `None` for the default share of the filesystem, 0 for no reserve.
    pub disk_reserve_bytes: Option<u64>,
    /// Maximum size of the state; 0 for no limit.
    pub quota_bytes: u64,
    /// Memory limit of the process; `None` if unknown.
    pub memory_limit_bytes: Option<u64>,
}

/// Free capacity, as far as this node knows it.
pub(super) struct Capacity {
    node_id: NodeId,
    bounds: RoomBounds,
    members: RwLock<Members>,
    /// True while the disk or the memory of any voter is short, so that a proposal needs no lock.
    stops: AtomicBool,
    alarms: Alarms,
    /// Bytes of proposals since the last check.
    unlooked_bytes: AtomicU64,
}

/// Resources that are short on any member.
#[derive(Default)]
struct Alarms {
    disk: AtomicBool,
    memory: AtomicBool,
    quota: AtomicBool,
}

impl Alarms {
    fn all(&self) -> [(&'static str, &AtomicBool); 3] {
        [("disk", &self.disk), ("memory", &self.memory), ("quota", &self.quota)]
    }
}

/// Disks and memory of members, as far as they are known.
#[derive(Clone, Debug, Default)]
struct Members {
    disks: BTreeMap<NodeId, DiskRoom>,
    memories: BTreeMap<NodeId, MemoryRoom>,
    voters: BTreeSet<NodeId>,
}

impl Members {
    /// Returns the voters' disks with a shortage greater than `bearable`.
    fn disks_that_stop(&self, bearable: Shortage) -> impl Iterator<Item = (&NodeId, &DiskRoom)> {
        self.disks.iter().filter(move |(id, disk)| self.voters.contains(id) && disk.shortage > bearable)
    }

    /// Returns the alarms about these members, and about the quota if it is exceeded.
    fn alarms(&self, quota: Option<String>) -> Vec<Alarm> {
        let disks =
            self.disks.iter().filter(|(_, disk)| disk.shortage > Shortage::None).map(|(id, disk)| {
                Alarm::of_node(AlarmKind::Disk, *id, words_of_disk(*id, disk, self.voters.contains(id)))
            });
        let memories = self.memories.iter().filter(|(_, memory)| memory.is_short).map(|(id, memory)| {
            Alarm::of_node(AlarmKind::Memory, *id, words_of_memory(*id, memory, self.voters.contains(id)))
        });
        disks.chain(memories).chain(quota.map(|text| Alarm::of_cluster(AlarmKind::Quota, text))).collect()
    }

    /// Returns the voters whose memory is short.
    fn memories_that_stop(&self) -> impl Iterator<Item = (&NodeId, &MemoryRoom)> {
        self.memories.iter().filter(|(id, memory)| self.voters.contains(id) && memory.is_short)
    }
}

impl Capacity {
    pub(super) fn new(node_id: NodeId, bounds: RoomBounds) -> Capacity {
        let (members, stops, alarms, unlooked_bytes) = Default::default();
        Capacity { node_id, bounds, members, stops, alarms, unlooked_bytes }
    }

    /// Returns the state of this node's disk, if it was checked.
    pub(super) fn own(&self) -> Option<DiskRoom> {
        self.members.read().disks.get(&self.node_id).copied()
    }

    /// Returns the state of this node's memory, if it was checked and has a limit.
    pub(super) fn own_memory(&self) -> Option<MemoryRoom> {
        self.members.read().memories.get(&self.node_id).copied()
    }

    /// Reports whether this node's own disk is short.
    pub(super) fn is_own_short(&self) -> bool {
        self.own().is_some_and(|disk| disk.shortage > Shortage::None)
    }

    /// Counts a proposal; reports whether the disk has to be checked before it.
    fn is_look_due(&self, bytes: usize) -> bool {
        let free = self.own().map_or(0, |disk| disk.free_bytes);
        let limit = (free / LOOK_DIVISOR).clamp(LOOK_BYTES_MIN, LOOK_BYTES_MAX);
        let is_due = self.unlooked_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 > limit;
        if is_due {
            self.unlooked_bytes.store(0, Ordering::Relaxed);
        }
        is_due
    }

    /// Checks whether a proposal is admitted while the state has `state_bytes`.
    pub(super) fn admit(&self, proposal: Growth, state_bytes: u64) -> Result<(), Refusal> {
        if self.stops.load(Ordering::Relaxed) {
            self.admit_to_members(proposal)?;
        }
        let quota = self.bounds.quota_bytes;
        let is_over = self.alarms.quota.load(Ordering::Relaxed) || (quota > 0 && state_bytes > quota);
        if is_over && proposal == Growth::Adds {
            return Err(Refusal::new(Code::NoRoom, words_of_quota(state_bytes, quota)));
        }
        Ok(())
    }

    fn admit_to_members(&self, proposal: Growth) -> Result<(), Refusal> {
        let bearable = match proposal {
            Growth::Founds => return Ok(()),
            Growth::Adds => Shortage::None,
            Growth::Keeps => Shortage::Short,
        };
        let members = self.members.read();
        let worst = members.disks_that_stop(bearable).min_by_key(|(_, disk)| disk.free_bytes);
        match worst {
            Some((node_id, disk)) => Err(Refusal::new(Code::NoRoom, words_of_disk(*node_id, disk, true))),
            None => admit_to_memories(&members, proposal),
        }
    }

    /// Returns the state of this node's disk for the given space.
    fn judge(&self, space: DiskSpace) -> DiskRoom {
        let share = (space.total_bytes / limits::DISK_RESERVE_DIVISOR).min(limits::DISK_RESERVE_BYTES_MAX);
        let reserve_bytes = self.bounds.disk_reserve_bytes.unwrap_or(share);
        let before = self.own().map(|disk| disk.shortage).unwrap_or_default();
        let shortage = judge(space.free_bytes, reserve_bytes, before);
        DiskRoom { free_bytes: space.free_bytes, reserve_bytes, shortage }
    }

    /// Returns the state of this node's memory for the given use; `None` without a limit or if the use is unknown.
    fn judge_memory(&self, used_bytes: Option<u64>) -> Option<MemoryRoom> {
        let (used_bytes, limit_bytes) = (used_bytes?, self.bounds.memory_limit_bytes?);
        let was_short = self.own_memory().is_some_and(|memory| memory.is_short);
        let percent = if was_short { limits::MEMORY_ENOUGH_PERCENT } else { limits::MEMORY_SHORT_PERCENT };
        let is_short = u128::from(used_bytes) * 100 > u128::from(limit_bytes) * u128::from(percent);
        Some(MemoryRoom { used_bytes, limit_bytes, is_short })
    }

    /// Records the result of a check.
    fn note(&self, members: Members, state_bytes: u64) {
        let is_disk_short = members.disks.values().any(|disk| disk.shortage > Shortage::None);
        let is_memory_short = members.memories.values().any(|memory| memory.is_short);
        let stops = members.disks_that_stop(Shortage::None).count() + members.memories_that_stop().count() > 0;
        self.stops.store(stops, Ordering::Relaxed);
        let quota = self.bounds.quota_bytes;
        let was_over = self.alarms.quota.load(Ordering::Relaxed);
        let over = quota > 0 && state_bytes > if was_over { quota - quota / SLACK_DIVISOR } else { quota };
        *self.members.write() = members;
        for ((_, alarm), now) in self.alarms.all().into_iter().zip([is_disk_short, is_memory_short, over]) {
            alarm.store(now, Ordering::Relaxed);
        }
    }
}

fn admit_to_memories(members: &Members, proposal: Growth) -> Result<(), Refusal> {
    let worst = members.memories_that_stop().max_by_key(|(_, memory)| memory.used_bytes);
    match worst.filter(|_| proposal == Growth::Adds) {
        Some((node_id, memory)) => Err(Refusal::new(Code::NoRoom, words_of_memory(*node_id, memory, true))),
        None => Ok(()),
    }
}

/// Returns the text about a short disk, for the refused caller and for the operator.
fn words_of_disk(node_id: NodeId, disk: &DiskRoom, is_voter: bool) -> String {
    let DiskRoom { free_bytes, reserve_bytes, shortage } = disk;
    let what = match shortage {
        _ if !is_voter => NO_VOTER,
        Shortage::Exhausted => "nothing is taken any more until it has more",
        Shortage::None | Shortage::Short => "only deletes, logins and settings are taken until it has more",
    };
    format!("node {node_id} has {free_bytes} bytes of disk left, its reserve is {reserve_bytes}; {what}")
}

fn words_of_memory(node_id: NodeId, memory: &MemoryRoom, is_voter: bool) -> String {
    let MemoryRoom { used_bytes, limit_bytes, .. } = memory;
    let (short, enough) = (limits::MEMORY_SHORT_PERCENT, limits::MEMORY_ENOUGH_PERCENT);
    let what = match is_voter {
        false => NO_VOTER.to_owned(),
        true => {
            format!("above {short} % only deletes, logins and settings are taken, until it is below {enough} %")
        }
    };
    format!(
        "node {node_id} has {used_bytes} bytes in memory, its limit is {limit_bytes} (--memory-limit-bytes); {what}"
    )
}

fn words_of_quota(state_bytes: u64, quota: u64) -> String {
    format!("the state has {state_bytes} bytes, the quota is {quota} (--quota-bytes); delete something first")
}

/// Effect of a proposal on the size of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    Adds,
    Keeps,
    /// Proposed once in the life of a cluster, which cannot work without it.
    Founds,
}

fn judge(free: u64, reserve: u64, before: Shortage) -> Shortage {
    let is_below = |limit: u64, level: Shortage| {
        let slack = if before >= level { limit / SLACK_DIVISOR } else { 0 };
        free < limit.saturating_add(slack)
    };
    if is_below(reserve / LAST_PART, Shortage::Exhausted) {
        Shortage::Exhausted
    } else if is_below(reserve, Shortage::Short) {
        Shortage::Short
    } else {
        Shortage::None
    }
}

#[cfg(test)]
mod tests;
