//! Texts in one buffer, which filters search in a single pass.
//!
//! A list matches every name. A call per name would look at a few bytes each; here one search runs over the names of
//! many objects in contiguous memory, and stops only at matches.

use memchr::memchr2;
use memchr::memmem::Finder;

use super::text::{Glob, NameFilter};

/// Objects that share one [`Texts`].
pub const SLOTS_MAX: usize = u64::BITS as usize;

/// End of a text in its original form. Neither this byte nor the next one occurs in UTF-8.
const AS_GIVEN: u8 = 0xFF;
/// End of the lower-case form of a text that differs from it; the original form follows.
const LOWERED: u8 = 0xFE;

/// A subset of the first [`SLOTS_MAX`] slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots(u64);

impl Slots {
    /// Returns the first `count` slots.
    pub fn first(count: usize) -> Self {
        Slots(!u64::MAX.checked_shl(count as u32).unwrap_or_default())
    }

    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn put(&mut self, slot: usize) {
        self.0 |= 1 << slot;
    }

    pub fn remove(&mut self, slot: usize) {
        self.0 &= !(1 << slot);
    }

    pub fn and(self, other: Slots) -> Slots {
        Slots(self.0 & other.0)
    }

    pub fn or(self, other: Slots) -> Slots {
        Slots(self.0 | other.0)
    }

    pub fn ascending(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let slot = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
            self.remove(slot);
            Some(slot)
        })
    }

    pub fn descending(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let slot = self.0.checked_ilog2()? as usize;
            self.remove(slot);
            Some(slot)
        })
    }
}

/// Texts of up to [`SLOTS_MAX`] objects: each object has a slot with any number of texts.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    /// End of each slot in `bytes`.
    ends: Vec<u32>,
}

impl Texts {
    /// Inserts a slot before the one at `slot`, with the texts that the closure passes to its argument.
    pub fn insert(&mut self, slot: usize, tell: impl FnOnce(&mut dyn FnMut(&str))) {
        let begin = self.begin(slot);
        let behind = self.bytes.len();
        tell(&mut |text| self.push(text));
        let added = self.bytes.len() - behind;
        self.bytes[begin..].rotate_right(added);
        self.ends[slot..].iter_mut().for_each(|end| *end += added as u32);
        self.ends.insert(slot, (begin + added) as u32);
    }

    /// Appends a text. A text that is equal to its lower case is stored once, and every search looks at it, whether it
    /// ignores case or not.
    fn push(&mut self, text: &str) {
        if text.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
            let lower = text.to_lowercase();
            if lower != text {
                self.bytes.extend_from_slice(lower.as_bytes());
                self.bytes.push(LOWERED);
            }
        }
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(AS_GIVEN);
    }

    /// Appends the given slots of `others`.
    pub fn append(&mut self, others: &Texts, slots: Slots) {
        for slot in slots.ascending() {
            self.bytes.extend_from_slice(&others.bytes[others.begin(slot)..others.ends[slot] as usize]);
            self.ends.push(self.bytes.len() as u32);
        }
    }

    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    fn begin(&self, slot: usize) -> usize {
        slot.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    /// Returns the end of the text that contains the byte `at`.
    fn end_of_text(&self, at: usize) -> usize {
        memchr2(AS_GIVEN, LOWERED, &self.bytes[at..]).map_or(self.bytes.len(), |length| at + length)
    }

    fn is_begin_of_text(&self, at: usize) -> bool {
        at == 0 || self.bytes[at - 1] >= LOWERED
    }

    /// Returns the slots with a text in which the first match of the needle, given by its start and end, satisfies
    /// `counts`.
    fn with(&self, needle: &Finder<'_>, counts: impl Fn(usize, usize) -> bool) -> Slots {
        let (mut found, mut slot, mut from) = (Slots::default(), 0, 0);
        while let Some(distance) = needle.find(&self.bytes[from..]) {
            let (at, behind) = (from + distance, from + distance + needle.needle().len());
            while self.ends[slot] as usize <= at {
                slot += 1;
            }
            if counts(at, behind) {
                found.put(slot);
                from = self.ends[slot] as usize;
            } else {
                from = self.end_of_text(behind - 1) + 1;
            }
        }
        found
    }

    /// Returns the slots with a text that matches.
    fn matching(&self, matches: impl Fn(&[u8]) -> bool) -> Slots {
        let (mut found, mut from) = (Slots::default(), 0);
        for (slot, end) in self.ends.iter().map(|end| *end as usize).enumerate() {
            while from < end {
                let behind = self.end_of_text(from);
                if matches(&self.bytes[from..behind]) {
                    found.put(slot);
                    break;
                }
                from = behind + 1;
            }
            from = end;
        }
        found
    }
}

