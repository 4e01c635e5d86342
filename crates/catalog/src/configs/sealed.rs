//! Counts of sealed drafts and releases by data key, so that any node can report how many of them it cannot read.

use std::sync::Arc;

use imbl::OrdMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SealedCounts {
    /// Counts by the name of the key.
    counts: OrdMap<Arc<str>, usize>,
}

impl SealedCounts {
    /// Adds a content sealed under this key, if it is encrypted.
    pub(super) fn add(&mut self, encrypted: bool, key: &str) {
        if encrypted {
            *self.counts.entry(key.into()).or_default() += 1;
        }
    }

    /// Removes such a content.
    pub(super) fn remove(&mut self, encrypted: bool, key: &str) {
        let Some(count) = self.counts.get_mut(key).filter(|_| encrypted) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(key);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.counts.values().sum()
    }

    /// Returns the number of those sealed under other keys than these distinct ones.
    pub(super) fn under_others<'a>(&self, keys: impl Iterator<Item = &'a str>) -> usize {
        self.len() - keys.filter_map(|key| self.counts.get(key)).sum::<usize>()
    }
}
