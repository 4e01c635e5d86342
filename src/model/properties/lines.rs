//! Entries of a properties text, each with its line.

use super::{BYTE_ORDER_MARK, LogicalLines, PropertiesError};

/// Keys and values in order, and the natural line on which each begins, counted from 1; none behind a fault.
pub fn entries(text: &str) -> impl Iterator<Item = Result<(String, String, usize), PropertiesError>> {
    let mut lines = LogicalLines::new(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
    let mut is_faulty = false;
    std::iter::from_fn(move || {
        let line = lines.next_line().filter(|_| !is_faulty)?;
        let entry = lines.key().and_then(|key| Ok((key, lines.value()?, line)));
        is_faulty = entry.is_err();
        Some(entry)
    })
}