/// Search for a filter, prepared once for all texts.
pub enum Search<'a> {
    /// A whole text with its end mark.
    Whole(Box<Finder<'static>>),
    Glob(&'a Glob),
}

impl<'a> Search<'a> {
    pub fn new(filter: &'a NameFilter) -> Self {
        match filter {
            NameFilter::Exact(text) => {
                let whole = [text.as_bytes(), &[AS_GIVEN]].concat();
                Search::Whole(Box::new(Finder::new(&whole).into_owned()))
            }
            NameFilter::Glob(glob) => Search::Glob(glob),
        }
    }

    /// Returns the slots with a text that the filter matches.
    ///
    /// A glob tries both forms of a text; its matches in the original form are matches in lower case too.
    pub fn among(&self, texts: &Texts) -> Slots {
        match self {
            Search::Whole(whole) => texts.with(whole, |at, _| texts.is_begin_of_text(at)),
            Search::Glob(glob) => match glob.lead() {
                Some(lead) => texts.with(lead, |_, behind| {
                    glob.is_lead_alone() || glob.goes_on(&texts.bytes[behind..texts.end_of_text(behind)])
                }),
                None => texts.matching(|text| glob.matches(text)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some_text() -> impl Strategy<Value = String> {
        prop_oneof!["[abA*]{0,5}", "[aÄäΣσςİß\u{0}]{0,4}"]
    }

    fn some_filter() -> impl Strategy<Value = NameFilter> {
        prop_oneof!["[abA*]{0,5}", "[aÄäΣσςß*]{0,4}"].prop_map(|text| NameFilter::parse(&text))
    }

    proptest! {
        #![proptest_config(crate::test_seed::cases(256))]

        #[test]
        fn a_search_finds_what_the_filter_passes(
            things in prop::collection::vec((prop::collection::vec(some_text(), 0..4), 0..SLOTS_MAX), 0..=SLOTS_MAX),
            kept in any::<u64>().prop_map(Slots),
            filter in some_filter(),
        ) {
            let (mut texts, mut expected) = (Texts::default(), Vec::new());
            for (number, (thing, slot)) in things.iter().enumerate() {
                texts.insert(*slot % (number + 1), |tell| thing.iter().for_each(|text| tell(text)));
                expected.insert(*slot % (number + 1), thing);
            }
            let kept = kept.and(Slots::first(things.len()));
            let mut fewer = Texts::default();
            fewer.append(&texts, kept);
            let fewer_expected: Vec<_> = kept.ascending().map(|slot| expected[slot]).collect();
            for (texts, things) in [(texts, expected), (fewer, fewer_expected)] {
                let passes = |slot: &usize| things[*slot].iter().any(|text| filter.matches(text));
                let expected: Vec<usize> = (0..things.len()).filter(passes).collect();
                let found = Search::new(&filter).among(&texts);
                prop_assert_eq!(found.ascending().collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn slots_are_counted_and_told_from_both_sides() {
        for (count, expected) in [(0, 0), (1, 1), (63, 63), (64, 64)] {
            assert_eq!(Slots::first(count).count(), expected);
        }
        let mut some = Slots::first(3).or(Slots(1 << 63));
        some.remove(1);
        assert_eq!(some.ascending().collect::<Vec<_>>(), [0, 2, 63]);
        assert_eq!(some.descending().collect::<Vec<_>>(), [63, 2, 0]);
    }
}
