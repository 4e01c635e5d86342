//! Pages of a list, shared by all queries.
//!
//! A list has its own order, usually newest change first, with pages by offset: changes between two requests may move
//! rows from one page to another. Pages by key are stable: a list has a position by key for each row ([`Placed`]), a
//! full page returns where it ended ([`After`]), and the next page starts after it. A row that exists during the whole
//! walk is on exactly one page, whatever else changes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::abandoned::is_abandoned;
use crate::model::limits;
use crate::model::text::NameFilter;

/// Position of a row by key: namespace, group, name and id, or substitutes for them. It is unique in a list, and does
/// not change while the row keeps its name.
pub type ListKey<'a> = [Cow<'a, str>; 4];

/// A row with a position by key.
pub trait Placed {
    fn place(&self) -> ListKey<'_>;
}

impl<T: Placed> Placed for Arc<T> {
    fn place(&self) -> ListKey<'_> {
        (**self).place()
    }
}

/// Builds a position from parts; missing ones are empty.
pub fn place_of<const N: usize>(parts: [&str; N]) -> ListKey<'_> {
    let mut place = ListKey::default();
    place.iter_mut().zip(parts).for_each(|(part, text)| *part = Cow::Borrowed(text));
    place
}

/// Returns a part of a position that sorts higher numbers first.
pub(crate) fn highest_first(number: u64) -> Cow<'static, str> {
    Cow::Owned(format!("{:016x}", u64::MAX - number))
}

/// Position after which a page starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After(ListKey<'static>);

impl After {
    fn of(row: &impl Placed) -> After {
        After(row.place().map(|part| Cow::Owned(part.into_owned())))
    }

    /// Returns the opaque text that clients send back.
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&self.0).expect("texts"))
    }

    pub fn read(text: &str) -> Option<After> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok().map(After)
    }
}

/// Selection of rows from a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub offset: usize,
    /// Limit for the rows, at most [`limits::PAGE_ROWS_MAX`]; 0 requests the amount only.
    pub limit: usize,
    pub order: Order,
}

/// Order of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order of the list.
    OfList,
    /// Order by [`ListKey`], from the first row or after a position.
    Key(Option<After>),
}

impl Page {
    pub fn new(offset: usize, limit: usize) -> Self {
        Page { offset, limit: limit.min(limits::PAGE_ROWS_MAX), order: Order::OfList }
    }

    /// All rows, for lists that are never cut.
    pub const ALL: Page = Page::first(usize::MAX);

    /// Returns the page of the first `limit` rows.
    pub const fn first(limit: usize) -> Page {
        Page { offset: 0, limit, order: Order::OfList }
    }

    pub fn by_key(self, after: Option<After>) -> Page {
        Page { order: Order::Key(after), ..self }
    }

    pub(crate) fn is_by_key(&self) -> bool {
        matches!(self.order, Order::Key(_))
    }

    /// Returns the position after which a page by key starts; `None` for the first page, or one that is not by key.
    pub(crate) fn after(&self) -> Option<&ListKey<'static>> {
        match &self.order {
            Order::Key(after) => after.as_ref().map(|after| &after.0),
            Order::OfList => None,
        }
    }

    pub(crate) fn is_behind(&self, row: &impl Placed) -> bool {
        self.after().is_none_or(|after| row.place() > *after)
    }

    /// Returns the position at which to start the search for rows of a namespace.
    pub(super) fn starts_at<'a>(&'a self, namespace: &'a Option<NameFilter>) -> ListKey<'a> {
        let after = self.after().map(|after| place_of([&after[0], &after[1], &after[2], &after[3]]));
        let first = place_of([exact(namespace).unwrap_or_default()]);
        after.filter(|after| *after > first).unwrap_or(first)
    }

    /// Returns the offset of the first row after the page.
    pub(crate) fn end(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }
}

fn exact(filter: &Option<NameFilter>) -> Option<&str> {
    match filter {
        Some(NameFilter::Exact(text)) => Some(text),
        _ => None,
    }
}

/// Rows of one page, and the number of all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    pub amount: usize,
    pub rows: Vec<T>,
    /// Position at which a full page by key ended.
    pub after: Option<After>,
}

/// An empty list.
impl<T> Default for Listed<T> {
    fn default() -> Self {
        Listed::amount(0)
    }
}

impl<T> Listed<T> {
    /// Returns a result with the amount only, without rows.
    pub fn amount(amount: usize) -> Self {
        Listed { amount, rows: Vec::new(), after: None }
    }

    /// Converts each row.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Listed<U> {
        Listed { amount: self.amount, rows: self.rows.into_iter().map(each).collect(), after: self.after }
    }
}

impl<T: Placed> Listed<T> {
    /// Builds a page by key.
    pub fn by_key(amount: usize, rows: Vec<T>, page: &Page) -> Self {
        let last = rows.last().filter(|_| rows.len() == page.limit);
        Listed { amount, after: last.map(After::of), rows }
    }
}

