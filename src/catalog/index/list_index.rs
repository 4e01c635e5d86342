//! List index: things of one kind by key, and in the order of their list, newest change first, then by key.
//!
//! A list that wants names asks for all of them, and a hundred thousand things lie all over memory. So the list
//! is one of [segments](Segment), on which the texts that lists ask for lie one behind the other; it touches the
//! things of its page alone. A hundred thousand names take less than two milliseconds, wherever the page is.
//!
//! The list stands here from its end on, so that what has just changed is put behind all others and moves none.

use std::cmp::Reverse;
use std::iter;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::abandoned::is_abandoned;
use super::page::{Listed, Page};
use super::segment::Segment;
use crate::model::text::NameFilter;
use crate::model::texts::{SLOTS_MAX, Search, Slots, Texts};
use crate::model::time::Timestamp;

/// Something that has a key and texts, and is listed by its last change.
pub(in crate::catalog) trait Entry {
    /// Key that it is found by: no two have the same.
    type Key: Ord + ?Sized;

    /// Number of columns of texts that lists can filter by.
    const COLUMNS: usize;

    fn key(&self) -> &Self::Key;
    fn shared_key(&self) -> Arc<Self::Key>;
    fn mtime(&self) -> Timestamp;

    /// Tells the texts, none or any number, that it has in a column.
    fn texts(&self, column: usize, tell: &mut dyn FnMut(&str));
}

/// A text that a list wants in a column: one that any of these finds.
pub(in crate::catalog) struct Wish<'a> {
    column: usize,
    searches: Vec<Search<'a>>,
}

impl<'a> Wish<'a> {
    pub(in crate::catalog) fn new(column: usize, filters: impl IntoIterator<Item = &'a NameFilter>) -> Self {
        Wish { column, searches: filters.into_iter().map(Search::new).collect() }
    }

    /// Wishes for each of these columns; an absent filter matches all.
    pub(in crate::catalog) fn all<const N: usize>(filters: [(usize, &'a Option<NameFilter>); N]) -> Vec<Self> {
        let given = filters.into_iter().filter_map(|(column, filter)| Some((column, filter.as_ref()?)));
        given.map(|(column, filter)| Wish::new(column, [filter])).collect()
    }

    /// The slots that have such a text.
    pub(in crate::catalog) fn among(&self, columns: &[Texts]) -> Slots {
        let found = self.searches.iter().map(|search| search.among(&columns[self.column]));
        found.fold(Slots::default(), Slots::or)
    }
}

/// Cheap to clone, as every map of the catalog: a clone shares all that neither side changes.
pub(in crate::catalog) struct ListIndex<T: Entry> {
    by_key: OrdMap<Arc<T::Key>, Arc<T>>,
    /// Each from its place on, up to that of the next.
    segments: OrdMap<Place<T::Key>, Arc<Segment<T>>>,
    /// Place from which on all is on a segment by itself: the one that nearly every change is put on.
    from: Place<T::Key>,
    newest: Arc<Segment<T>>,
}

/// Distance of a thing from the end of the list; `None` is before all of them.
type Place<K> = Option<(Timestamp, Reverse<Arc<K>>)>;

impl<T: Entry> Default for ListIndex<T> {
    fn default() -> Self {
        ListIndex { by_key: OrdMap::new(), segments: OrdMap::new(), from: None, newest: Arc::default() }
    }
}

impl<T: Entry> Clone for ListIndex<T> {
    fn clone(&self) -> Self {
        let (by_key, segments) = (self.by_key.clone(), self.segments.clone());
        ListIndex { by_key, segments, from: self.from.clone(), newest: self.newest.clone() }
    }
}

/// The segment that a thing is on depends on how it came there, and does not count.
impl<T: Entry + PartialEq> PartialEq for ListIndex<T> {
    fn eq(&self, other: &Self) -> bool {
        self.by_key == other.by_key && self.in_list_order().eq(other.in_list_order())
    }
}

impl<T: Entry + std::fmt::Debug> std::fmt::Debug for ListIndex<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.in_list_order()).finish()
    }
}

