//! Pages of a list: shared by all queries.

use std::cmp::Ordering;

use crate::model::limits;

/// Which rows of a list are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub offset: usize,
    /// At most [`limits::PAGE_ROWS_MAX`]; 0 asks for the amount alone.
    pub limit: usize,
}

impl Page {
    pub fn new(offset: usize, limit: usize) -> Self {
        Page { offset, limit: limit.min(limits::PAGE_ROWS_MAX) }
    }

    /// Everything, for lists that are never cut.
    pub const ALL: Page = Page { offset: 0, limit: usize::MAX };

    /// The first row behind it.
    pub(super) fn end(self) -> usize {
        self.offset.saturating_add(self.limit)
    }
}

/// The rows of one page and how many there are in all.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    pub amount: usize,
    pub rows: Vec<T>,
}

/// Nothing at all.
impl<T> Default for Listed<T> {
    fn default() -> Self {
        Listed { amount: 0, rows: Vec::new() }
    }
}

impl<T> Listed<T> {
    /// Cuts `page` out of `matching`, which comes in the order of the list.
    pub fn cut<'a>(matching: impl Iterator<Item = &'a T>, page: Page) -> Listed<T>
    where
        T: Clone + 'a,
    {
        let mut listed = Listed { amount: 0, rows: Vec::new() };
        for row in matching {
            if listed.amount >= page.offset && listed.rows.len() < page.limit {
                listed.rows.push(row.clone());
            }
            listed.amount += 1;
        }
        listed
    }
}

impl<T> Listed<T> {
    /// The same page with something made of each row.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Listed<U> {
        Listed { amount: self.amount, rows: self.rows.into_iter().map(each).collect() }
    }
}

/// Cuts a page out of rows that have no index in the order of their list: of many rows only those of
/// the page and before it are sorted.
pub(super) fn cut_sorted<T: Clone>(mut matching: Vec<&T>, order: impl Fn(&T, &T) -> Ordering, page: Page) -> Listed<T> {
    let amount = matching.len();
    let end = page.end().min(amount);
    let mut order = |one: &&T, other: &&T| order(one, other);
    if page.offset >= end {
        matching.clear();
    } else if end < amount {
        matching.select_nth_unstable_by(end, &mut order);
        matching.truncate(end);
    }
    matching.sort_unstable_by(&mut order);
    Listed { amount, rows: matching.into_iter().skip(page.offset).cloned().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever page is asked for, it is that of the whole list in order.
    #[test]
    fn a_page_is_a_part_of_the_sorted_list() {
        let rows: Vec<u64> = (0..50).map(|number| (number * 37) % 101).collect();
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        for (offset, limit) in
            [(0, 0), (0, 1), (0, 49), (0, 50), (0, 51), (7, 10), (49, 10), (50, 10), (90, 5), (3, usize::MAX)]
        {
            let page = Page { offset, limit };
            let listed = cut_sorted(rows.iter().collect(), u64::cmp, page);
            let expected: Vec<u64> = sorted.iter().copied().skip(offset).take(limit).collect();
            assert_eq!(listed, Listed { amount: 50, rows: expected }, "{page:?}");
        }
    }
}
