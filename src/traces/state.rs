//! W3C header `tracestate`: entries of the caller's tracing vendors.
//!
//! The node does not interpret it. It is attached to the spans of the request on this node and to a link to the
//! caller's span, as far as it is well-formed.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::TraceState;

const HEADER: HeaderName = HeaderName::from_static("tracestate");
/// Maximum number of entries.
const ENTRIES_MAX: usize = 32;
/// Characters that every participant must propagate. Entries are removed from longer lists.
const CHARS_MAX: usize = 512;
/// Longest entry that is not removed before others.
const SHORT_ENTRY_CHARS_MAX: usize = 128;
const BLANKS: [char; 2] = [' ', '\t'];

/// Returns the state sent by the caller; empty if it is malformed. Call it only if the `traceparent` is valid.
pub(super) fn of(headers: &HeaderMap) -> TraceState {
    let texts: Result<Vec<&str>, _> = headers.get_all(HEADER).iter().map(HeaderValue::to_str).collect();
    let entries = texts.ok().and_then(|texts| read(&texts)).unwrap_or_default();
    TraceState::from_key_value(shortened(entries)).unwrap_or_default()
}

/// Parses the entries of a list, which may be spread over several headers.
fn read<'a>(texts: &[&'a str]) -> Option<Vec<(&'a str, &'a str)>> {
    let members = texts.iter().flat_map(|text| text.split(',')).map(|member| member.trim_matches(BLANKS));
    let members = members.filter(|member| !member.is_empty()).take(ENTRIES_MAX + 1);
    let entries: Vec<_> = members.map(entry).collect::<Option<_>>()?;
    if entries.len() > ENTRIES_MAX {
        return None;
    }
    let mut kept: Vec<(&str, &str)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        // A participant that changes an entry moves it to the front.
        if kept.iter().all(|(earlier, _)| *earlier != key) {
            kept.push((key, value));
        }
    }
    Some(kept)
}

/// Splits an entry into key and value. [`TraceState::from_key_value`] validates the rest.
fn entry(member: &str) -> Option<(&str, &str)> {
    member.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty() && !value.contains('\t'))
}

/// Removes entries until the list fits: first those that are long, each time the last one.
fn shortened<'a>(mut entries: Vec<(&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
    let chars = |(key, value): &(&str, &str)| key.len() + 1 + value.len();
    // Entries are separated by commas.
    while entries.iter().map(|entry| chars(entry) + 1).sum::<usize>() > CHARS_MAX + 1 {
        let long = entries.iter().rposition(|entry| chars(entry) > SHORT_ENTRY_CHARS_MAX);
        entries.remove(long.unwrap_or(entries.len() - 1));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the state as sent to the collector.
    fn header_of(texts: &[&str]) -> String {
        let values = texts.iter().map(|text| (HEADER, HeaderValue::from_bytes(text.as_bytes()).expect("a value")));
        of(&HeaderMap::from_iter(values)).header()
    }

    /// Returns a list of `count` entries with `chars` characters each.
    fn list(count: usize, chars: usize) -> String {
        let entry = |number: usize| format!("k{number:02}={}", "v".repeat(chars - 4));
        (0..count).map(entry).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn what_the_standard_asks_for_is_told_as_it_came() {
        for text in [
            "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
            "fw529a3039@dt=FfAAAAAABAAAA",
            "1a-2b*3c/4d_5e=x",
            "a=1;b",
            "k=!#$%&'()*+-./:;<>?@[]^_`{|}~ x",
            &format!("{}=v", "k".repeat(256)),
            &format!("k={}", "v".repeat(256)),
            &list(32, 10),
        ] {
            assert_eq!(header_of(&[text]), text);
        }
        for (texts, expected) in [
            (&["a=1 \t,\t b=2 ,c= 3"][..], "a=1,b=2,c= 3"),
            (&["", "a=1,,", "\t,b=2"], "a=1,b=2"),
            (&["a=1,b=2", "c=3"], "a=1,b=2,c=3"),
            (&["a=1,b=2,a=3"], "a=1,b=2"),
            (&[""], ""),
            (&[], ""),
        ] {
            assert_eq!(header_of(texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn anything_else_is_as_if_it_were_not_there() {
        for text in [
            "a",
            "=1",
            "a=",
            "a==1",
            "a=1=2",
            "A=1",
            "-a=1",
            "@a=1",
            "a =1",
            "a.b=1",
            "a=\t1",
            "a=1\tb",
            "a=ü",
            "a@b@c=1",
            &format!("{}=v", "k".repeat(257)),
            &format!("k={}", "v".repeat(257)),
            &list(33, 10),
            &"x".repeat(40_000),
        ] {
            assert_eq!(header_of(&[text]), "", "{text:?}");
            assert_eq!(header_of(&["good=1", text]), "", "{text:?} spoils what stands before it");
        }
    }

    #[test]
    fn of_a_long_list_entries_are_left_out_as_a_whole() {
        assert_eq!(header_of(&[&list(10, 50)]), list(10, 50), "509 characters");
        assert_eq!(header_of(&[&list(12, 50)]), list(10, 50), "the last ones");
        let long = |name: &str| format!("{name}={}", "v".repeat(150));
        let (first, last) = (long("first"), long("last"));
        assert_eq!(header_of(&[&format!("{first},{},{last}", list(5, 50))]), format!("{first},{}", list(5, 50)));
        assert_eq!(header_of(&[&format!("{first},{last},{}", list(9, 50))]), list(9, 50), "the long ones first");
        let whole = format!("{},{}", list(9, 50), format_args!("x={}", "v".repeat(51)));
        assert_eq!((whole.len(), header_of(&[&whole])), (512, whole.clone()));
        assert_eq!(header_of(&[&format!("{whole}v")]), list(9, 50));
    }
}
