//! Brackets with lines at the margin: `ports: [80,` and `443]` below it.
//!
//! The YAML specification requires these lines to be indented further than the parent of the bracket; readers in Java,
//! Python and C do not. The parser accepts them once they are indented, which does not change their meaning.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::well_formed::Fault;

/// Bytes that may be parsed in all: each bracket whose lines are indented causes another parse.
const PARSED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Factor by which a text may grow.
const GROWTH_MAX: usize = 8;
const GROWTH_FREE_BYTES: usize = 4096;

/// Text with some of its lines indented further.
pub struct Moved<'a> {
    pub text: Cow<'a, str>,
    /// Blanks inserted, by line number counted from 1.
    blanks: BTreeMap<usize, usize>,
    parsed: usize,
    bytes_max: usize,
}

impl<'a> Moved<'a> {
    pub(super) fn new(text: &'a str) -> Moved<'a> {
        let bytes_max = text.len().saturating_mul(GROWTH_MAX).saturating_add(GROWTH_FREE_BYTES);
        Moved { text: Cow::Borrowed(text), blanks: BTreeMap::new(), parsed: 0, bytes_max }
    }

    /// Indents the lines within the first bracket after a byte; false if there are none, or all of them are indented
    /// already.
    pub(super) fn move_lines(&mut self, from: usize) -> bool {
        self.parsed = self.parsed.saturating_add(self.text.len());
        let Some((open, close)) = brackets(self.text.as_bytes(), from) else { return false };
        if self.parsed > PARSED_BYTES_MAX {
            return false;
        }
        let more = indentation_at(&self.text, open) + 1;
        let mut text = String::with_capacity(self.text.len());
        let (mut line, mut start) = (1, 0);
        let moved_before = self.blanks.len();
        while start < self.text.len() {
            let end = end_of_line(self.text.as_bytes(), start);
            let is_within = start > open && start <= close;
            // An indented document marker would become part of a text.
            let is_mark = self.text[start..].starts_with("---") || self.text[start..].starts_with("...");
            if is_within && !is_mark && !self.blanks.contains_key(&line) {
                if text.len() + more > self.bytes_max {
                    return false;
                }
                text.extend(std::iter::repeat_n(' ', more));
                self.blanks.insert(line, more);
            }
            text += &self.text[start..end];
            (line, start) = (line + 1, end);
        }
        self.text = Cow::Owned(text);
        self.blanks.len() > moved_before
    }

    /// Maps the column of a fault to the original text.
    pub(super) fn as_it_was(&self, fault: Fault) -> Fault {
        let blanks = self.blanks.get(&fault.line).copied().unwrap_or_default();
        Fault { column: fault.column.saturating_sub(blanks).max(1), ..fault }
    }
}

/// Returns the position after the line break that ends the line of a byte.
fn end_of_line(bytes: &[u8], from: usize) -> usize {
    let Some(at) = memchr::memchr2(b'\n', b'\r', &bytes[from..]).map(|at| from + at) else { return bytes.len() };
    if bytes[at..].starts_with(b"\r\n") { at + 2 } else { at + 1 }
}

/// Returns the column at which the content of a line begins, after indicators of sequences and mappings.
fn indentation_at(text: &str, byte: usize) -> usize {
    let start = text[..byte].rfind(['\n', '\r']).map_or(0, |end| end + 1);
    text[start..byte].bytes().take_while(|byte| matches!(byte, b' ' | b'-' | b'?' | b':' | b'\t')).count()
}

/// Finds the first bracket after a byte and the one that closes it, ignoring brackets in strings and comments.
fn brackets(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let (mut at, mut before, mut depth, mut open) = (from, b' ', 0_usize, None);
    while let Some(byte) = bytes.get(at).copied() {
        let begins = before.is_ascii_whitespace() || matches!(before, b'[' | b'{' | b',' | b':');
        let mut next = at + 1;
        match byte {
            b'#' if before.is_ascii_whitespace() => next = end_of_line(bytes, at),
            b'"' | b'\'' if begins => next = end_of_quotes(bytes, at)?,
            b'[' | b'{' => {
                open = open.or(Some(at));
                depth += 1;
            }
            b']' | b'}' if depth == 1 => return open.map(|open| (open, at)),
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = bytes.get(next - 1).copied().unwrap_or(b' ');
        at = next;
    }
    None
}

/// Returns the position after the quotation mark that ends the string which begins at a byte.
fn end_of_quotes(bytes: &[u8], from: usize) -> Option<usize> {
    let mark = bytes[from];
    let mut at = from + 1;
    loop {
        let byte = *bytes.get(at)?;
        match byte {
            b'\\' if mark == b'"' => at += 2,
            _ if byte != mark => at += 1,
            _ if mark == b'\'' && bytes.get(at + 1) == Some(&mark) => at += 2,
            _ => return Some(at + 1),
        }
    }
}
