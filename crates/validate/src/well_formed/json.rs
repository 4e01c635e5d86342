//! JSON as defined by RFC 8259: one value, no comments, no trailing commas.

use serde::de::IgnoredAny;

use super::{DEPTH_MAX, Fault};

/// Checks a text, and its depth before anything else.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    if let Some(byte) = deeper_than(text, DEPTH_MAX) {
        return Err(Fault::too_deep(text, byte));
    }
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return Ok(()) };
    let told = error.to_string();
    let why = told.rsplit_once(" at line ").map_or(told.as_str(), |(why, _)| why);
    // The column of the parser counts bytes.
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let before = &line.as_bytes()[..error.column().saturating_sub(1).min(line.len())];
    Err(Fault { line: error.line().max(1), column: super::characters(before) + 1, why: why.to_owned() })
}

/// Returns the byte of the first bracket nested deeper than `depth_max`, because the parsers recurse. Brackets in
/// strings do not count.
pub fn deeper_than(text: &str, depth_max: usize) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > depth_max {
                    return Some(at);
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}
