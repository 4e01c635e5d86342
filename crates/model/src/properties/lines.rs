//! Entries of a properties text with their lines.

use super::{BYTE_ORDER_MARK, LogicalLines, PropertiesError};

/// Returns keys and values in order, with the natural line on which each begins, counted from 1; ends after the first
/// fault.
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
