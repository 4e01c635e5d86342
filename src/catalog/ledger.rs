//! Things of one kind by id, and in the order of their list: newest change first, then by id.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::page::{Listed, Page};
use crate::model::time::Timestamp;

/// Something that has an id and is listed by its last change.
pub(super) trait Entry {
    fn id(&self) -> &str;
    fn mtime(&self) -> Timestamp;
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ledger<T> {
    by_id: BTreeMap<String, Arc<T>>,
    in_list_order: BTreeMap<(Reverse<Timestamp>, String), Arc<T>>,
}

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Ledger { by_id: BTreeMap::new(), in_list_order: BTreeMap::new() }
    }
}

impl<T: Entry> Ledger<T> {
    pub(super) fn get(&self, id: &str) -> Option<&Arc<T>> {
        self.by_id.get(id)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Takes it in, in place of the one with its id, which is returned.
    pub(super) fn insert(&mut self, entry: Arc<T>) -> Option<Arc<T>> {
        let old = self.remove(entry.id());
        self.in_list_order.insert(Self::place(&entry), entry.clone());
        self.by_id.insert(entry.id().to_owned(), entry);
        old
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<T>> {
        let old = self.by_id.remove(id)?;
        self.in_list_order.remove(&Self::place(&old));
        Some(old)
    }

    /// By id, those behind `id`.
    pub(super) fn behind(&self, id: &str) -> impl Iterator<Item = &Arc<T>> {
        self.by_id.range::<str, _>((Bound::Excluded(id), Bound::Unbounded)).map(|(_, entry)| entry)
    }

    pub(super) fn list(&self, wanted: impl Fn(&T) -> bool, page: Page) -> Listed<Arc<T>> {
        Listed::cut(self.in_list_order.values().filter(|entry| wanted(entry)), page)
    }

    fn place(entry: &T) -> (Reverse<Timestamp>, String) {
        (Reverse(entry.mtime()), entry.id().to_owned())
    }
}
