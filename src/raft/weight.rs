//! How many bytes the rows of the state are, exactly, without asking the database.
//!
//! A change of a row has to know how large it was before. For each row its size is kept under a hash
//! of its key: two keys of one hash among ten million rows are a matter of one in three hundred
//! thousand, and would make the sum wrong by one row.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::catalog::Edit;

/// The sum over all rows; see the module.
#[derive(Default)]
pub(super) struct Weight {
    keys: RandomState,
    sizes: Mutex<HashMap<u64, u32>>,
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl Weight {
    /// The rows that `edits` write and remove.
    pub(super) fn record(&self, edits: &[Edit]) {
        let mut sizes = self.sizes.lock();
        let (mut more, mut less) = (0, 0);
        for edit in edits {
            let hash = self.keys.hash_one(&edit.key[..]);
            let before = match &edit.value {
                Some(value) => {
                    let size = u32::try_from(edit.key.len() + value.len()).unwrap_or(u32::MAX);
                    more += u64::from(size);
                    sizes.insert(hash, size)
                }
                None => sizes.remove(&hash),
            };
            less += before.map_or(0, u64::from);
        }
        self.publish(&sizes, self.bytes() + more - less);
    }

    /// Begins anew, with the rows of another state.
    pub(super) fn replace<E>(&self, read: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])) -> Result<(), E>) -> Result<(), E> {
        let mut sizes = HashMap::new();
        let mut bytes = 0;
        read(&mut |key, value| {
            let size = u32::try_from(key.len() + value.len()).unwrap_or(u32::MAX);
            bytes += u64::from(size);
            sizes.insert(self.keys.hash_one(key), size);
        })?;
        let mut kept = self.sizes.lock();
        *kept = sizes;
        self.publish(&kept, bytes);
        Ok(())
    }

    fn publish(&self, sizes: &HashMap<u64, u32>, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.rows.store(sizes.len() as u64, Ordering::Relaxed);
    }

    /// Keys and values of all rows.
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
