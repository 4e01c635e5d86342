//! List index: things of one kind by key, and in the order of their list, newest change first, then by key.
//!
//! A list filtered by name reads all names, and the things are scattered over memory. The list is therefore stored in
//! [segments](Segment), which hold the filtered texts contiguously; only the things of the requested page are read. A
//! hundred thousand names take less than two milliseconds, for any page.
//!
//! The list is stored in reverse, so that the latest change is appended and moves nothing.

use std::cmp::Reverse;
use std::iter;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::abandoned::is_abandoned;
use super::page::{Listed, Page};
use super::segment::Segment;
pub(crate) use super::segment::{Indexed, TextFilter};
use crate::model::texts::SLOTS_MAX;
use crate::model::time::Timestamp;

/// Cheap to clone, like every map of the catalog: clones share what neither side changes.
pub(crate) struct ListIndex<T: Indexed> {
    by_key: OrdMap<Arc<T::Key>, Arc<T>>,
    /// Segments by their first position.
    segments: OrdMap<Position<T::Key>, Arc<Segment<T>>>,
    /// First position of `newest`, the segment to which almost every change is appended.
    from: Position<T::Key>,
    newest: Arc<Segment<T>>,
}

/// Position of a thing from the end of the list; `None` is before all of them.
type Position<K> = Option<(Timestamp, Reverse<Arc<K>>)>;

impl<T: Indexed> Default for ListIndex<T> {
    fn default() -> Self {
        ListIndex { by_key: OrdMap::new(), segments: OrdMap::new(), from: None, newest: Arc::default() }
    }
}

impl<T: Indexed> Clone for ListIndex<T> {
    fn clone(&self) -> Self {
        let (by_key, segments) = (self.by_key.clone(), self.segments.clone());
        ListIndex { by_key, segments, from: self.from.clone(), newest: self.newest.clone() }
    }
}

/// Compares without the division into segments, which depends on the history.
impl<T: Indexed + PartialEq> PartialEq for ListIndex<T> {
    fn eq(&self, other: &Self) -> bool {
        self.by_key == other.by_key && self.in_list_order().eq(other.in_list_order())
    }
}

impl<T: Indexed + std::fmt::Debug> std::fmt::Debug for ListIndex<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.in_list_order()).finish()
    }
}

