//! Entry cache: the newest log entries in memory, so that replication and apply do not read the disk.

use std::collections::VecDeque;
use std::ops::Range;

use crate::format::codec;
use crate::format::types::Entry;

/// Bytes of an entry in addition to its payload: the struct itself and its slot.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// Returns the approximate memory of `entry`.
pub(super) fn entry_bytes(entry: &Entry) -> usize {
    ENTRY_OVERHEAD_BYTES + codec::entry_payload_bytes(entry)
}

/// Contiguous entries up to the end of the log, at most `bytes_max` of them but always the last one.
pub(super) struct EntryCache {
    entries: VecDeque<Entry>,
    bytes: usize,
    bytes_max: usize,
}

impl EntryCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        EntryCache { entries: VecDeque::new(), bytes: 0, bytes_max }
    }

    pub(super) fn first_index(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.log_id.index)
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.bytes += entry_bytes(&entry);
        self.entries.push_back(entry);
        while self.bytes > self.bytes_max && self.entries.len() > 1 {
            self.pop_front();
        }
    }

    /// Removes `index` and the entries that follow.
    pub(super) fn truncate_from(&mut self, index: u64) {
        while self.entries.back().is_some_and(|entry| entry.log_id.index >= index) {
            let entry = self.entries.pop_back().expect("just seen");
            self.bytes -= entry_bytes(&entry);
        }
    }

    /// Removes everything up to and including `index`.
    pub(super) fn drop_through(&mut self, index: u64) {
        while self.first_index().is_some_and(|first| first <= index) {
            self.pop_front();
        }
    }

    /// Returns the entries of `range`, which starts in the cache, up to `bytes_max` but at least one.
    pub(super) fn read(&self, range: Range<u64>, bytes_max: usize) -> Vec<Entry> {
        let Some(first) = self.first_index() else { return Vec::new() };
        let position = |index: u64| ((index.saturating_sub(first)) as usize).min(self.entries.len());
        let mut bytes = 0;
        let within = |entry: &&Entry| {
            let fits = bytes < bytes_max;
            bytes += entry_bytes(entry);
            fits
        };
        self.entries.range(position(range.start)..position(range.end)).take_while(within).cloned().collect()
    }

    fn pop_front(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry_bytes(&entry);
        }
    }
}
