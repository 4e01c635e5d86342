//! A segment of a list index: consecutive things of a list in reverse order, with the texts that lists filter by.
//!
//! A removal leaves a gap and moves nothing. An insertion is usually the newest thing and is appended. Gaps are closed
//! when they are most of the segment, or before an insertion in the middle.

use std::cmp::Reverse;
use std::mem;
use std::sync::Arc;

use super::page::{Listed, Page};
use crate::model::text::NameFilter;
use crate::model::texts::{SLOTS_MAX, Search, Slots, Texts};
use crate::model::time::Timestamp;

/// A thing that has a key and texts, and is listed by its last change.
pub(crate) trait Indexed {
    /// Unique key.
    type Key: Ord + ?Sized;

    /// Number of text columns that lists can filter by.
    const COLUMNS: usize;

    fn key(&self) -> &Self::Key;
    fn shared_key(&self) -> Arc<Self::Key>;
    fn mtime(&self) -> Timestamp;

    /// Calls `tell` for each of its texts in a column; there may be none.
    fn texts(&self, column: usize, tell: &mut dyn FnMut(&str));
}

/// Filter on a text column: any of the searches must match.
pub(crate) struct TextFilter<'a> {
    column: usize,
    searches: Vec<Search<'a>>,
}

impl<'a> TextFilter<'a> {
    pub(crate) fn new(column: usize, filters: impl IntoIterator<Item = &'a NameFilter>) -> Self {
        TextFilter { column, searches: filters.into_iter().map(Search::new).collect() }
    }

    /// Returns one filter for each of these columns; an absent filter matches all.
    pub(crate) fn all<const N: usize>(filters: [(usize, &'a Option<NameFilter>); N]) -> Vec<Self> {
        let given = filters.into_iter().filter_map(|(column, filter)| Some((column, filter.as_ref()?)));
        given.map(|(column, filter)| TextFilter::new(column, [filter])).collect()
    }

    /// Returns the slots with a matching text.
    pub(crate) fn among(&self, columns: &[Texts]) -> Slots {
        let found = self.searches.iter().map(|search| search.among(&columns[self.column]));
        found.fold(Slots::default(), Slots::or)
    }
}

pub(super) struct Segment<T> {
    /// Things by slot; `None` is a gap.
    things: Vec<Option<Arc<T>>>,
    /// Slots without a gap.
    held: Slots,
    /// Highest time for which a slot was taken.
    newest: Timestamp,
    columns: Box<[Texts]>,
}

impl<T> Clone for Segment<T> {
    fn clone(&self) -> Self {
        let (things, columns) = (self.things.clone(), self.columns.clone());
        Segment { things, held: self.held, newest: self.newest, columns }
    }
}

impl<T: Indexed> Default for Segment<T> {
    fn default() -> Self {
        let columns = (0..T::COLUMNS).map(|_| Texts::default()).collect();
        Segment { things: Vec::new(), held: Slots::default(), newest: Timestamp::default(), columns }
    }
}

impl<T: Indexed> Segment<T> {
    pub(super) fn new(thing: Arc<T>) -> Self {
        let mut segment = Segment::default();
        segment.insert(0, thing);
        segment
    }

    pub(super) fn len(&self) -> usize {
        self.held.count()
    }

    /// Reports whether all slots are taken, including by gaps.
    pub(super) fn is_full(&self) -> bool {
        self.things.len() == SLOTS_MAX
    }

    /// Reports whether most of it is gaps.
    pub(super) fn is_sparse(&self) -> bool {
        self.len() * 2 < self.things.len()
    }

    pub(super) fn things(&self) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        self.things.iter().flatten()
    }

    /// Returns the slot before which a thing belongs. Closes the gaps, unless the thing belongs at the end.
    pub(super) fn slot_for(&mut self, thing: &T) -> usize {
        if self.newest < thing.mtime() {
            return self.things.len();
        }
        self.close_gaps();
        let place = (thing.mtime(), Reverse(thing.key()));
        let is_before = |held: &Arc<T>| (held.mtime(), Reverse(held.key())) < place;
        self.things.partition_point(|held| held.as_ref().is_some_and(is_before))
    }

    pub(super) fn insert(&mut self, slot: usize, thing: Arc<T>) {
        for (column, texts) in self.columns.iter_mut().enumerate() {
            texts.insert(slot, |tell| thing.texts(column, tell));
        }
        if slot < self.things.len() {
            self.held = Slots::first(self.things.len() + 1);
        } else {
            self.held.put(slot);
        }
        self.newest = self.newest.max(thing.mtime());
        self.things.insert(slot, Some(thing));
    }

    pub(super) fn remove(&mut self, thing: &Arc<T>) {
        let is_it = |held: &Option<Arc<T>>| held.as_ref().is_some_and(|held| Arc::ptr_eq(held, thing));
        let slot = self.things.iter().position(is_it).expect("what is listed stands where it belongs");
        self.things[slot] = None;
        self.held.remove(slot);
    }

    pub(super) fn close_gaps(&mut self) {
        if self.len() < self.things.len() {
            let with_gaps = mem::take(self);
            self.append(with_gaps);
        }
    }

    /// Appends the content of another segment.
    pub(super) fn append(&mut self, mut other: Segment<T>) {
        let all = other.held;
        self.take_from(&mut other, all);
    }

    /// Splits off the half that is first in the list.
    pub(super) fn split(&mut self) -> Segment<T> {
        let mut newer = mem::take(self);
        let older = Slots::first(newer.things.len() / 2).and(newer.held);
        self.take_from(&mut newer, older);
        newer.close_gaps();
        newer
    }

    fn take_from(&mut self, other: &mut Segment<T>, slots: Slots) {
        self.close_gaps();
        for (texts, others) in self.columns.iter_mut().zip(&other.columns) {
            texts.append(others, slots);
        }
        for slot in slots.ascending() {
            self.things.push(other.things[slot].take());
            other.held.remove(slot);
        }
        self.held = Slots::first(self.things.len());
        if let Some(Some(last)) = self.things.last() {
            self.newest = last.mtime();
        }
    }

    /// Releases unused capacity, because nothing more is appended.
    pub(super) fn shrink(&mut self) {
        self.things.shrink_to_fit();
        self.columns.iter_mut().for_each(Texts::shrink);
    }

    /// Adds to a page the things that pass all filters and `rest`, which examines the things themselves.
    pub(super) fn list(
        &self,
        filters: &[TextFilter<'_>],
        rest: Option<&impl Fn(&T) -> bool>,
        page: &Page,
        listed: &mut Listed<Arc<T>>,
    ) {
        let mut wanted = filters.iter().fold(self.held, |wanted, filter| wanted.and(filter.among(&self.columns)));
        if let Some(rest) = rest {
            let is_wanted = |slot: &usize| self.things[*slot].as_deref().is_some_and(rest);
            wanted.ascending().filter(|slot| !is_wanted(slot)).for_each(|slot| wanted.remove(slot));
        }
        let before = listed.amount;
        listed.amount += wanted.count();
        if listed.amount > page.offset {
            let rows =
                wanted.descending().skip(page.offset.saturating_sub(before)).take(page.limit - listed.rows.len());
            listed.rows.extend(rows.filter_map(|slot| self.things[slot].clone()));
        }
    }
}
