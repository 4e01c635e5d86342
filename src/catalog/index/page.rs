//! Pages of a list: shared by all queries.
//!
//! A list has an order of its own, mostly the newest change first, and pages of it are named by an offset: what changes
//! between two of them moves rows from one to the other. By key nothing moves. Whatever can be listed says where it
//! stands by key ([`Placed`]), a full page says where it ended ([`After`]), and the next one begins behind that: a row
//! that is there from the first page to the last is on one of them, whatever else comes, goes and changes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::abandoned::is_abandoned;
use crate::model::limits;
use crate::model::text::NameFilter;

/// Position of a row by key: namespace, group, name and id, or what stands for them. No two rows of a list have the
/// same, and none gets another one while it is called the same.
pub type ListKey<'a> = [Cow<'a, str>; 4];

/// Something that is listed by key.
pub trait Placed {
    fn place(&self) -> ListKey<'_>;
}

impl<T: Placed> Placed for Arc<T> {
    fn place(&self) -> ListKey<'_> {
        (**self).place()
    }
}

/// A place of these parts; what is missing is empty.
pub(crate) fn place_of<const N: usize>(parts: [&str; N]) -> ListKey<'_> {
    let mut place = ListKey::default();
    place.iter_mut().zip(parts).for_each(|(part, text)| *part = Cow::Borrowed(text));
    place
}

/// A part of a place that puts higher numbers first.
pub(crate) fn highest_first(number: u64) -> Cow<'static, str> {
    Cow::Owned(format!("{:016x}", u64::MAX - number))
}

/// Behind which row a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After(ListKey<'static>);

impl After {
    fn of(row: &impl Placed) -> After {
        After(row.place().map(|part| Cow::Owned(part.into_owned())))
    }

    /// As clients bring it, who need not know what is in it.
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&self.0).expect("texts"))
    }

    pub fn read(text: &str) -> Option<After> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok().map(After)
    }
}

/// Rows of a list that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub offset: usize,
    /// At most [`limits::PAGE_ROWS_MAX`]; 0 asks for the amount alone.
    pub limit: usize,
    pub order: Order,
}

/// In which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// That of the list.
    OfList,
    /// By [`ListKey`], from the first one on or from behind another one.
    Key(Option<After>),
}

impl Page {
    pub fn new(offset: usize, limit: usize) -> Self {
        Page { offset, limit: limit.min(limits::PAGE_ROWS_MAX), order: Order::OfList }
    }

    /// Everything, for lists that are never cut.
    pub const ALL: Page = Page::first(usize::MAX);

    /// As many as this, from the first one on.
    pub const fn first(limit: usize) -> Page {
        Page { offset: 0, limit, order: Order::OfList }
    }

    pub fn by_key(self, after: Option<After>) -> Page {
        Page { order: Order::Key(after), ..self }
    }

    pub(in crate::catalog) fn is_by_key(&self) -> bool {
        matches!(self.order, Order::Key(_))
    }

    /// Position after which a page by key begins; `None` if it begins with the first row, or is not by key.
    pub(in crate::catalog) fn after(&self) -> Option<&ListKey<'static>> {
        match &self.order {
            Order::Key(after) => after.as_ref().map(|after| &after.0),
            Order::OfList => None,
        }
    }

    pub(in crate::catalog) fn is_behind(&self, row: &impl Placed) -> bool {
        self.after().is_none_or(|after| row.place() > *after)
    }

    /// The place to look from, for who looks for what has this namespace.
    pub(super) fn starts_at<'a>(&'a self, namespace: &'a Option<NameFilter>) -> ListKey<'a> {
        let after = self.after().map(|after| place_of([&after[0], &after[1], &after[2], &after[3]]));
        let first = place_of([exact(namespace).unwrap_or_default()]);
        after.filter(|after| *after > first).unwrap_or(first)
    }

    /// The first row behind it.
    pub(in crate::catalog) fn end(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }
}

fn exact(filter: &Option<NameFilter>) -> Option<&str> {
    match filter {
        Some(NameFilter::Exact(text)) => Some(text),
        _ => None,
    }
}

/// The rows of one page and how many there are in all.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    pub amount: usize,
    pub rows: Vec<T>,
    /// Position at which a full page by key ended.
    pub after: Option<After>,
}

/// Nothing at all.
impl<T> Default for Listed<T> {
    fn default() -> Self {
        Listed::amount(0)
    }
}

impl<T> Listed<T> {
    /// So many in all, and none of them shown.
    pub fn amount(amount: usize) -> Self {
        Listed { amount, rows: Vec::new(), after: None }
    }

    /// The same page with something made of each row.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Listed<U> {
        Listed { amount: self.amount, rows: self.rows.into_iter().map(each).collect(), after: self.after }
    }
}

impl<T: Placed> Listed<T> {
    /// A page by key.
    pub fn by_key(amount: usize, rows: Vec<T>, page: &Page) -> Self {
        let last = rows.last().filter(|_| rows.len() == page.limit);
        Listed { amount, after: last.map(After::of), rows }
    }
}

impl<T: Placed + Clone> Listed<T> {
    /// Cuts `page` out of `matching`, which comes in the order of the list.
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

    /// A page of what `listed` has, in the order of the list or by key. By key the rows are those that `onward` gives
    /// from a place on, and `is_wanted` holds of those that the list has.
    pub(in crate::catalog) fn ordered<'a, R: Iterator<Item = &'a T>>(
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

    /// A page by key of rows that come by key, from [`Page::starts_at`] on; `is_wanted` holds of those that the list
    /// has. Nothing behind the page is looked at, and nothing behind the namespace that all of them have to have.
    pub(in crate::catalog) fn walked<'a>(
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

/// Cuts a page out of rows that have no index in the order of their list: of many rows only those of
/// the page and before it are sorted.
pub(in crate::catalog) fn cut_sorted<T: Placed + Clone>(
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

    /// Whatever page is asked for, it is that of the whole list in order.
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
