//! Number of drafts and releases of config files that are sealed under each data key: any node can say at once how many
//! of them it cannot read.

use std::sync::Arc;

use imbl::OrdMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SealedCounts {
    /// By the name of the key.
    counts: OrdMap<Arc<str>, usize>,
}

impl SealedCounts {
    /// One more has a content that is sealed under this key, if it is.
    pub(super) fn add(&mut self, encrypted: bool, key: &str) {
        if encrypted {
            *self.counts.entry(key.into()).or_default() += 1;
        }
    }

    /// One who had it has it no more.
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

    /// Those that are sealed under other keys than these, none of which is named twice.
    pub(super) fn under_others<'a>(&self, keys: impl Iterator<Item = &'a str>) -> usize {
        self.len() - keys.filter_map(|key| self.counts.get(key)).sum::<usize>()
    }
}