impl<T: Entry> ListIndex<T> {
    pub(in crate::catalog) fn get(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.by_key.get(key)
    }

    pub(in crate::catalog) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Takes it in, in place of the one with its key, which is returned.
    pub(in crate::catalog) fn insert(&mut self, entry: Arc<T>) -> Option<Arc<T>> {
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

    pub(in crate::catalog) fn remove(&mut self, key: &T::Key) -> Option<Arc<T>> {
        let (key, old) = self.by_key.remove_with_key(key)?;
        self.strike(key, &old);
        Some(old)
    }

    /// By key, `key` and those behind it.
    pub(in crate::catalog) fn onward<'a>(&'a self, key: &T::Key) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.by_key.range::<_, T::Key>((Bound::Included(key), Bound::Unbounded)).map(|(_, entry)| entry)
    }

    /// By key, those behind `key`.
    pub(in crate::catalog) fn behind<'a>(&'a self, key: &T::Key) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.by_key.range::<_, T::Key>((Bound::Excluded(key), Bound::Unbounded)).map(|(_, entry)| entry)
    }

    fn in_list_order(&self) -> impl Iterator<Item = &Arc<T>> {
        self.all_segments().flat_map(|segment| segment.things().rev())
    }

    fn all_segments(&self) -> impl Iterator<Item = &Arc<Segment<T>>> {
        iter::once(&self.newest).chain(self.segments.values().rev())
    }

    /// Those that have what is wished for and are wanted for the rest; an absent rest wants all.
    pub(in crate::catalog) fn list(
        &self,
        wishes: &[Wish<'_>],
        rest: Option<impl Fn(&T) -> bool>,
        page: &Page,
    ) -> Listed<Arc<T>> {
        let wants_all = wishes.is_empty() && rest.is_none();
        let mut listed = Listed::amount(0);
        for segment in self.all_segments() {
            if is_abandoned() {
                break;
            }
            segment.list(wishes, rest.as_ref(), page, &mut listed);
            if wants_all && listed.amount >= page.end() {
                listed.amount = self.len();
                break;
            }
        }
        listed
    }

    /// Number of things that [`ListIndex::list`] walks at most.
    pub(in crate::catalog) fn reach(&self, is_filtered: bool, page: &Page) -> usize {
        if is_filtered { self.len() } else { page.end().min(self.len()) }
    }

    fn enlist(&mut self, key: Arc<T::Key>, entry: Arc<T>) {
        let place = Some((entry.mtime(), Reverse(key)));
        if place >= self.from {
            let newest = Arc::make_mut(&mut self.newest);
            let Some((from, further)) = put(newest, &place, entry) else { return };
            newest.shrink();
            let (from, full) = (mem::replace(&mut self.from, from), mem::replace(&mut self.newest, Arc::new(further)));
            self.segments.insert(from, full);
        } else if let Some((_, segment)) = self.segments.get_prev_mut(&place) {
            if let Some((from, further)) = put(Arc::make_mut(segment), &place, entry) {
                self.segments.insert(from, Arc::new(further));
            }
        } else {
            self.segments.insert(None, Arc::new(Segment::new(entry)));
        }
    }

    /// Takes it off the list.
    fn strike(&mut self, key: Arc<T::Key>, entry: &Arc<T>) {
        let place = Some((entry.mtime(), Reverse(key)));
        if place >= self.from {
            let newest = Arc::make_mut(&mut self.newest);
            newest.remove(entry);
            if newest.is_sparse() {
                newest.close_gaps();
            }
            return;
        }
        let (from, segment) = self.segments.get_prev_mut(&place).expect("what is there is listed");
        let segment = Arc::make_mut(segment);
        segment.remove(entry);
        if segment.is_sparse() {
            let from = from.clone();
            segment.close_gaps();
            self.unite(&from);
        }
    }

    /// Puts what is left of a segment on the one before, if there is room to spare.
    fn unite(&mut self, from: &Place<T::Key>) {
        let len = self.segments.get(from).map_or(0, |segment| segment.len());
        if len == 0 {
            self.segments.remove(from);
            return;
        }
        let before = self.segments.range::<_, Place<T::Key>>((Bound::Unbounded, Bound::Excluded(from))).next_back();
        let with_room = before.filter(|(_, before)| before.len() + len <= SLOTS_MAX * 3 / 4);
        let Some(before) = with_room.map(|(before, _)| before.clone()) else { return };
        if let (Some(segment), Some(before)) = (self.segments.remove(from), self.segments.get_mut(&before)) {
            Arc::make_mut(before).append(Arc::unwrap_or_clone(segment));
        }
    }
}

