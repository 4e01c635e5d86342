//! Tests of disks, memory and quotas.

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
fn what_is_appended_makes_a_look_due() {
    let capacity = capacity(None, 0);
    let due = |bytes: u64| capacity.is_look_due(usize::try_from(bytes).expect("small"));
    assert_eq!([due(LOOK_BYTES_MIN), due(1), due(1)], [false, true, false], "where nothing is known of the disk");
    assert!(due(LOOK_BYTES_MIN), "a large one is looked at before it is written");
    for (free, limit) in [(0, LOOK_BYTES_MIN), (256 * MEGABYTE, MEGABYTE), (1 << 40, LOOK_BYTES_MAX)] {
        capacity.note(of_voters([(1, disk(free, Shortage::None))]), 0);
        assert!(due(LOOK_BYTES_MAX + 1), "it counts from here on");
        assert_eq!([due(limit), due(1)], [false, true], "{free} bytes free");
    }
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

/// Its shortage is an alarm; a write needs no learner, and a delete would free space.
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
        capacity.note(with_learner(shortage), 0);
        assert!(capacity.alarms.disk.load(Ordering::Relaxed));
        let alarm =
            "node 3 has 1 bytes of disk left, its reserve is 320; it does not vote, so nothing is refused for it";
        assert_eq!(with_learner(shortage).alarms(None), [Alarm::of_node(AlarmKind::Disk, 3, alarm)]);
        assert!([Growth::Adds, Growth::Keeps].iter().all(|growth| capacity.admit(*growth, 0).is_ok()), "{shortage:?}");
        capacity.note(founded(), 0);
        assert!(!capacity.alarms.disk.load(Ordering::Relaxed));
        assert_eq!(founded().alarms(None), []);
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
    let is_over = |bytes| {
        capacity.note(Members::default(), bytes);
        capacity.alarms.quota.load(Ordering::Relaxed)
    };
    assert_eq!([is_over(3200), is_over(3201)], [false, true]);
    assert!(is_over(3150), "not yet");
    assert!(!adds(3150));
    assert!(!is_over(3100));
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
        let admitted = [Growth::Adds, Growth::Keeps, Growth::Founds].map(|growth| capacity.admit(growth, 0).is_ok());
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
    let note = |members| {
        capacity.note(members, 0);
        capacity.alarms.memory.load(Ordering::Relaxed)
    };
    assert!(note(found(&[1])));
    assert!(capacity.admit(Growth::Adds, 0).is_ok(), "a learner's");
    assert!(note(found(&[1, 2])));
    let refusal = capacity.admit(Growth::Adds, 0).expect_err("it votes");
    assert_eq!(refusal.code, Code::NoRoom);
    let alarms = found(&[1, 2]).alarms(None);
    assert_eq!(alarms, [Alarm::of_node(AlarmKind::Memory, 2, refusal.detail.to_string())], "in the same words");
    for part in ["node 2", "900", "1001"] {
        assert!(refusal.detail.contains(part), "{part} in {refusal:?}");
    }
    assert!(capacity.admit(Growth::Keeps, 0).is_ok(), "deletes go on");
    assert!(!note(Members::default()));
    assert!(capacity.admit(Growth::Adds, 0).is_ok());
}