impl<T: Indexed> ListIndex<T> {
    pub(crate) fn get(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.by_key.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Inserts a thing, and returns the one with the same key that it replaces.
    pub(crate) fn insert(&mut self, entry: Arc<T>) -> Option<Arc<T>> {
        let Some((key, held)) = self.by_key.get_key_value_mut(entry.key()) else {
            let key = entry.shared_key();
            self.by_key.insert(key.clone(), entry.clone());
            self.enlist(key, entry);
            return None;
        };
        let (key, old) = (key.clone(), mem::replace(held, entry.clone()));
        self.strike(key.clone(), &old);
        self.enlist(key, entry);
        Some(old)
    }

    pub(crate) fn remove(&mut self, key: &T::Key) -> Option<Arc<T>> {
        let (key, old) = self.by_key.remove_with_key(key)?;
        self.strike(key, &old);
        Some(old)
    }

    /// Returns the things in the order of keys, from `key` on.
    pub(crate) fn onward<'a>(&'a self, key: &T::Key) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.by_key.range::<_, T::Key>((Bound::Included(key), Bound::Unbounded)).map(|(_, entry)| entry)
    }

    /// Returns the things in the order of keys, after `key`.
    pub(crate) fn behind<'a>(&'a self, key: &T::Key) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.by_key.range::<_, T::Key>((Bound::Excluded(key), Bound::Unbounded)).map(|(_, entry)| entry)
    }

    fn in_list_order(&self) -> impl Iterator<Item = &Arc<T>> {
        self.all_segments().flat_map(|segment| segment.things().rev())
    }

    fn all_segments(&self) -> impl Iterator<Item = &Arc<Segment<T>>> {
        iter::once(&self.newest).chain(self.segments.values().rev())
    }

    /// Lists the things that pass all filters and `rest`; without `rest`, all that pass the filters.
    pub(crate) fn list(
        &self,
        filters: &[TextFilter<'_>],
        rest: Option<impl Fn(&T) -> bool>,
        page: &Page,
    ) -> Listed<Arc<T>> {
        let wants_all = filters.is_empty() && rest.is_none();
        let mut listed = Listed::amount(0);
        for segment in self.all_segments() {
            if is_abandoned() {
                break;
            }
            segment.list(filters, rest.as_ref(), page, &mut listed);
            if wants_all && listed.amount >= page.end() {
                listed.amount = self.len();
                break;
            }
        }
        listed
    }

    /// Returns the number of things that [`ListIndex::list`] walks at most.
    pub(crate) fn reach(&self, is_filtered: bool, page: &Page) -> usize {
        if is_filtered { self.len() } else { page.end().min(self.len()) }
    }

    fn enlist(&mut self, key: Arc<T::Key>, entry: Arc<T>) {
        let position = Some((entry.mtime(), Reverse(key)));
        if position >= self.from {
            let newest = Arc::make_mut(&mut self.newest);
            let Some((from, further)) = put(newest, &position, entry) else { return };
            newest.shrink();
            let (from, full) = (mem::replace(&mut self.from, from), mem::replace(&mut self.newest, Arc::new(further)));
            self.segments.insert(from, full);
        } else if let Some((_, segment)) = self.segments.get_prev_mut(&position) {
            if let Some((from, further)) = put(Arc::make_mut(segment), &position, entry) {
                self.segments.insert(from, Arc::new(further));
            }
        } else {
            self.segments.insert(None, Arc::new(Segment::new(entry)));
        }
    }

    /// Removes a thing from the list.
    fn strike(&mut self, key: Arc<T::Key>, entry: &Arc<T>) {
        let position = Some((entry.mtime(), Reverse(key)));
        if position >= self.from {
            let newest = Arc::make_mut(&mut self.newest);
            newest.remove(entry);
            if newest.is_sparse() {
                newest.close_gaps();
            }
            return;
        }
        let (from, segment) = self.segments.get_prev_mut(&position).expect("what is there is listed");
        let segment = Arc::make_mut(segment);
        segment.remove(entry);
        if segment.is_sparse() {
            let from = from.clone();
            segment.close_gaps();
            self.unite(&from);
        }
    }

    /// Merges the rest of a segment into the previous one, if that has enough room.
    fn unite(&mut self, from: &Position<T::Key>) {
        let len = self.segments.get(from).map_or(0, |segment| segment.len());
        if len == 0 {
            self.segments.remove(from);
            return;
        }
        let before = self.segments.range::<_, Position<T::Key>>((Bound::Unbounded, Bound::Excluded(from))).next_back();
        let with_room = before.filter(|(_, before)| before.len() + len <= SLOTS_MAX * 3 / 4);
        let Some(before) = with_room.map(|(before, _)| before.clone()) else { return };
        if let (Some(segment), Some(before)) = (self.segments.remove(from), self.segments.get_mut(&before)) {
            Arc::make_mut(before).append(Arc::unwrap_or_clone(segment));
        }
    }
}

