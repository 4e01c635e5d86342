//! Capacity admission: disk and memory of the members, and the quota of the cluster.
//!
//! Each node looks at its own disk and memory and judges them, and tells the others when they ask ([`super::poll`]). A
//! proposal that adds is refused while any voter in reach is short, as what the leader takes all of them have to keep.
//! A learner that is short raises the alarm as well, and stops nobody: no write needs it. Nothing needs to be told or
//! switched back: who has room again says so when asked next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use super::node::Node;
use crate::format::types::NodeId;
use crate::memory;
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::peer::{DiskRoom, MemoryRoom, Shortage};
use crate::store::DiskSpace;

/// Between two looks, and while room is short.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
const LOOK_PAUSE_WHILE_SHORT: Duration = Duration::from_millis(250);
/// Below this part of the reserve nothing is proposed at all.
pub(super) const LAST_PART: u64 = 10;
/// A limit that was passed counts as kept again only this part of it beyond, so that a disk at the
/// limit does not change its mind with every write.
const SLACK_DIVISOR: u64 = 32;

/// Limits of the room that may be used.
#[derive(Clone, Copy, Debug)]
pub struct RoomBounds {
    /// `None` for the share of the filesystem that is the default, 0 for no reserve.
    pub disk_reserve_bytes: Option<u64>,
    /// 0 for none.
    pub quota_bytes: u64,
    /// `None` where nothing is known of a limit.
    pub memory_limit_bytes: Option<u64>,
}

/// Room that is left, as far as this node knows it.
pub(super) struct Capacity {
    node_id: NodeId,
    bounds: RoomBounds,
    members: RwLock<Members>,
    /// True while the disk or the memory of any voter is short; kept so that a proposal need not ask.
    stops: AtomicBool,
    alarms: Alarms,
}

/// Resources that are short, of any member.
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

/// The disks and the memory of members, as far as they are known.
#[derive(Clone, Debug, Default)]
struct Members {
    disks: BTreeMap<NodeId, DiskRoom>,
    memories: BTreeMap<NodeId, MemoryRoom>,
    voters: BTreeSet<NodeId>,
}

impl Members {
    /// The voters' disks with a shortage beyond `bearable`.
    fn disks_that_stop(&self, bearable: Shortage) -> impl Iterator<Item = (&NodeId, &DiskRoom)> {
        self.disks.iter().filter(move |(id, disk)| self.voters.contains(id) && disk.shortage > bearable)
    }

    /// The voters whose memory is short.
    fn memories_that_stop(&self) -> impl Iterator<Item = (&NodeId, &MemoryRoom)> {
        self.memories.iter().filter(|(id, memory)| self.voters.contains(id) && memory.is_short)
    }
}

impl Capacity {
    pub(super) fn new(node_id: NodeId, bounds: RoomBounds) -> Capacity {
        let (members, stops, alarms) = Default::default();
        Capacity { node_id, bounds, members, stops, alarms }
    }

    /// This node's disk, if it was looked at.
    pub(super) fn own(&self) -> Option<DiskRoom> {
        self.members.read().disks.get(&self.node_id).copied()
    }

    /// This node's memory, if it was looked at and has a limit.
    pub(super) fn own_memory(&self) -> Option<MemoryRoom> {
        self.members.read().memories.get(&self.node_id).copied()
    }

    /// True if this node's own disk is short.
    pub(super) fn is_own_short(&self) -> bool {
        self.own().is_some_and(|disk| disk.shortage > Shortage::None)
    }

