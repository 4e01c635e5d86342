//! State size: the exact number of bytes of the state's rows, counted without the database.
//!
//! A change of a row has to know the row's size before it. The size of each row is stored under a hash of its key. A
//! collision among ten million rows has a probability of one in three hundred thousand, and would make the sum wrong by
//! one row.
//!
//! Rows of the audit trail and of the idempotency table are very many. They are added with ascending numbers and
//! removed oldest first, so only their sizes are stored, in order.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::catalog::{Edit, Table, row};

/// Running totals over all rows.
#[derive(Default)]
pub(super) struct Weight {
    sizes: Mutex<Sizes>,
    bytes: AtomicU64,
    rows: AtomicU64,
    trail_bytes: AtomicU64,
}

#[derive(Default)]
struct Sizes {
    keys: RandomState,
    by_key: HashMap<u64, u32>,
    bytes: u64,
    trail: Queue,
    requests: Queue,
}

/// Maximum number of consecutive numbers without a row in a queue: each occupies the space of a size.
const GAP_MAX: u64 = 64;

/// Sizes by number, starting at `first`; 0 where there is no row.
#[derive(Default)]
struct Queue {
    first: u64,
    sizes: VecDeque<u32>,
    rows: u64,
    bytes: u64,
}

impl Queue {
    /// Appends a row; returns false if its number does not follow the existing ones.
    fn put(&mut self, number: u64, size: u32) -> bool {
        if self.sizes.is_empty() {
            self.first = number;
        }
        let next = self.first + self.sizes.len() as u64;
        if number < next || number - next > GAP_MAX {
            return false;
        }
        self.sizes.extend((next..number).map(|_| 0));
        self.sizes.push_back(size);
        self.rows += 1;
        self.bytes += u64::from(size);
        true
    }

    /// Removes the oldest row; returns false if it has another number.
    fn remove(&mut self, number: u64) -> bool {
        if number != self.first {
            return false;
        }
        let Some(size) = self.sizes.pop_front() else { return false };
        self.first += 1;
        while self.sizes.front() == Some(&0) {
            self.sizes.pop_front();
            self.first += 1;
        }
        self.rows -= 1;
        self.bytes -= u64::from(size);
        true
    }
}

impl Sizes {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        let size = u32::try_from(key.len() + value.len()).unwrap_or(u32::MAX);
        if self.queue_of(key).is_some_and(|(queue, number)| queue.put(number, size)) {
            return;
        }
        let before = self.by_key.insert(self.keys.hash_one(key), size);
        self.bytes = self.bytes + u64::from(size) - u64::from(before.unwrap_or_default());
    }

    fn remove(&mut self, key: &[u8]) {
        if self.queue_of(key).is_some_and(|(queue, number)| queue.remove(number)) {
            return;
        }
        self.bytes -= u64::from(self.by_key.remove(&self.keys.hash_one(key)).unwrap_or_default());
    }

    /// Returns the queue that a row belongs to, and its number there.
    fn queue_of(&mut self, key: &[u8]) -> Option<(&mut Queue, u64)> {
        let (table, number) = row::numbered(key)?;
        match table {
            Table::Audit => Some((&mut self.trail, number)),
            Table::Request => Some((&mut self.requests, number)),
            _ => None,
        }
    }
}

impl Weight {
    /// Counts the rows that `edits` write and remove.
    pub(super) fn record(&self, edits: &[Edit]) {
        let mut sizes = self.sizes.lock();
        for edit in edits {
            match &edit.value {
                Some(value) => sizes.put(&edit.key, value),
                None => sizes.remove(&edit.key),
            }
        }
        self.publish(&sizes);
    }

    /// Replaces all counts by those of another state's rows.
    pub(super) fn replace<E>(&self, read: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])) -> Result<(), E>) -> Result<(), E> {
        let mut sizes = Sizes::default();
        read(&mut |key, value| sizes.put(key, value))?;
        let mut kept = self.sizes.lock();
        *kept = sizes;
        self.publish(&kept);
        Ok(())
    }

    fn publish(&self, sizes: &Sizes) {
        let Sizes { trail, requests, .. } = sizes;
        self.bytes.store(sizes.bytes + trail.bytes + requests.bytes, Ordering::Relaxed);
        self.rows.store(sizes.by_key.len() as u64 + trail.rows + requests.rows, Ordering::Relaxed);
        self.trail_bytes.store(sizes.trail.bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of the audit trail. It has its own limit, and even deletions to free space add to it.
    pub(super) fn trail_bytes(&self) -> u64 {
        self.trail_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that count for the quota: all rows except the audit trail.
    pub(super) fn counted(&self) -> u64 {
        self.bytes().saturating_sub(self.trail_bytes())
    }

    /// Returns the bytes of the keys and values of all rows.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::catalog::audit;

    fn put(key: &str, value: &str) -> Edit {
        Edit { key: key.into(), value: Some(value.into()) }
    }

    fn remove(key: &str) -> Edit {
        Edit { key: key.into(), value: None }
    }

    #[test]
    fn rows_are_weighed_as_they_come_change_and_go() {
        let weight = Weight::default();
        for (edits, bytes, rows) in [
            (vec![put("a", "12345"), put("bb", "1")], 9, 2),
            (vec![put("a", "1")], 5, 2),
            (vec![remove("bb"), remove("never there")], 2, 1),
            (vec![put("c", ""), put("c", "123"), remove("a")], 4, 1),
            (vec![remove("c")], 0, 0),
        ] {
            weight.record(&edits);
            assert_eq!((weight.bytes(), weight.rows()), (bytes, rows), "after {edits:?}");
        }
        let row = |number: u64, value: &str| Edit { key: audit::key(number).to_vec(), value: Some(value.into()) };
        let gone = |number: u64| Edit { key: audit::key(number).to_vec(), value: None };
        for (edits, trail_bytes, bytes, rows) in [
            (vec![row(7, "1"), row(8, "12"), put("a", "1")], 21, 23, 3),
            (vec![gone(7), row(9, "1")], 21, 23, 3),
            (vec![gone(8), gone(9), gone(9)], 0, 2, 1),
            (vec![row(10, "1"), remove("a")], 10, 10, 1),
            (vec![gone(10)], 0, 0, 0),
        ] {
            weight.record(&edits);
            assert_eq!((weight.trail_bytes(), weight.bytes(), weight.rows()), (trail_bytes, bytes, rows), "{edits:?}");
            assert_eq!(weight.counted(), bytes - trail_bytes);
        }
        let request = |number: u64| [&[Table::Request as u8][..], &number.to_be_bytes()].concat();
        let came = |number: u64, value: &str| Edit { key: request(number), value: Some(value.into()) };
        let went = |number: u64| Edit { key: request(number), value: None };
        for (edits, bytes, rows) in [
            (vec![came(3, "1"), came(4, "12"), came(7, "1")], 31, 3),
            (vec![came(5, "12345")], 45, 4),
            (vec![went(3), went(5)], 21, 2),
            (vec![went(4), came(1_000_000, "1")], 20, 2),
            (vec![went(7), went(1_000_000), went(6)], 0, 0),
        ] {
            weight.record(&edits);
            assert_eq!((weight.counted(), weight.rows()), (bytes, rows), "{edits:?}");
        }
        weight.record(&[put("old", "state")]);
        let read = |row: &mut dyn FnMut(&[u8], &[u8])| {
            row(b"new", b"state");
            Ok::<(), Infallible>(())
        };
        weight.replace(read).expect("cannot fail");
        weight.record(&[put("new", "")]);
        assert_eq!((weight.bytes(), weight.rows()), (3, 1));
    }
}
