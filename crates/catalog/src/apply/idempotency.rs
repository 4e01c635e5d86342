//! Idempotency table: ids of recent commands, so that a repeated proposal is applied once. A node that loses its leader
//! while it forwards a command sends it again.
//!
//! An id is remembered for [`limits::REQUEST_MEMORY_MS`], longer than any node repeats a proposal, and the number of
//! ids is bounded. The newest row also stores the clock of the log.
//!
//! Ids age by a clock of their own. It follows the stamps, but an entry advances it by at most [`STEP_MAX_US`]: if a
//! leader's clock is hours ahead, ids that are still being repeated do not expire. Every entry advances it by at least
//! [`STEP_MIN_US`], even if the stamps do not advance: at any rate that a cluster reaches, the clock runs at less than
//! twice real time, so a repeated id is younger than [`limits::REQUEST_AGE_MS_MIN`], and such ids are never dropped.
//! This also bounds the memory: there are at most `REQUEST_AGE_MS_MIN / STEP_MIN_US` of them, two million, and beyond
//! [`limits::REQUEST_MEMORY_MAX`] older ids are dropped. An entry drops at most [`FORGOTTEN_PER_ENTRY_MAX`] ids, so an
//! entry after a pause costs no more than any other.

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::change::ChangeSet;
use super::ctx::{Ctx, RequestId};
use super::row::{Edit, Row, RowKey, Table, numbered_key};
use crate::catalog::index::queue::ChunkedQueue;
use crate::model::limits;
use crate::model::time::Timestamp;

/// Largest number of ids that one entry drops: more than the one it adds, so that the table shrinks again.
const FORGOTTEN_PER_ENTRY_MAX: usize = 4;
/// Largest step of the clock by which ids age, in microseconds per entry.
const STEP_MAX_US: u64 = 1_000_000;
/// Smallest step of that clock, in microseconds per entry.
const STEP_MIN_US: u64 = 8;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeenRequest {
    /// Index of the entry, big-endian so that rows are sorted by it.
    index: [u8; 8],
    time: Timestamp,
    request: RequestId,
    /// Clock by which ids age, in microseconds.
    clock_us: u64,
}

impl Row for SeenRequest {
    const TABLE: Table = Table::Request;
    fn name(&self, key: &mut RowKey) {
        key.part(self.index);
    }
}

/// Compact record of an id, with the steps of log and clock since the previous one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RecentRequest {
    request: [u8; 16],
    entries: u32,
    us: u32,
}

impl RecentRequest {
    fn hash(&self) -> u64 {
        hash(RequestId(u128::from_le_bytes(self.request)))
    }
}

/// Hashes a request id. Ids are random, so half of one serves as its hash.
fn hash(request: RequestId) -> u64 {
    request.0 as u64
}

/// Returns the position of a numbered id in the order.
fn place(number: u32, forgotten: u32) -> usize {
    number.wrapping_sub(forgotten) as usize
}

/// Log index and clock of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct EntryTime {
    index: u64,
    clock_us: u64,
}