/// Puts an entry on the segment that it belongs on. If that is full, there is a further segment behind it then.
fn put<T: Entry>(
    segment: &mut Segment<T>,
    place: &Place<T::Key>,
    entry: Arc<T>,
) -> Option<(Place<T::Key>, Segment<T>)> {
    let slot = segment.slot_for(&entry);
    if !segment.is_full() {
        segment.insert(slot, entry);
        return None;
    }
    if slot == SLOTS_MAX {
        return Some((place.clone(), Segment::new(entry)));
    }
    let mut newer = segment.split();
    let first = newer.things().next().expect("half of a full segment is something");
    let from = Some((first.mtime(), Reverse(first.shared_key())));
    let half = if *place < from { segment } else { &mut newer };
    let slot = half.slot_for(&entry);
    half.insert(slot, entry);
    Some((from, newer))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Thing {
        id: u16,
        stamp: u64,
        names: Vec<&'static str>,
    }

    impl Entry for Thing {
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

    /// What is done to things that follow one another by their ids.
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

    /// The same by every filter, on every page.
    fn assert_same(ledger: &ListIndex<Thing>, model: &Model) {
        assert_eq!(ledger.len(), model.len());
        assert!(ledger.onward(&0).map(|thing| &**thing).eq(model.values()), "the same by key");
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
                        let listed = ledger.list(&Wish::all([(0, name), (1, &kind)]), rest, page);
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
        let mut ledger = ListIndex::default();
        model.values().for_each(|thing| assert_eq!(ledger.insert(Arc::new(thing.clone())), None));
        ledger
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_ledger_is_a_sorted_list_and_its_clones_stay_what_they_were(
            steps in prop::collection::vec(some_step(), 1..40),
        ) {
            let (mut ledger, mut model, mut seen) = (ListIndex::default(), Model::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Insert { from, many, every, stamp, names } => {
                        for id in (from..from + many).step_by(every) {
                            let thing = Thing { id, stamp: stamp + u64::from(id % 50 / 49), names: names.clone() };
                            let old = ledger.insert(Arc::new(thing.clone()));
                            prop_assert_eq!(old.map(Arc::unwrap_or_clone), model.insert(id, thing));
                        }
                    }
                    Step::Remove { from, many, every } => {
                        for id in (from..from + many).step_by(every) {
                            prop_assert_eq!(ledger.remove(&id).map(Arc::unwrap_or_clone), model.remove(&id));
                        }
                    }
                    Step::Look => seen.push((ledger.clone(), model.clone())),
                }
            }
            seen.push((ledger, model));
            for (ledger, model) in &seen {
                assert_same(ledger, model);
                prop_assert_eq!(ledger, &rebuilt(model));
            }
        }
    }

    /// Things that were updated and removed again and again lie on no more segments than half full ones would be.
    #[test]
    fn sheets_that_empty_are_put_together() {
        let mut ledger = ListIndex::default();
        let thing = |id: u16, stamp: u64| Arc::new(Thing { id, stamp, names: vec!["pay"] });
        let (things, mut number) = (5_000, 0_u64);
        for stamp in 0..60_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ledger.insert(thing((number >> 33) as u16 % things, stamp));
        }
        let slots = ledger.all_segments().count() * SLOTS_MAX;
        assert!(slots < 2 * ledger.len(), "{slots} slots for {} things", ledger.len());
        (0..things).for_each(|id| drop(ledger.remove(&id)));
        assert_eq!((ledger.len(), ledger.all_segments().count()), (0, 1));
    }
}
