//! Pages of a list: shared by all queries.

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
}

/// The rows of one page and how many there are in all.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    pub amount: usize,
    pub rows: Vec<T>,
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

/// Cuts a page out of rows that have no index in list order: newest first, then by name.
pub(super) fn cut_sorted<T: Clone, K: Ord>(mut matching: Vec<T>, order: impl Fn(&T) -> K, page: Page) -> Listed<T> {
    matching.sort_by_cached_key(order);
    Listed::cut(matching.iter(), page)
}
