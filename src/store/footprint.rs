//! Coarse index of the log by bytes, so that the retained part of the log can be limited in bytes as well as in
//! entries.
//!
//! It has one mark per block of bytes, and its results are exact to a block. It is rebuilt at the start, when the whole
//! log is read anyway.

use std::collections::VecDeque;

/// Bytes between two marks.
const BLOCK_BYTES: u64 = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Footprint {
    marks: VecDeque<BlockMark>,
    /// Bytes of all entries ever added, by the index' own count.
    end: u64,
    /// Index that follows the last entry.
    next: u64,
}

/// Entry `first` begins after `before` bytes.
#[derive(Debug)]
struct BlockMark {
    first: u64,
    before: u64,
}

impl Footprint {
    /// Adds entry `index` with its bytes at the end.
    pub(super) fn push(&mut self, index: u64, bytes: u64) {
        if self.marks.back().is_none_or(|mark| self.end - mark.before >= BLOCK_BYTES) {
            self.marks.push_back(BlockMark { first: index, before: self.end });
        }
        self.end += bytes;
        self.next = index + 1;
    }

    /// Removes `index` and the entries that follow. Within a block the count stays a little too high.
    pub(super) fn truncate_from(&mut self, index: u64) {
        while let Some(mark) = self.marks.back().filter(|mark| mark.first >= index) {
            self.end = mark.before;
            self.marks.pop_back();
        }
        self.next = self.next.min(index);
    }

    /// Removes everything up to and including `index`.
    pub(super) fn drop_through(&mut self, index: u64) {
        if index + 1 >= self.next {
            self.marks.clear();
            return;
        }
        while self.marks.get(1).is_some_and(|second| second.first <= index + 1) {
            self.marks.pop_front();
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.marks.front().map_or(0, |mark| self.end - mark.before)
    }

    /// Returns the bytes of the entries that follow `index`, up to a block too many.
    pub(super) fn bytes_after(&self, index: u64) -> u64 {
        if index + 1 >= self.next {
            return 0;
        }
        self.end - self.position(index + 1)
    }

    /// Returns the index through which the log can be purged so that at most `bytes` remain of it up to and including
    /// `index`, not counting the block of that entry.
    pub(super) fn cut(&self, index: u64, bytes: u64) -> Option<u64> {
        let upto = if index + 1 >= self.next { self.end } else { self.position(index + 1) };
        let too_much = self.marks.partition_point(|mark| upto.saturating_sub(mark.before) > bytes);
        let keep = self.marks.get(too_much).or(self.marks.back())?;
        keep.first.checked_sub(1).map(|through| through.min(index))
    }

    /// Returns the position at which the block of `index` begins.
    fn position(&self, index: u64) -> u64 {
        let after = self.marks.partition_point(|mark| mark.first <= index);
        self.marks.get(after.saturating_sub(1)).map_or(self.end, |mark| mark.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an index of entries 1 to 100 of 10,000 bytes each: a mark every seven entries.
    fn hundred() -> Footprint {
        let mut footprint = Footprint::default();
        (1..=100).for_each(|index| footprint.push(index, 10_000));
        footprint
    }

    /// Checks that `found` is `expected`, or at most a block and an entry more.
    #[track_caller]
    fn about(found: u64, expected: u64) {
        assert!((expected..=expected + BLOCK_BYTES + 10_000).contains(&found), "{found} for {expected}");
    }

    #[test]
    fn bytes_are_known_to_a_block() {
        let footprint = hundred();
        assert_eq!(footprint.bytes(), 1_000_000);
        for index in [0, 1, 7, 50, 99] {
            about(footprint.bytes_after(index), (100 - index) * 10_000);
        }
        assert_eq!(footprint.bytes_after(100), 0);
        assert_eq!(footprint.bytes_after(1_000), 0);
    }

    #[test]
    fn a_cut_leaves_at_most_what_may_stay() {
        let footprint = hundred();
        for (upto, kept) in [(100, 200_000), (100, 0), (60, 300_000), (100, 70_000)] {
            let through = footprint.cut(upto, kept).expect("more than may stay");
            assert!(through <= upto);
            let left = (upto - through) * 10_000;
            assert!(left <= kept + BLOCK_BYTES + 10_000, "{left} of {kept} left of {upto}");
            assert!(left + 2 * BLOCK_BYTES + 10_000 > kept, "{left} of {kept}: too much would go");
        }
        assert_eq!(footprint.cut(100, 2_000_000), Some(0), "all of it may stay");
        assert_eq!(Footprint::default().cut(5, 0), None);
    }

    #[test]
    fn what_goes_is_not_counted() {
        let mut footprint = hundred();
        footprint.drop_through(50);
        about(footprint.bytes(), 500_000);
        footprint.truncate_from(81);
        about(footprint.bytes(), 300_000);
        footprint.push(81, 5);
        about(footprint.bytes_after(60), 200_005 + BLOCK_BYTES);
        footprint.drop_through(200);
        assert_eq!((footprint.bytes(), footprint.bytes_after(90)), (0, 0));
        footprint.push(201, 7);
        assert_eq!(footprint.bytes(), 7, "a log goes on after a snapshot was installed");
    }

    #[test]
    fn one_entry_larger_than_what_may_stay_is_kept() {
        let mut footprint = Footprint::default();
        footprint.push(1, 10);
        footprint.push(2, 1_000_000);
        footprint.push(3, 1_000_000);
        assert_eq!(footprint.cut(3, 10), Some(2));
    }
}
