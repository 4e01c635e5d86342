//! Matching of text in list filters.

use memchr::memmem::Finder;

use super::limits;

/// Returns the longest prefix of at most this many bytes that ends at a character boundary.
pub fn first_bytes(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A `name` filter: exact, or with any number of `*` a glob that ignores case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameFilter {
    Exact(String),
    Glob(Glob),
}

/// Lower-cased pieces between the stars, each prepared for searching, since a list matches every name.
#[derive(Clone, Debug)]
pub struct Glob {
    text: String,
    first: String,
    middle: Vec<Finder<'static>>,
    last: String,
}

impl NameFilter {
    pub fn parse(text: &str) -> Self {
        match text.split_once('*') {
            Some((first, rest)) => NameFilter::Glob(Glob::new(text, first, rest)),
            None => NameFilter::Exact(text.to_owned()),
        }
    }

    /// Reports whether the filter matches the value. Without a filter every value passes.
    pub fn passes(filter: &Option<NameFilter>, value: &str) -> bool {
        filter.as_ref().is_none_or(|filter| filter.matches(value))
    }

    pub fn matches(&self, value: &str) -> bool {
        match self {
            NameFilter::Exact(wanted) => value == wanted,
            NameFilter::Glob(glob) => with_lower_case(value, |lower| glob.matches(lower)),
        }
    }
}

/// Reports whether the wanted owner is one of `owners`, which are separated by commas, semicolons or blanks.
pub fn names_owner(owners: &str, wanted: &Option<String>) -> bool {
    let is_between = |letter: char| matches!(letter, ',' | ';') || letter.is_whitespace();
    wanted.as_ref().is_none_or(|wanted| owners.split(is_between).any(|owner| owner == wanted))
}

/// Converts a value to lower case without an allocation, unless it is long or not ASCII.
fn with_lower_case<T>(value: &str, read: impl FnOnce(&[u8]) -> T) -> T {
    let mut buffer = [0; limits::NAME_CHARS_MAX];
    match buffer.get_mut(..value.len()) {
        Some(lower) if value.is_ascii() => {
            lower.copy_from_slice(value.as_bytes());
            lower.make_ascii_lowercase();
            read(lower)
        }
        _ => read(value.to_lowercase().as_bytes()),
    }
}

impl Glob {
    fn new(text: &str, first: &str, rest: &str) -> Self {
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let pieces = middle.split('*').filter(|piece| !piece.is_empty());
        Glob {
            text: text.to_owned(),
            first: first.to_lowercase(),
            middle: pieces.map(|piece| Finder::new(&piece.to_lowercase()).into_owned()).collect(),
            last: last.to_lowercase(),
        }
    }

    /// Matches in linear time: first and last piece are anchored, those between are matched greedily from the left,
    /// which is complete for patterns whose only wildcard is `*`.
    pub(super) fn matches(&self, lower: &[u8]) -> bool {
        (self.first.is_empty() || lower.starts_with(self.first.as_bytes()))
            && self.end(&self.middle, &lower[self.first.len()..])
    }

    /// Returns the piece that every match contains somewhere before all others; `None` if the glob begins with an
    /// anchored piece or has no inner one.
    pub(super) fn lead(&self) -> Option<&Finder<'static>> {
        self.middle.first().filter(|_| self.first.is_empty())
    }

    /// Reports whether every text with the lead matches.
    pub(super) fn is_lead_alone(&self) -> bool {
        self.middle.len() == 1 && self.last.is_empty()
    }

    /// Reports whether a text matches, given the part after the first lead.
    pub(super) fn goes_on(&self, rest: &[u8]) -> bool {
        self.end(&self.middle[1..], rest)
    }

    /// Skips the comparison with an empty piece: `memcmp` of no bytes at the dangling address of an empty string takes
    /// a processor with masked loads a hundred nanoseconds, and a list compares every name.
    fn end(&self, pieces: &[Finder<'static>], mut rest: &[u8]) -> bool {
        for piece in pieces {
            let Some(at) = piece.find(rest) else { return false };
            rest = &rest[at + piece.needle().len()..];
        }
        self.last.is_empty() || rest.ends_with(self.last.as_bytes())
    }
}

/// Compares the texts, from which the other fields are derived.
impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Glob {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_one_of_the_owners() {
        let rows = [
            ("bob", "bob", true),
            ("bobby", "bob", false),
            ("eva,bob", "bob", true),
            ("eva; bob", "bob", true),
            ("eva bob", "bob", true),
            ("bobby,rob", "bob", false),
            ("Bob", "bob", false),
            ("", "bob", false),
        ];
        for (owners, wanted, expected) in rows {
            assert_eq!(names_owner(owners, &Some(wanted.to_owned())), expected, "{wanted} of {owners:?}");
        }
        assert!(names_owner("", &None));
    }

    #[test]
    fn name_filters() {
        let rows = [
            ("pay", "pay", true),
            ("pay", "Pay", false),
            ("pay", "payment", false),
            ("pay*", "Payment", true),
            ("*ment", "payment", true),
            ("*aym*", "payment", true),
            ("p*y*t", "payment", true),
            ("p*t*y", "payment", false),
            ("*", "", true),
            ("**", "x", true),
            ("ab*ba", "aba", false),
            ("ab*ba", "abba", true),
            ("STRASSE*", "strasse 1", true),
            ("a*a", "a", false),
            ("a***b*", "axxbx", true),
            ("*Ä*", "bär", true),
        ];
        for (filter, value, expected) in rows {
            assert_eq!(NameFilter::parse(filter).matches(value), expected, "{filter} on {value}");
        }
    }
}