impl EntryTime {
    /// Returns the steps in entries and microseconds. Neither reaches the limit of 32 bits: there are never that many
    /// consecutive entries without a command, and the clock advances by at most [`STEP_MAX_US`].
    fn steps_to(self, later: EntryTime) -> (u32, u32) {
        let step = |from: u64, to: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        (step(self.index, later.index), step(self.clock_us, later.clock_us))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SeenRequests {
    /// Ids in the order of the log.
    in_order: ChunkedQueue<RecentRequest>,
    oldest: EntryTime,
    newest: EntryTime,
    /// Time of the newest entry.
    clock: Timestamp,
    /// Numbers of the ids, hashed by id. Numbers are consecutive, and that of the oldest is `forgotten`. A number takes
    /// four bytes, an id sixteen.
    known: HashTable<u32>,
    forgotten: u32,
}

/// Compares without the start of the numbers, which depends on what was dropped before.
impl PartialEq for SeenRequests {
    fn eq(&self, other: &Self) -> bool {
        let parts = |one: &Self| (one.oldest, one.newest, one.clock);
        parts(self) == parts(other) && self.in_order == other.in_order
    }
}

impl SeenRequests {
    /// Returns the time of the newest entry.
    pub(crate) fn clock(&self) -> Timestamp {
        self.clock
    }

    pub(crate) fn knows(&self, request: RequestId) -> bool {
        let is_it = |number: &u32| self.in_order[place(*number, self.forgotten)].request == request.0.to_le_bytes();
        self.known.find(hash(request), is_it).is_some()
    }

    /// Remembers a request. Returns false if it was applied before.
    pub(super) fn remember(&mut self, ctx: &Ctx, changes: &mut ChangeSet) -> bool {
        if self.knows(ctx.request) {
            return false;
        }
        let clock_us = self.clock_at(ctx.time);
        self.forget_aged(clock_us, changes);
        let row = SeenRequest { index: ctx.index.to_be_bytes(), time: ctx.time, request: ctx.request, clock_us };
        changes.put(&row);
        self.load(row);
        true
    }

    /// Sets the time of the newest entry, which is the current one; later stamps continue from it.
    pub(crate) fn date_newest(&mut self, ctx: &Ctx, time: Timestamp, changes: &mut ChangeSet) {
        let EntryTime { index, clock_us } = self.newest;
        changes.put(&SeenRequest { index: index.to_be_bytes(), time, request: ctx.request, clock_us });
        self.clock = time;
    }

    pub(crate) fn load(&mut self, row: SeenRequest) {
        let moment = EntryTime { index: u64::from_be_bytes(row.index), clock_us: row.clock_us };
        if self.in_order.is_empty() {
            (self.oldest, self.newest) = (moment, moment);
        }
        let (entries, us) = self.newest.steps_to(moment);
        let number = self.forgotten.wrapping_add(self.in_order.len() as u32);
        self.in_order.push_back(RecentRequest { request: row.request.0.to_le_bytes(), entries, us });
        (self.newest, self.clock) = (moment, row.time);
        let SeenRequests { in_order, known, forgotten, .. } = self;
        known.insert_unique(hash(row.request), number, |other| in_order[place(*other, *forgotten)].hash());
    }

    /// Returns the clock by which ids age, for an entry with this stamp.
    fn clock_at(&self, now: Timestamp) -> u64 {
        if self.in_order.is_empty() {
            return STEP_MIN_US;
        }
        let passed_us = now.0.saturating_sub(self.clock.0).saturating_mul(1000);
        self.newest.clock_us + passed_us.clamp(STEP_MIN_US, STEP_MAX_US)
    }

    fn forget_aged(&mut self, clock_us: u64, changes: &mut ChangeSet) {
        for _ in 0..FORGOTTEN_PER_ENTRY_MAX {
            let age_ms = clock_us.saturating_sub(self.oldest.clock_us) / 1000;
            let is_surplus = self.in_order.len() >= limits::REQUEST_MEMORY_MAX && age_ms >= limits::REQUEST_AGE_MS_MIN;
            if self.in_order.is_empty() || (age_ms <= limits::REQUEST_MEMORY_MS && !is_surplus) {
                return;
            }
            self.forget_oldest(changes);
        }
    }

    fn forget_oldest(&mut self, changes: &mut ChangeSet) {
        let Some(oldest) = self.in_order.pop_front() else { return };
        changes.forget(Edit { key: numbered_key(Table::Request, self.oldest.index).to_vec(), value: None });
        if let Ok(entry) = self.known.find_entry(oldest.hash(), |number| *number == self.forgotten) {
            entry.remove();
        }
        self.forgotten = self.forgotten.wrapping_add(1);
        if let Some(next) = self.in_order.front_mut() {
            self.oldest.index += u64::from(std::mem::take(&mut next.entries));
            self.oldest.clock_us += u64::from(std::mem::take(&mut next.us));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::catalog::Edit;

    /// The table with its rows.
    struct Bench {
        requests: SeenRequests,
        rows: BTreeMap<Vec<u8>, Vec<u8>>,
        index: u64,
        now_us: u64,
    }

    impl Bench {
        fn new() -> Self {
            let (requests, rows) = (SeenRequests::default(), BTreeMap::new());
            Bench { requests, rows, index: 0, now_us: 1_000_000_000 }
        }

        /// Applies one entry `passed_us` later; returns its edits, or `None` if the request is known.
        fn entry(&mut self, passed_us: u64, request: u128) -> Option<Vec<Edit>> {
            self.index += 1;
            self.now_us += passed_us;
            let mut changes = ChangeSet::default();
            let time = Timestamp(self.now_us / 1000).max(self.requests.clock());
            let ctx = Ctx::new(self.index, time, [0; 16], RequestId(request), "t");
            let is_new = self.requests.remember(&ctx, &mut changes);
            let edits = changes.into_applied(Vec::new()).edits;
            for edit in &edits {
                match &edit.value {
                    Some(value) => drop(self.rows.insert(edit.key.clone(), value.clone())),
                    None => drop(self.rows.remove(&edit.key)),
                }
            }
            is_new.then_some(edits)
        }

        /// Applies many entries with new ids.
        fn entries(&mut self, count: u64, passed_us: u64) {
            for _ in 0..count {
                let request = u128::from(self.index) + 1;
                self.entry(passed_us, request).expect("a new id");
            }
        }

        fn knows(&self, request: u128) -> bool {
            self.requests.knows(RequestId(request))
        }

        fn reloaded(&self) -> SeenRequests {
            let mut requests = SeenRequests::default();
            for value in self.rows.values() {
                requests.load(SeenRequest::read(value).expect("a row that was written"));
            }
            requests
        }
    }

    const SECOND_US: u64 = 1_000_000;
    const FULL: u64 = limits::REQUEST_MEMORY_MAX as u64;

    #[test]
    fn an_entry_after_a_pause_costs_no_more_than_any_other() {
        let mut bench = Bench::new();
        bench.entries(FULL, 60 * SECOND_US / FULL);
        let edits = bench.entry(61 * SECOND_US, u128::MAX).expect("a new id");
        assert!(edits.len() <= 1 + FORGOTTEN_PER_ENTRY_MAX, "{} edits", edits.len());
        for second in 0..200 {
            let edits = bench.entry(SECOND_US, u128::MAX - 1 - second).expect("a new id");
            assert!(edits.len() <= 1 + FORGOTTEN_PER_ENTRY_MAX, "{} edits", edits.len());
        }
        assert!(bench.requests.in_order.len() < limits::REQUEST_MEMORY_MAX, "it shrinks all the same");
        assert_eq!(bench.reloaded(), bench.requests);
    }

    #[test]
    fn a_jump_of_the_stamps_forgets_nothing_that_is_repeated() {
        for jump_s in [0, 1, 61, 2 * 3600, 30 * 24 * 3600] {
            let mut bench = Bench::new();
            bench.entries(1000, 200);
            bench.entry(200, 7_000_000).expect("a new id");
            // A new leader whose clock is ahead, then one whose clock is not, and so on.
            for request in 0..7 {
                bench.entry(jump_s * SECOND_US, 8_000_000 + request).expect("a new id");
            }
            assert!(bench.entry(SECOND_US, 7_000_000).is_none(), "forgotten after jumps of {jump_s} s");
        }
    }

    #[test]
    fn old_ids_are_forgotten_in_time() {
        let mut bench = Bench::new();
        bench.entries(100, SECOND_US);
        assert!(bench.knows(100) && bench.knows(40), "within a minute");
        assert!(!bench.knows(38), "after one");
        assert_eq!(bench.requests.in_order.len(), 61);
        assert_eq!(bench.reloaded(), bench.requests);
    }

    #[test]
    fn too_many_are_no_reason_to_forget_a_young_one() {
        let mut bench = Bench::new();
        let crowd = FULL + FULL / 8;
        // Stamps that do not advance, as after a leader whose clock was ahead.
        bench.entries(crowd, 0);
        assert!(bench.knows(1), "younger than a retry");
        assert_eq!(bench.requests.in_order.len() as u64, crowd);
        let newest = bench.requests.newest.clock_us;
        assert_eq!(newest, crowd * STEP_MIN_US, "they age all the same, so that their number is bounded");
        bench.entries(20, SECOND_US);
        assert!(!bench.knows(1) && bench.knows(u128::from(crowd)), "then the oldest go");
        bench.entries(crowd / 4, 1000);
        assert!((bench.requests.in_order.len() as u64) < crowd - FULL / 16, "until the number is what it should be");
        assert_eq!(bench.reloaded(), bench.requests);
    }

    #[test]
    fn golden_bytes_of_a_row() {
        let mut bench = Bench::new();
        bench.entry(0, 5).expect("a new id");
        let written: Vec<_> = bench.rows.values().map(hex::encode).collect();
        let golden = "0184a5696e646578980000000000000001a474696d65ce000f4240a772657175657374c4100000000000000000000000\
            0000000005a8636c6f636b5f757308";
        assert_eq!(written, [golden]);
    }
}
