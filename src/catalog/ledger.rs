//! Things of one kind by key, and in the order of their list: newest change first, then by key.
//!
//! A list that wants names walks all of them, and a hundred thousand things lie all over memory. So
//! what the walk needs stands in the index itself: short names inline, one behind the other. It stands there
//! from the end of the list on, so that what has just changed is put behind all others and moves none.

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::Arc;

use compact_str::CompactString;
use imbl::OrdMap;

use super::page::{Listed, Page};
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;

/// Something that has a key and a name and is listed by its last change.
pub(super) trait Entry {
    /// What it is found by: no two have the same.
    type Key: Ord + ?Sized;

    fn key(&self) -> Arc<Self::Key>;
    fn name(&self) -> &str;
    fn mtime(&self) -> Timestamp;
}

/// Cheap to clone, as every map of the catalog: a clone shares all that neither side changes.
pub(super) struct Ledger<T: Entry> {
    by_key: OrdMap<Arc<T::Key>, Arc<T>>,
    /// Backwards.
    in_list_order: OrdMap<Place<T::Key>, Listing<T>>,
}

/// How far from the end of the list a thing stands.
type Place<K> = (Timestamp, Reverse<Arc<K>>);

/// A name, and what has it.
type Listing<T> = (CompactString, Arc<T>);

impl<T: Entry> Default for Ledger<T> {
    fn default() -> Self {
        Ledger { by_key: OrdMap::new(), in_list_order: OrdMap::new() }
    }
}

impl<T: Entry> Clone for Ledger<T> {
    fn clone(&self) -> Self {
        Ledger { by_key: self.by_key.clone(), in_list_order: self.in_list_order.clone() }
    }
}

impl<T: Entry + PartialEq> PartialEq for Ledger<T> {
    fn eq(&self, other: &Self) -> bool {
        self.by_key == other.by_key && self.in_list_order == other.in_list_order
    }
}

impl<T: Entry + std::fmt::Debug> std::fmt::Debug for Ledger<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.in_list_order.values().rev()).finish()
    }
}

impl<T: Entry> Ledger<T> {
    pub(super) fn get(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.by_key.get(key)
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Takes it in, in place of the one with its key, which is returned.
    pub(super) fn insert(&mut self, entry: Arc<T>) -> Option<Arc<T>> {
        let key = entry.key();
        let old = self.by_key.insert(key.clone(), entry.clone());
        if let Some(old) = &old {
            self.in_list_order.remove(&(old.mtime(), Reverse(key.clone())));
        }
        self.in_list_order.insert((entry.mtime(), Reverse(key)), (entry.name().into(), entry));
        old
    }

    pub(super) fn remove(&mut self, key: &T::Key) -> Option<Arc<T>> {
        let (key, old) = self.by_key.remove_with_key(key)?;
        self.in_list_order.remove(&(old.mtime(), Reverse(key)));
        Some(old)
    }

    /// By key, `key` and those behind it.
    pub(super) fn onward<'a>(&'a self, key: &T::Key) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.by_key.range::<_, T::Key>((Bound::Included(key), Bound::Unbounded)).map(|(_, entry)| entry)
    }

    /// By key, those behind `key`.
    pub(super) fn behind<'a>(&'a self, key: &T::Key) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.by_key.range::<_, T::Key>((Bound::Excluded(key), Bound::Unbounded)).map(|(_, entry)| entry)
    }

    /// Those of a wanted name that are wanted for the rest; an absent wish wants all.
    pub(super) fn list(
        &self,
        name: Option<&NameFilter>,
        rest: Option<impl Fn(&T) -> bool>,
        page: Page,
    ) -> Listed<Arc<T>> {
        if name.is_none() && rest.is_none() {
            let rows = self.in_list_order.values().rev().skip(page.offset).take(page.limit);
            return Listed { amount: self.len(), rows: rows.map(|(_, entry)| entry.clone()).collect() };
        }
        let wanted = self.in_list_order.values().rev().filter(|(listed, entry)| {
            name.is_none_or(|name| name.matches(listed)) && rest.as_ref().is_none_or(|rest| rest(entry))
        });
        Listed::cut(wanted.map(|(_, entry)| entry), page)
    }

    /// How many things [`Ledger::list`] walks at most.
    pub(super) fn reach(&self, is_filtered: bool, page: Page) -> usize {
        if is_filtered { self.len() } else { page.end().min(self.len()) }
    }
}