impl<T: Placed + Clone> Listed<T> {
    /// Cuts `page` out of `matching`, which is in the order of the list.
    pub fn cut<'a>(matching: impl Iterator<Item = &'a T>, page: &Page) -> Listed<T>
    where
        T: 'a,
    {
        if page.is_by_key() {
            return cut_sorted(matching.collect(), |_, _| Ordering::Equal, page);
        }
        let mut listed = Listed::amount(0);
        for row in matching {
            if listed.amount >= page.offset && listed.rows.len() < page.limit {
                listed.rows.push(row.clone());
            }
            listed.amount += 1;
        }
        listed
    }

    /// Returns a page of a list, in its order by `listed` or by key. By key, `onward` returns the rows from a position
    /// on, and `is_wanted` filters them.
    pub(crate) fn ordered<'a, R: Iterator<Item = &'a T>>(
        page: &Page,
        namespace: &Option<NameFilter>,
        listed: impl Fn(&Page) -> Listed<T>,
        onward: impl FnOnce(ListKey<'_>) -> R,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Listed<T>
    where
        T: 'a,
    {
        if !page.is_by_key() {
            return listed(page);
        }
        let amount = listed(&Page::first(0)).amount;
        Listed::walked(amount, onward(page.starts_at(namespace)), namespace, is_wanted, page)
    }

    /// Returns a page by key of `rows`, which start at [`Page::starts_at`] and are filtered by `is_wanted`. The walk
    /// ends with the page, or with the namespace that is required of all rows.
    pub(crate) fn walked<'a>(
        amount: usize,
        rows: impl Iterator<Item = &'a T>,
        namespace: &Option<NameFilter>,
        is_wanted: impl Fn(&T) -> bool,
        page: &Page,
    ) -> Listed<T>
    where
        T: 'a,
    {
        let is_within = |row: &&T| exact(namespace).is_none_or(|namespace| row.place()[0] == namespace);
        let behind = rows.skip_while(|row| !page.is_behind(*row)).take_while(|row| is_within(row) && !is_abandoned());
        let rows = behind.filter(|row| is_wanted(row)).skip(page.offset).take(page.limit);
        Listed::by_key(amount, rows.cloned().collect(), page)
    }
}

/// Cuts a page out of unsorted rows. Only the rows of the page and those before it are sorted.
pub(crate) fn cut_sorted<T: Placed + Clone>(
    mut matching: Vec<&T>,
    order: impl Fn(&T, &T) -> Ordering,
    page: &Page,
) -> Listed<T> {
    let amount = matching.len();
    if page.is_by_key() {
        matching.retain(|row| page.is_behind(*row));
        let rows = sorted_part(matching, |one, other| one.place().cmp(&other.place()), page);
        return Listed::by_key(amount, rows, page);
    }
    Listed { amount, rows: sorted_part(matching, order, page), after: None }
}

fn sorted_part<T: Clone>(mut rows: Vec<&T>, order: impl Fn(&T, &T) -> Ordering, page: &Page) -> Vec<T> {
    let end = page.end().min(rows.len());
    let mut order = |one: &&T, other: &&T| order(one, other);
    if page.offset >= end {
        return Vec::new();
    }
    if end < rows.len() {
        rows.select_nth_unstable_by(end, &mut order);
        rows.truncate(end);
    }
    rows.sort_unstable_by(&mut order);
    rows.into_iter().skip(page.offset).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Placed for u64 {
        fn place(&self) -> ListKey<'_> {
            [Cow::Owned(format!("{self:04}")), Cow::default(), Cow::default(), Cow::default()]
        }
    }

    /// Every page equals that part of the sorted list.
    #[test]
    fn a_page_is_a_part_of_the_sorted_list() {
        let rows: Vec<u64> = (0..50).map(|number| (number * 37) % 101).collect();
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        for (offset, limit) in
            [(0, 0), (0, 1), (0, 49), (0, 50), (0, 51), (7, 10), (49, 10), (50, 10), (90, 5), (3, usize::MAX)]
        {
            let page = Page { offset, ..Page::first(limit) };
            let listed = cut_sorted(rows.iter().collect(), u64::cmp, &page);
            let expected: Vec<u64> = sorted.iter().copied().skip(offset).take(limit).collect();
            assert_eq!(listed, Listed { amount: 50, rows: expected.clone(), after: None }, "{page:?}");
            let by_key = Listed::cut(rows.iter(), &page.by_key(None));
            assert_eq!((by_key.amount, by_key.rows), (50, expected), "by key");
        }
    }

    #[test]
    fn full_pages_by_key_lead_to_the_next_one() {
        let rows: Vec<u64> = (0..50).map(|number| (number * 37) % 101).collect();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let listed = Listed::cut(rows.iter(), &Page::first(7).by_key(after));
            assert_eq!(listed.amount, 50);
            assert_eq!(listed.after.is_some(), listed.rows.len() == 7);
            seen.extend(listed.rows);
            after = listed.after.and_then(|after| After::read(&after.text()));
            if after.is_none() {
                break;
            }
        }
        let mut sorted = rows;
        sorted.sort_unstable();
        assert_eq!(seen, sorted);
        assert_eq!(Listed::cut(seen.iter(), &Page::first(0).by_key(None)).after, None, "the amount alone");
    }

    #[test]
    fn only_what_a_page_gave_is_read_as_its_end() {
        let after = After(place_of(["a b", "\u{e4}/+", "", "\"7"]).map(|part| Cow::Owned(part.into_owned())));
        let text = after.text();
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text}");
        assert_eq!(After::read(&text), Some(after));
        for bad in ["", "a", "!!", "W10", "bnVsbA", "WyJhIl0", &text[1..], &text[..text.len() - 4]] {
            assert_eq!(After::read(bad), None, "{bad}");
        }
    }
}