    /// Checks whether a proposal may be made, with a state of `state_bytes`.
    pub(super) fn admit(&self, proposal: Growth, state_bytes: u64) -> Result<(), Refusal> {
        if self.stops.load(Ordering::Relaxed) {
            self.admit_to_members(proposal)?;
        }
        let quota = self.bounds.quota_bytes;
        let is_over = self.alarms.quota.load(Ordering::Relaxed) || (quota > 0 && state_bytes > quota);
        if is_over && proposal == Growth::Adds {
            let text = format!(
                "the state has {state_bytes} bytes, the quota is {quota} (--quota-bytes); delete something first"
            );
            return Err(Refusal::new(Code::NoRoom, text));
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
        let Some((node_id, DiskRoom { free_bytes, reserve_bytes, shortage })) = worst else {
            return admit_to_memories(&members, proposal);
        };
        let what = match shortage {
            Shortage::Exhausted => "nothing is taken any more",
            Shortage::None | Shortage::Short => "only deletes, logins and settings are taken",
        };
        let text = format!(
            "node {node_id} has {free_bytes} bytes of disk left, its reserve is {reserve_bytes}; {what} until it has \
             more"
        );
        Err(Refusal::new(Code::NoRoom, text))
    }

    /// Judges this node's disk as it is found now.
    fn judge(&self, space: DiskSpace) -> DiskRoom {
        let share = (space.total_bytes / limits::DISK_RESERVE_DIVISOR).min(limits::DISK_RESERVE_BYTES_MAX);
        let reserve_bytes = self.bounds.disk_reserve_bytes.unwrap_or(share);
        let before = self.own().map(|disk| disk.shortage).unwrap_or_default();
        let shortage = judge(space.free_bytes, reserve_bytes, before);
        DiskRoom { free_bytes: space.free_bytes, reserve_bytes, shortage }
    }

    /// Judges this node's memory, of which it has so much now.
    fn judge_memory(&self, used_bytes: Option<u64>) -> Option<MemoryRoom> {
        let (used_bytes, limit_bytes) = (used_bytes?, self.bounds.memory_limit_bytes?);
        let was_short = self.own_memory().is_some_and(|memory| memory.is_short);
        let percent = if was_short { limits::MEMORY_ENOUGH_PERCENT } else { limits::MEMORY_SHORT_PERCENT };
        let is_short = u128::from(used_bytes) * 100 > u128::from(limit_bytes) * u128::from(percent);
        Some(MemoryRoom { used_bytes, limit_bytes, is_short })
    }

    /// Takes over what was found; says whether a limit was passed, or is kept again.
    fn note(&self, members: Members, state_bytes: u64) -> Vec<Turn> {
        let is_disk_short = members.disks.values().any(|disk| disk.shortage > Shortage::None);
        let is_memory_short = members.memories.values().any(|memory| memory.is_short);
        let stops = members.disks_that_stop(Shortage::None).count() + members.memories_that_stop().count() > 0;
        self.stops.store(stops, Ordering::Relaxed);
        let quota = self.bounds.quota_bytes;
        let was_over = self.alarms.quota.load(Ordering::Relaxed);
        let over = quota > 0 && state_bytes > if was_over { quota - quota / SLACK_DIVISOR } else { quota };
        *self.members.write() = members;
        let found = self.alarms.all().into_iter().zip([is_disk_short, is_memory_short, over]);
        let turned = |((reason, alarm), now): ((&'static str, &AtomicBool), bool)| {
            (alarm.swap(now, Ordering::Relaxed) != now).then_some(Turn { reason, is_raised: now })
        };
        found.filter_map(turned).collect()
    }
}

fn admit_to_memories(members: &Members, proposal: Growth) -> Result<(), Refusal> {
    let worst = members.memories_that_stop().max_by_key(|(_, memory)| memory.used_bytes);
    let Some((node_id, MemoryRoom { used_bytes, limit_bytes, .. })) = worst.filter(|_| proposal == Growth::Adds) else {
        return Ok(());
    };
    let (short, enough) = (limits::MEMORY_SHORT_PERCENT, limits::MEMORY_ENOUGH_PERCENT);
    let text = format!(
        "node {node_id} has {used_bytes} bytes in memory, its limit is {limit_bytes} (--memory-limit-bytes); above \
         {short} % only deletes, logins and settings are taken, until it is below {enough} %"
    );
    Err(Refusal::new(Code::NoRoom, text))
}

/// Effect of a proposal on the state, as far as room is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    Adds,
    Keeps,
    /// It comes once in the life of a cluster, and nothing goes on without it.
    Founds,
}

/// An alarm that was raised or cleared.
#[derive(Debug, PartialEq, Eq)]
struct Turn {
    reason: &'static str,
    is_raised: bool,
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

/// Looks again and again, for as long as the node runs.
pub(super) async fn watch(node: Node) {
    loop {
        look(&node).await;
        let capacity = &node.inner().capacity;
        let is_alarmed = capacity.alarms.all().iter().any(|(_, alarm)| alarm.load(Ordering::Relaxed));
        tokio::time::sleep(if is_alarmed { LOOK_PAUSE_WHILE_SHORT } else { LOOK_PAUSE }).await;
    }
}

async fn look(node: &Node) {
    let capacity = &node.inner().capacity;
    let store = node.store().clone();
    let looked = tokio::task::spawn_blocking(move || (store.disk_space(), memory::used()));
    let (space, used_bytes) = match looked.await {
        Ok((Ok(space), used_bytes)) => (space, used_bytes),
        // What cannot be asked is not known to be short; a disk that fails shows itself elsewhere.
        Ok((Err(error), _)) => return tracing::debug!(%error, "the free space of the disk could not be read"),
        Err(_) => return,
    };
    let (own, own_memory) = (capacity.judge(space), capacity.judge_memory(used_bytes));
    let mut members = if node.leading_term().is_some() { other_members(node) } else { Members::default() };
    members.disks.insert(node.id(), own);
    members.memories.extend(own_memory.map(|memory| (node.id(), memory)));
    members.voters = node.raft_metrics().membership_config.membership().voter_ids().collect();
    let state_bytes = node.inner().machine.weight().counted();
    let turns = capacity.note(members, state_bytes);
    node.metrics().memory_used.set(i64::try_from(used_bytes.unwrap_or_default()).unwrap_or(i64::MAX));
    tell(node, &turns, own, state_bytes);
}

/// Disks and memory of the other members that are in reach, as they report them.
fn other_members(node: &Node) -> Members {
    let mut members = Members::default();
    for (id, progress) in node.inner().poll.said().into_iter().filter(|(id, _)| node.is_reachable(*id)) {
        members.disks.extend(progress.disk.map(|disk| (id, disk)));
        members.memories.extend(progress.memory.map(|memory| (id, memory)));
    }
    members
}

fn tell(node: &Node, turns: &[Turn], own: DiskRoom, state_bytes: u64) {
    let (capacity, metrics) = (&node.inner().capacity, node.metrics());
    let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    metrics.disk_free.set(number(own.free_bytes));
    metrics.disk_reserve.set(number(own.reserve_bytes));
    metrics.quota_bytes.set(number(capacity.bounds.quota_bytes));
    metrics.memory_limit.set(number(capacity.bounds.memory_limit_bytes.unwrap_or_default()));
    for (reason, alarm) in capacity.alarms.all() {
        metrics.storage_alarm.with_label_values(&[reason]).set(i64::from(alarm.load(Ordering::Relaxed)));
    }
    for turn in turns {
        let members = capacity.members.read().clone();
        let quota_bytes = capacity.bounds.quota_bytes;
        if turn.is_raised {
            let stops = capacity.stops.load(Ordering::Relaxed) || turn.reason == "quota";
            let what =
                if stops { "room is short: nothing is added" } else { "room is short on a member that does not vote" };
            tracing::warn!(reason = turn.reason, ?members, state_bytes, quota_bytes, "{what}");
        } else {
            tracing::info!(reason = turn.reason, ?members, state_bytes, quota_bytes, "there is room again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1_000_000;

    fn capacity(reserve: Option<u64>, quota_bytes: u64) -> Capacity {
        Capacity::new(1, RoomBounds { disk_reserve_bytes: reserve, quota_bytes, memory_limit_bytes: None })
    }

    fn of_voters(disks: impl IntoIterator<Item = (NodeId, DiskRoom)>) -> Members {
        let disks: BTreeMap<_, _> = disks.into_iter().collect();
        Members { voters: disks.keys().copied().collect(), disks, memories: BTreeMap::new() }
    }

    fn disk(free_bytes: u64, shortage: Shortage) -> DiskRoom {
        DiskRoom { free_bytes, reserve_bytes: 320, shortage }
    }

    #[test]
    fn a_disk_is_judged_by_its_reserve() {
        use Shortage::{Exhausted, None, Short};
        for (free, before, judged) in [
            (320, None, None),
            (319, None, Short),
            (325, Short, Short),
            (330, Short, None),
            (32, None, Short),
            (31, None, Exhausted),
            (32, Exhausted, Exhausted),
            (33, Exhausted, Short),
            (400, Exhausted, None),
        ] {
            assert_eq!(judge(free, 320, before), judged, "{free} of 320 after {before:?}");
        }
        assert_eq!(judge(0, 0, None), None, "no reserve, no shortage");
    }

    #[test]
    fn the_reserve_is_a_share_of_the_disk_unless_it_is_given() {
        let small = DiskSpace { total_bytes: 500 * MEGABYTE, free_bytes: 40 * MEGABYTE };
        let large = DiskSpace { total_bytes: 1_000_000 * MEGABYTE, free_bytes: 2_000 * MEGABYTE };
        let judged = |given, space| {
            let DiskRoom { reserve_bytes, shortage, .. } = capacity(given, 0).judge(space);
            (reserve_bytes, shortage)
        };
        assert_eq!(judged(None, small), (50 * MEGABYTE, Shortage::Short));
        assert_eq!(judged(None, large), (limits::DISK_RESERVE_BYTES_MAX, Shortage::None));
        assert_eq!(judged(Some(3_000 * MEGABYTE), large), (3_000 * MEGABYTE, Shortage::Short));
        assert_eq!(judged(Some(0), small), (0, Shortage::None));
    }

    #[test]
    fn one_short_member_stops_what_adds_and_an_exhausted_one_everything() {
        let capacity = capacity(None, 0);
        let founds = || capacity.admit(Growth::Founds, 0).is_ok();
        let admitted = || [Growth::Adds, Growth::Keeps].map(|growth| capacity.admit(growth, 0).is_ok());
        assert_eq!(admitted(), [true, true], "before the first look");
        for (disks, expected) in [
            ([disk(400, Shortage::None), disk(500, Shortage::None)], [true, true]),
            ([disk(400, Shortage::None), disk(300, Shortage::Short)], [false, true]),
            ([disk(20, Shortage::Exhausted), disk(300, Shortage::Short)], [false, false]),
            ([disk(400, Shortage::None), disk(400, Shortage::None)], [true, true]),
        ] {
            capacity.note(of_voters([1, 2].into_iter().zip(disks)), 0);
            assert_eq!(admitted(), expected, "{disks:?}");
            assert!(founds());
        }
        capacity.note(of_voters([(1, disk(400, Shortage::None)), (2, disk(300, Shortage::Short))]), 0);
        let refusal = capacity.admit(Growth::Adds, 0).expect_err("node 2 is short");
        assert_eq!(refusal.code, Code::NoRoom);
        for part in ["node 2", "300", "320"] {
            assert!(refusal.detail.contains(part), "{part} in {refusal:?}");
        }
    }

    /// Its shortage is an alarm; a write needs no learner, and a delete would make capacity.
    #[test]
    fn a_short_learner_stops_nobody_and_is_told() {
        let capacity = capacity(None, 0);
        let founded = || of_voters([(1, disk(400, Shortage::None)), (2, disk(400, Shortage::None))]);
        let with_learner = |shortage| {
            let mut disks = founded();
            disks.disks.insert(3, disk(1, shortage));
            disks
        };
        for shortage in [Shortage::Short, Shortage::Exhausted] {
            assert_eq!(capacity.note(with_learner(shortage), 0), [Turn { reason: "disk", is_raised: true }]);
            assert!(
                [Growth::Adds, Growth::Keeps].iter().all(|growth| capacity.admit(*growth, 0).is_ok()),
                "{shortage:?}"
            );
            assert_eq!(capacity.note(founded(), 0), [Turn { reason: "disk", is_raised: false }]);
        }
        let mut promoted = with_learner(Shortage::Short);
        promoted.voters.insert(3);
        capacity.note(promoted, 0);
        assert!(capacity.admit(Growth::Adds, 0).expect_err("it votes").detail.contains("node 3"));
    }

    #[test]
    fn the_quota_counts_at_once_and_clears_with_some_slack() {
        let capacity = capacity(None, 3200);
        let adds = |bytes| capacity.admit(Growth::Adds, bytes).is_ok();
        assert!(adds(3200));
        assert!(!adds(3201), "also between two looks");
        assert!(capacity.admit(Growth::Keeps, 9999).is_ok(), "deletes go on whatever the quota says");
        let turns = |bytes| capacity.note(Members::default(), bytes);
        assert_eq!(turns(3200), []);
        assert_eq!(turns(3201), [Turn { reason: "quota", is_raised: true }]);
        assert_eq!(turns(3150), [], "not yet");
        assert!(!adds(3150));
        assert_eq!(turns(3100), [Turn { reason: "quota", is_raised: false }]);
        assert!(adds(3100));
    }

    #[test]
    fn memory_is_short_above_the_upper_mark_until_it_is_below_the_lower_one() {
        let bounds = RoomBounds { disk_reserve_bytes: None, quota_bytes: 0, memory_limit_bytes: Some(1000) };
        let capacity = Capacity::new(1, bounds);
        assert_eq!(capacity.judge_memory(None), None, "a system that does not say");
        let look = |used_bytes| {
            let memory = capacity.judge_memory(Some(used_bytes)).expect("it has a limit");
            let memories = BTreeMap::from([(1, memory)]);
            capacity.note(Members { memories, voters: [1].into(), ..Members::default() }, 0);
            let admitted =
                [Growth::Adds, Growth::Keeps, Growth::Founds].map(|growth| capacity.admit(growth, 0).is_ok());
            assert_eq!(admitted, [!memory.is_short, true, true], "{used_bytes}");
            (memory.is_short, capacity.alarms.memory.load(Ordering::Relaxed))
        };
        for (used, short) in [(850, false), (851, true), (800, true), (751, true), (750, false), (800, false)] {
            assert_eq!(look(used), (short, short), "{used} of 1000");
        }
    }

    #[test]
    fn a_voter_without_memory_stops_what_adds_by_name_and_a_learner_nothing() {
        let capacity = capacity(None, 0);
        let short = MemoryRoom { used_bytes: 900, limit_bytes: 1001, is_short: true };
        let found = |voters: &[NodeId]| {
            let (memories, voters) = (BTreeMap::from([(2, short)]), voters.iter().copied().collect());
            Members { memories, voters, ..Members::default() }
        };
        assert_eq!(capacity.note(found(&[1]), 0), [Turn { reason: "memory", is_raised: true }]);
        assert!(capacity.admit(Growth::Adds, 0).is_ok(), "a learner's");
        assert_eq!(capacity.note(found(&[1, 2]), 0), []);
        let refusal = capacity.admit(Growth::Adds, 0).expect_err("it votes");
        assert_eq!(refusal.code, Code::NoRoom);
        for part in ["node 2", "900", "1001"] {
            assert!(refusal.detail.contains(part), "{part} in {refusal:?}");
        }
        assert!(capacity.admit(Growth::Keeps, 0).is_ok(), "deletes go on");
        assert_eq!(capacity.note(Members::default(), 0), [Turn { reason: "memory", is_raised: false }]);
        assert!(capacity.admit(Growth::Adds, 0).is_ok());
    }
}
