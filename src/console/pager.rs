//! Pagination: the present page, and links to its neighbours that retain the search.

use super::fields::Fields;
use crate::catalog::page::{Listed, Page};

/// Rows of a page.
const ROWS: usize = 50;

pub(super) struct Pager {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) amount: usize,
    /// True if a search is active.
    pub(super) is_filtered: bool,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Pager {
    pub(super) fn page_of(query: &Fields) -> Page {
        Page::new(query.get("offset").parse().unwrap_or(0), ROWS)
    }

    pub(super) fn new<T>(path: &str, query: &Fields, listed: &Listed<T>) -> Pager {
        let offset = Pager::page_of(query).offset;
        let shown = listed.rows.len();
        let link = |offset: usize| {
            let mut pairs = url::form_urlencoded::Serializer::new(String::new());
            pairs.extend_pairs(query.pairs().filter(|(key, value)| *key != "offset" && !value.is_empty()));
            if offset > 0 {
                pairs.append_pair("offset", &offset.to_string());
            }
            let pairs = pairs.finish();
            if pairs.is_empty() { path.to_owned() } else { format!("{path}?{pairs}") }
        };
        Pager {
            first: if shown == 0 { 0 } else { offset + 1 },
            last: offset + shown,
            amount: listed.amount,
            is_filtered: query
                .pairs()
                .any(|(key, value)| !matches!(key, "offset" | "done") && !value.trim().is_empty()),
            before: (offset > 0).then(|| link(offset.saturating_sub(ROWS))),
            after: (offset + shown < listed.amount && shown > 0).then(|| link(offset + ROWS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_is_kept_from_page_to_page() {
        let query = Fields::parse(b"name=a%26b&offset=50&kind=");
        let pager = Pager::new("/ui/x", &query, &Listed { rows: vec![(); 50], ..Listed::amount(120) });
        assert_eq!((pager.first, pager.last, pager.amount, pager.is_filtered), (51, 100, 120, true));
        assert_eq!(pager.before.as_deref(), Some("/ui/x?name=a%26b"));
        assert_eq!(pager.after.as_deref(), Some("/ui/x?name=a%26b&offset=100"));
    }

    #[test]
    fn an_only_page_has_none_beside_it() {
        let pager = Pager::new("/ui/x", &Fields::default(), &Listed::<()>::amount(0));
        assert_eq!((pager.first, pager.last, pager.before, pager.after), (0, 0, None, None));
    }
}