/// Inserts an entry into its segment. If the segment was full, returns a further segment to follow it.
fn put<T: Indexed>(
    segment: &mut Segment<T>,
    position: &Position<T::Key>,
    entry: Arc<T>,
) -> Option<(Position<T::Key>, Segment<T>)> {
    let slot = segment.slot_for(&entry);
    if !segment.is_full() {
        segment.insert(slot, entry);
        return None;
    }
    if slot == SLOTS_MAX {
        return Some((position.clone(), Segment::new(entry)));
    }
    let mut newer = segment.split();
    let first = newer.things().next().expect("half of a full segment is something");
    let from = Some((first.mtime(), Reverse(first.shared_key())));
    let half = if *position < from { segment } else { &mut newer };
    let slot = half.slot_for(&entry);
    half.insert(slot, entry);
    Some((from, newer))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::model::text::NameFilter;

    #[derive(Clone, Debug, PartialEq)]
    struct Thing {
        id: u16,
        stamp: u64,
        names: Vec<&'static str>,
    }

    impl Indexed for Thing {
        type Key = u16;

        const COLUMNS: usize = 2;

        fn key(&self) -> &u16 {
            &self.id
        }

        fn shared_key(&self) -> Arc<u16> {
            Arc::new(self.id)
        }

        fn mtime(&self) -> Timestamp {
            Timestamp(self.stamp)
        }

        fn texts(&self, column: usize, tell: &mut dyn FnMut(&str)) {
            match column {
                0 => self.names.iter().for_each(|name| tell(name)),
                _ => tell(if self.id.is_multiple_of(2) { "even" } else { "odd" }),
            }
        }
    }

    /// Operation on things with consecutive ids.
    #[derive(Clone, Debug)]
    enum Step {
        Insert { from: u16, many: u16, every: usize, stamp: u64, names: Vec<&'static str> },
        Remove { from: u16, many: u16, every: usize },
        Look,
    }

    fn some_step() -> impl Strategy<Value = Step> {
        let ids = || (0..400_u16, prop_oneof![Just(1), 1..200_u16], 1..4_usize);
        let names = prop::sample::subsequence(vec!["pay", "Pay", "PAYMENT", "ship"], 0..3);
        prop_oneof![
            4 => (ids(), 0..6_u64, names)
                .prop_map(|((from, many, every), stamp, names)| Step::Insert { from, many, every, stamp, names }),
            2 => ids().prop_map(|(from, many, every)| Step::Remove { from, many, every }),
            1 => Just(Step::Look),
        ]
    }

    type Model = BTreeMap<u16, Thing>;

    fn in_order(model: &Model) -> Vec<&Thing> {
        let mut things: Vec<&Thing> = model.values().collect();
        things.sort_by_key(|thing| (Reverse(thing.stamp), thing.id));
        things
    }

    /// Compares the results of every filter, on every page.
    fn assert_same(index: &ListIndex<Thing>, model: &Model) {
        assert_eq!(index.len(), model.len());
        assert!(index.onward(&0).map(|thing| &**thing).eq(model.values()), "the same by key");
        let filter = |text| Some(NameFilter::parse(text));
        let names = [None, filter("pay"), filter("PAYMENT"), filter("*pay*"), filter("p*"), filter("*t"), filter("*")];
        for name in &names {
            for kind in [None, filter("even")] {
                for rest in [None, Some(|thing: &Thing| !thing.id.is_multiple_of(3))] {
                    let has = |filter: &Option<NameFilter>, texts: &[&str]| {
                        filter.as_ref().is_none_or(|filter| texts.iter().any(|text| filter.matches(text)))
                    };
                    let is_wanted = |thing: &&Thing| {
                        has(name, &thing.names)
                            && (kind.is_none() || thing.id.is_multiple_of(2))
                            && rest.is_none_or(|rest| rest(thing))
                    };
                    let expected: Vec<&Thing> = in_order(model).into_iter().filter(is_wanted).collect();
                    for (offset, limit) in [(0, 10), (0, 0), (63, 2), (150, 100), (1000, 10)] {
                        let page = &Page { offset, ..Page::first(limit) };
                        let listed = index.list(&TextFilter::all([(0, name), (1, &kind)]), rest, page);
                        assert_eq!(listed.amount, expected.len(), "{name:?} {kind:?} {page:?}");
                        let rows = listed.rows.iter().map(|row| &**row);
                        assert!(
                            rows.eq(expected.iter().copied().skip(offset).take(limit)),
                            "{name:?} {kind:?} {page:?}"
                        );
                    }
                }
            }
        }
    }

    fn rebuilt(model: &Model) -> ListIndex<Thing> {
        let mut index = ListIndex::default();
        model.values().for_each(|thing| assert_eq!(index.insert(Arc::new(thing.clone())), None));
        index
    }

    proptest! {
        #![proptest_config(crate::test_seed::cases(64))]

        #[test]
        fn a_list_index_is_a_sorted_list_and_its_clones_stay_what_they_were(
            steps in prop::collection::vec(some_step(), 1..40),
        ) {
            let (mut index, mut model, mut seen) = (ListIndex::default(), Model::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Insert { from, many, every, stamp, names } => {
                        for id in (from..from + many).step_by(every) {
                            let thing = Thing { id, stamp: stamp + u64::from(id % 50 / 49), names: names.clone() };
                            let old = index.insert(Arc::new(thing.clone()));
                            prop_assert_eq!(old.map(Arc::unwrap_or_clone), model.insert(id, thing));
                        }
                    }
                    Step::Remove { from, many, every } => {
                        for id in (from..from + many).step_by(every) {
                            prop_assert_eq!(index.remove(&id).map(Arc::unwrap_or_clone), model.remove(&id));
                        }
                    }
                    Step::Look => seen.push((index.clone(), model.clone())),
                }
            }
            seen.push((index, model));
            for (index, model) in &seen {
                assert_same(index, model);
                prop_assert_eq!(index, &rebuilt(model));
            }
        }
    }

    /// Things that are updated and removed repeatedly take no more segments than half-full ones would.
    #[test]
    fn segments_that_empty_are_put_together() {
        let mut index = ListIndex::default();
        let thing = |id: u16, stamp: u64| Arc::new(Thing { id, stamp, names: vec!["pay"] });
        let (things, mut number) = (5_000, 0_u64);
        for stamp in 0..60_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            index.insert(thing((number >> 33) as u16 % things, stamp));
        }
        let slots = index.all_segments().count() * SLOTS_MAX;
        assert!(slots < 2 * index.len(), "{slots} slots for {} things", index.len());
        (0..things).for_each(|id| drop(index.remove(&id)));
        assert_eq!((index.len(), index.all_segments().count()), (0, 1));
    }
}
