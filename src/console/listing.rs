//! Order and states of a list, from its address.

use std::cmp::Ordering;

use super::fields::Fields;
use crate::catalog::page::{Listed, Page};

/// Key of the query for the order; a leading `-` reverses it.
const SORT: &str = "sort";
/// Key of the query for the state.
pub(super) const STATE: &str = "state";

/// Order that a visitor chose.
pub(super) struct Sorting {
    key: String,
    is_reversed: bool,
}

impl Sorting {
    pub(super) fn of(query: &Fields) -> Sorting {
        let text = query.get(SORT);
        let key = text.strip_prefix('-');
        Sorting { key: key.unwrap_or(text).to_owned(), is_reversed: key.is_some() }
    }

    /// Sorts rows by the chosen key, and equal ones by `otherwise`.
    pub(super) fn sort<T>(
        &self,
        rows: &mut [T],
        by_key: impl Fn(&str, &T, &T) -> Ordering,
        otherwise: impl Fn(&T, &T) -> Ordering,
    ) {
        rows.sort_by(|one, other| {
            let chosen = by_key(&self.key, one, other);
            let chosen = if self.is_reversed { chosen.reverse() } else { chosen };
            chosen.then_with(|| otherwise(one, other))
        });
    }
}

/// Heading of a column.
pub(super) struct Heading {
    pub(super) title: &'static str,
    /// Address of the list in the order of this column, or in the opposite order if it is the present one.
    pub(super) link: Option<String>,
    /// Value of `aria-sort`.
    pub(super) order: &'static str,
}

/// Returns the headings of a list; a column without a key cannot be sorted by.
pub(super) fn headings(path: &str, query: &Fields, columns: &[(&'static str, &'static str)]) -> Vec<Heading> {
    let present = Sorting::of(query);
    let heading = |&(key, title): &(&'static str, &'static str)| {
        if key.is_empty() {
            return Heading { title, link: None, order: "none" };
        }
        let is_present = present.key == key;
        let next = if is_present && !present.is_reversed { format!("-{key}") } else { key.to_owned() };
        let order = match (is_present, present.is_reversed) {
            (false, _) => "none",
            (true, false) => "ascending",
            (true, true) => "descending",
        };
        Heading { title, link: Some(query.with(path, &[(SORT, next.as_str()), ("offset", "")])), order }
    };
    columns.iter().map(heading).collect()
}

/// A link that limits a list to one state.
pub(super) struct Chip {
    pub(super) text: &'static str,
    pub(super) link: String,
    pub(super) is_current: bool,
}

/// Returns a link for each state by its word in addresses; the empty word is for all.
pub(super) fn chips(path: &str, query: &Fields, states: &[(&'static str, &'static str)]) -> Vec<Chip> {
    let chip = |&(word, text): &(&'static str, &'static str)| Chip {
        text,
        link: query.with(path, &[(STATE, word), ("offset", "")]),
        is_current: query.get(STATE) == word,
    };
    states.iter().map(chip).collect()
}

/// Returns the rows of a page.
pub(super) fn cut<T>(rows: Vec<T>, page: &Page) -> Listed<T> {
    let amount = rows.len();
    Listed { rows: rows.into_iter().skip(page.offset).take(page.limit).collect(), ..Listed::amount(amount) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_leads_to_the_other_order_and_keeps_the_search() {
        let columns = [("name", "Name"), ("", "Kind")];
        let of = |query: &str| {
            let headings = headings("/ui/x", &Fields::parse(query.as_bytes()), &columns);
            assert!(headings[1].link.is_none());
            (headings[0].link.clone().expect("a link"), headings[0].order)
        };
        assert_eq!(of("name=a&offset=50"), ("/ui/x?name=a&sort=name".to_owned(), "none"));
        assert_eq!(of("sort=name"), ("/ui/x?sort=-name".to_owned(), "ascending"));
        assert_eq!(of("sort=-name&done=saved"), ("/ui/x?sort=name".to_owned(), "descending"));
    }

    #[test]
    fn rows_are_sorted_and_cut() {
        let sorted = |query: &str| {
            let mut rows = vec![("b", 1), ("a", 2), ("c", 2)];
            let by_key = |key: &str, one: &(&str, u8), other: &(&str, u8)| match key {
                "number" => one.1.cmp(&other.1),
                _ => Ordering::Equal,
            };
            Sorting::of(&Fields::parse(query.as_bytes())).sort(&mut rows, by_key, |one, other| one.0.cmp(other.0));
            rows.iter().map(|row| row.0).collect::<String>()
        };
        assert_eq!([sorted(""), sorted("sort=number"), sorted("sort=-number")], ["abc", "bac", "acb"]);
        let listed = cut(vec![1, 2, 3, 4, 5], &Page::new(2, 2));
        assert_eq!((listed.rows, listed.amount), (vec![3, 4], 5));
    }

    #[test]
    fn the_chip_of_the_address_is_current() {
        let states = [("", "all"), ("draft", "draft differs")];
        let of = |query: &str| {
            let chips = chips("/ui/x", &Fields::parse(query.as_bytes()), &states).into_iter();
            chips.map(|chip| (chip.link, chip.is_current)).collect::<Vec<_>>()
        };
        assert_eq!(of("name=a"), [("/ui/x?name=a".to_owned(), true), ("/ui/x?name=a&state=draft".to_owned(), false)]);
        assert_eq!(of("state=draft"), [("/ui/x".to_owned(), false), ("/ui/x?state=draft".to_owned(), true)]);
    }
}
