//! Changes to the pairs of a text: comments, order and unchanged lines are preserved.

use std::collections::BTreeSet;

use super::{BYTE_ORDER_MARK, LogicalLines, Pairs, PropertiesError, escape, parse, write};

/// Returns the text changed to have exactly these pairs.
pub fn rewritten(text: &str, pairs: &Pairs) -> Result<String, PropertiesError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let there = parse(text)?;
    let starts = line_starts(text);
    let start_of = |line: usize| starts.get(line - 1).copied().unwrap_or(text.len());
    let mut lines = LogicalLines::new(text);
    let (mut written, mut copied, mut seen) = (String::new(), 0, BTreeSet::new());
    while let Some(line) = lines.next_line() {
        let key = lines.key()?;
        let wanted = pairs.get(&key);
        let is_kept = wanted.is_some() && wanted == there.get(&key);
        if !is_kept {
            // Includes the line ends within and after the entry.
            let end = if lines.rest.as_str().is_empty() { text.len() } else { start_of(lines.natural_line) };
            written.push_str(&text[copied..start_of(line)]);
            if let Some(value) = wanted.filter(|_| !seen.contains(&key)) {
                put(&key, value, &mut written);
            }
            copied = end;
        }
        seen.insert(key);
    }
    written.push_str(&text[copied..]);
    let new = pairs.iter().filter(|(key, _)| !seen.contains(*key));
    for (key, value) in new {
        if !written.is_empty() && !written.ends_with(['\n', '\r']) {
            written.push('\n');
        }
        put(key, value, &mut written);
    }
    // Java's reader has corner cases in which a line is not what it seems, so the result is verified by parsing.
    let is_right = parse(&written).is_ok_and(|read| read == *pairs);
    Ok(if is_right { written } else { write(pairs) })
}

fn put(key: &str, value: &str, text: &mut String) {
    escape(key, true, text);
    text.push('=');
    escape(value, false, text);
    text.push('\n');
}

/// Returns the offsets at which natural lines begin.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = |at: &usize| match bytes[*at] {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    std::iter::once(0).chain((0..bytes.len()).filter(ends).map(|at| at + 1)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(given: &[(&str, &str)]) -> Pairs {
        given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_does_not_change_stays_as_it_was_written() {
        let text = "# of the shop\nname : x\n\nlong = a,\\\n   b\n! last\nold=1";
        let same = pairs(&[("name", "x"), ("long", "a,b"), ("old", "1")]);
        assert_eq!(rewritten(text, &same).as_deref(), Ok(text));
        let changed = pairs(&[("name", "y"), ("long", "c d"), ("new key", "=")]);
        let expected = "# of the shop\nname=y\n\nlong=c d\n! last\nnew\\ key=\\=\n";
        assert_eq!(rewritten(text, &changed).as_deref(), Ok(expected));
        assert_eq!(rewritten("", &pairs(&[("a", "1")])).as_deref(), Ok("a=1\n"));
        assert_eq!(rewritten("a=1\na=2\nb=1\n", &pairs(&[("a", "3"), ("b", "1")])).as_deref(), Ok("a=3\nb=1\n"));
        assert!(rewritten("a=\\u12", &same).is_err());
    }

    proptest! {
        #![proptest_config(crate::test_seed::cases(256))]

        #[test]
        fn clients_read_what_was_asked_for(
            text in "([ab#!=: \\\\\t]{0,6}(\n|\r|\r\n)){0,6}[ab=\\\\]{0,3}",
            wanted in proptest::collection::vec(("[ab#! ]{0,2}", "[ab\\\\= \n]{0,3}"), 0..4),
        ) {
            let wanted: Pairs = wanted.into_iter().collect();
            if let Ok(written) = rewritten(&text, &wanted) {
                prop_assert_eq!(parse(&written), Ok(wanted));
            }
        }
    }
}
