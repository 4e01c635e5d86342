//! Things of one kind by id, and in the order of their list: newest change first, then by id.
//!
//! A list that wants names walks all of them, and a hundred thousand things lie all over memory. So
//! what the walk needs stands in the index itself: short names inline, one behind the other.

use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use compact_str::CompactString;

use super::page::{Listed, Page};
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;

/// Something that has an id and a name and is listed by its last change.
pub(super) trait Entry {
    fn id(&self) -> &str;
    fn name(&self) -> &str;
    fn mtime(&self) -> Timestamp;
}

#[derive(Clone, Debug)]
pub(super) struct Ledger<T: Entry> {
    by_id: BTreeSet<ById<T>>,
    in_list_order: BTreeSet<Listing<T>>,
}

impl<T: Entry> Default for Ledger<T> {
    fn default() -> Self {
        Ledger { by_id: BTreeSet::new(), in_list_order: BTreeSet::new() }
    }
}

/// Equal in all that the things hold, where the sets themselves compare places alone.
impl<T: Entry + PartialEq> PartialEq for Ledger<T> {
    fn eq(&self, other: &Self) -> bool {
        let listed = |one: &Self| one.in_list_order.iter().map(|listing| listing.entry.clone()).collect::<Vec<_>>();
        let by_id = |one: &Self| one.by_id.iter().map(|ById(entry)| entry.clone()).collect::<Vec<_>>();
        listed(self) == listed(other) && by_id(self) == by_id(other)
    }
}

/// Ordered, and found, by id.
#[derive(Clone, Debug)]
struct ById<T>(Arc<T>);

/// Ordered by place in the list.
#[derive(Clone, Debug)]
struct Listing<T> {
    mtime: Reverse<Timestamp>,
    name: CompactString,
    entry: Arc<T>,
}

impl<T: Entry> Listing<T> {
    fn new(entry: Arc<T>) -> Self {
        Listing { mtime: Reverse(entry.mtime()), name: entry.name().into(), entry }
    }
}

impl<T: Entry> Ledger<T> {
    pub(super) fn get(&self, id: &str) -> Option<&Arc<T>> {
        self.by_id.get(id).map(|ById(entry)| entry)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Takes it in, in place of the one with its id, which is returned.
    pub(super) fn insert(&mut self, entry: Arc<T>) -> Option<Arc<T>> {
        let old = self.remove(entry.id());
        self.in_list_order.insert(Listing::new(entry.clone()));
        self.by_id.insert(ById(entry));
        old
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<T>> {
        let ById(old) = self.by_id.take(id)?;
        self.in_list_order.remove(&Listing::new(old.clone()));
        Some(old)
    }

    /// By id, those behind `id`.
    pub(super) fn behind(&self, id: &str) -> impl Iterator<Item = &Arc<T>> {
        self.by_id.range::<str, _>((Bound::Excluded(id), Bound::Unbounded)).map(|ById(entry)| entry)
    }

    /// Those of a wanted name that are wanted for the rest; an absent wish wants all.
    pub(super) fn list(
        &self,
        name: Option<&NameFilter>,
        rest: Option<impl Fn(&T) -> bool>,
        page: Page,
    ) -> Listed<Arc<T>> {
        if name.is_none() && rest.is_none() {
            let rows = self.in_list_order.iter().skip(page.offset).take(page.limit);
            return Listed { amount: self.len(), rows: rows.map(|listing| listing.entry.clone()).collect() };
        }
        let wanted = self.in_list_order.iter().filter(|listing| {
            name.is_none_or(|name| name.matches(&listing.name)) && rest.as_ref().is_none_or(|rest| rest(&listing.entry))
        });
        Listed::cut(wanted.map(|listing| &listing.entry), page)
    }
}

impl<T: Entry> Borrow<str> for ById<T> {
    fn borrow(&self) -> &str {
        self.0.id()
    }
}

impl<T: Entry> Ord for ById<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.id().cmp(other.0.id())
    }
}

impl<T: Entry> Ord for Listing<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.mtime.cmp(&other.mtime).then_with(|| self.entry.id().cmp(other.entry.id()))
    }
}

macro_rules! equal_as_ordered {
    ($($name:ident)+) => { $(
        impl<T: Entry> PartialOrd for $name<T> {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl<T: Entry> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other) == Ordering::Equal
            }
        }

        impl<T: Entry> Eq for $name<T> {}
    )+ };
}

equal_as_ordered! { ById Listing }
