//! Matching of text in list filters.

use super::limits;

/// A `name` filter: exact, or with `*` (anywhere, any number) a glob that ignores case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameFilter {
    Exact(String),
    /// The pieces between the stars, lower-cased.
    Glob(Vec<String>),
}

impl NameFilter {
    pub fn parse(text: &str) -> Self {
        if text.contains('*') {
            NameFilter::Glob(text.to_lowercase().split('*').map(str::to_owned).collect())
        } else {
            NameFilter::Exact(text.to_owned())
        }
    }

    pub fn matches(&self, value: &str) -> bool {
        match self {
            NameFilter::Exact(wanted) => value == wanted,
            NameFilter::Glob(pieces) => with_lower_case(value, |lower| glob(pieces, lower)),
        }
    }
}

/// Lists try every name there is: one of usual length is lowered without an allocation.
fn with_lower_case<T>(value: &str, read: impl FnOnce(&str) -> T) -> T {
    let mut buffer = [0; limits::NAME_CHARS_MAX];
    match buffer.get_mut(..value.len()) {
        Some(lower) if value.is_ascii() => {
            lower.copy_from_slice(value.as_bytes());
            lower.make_ascii_lowercase();
            read(str::from_utf8(lower).expect("ASCII is UTF-8"))
        }
        _ => read(&value.to_lowercase()),
    }
}

/// First and last piece are anchored; the ones between are taken greedily from the left, which is
/// complete for a pattern whose only wildcard is `*`, and linear.
fn glob(pieces: &[String], value: &str) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(mut rest) = value.strip_prefix(first.as_str()) else { return false };
    for piece in middle {
        let Some(at) = rest.find(piece.as_str()) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ];
        for (filter, value, expected) in rows {
            assert_eq!(NameFilter::parse(filter).matches(value), expected, "{filter} on {value}");
        }
    }
}
