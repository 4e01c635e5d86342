//! Entries of a properties text, each with its line.

use super::{BYTE_ORDER_MARK, LogicalLines, PropertiesError};

/// Keys and values in order, and the natural line on which each begins, counted from 1.
pub fn entries(text: &str) -> Result<Vec<(String, String, usize)>, PropertiesError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut lines = LogicalLines::new(text);
    let mut entries = Vec::new();
    while let Some(line) = lines.next_line() {
        entries.push((lines.key()?, lines.value()?, line));
    }
    Ok(entries)
}
