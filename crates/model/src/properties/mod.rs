//! Java's properties text, read and written by the rules of `java.util.Properties`.
//!
//! Clients of the config surface pass the text to Java's own reader, so [`parse`] follows that reader's state machine
//! step by step, including its corner cases, and [`write()`] is its inverse. There are two differences, because the
//! text is UTF-8 from editors: a byte order mark at the start is dropped (Java would include it in the first key), and
//! an escape for half of a surrogate pair is an error (Java would create a string that no encoding can represent).

mod lines;
mod pairs;
mod rewrite;

use std::{fmt, str::Chars};

pub use lines::entries;
pub use pairs::Pairs;
pub use rewrite::rewritten;

const BYTE_ORDER_MARK: char = '\u{feff}';
const ESCAPE_DIGITS: usize = 4;

/// Reason why a text is not a properties file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertiesError {
    /// Natural line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    pub fault: PropertiesFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertiesFault {
    /// `\u` not followed by four hexadecimal digits.
    MalformedEscape,
    /// `\u` escape for one half of a surrogate pair without the other.
    LoneSurrogate,
}

impl fmt::Display for PropertiesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.fault)
    }
}

impl fmt::Display for PropertiesFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PropertiesFault::MalformedEscape => "\\u must be followed by four hexadecimal digits",
            PropertiesFault::LoneSurrogate => "a \\u escape names half of a surrogate pair",
        })
    }
}

impl std::error::Error for PropertiesError {}

/// Parses properties text. A repeated key has its first position and its last value.
pub fn parse(text: &str) -> Result<Pairs, PropertiesError> {
    let mut lines = LogicalLines::new(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
    let mut pairs = Pairs::default();
    while lines.next_line().is_some() {
        pairs.insert(lines.key()?, lines.value()?);
    }
    Ok(pairs)
}

/// Writes one `key=value` line per pair, without the date comment that Java writes first.
pub fn write(pairs: &Pairs) -> String {
    let mut text = String::new();
    for (key, value) in pairs.iter() {
        let mut key = key.as_str();
        // A mark at the very start would be dropped by [`parse`] and by editors; Java reads the escape as the same
        // character.
        if text.is_empty()
            && let Some(rest) = key.strip_prefix(BYTE_ORDER_MARK)
        {
            text.push_str("\\ufeff");
            key = rest;
        }
        escape(key, true, &mut text);
        text.push('=');
        escape(value, false, &mut text);
        text.push('\n');
    }
    text
}

/// Joins natural lines into logical ones: skips comments and blank lines, removes continuations and leading blanks, and
/// leaves all other escapes unchanged.
struct LogicalLines<'a> {
    text: &'a str,
    rest: Chars<'a>,
    /// Natural line in which `rest` starts; below, the offset of its first byte in the text.
    natural_line: usize,
    line_start: usize,
    buffer: String,
    /// Origin in the text of each part of the buffer.
    parts: Vec<LinePart>,
}

/// Part of a logical line that is on one natural line.
struct LinePart {
    /// Offset of its first byte in the buffer; below, in the text.
    buffer: usize,
    text: usize,
    line: usize,
    line_start: usize,
}

impl<'a> LogicalLines<'a> {
    fn new(text: &'a str) -> Self {
        let buffer = String::new();
        let parts = Vec::new();
        LogicalLines { text, rest: text.chars(), natural_line: 1, line_start: 0, buffer, parts }
    }

    fn key(&self) -> Result<String, PropertiesError> {
        unescape(split(&self.buffer).0).map_err(|(fault, at)| self.error(fault, at))
    }

    fn value(&self) -> Result<String, PropertiesError> {
        let (_, value) = split(&self.buffer);
        let start = self.buffer.len() - value.len();
        unescape(value).map_err(|(fault, at)| self.error(fault, start + at))
    }

    /// Creates an error with the place in the text of a byte of the buffer.
    fn error(&self, fault: PropertiesFault, at: usize) -> PropertiesError {
        let part =
            self.parts.iter().rfind(|part| part.buffer <= at).expect("what is in the buffer comes from the text");
        let before = &self.text[part.line_start..part.text + (at - part.buffer)];
        PropertiesError { line: part.line, column: before.chars().count() + 1, fault }
    }

    /// Fills `buffer` with the next logical line and returns the number of its first line; `None` at the end.
    fn next_line(&mut self) -> Option<usize> {
        self.buffer.clear();
        self.parts.clear();
        let mut is_part_begun = false;
        let mut first_line = self.natural_line;
        // Blanks are skipped at the start of a natural line, and line ends only at the start of a logical line: a blank
        // line after a continuation ends the logical line.
        let (mut skipping, mut continued, mut escaping) = (true, false, false);
        while let Some(c) = self.rest.next() {
            let ends_line = matches!(c, '\n' | '\r');
            // Evaluated before the second half of CR LF is consumed, as in Java.
            let at_end = self.rest.as_str().is_empty();
            if ends_line {
                self.finish_line_end(c);
                is_part_begun = false;
            }
            if skipping {
                if is_blank(c) || (ends_line && !continued) {
                    continue;
                }
                (skipping, continued) = (false, false);
            }
            if self.buffer.is_empty() {
                // Java checks only whether its buffer is empty: a comment sign right after a line with a lone `\`
                // starts a comment too.
                if matches!(c, '#' | '!') {
                    self.skip_comment();
                    skipping = true;
                    continue;
                }
                first_line = self.natural_line - usize::from(ends_line);
            }
            if !ends_line {
                if !is_part_begun {
                    self.begin_part(c);
                    is_part_begun = true;
                }
                self.buffer.push(c);
                escaping = c == '\\' && !escaping;
            } else if self.buffer.is_empty() {
                skipping = true;
            } else if escaping {
                self.buffer.pop();
                (skipping, continued, escaping) = (true, true, false);
                if at_end {
                    return Some(first_line);
                }
            } else {
                return Some(first_line);
            }
        }
        // Java reads a text of a single backslash as an empty key with an empty value.
        let found = !self.buffer.is_empty();
        if escaping {
            self.buffer.pop();
        }
        found.then_some(first_line)
    }

    /// Begins a part with the character that was read last.
    fn begin_part(&mut self, first: char) {
        let text = self.text.len() - self.rest.as_str().len() - first.len_utf8();
        let (line, line_start) = (self.natural_line, self.line_start);
        self.parts.push(LinePart { buffer: self.buffer.len(), text, line, line_start });
    }

    /// Counts a line end and consumes the second half of CR LF.
    fn finish_line_end(&mut self, first: char) {
        if first == '\r' && self.rest.as_str().starts_with('\n') {
            self.rest.next();
        }
        self.natural_line += 1;
        self.line_start = self.text.len() - self.rest.as_str().len();
    }

    fn skip_comment(&mut self) {
        while let Some(c) = self.rest.next() {
            if matches!(c, '\n' | '\r') {
                return self.finish_line_end(c);
            }
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Splits a logical line at the first unescaped separator: `=` or `:` with blanks around it, or blanks alone.
fn split(line: &str) -> (&str, &str) {
    let mut escaping = false;
    let key_end = line.find(|c| {
        let ends_key = !escaping && (is_blank(c) || matches!(c, '=' | ':'));
        escaping = c == '\\' && !escaping;
        ends_key
    });
    let Some(key_end) = key_end else { return (line, "") };
    let (key, rest) = line.split_at(key_end);
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(is_blank))
}

/// Replaces escapes; an error includes the offset at which its escape begins.
fn unescape(raw: &str) -> Result<String, (PropertiesFault, usize)> {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        let at = raw.len() - rest.as_str().len() - c.len_utf8();
        match rest.next() {
            Some('u') => text.push(unicode_escape(&mut rest).map_err(|fault| (fault, at))?),
            Some('t') => text.push('\t'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('f') => text.push('\u{c}'),
            Some(other) => text.push(other),
            None => {}
        }
    }
    Ok(text)
}

/// Reads the digits after `\u`, and a second escape if the first one is a high surrogate.
fn unicode_escape(rest: &mut Chars<'_>) -> Result<char, PropertiesFault> {
    let first = code_unit(rest)?;
    let mut units = vec![first];
    if (0xd800..0xdc00).contains(&first) {
        let low = rest.as_str().strip_prefix("\\u").ok_or(PropertiesFault::LoneSurrogate)?;
        *rest = low.chars();
        units.push(code_unit(rest)?);
    }
    char::decode_utf16(units).next().and_then(Result::ok).ok_or(PropertiesFault::LoneSurrogate)
}

fn code_unit(rest: &mut Chars<'_>) -> Result<u16, PropertiesFault> {
    let digits = rest.as_str().get(..ESCAPE_DIGITS).ok_or(PropertiesFault::MalformedEscape)?;
    // `from_str_radix` alone would accept a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(PropertiesFault::MalformedEscape);
    }
    let unit = u16::from_str_radix(digits, 16).map_err(|_| PropertiesFault::MalformedEscape)?;
    *rest = rest.as_str()[ESCAPE_DIGITS..].chars();
    Ok(unit)
}

/// Escapes a key or value. Characters beyond ASCII are not escaped, since the text is UTF-8.
fn escape(raw: &str, is_key: bool, text: &mut String) {
    for (index, c) in raw.chars().enumerate() {
        match c {
            ' ' if is_key || index == 0 => text.push_str("\\ "),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\u{c}' => text.push_str("\\f"),
            '\\' | '=' | ':' | '#' | '!' => text.extend(['\\', c]),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(rows: &[(&str, &str)]) -> Pairs {
        rows.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    /// Every row is the result of `java.util.Properties.load(Reader)` of JDK 17.
    #[test]
    fn parse_reads_what_java_reads() {
        let table: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("  \n\t\n\x0c\r\n", &[]),
            ("a=1", &[("a", "1")]),
            ("a=1\nb=2\rc=3\r\nd=4", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
            ("a = 1\nb : 2\nc 3\nd\t\x0c4\ne", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "")]),
            ("a = = 1\nb :: 2\nc =: 3\nd   =", &[("a", "= 1"), ("b", ": 2"), ("c", ": 3"), ("d", "")]),
            ("a=1  \n  b=2\t", &[("a", "1  "), ("b", "2\t")]),
            ("=v\n", &[("", "v")]),
            (":\n", &[("", "")]),
            ("a=1\na=2", &[("a", "2")]),
            ("# a=1\n! b=2\n  #c=3\nd=4 # no comment", &[("d", "4 # no comment")]),
            ("# comments do not continue \\\na=1", &[("a", "1")]),
            ("a=1,\\\n   2,\\\r\n\t3", &[("a", "1,2,3")]),
            ("a\\\n  b=1", &[("ab", "1")]),
            ("a=1\\\n#b=2", &[("a", "1#b=2")]),
            ("a=1\\\n\nb=2", &[("a", "1"), ("b", "2")]),
            ("a=1\\\\\nb=2", &[("a", "1\\"), ("b", "2")]),
            ("a=1\\\\\\\n 2", &[("a", "1\\2")]),
            ("a=1\\", &[("a", "1")]),
            ("a=1\\\n", &[("a", "1")]),
            ("a=\\\n\\\n  1", &[("a", "1")]),
            ("\\", &[("", "")]),
            ("\\\n", &[("", "")]),
            ("\\\r\n", &[]),
            ("\\\n#a=1\nb=2", &[("b", "2")]),
            ("\\\n\n", &[]),
            ("sp\\ ace=a b\n\\ x\\ =\\ y ", &[("sp ace", "a b"), (" x ", " y ")]),
            (
                "a\\=b=c\\=d\na\\:b:c\\:d\n\\#e=\\#\n\\!f=\\!",
                &[("a=b", "c=d"), ("a:b", "c:d"), ("#e", "#"), ("!f", "!")],
            ),
            ("a=\\t\\n\\r\\f\\b\\q\\\"\\'", &[("a", "\t\n\r\x0cbq\"'")]),
            ("c\\:\\\\dir=c\\:\\\\dir", &[("c:\\dir", "c:\\dir")]),
            ("a=c:\\dir", &[("a", "c:dir")]),
            ("\\u0041=\\u4e2d\\u6587\\u00E9", &[("A", "中文é")]),
            ("a\\u003d=\\u0020 b", &[("a=", "  b")]),
            ("a=\\ud83d\\uDE00!", &[("a", "😀!")]),
            ("a=\\ud83d\\\n  \\ude00", &[("a", "😀")]),
            ("键=值 😀\n\u{a0}x=1\n\u{85}=2", &[("键", "值 😀"), ("\u{a0}x", "1"), ("\u{85}", "2")]),
            ("a=\u{feff}b", &[("a", "\u{feff}b")]),
            ("a=\0\x0bb", &[("a", "\0\x0bb")]),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), Ok(pairs(expected)), "{text:?}");
        }
    }

    #[test]
    fn one_leading_byte_order_mark_is_dropped() {
        assert_eq!(parse("\u{feff}a=1"), Ok(pairs(&[("a", "1")])));
        assert_eq!(parse("\u{feff}#a=1\nb=2"), Ok(pairs(&[("b", "2")])));
        assert_eq!(parse("\u{feff}\u{feff}a=1"), Ok(pairs(&[("\u{feff}a", "1")])));
    }

    #[test]
    fn bad_escapes_are_refused_with_their_place() {
        let table = [
            ("a=\\u", 1, 3, PropertiesFault::MalformedEscape),
            ("a=1\nb=\\u12", 2, 3, PropertiesFault::MalformedEscape),
            ("a=1\r\n#\r\nb=\\u12g4", 3, 3, PropertiesFault::MalformedEscape),
            ("a=1\rb=\\u12", 2, 3, PropertiesFault::MalformedEscape),
            ("\\u+123=1", 1, 1, PropertiesFault::MalformedEscape),
            ("a=\\uu0041", 1, 3, PropertiesFault::MalformedEscape),
            ("  ä é = ö\\u0041\\u12é", 1, 16, PropertiesFault::MalformedEscape),
            ("a=1\\\n \\u12", 2, 2, PropertiesFault::MalformedEscape),
            ("a=1\\\r\n  2\\\r\n\t3 \\u12", 3, 4, PropertiesFault::MalformedEscape),
            ("\\\n\\u12", 2, 1, PropertiesFault::MalformedEscape),
            ("\n\na=\\ud83d", 3, 3, PropertiesFault::LoneSurrogate),
            ("a=\\ude00\\ud83d", 1, 3, PropertiesFault::LoneSurrogate),
            ("a=\\ud83dx", 1, 3, PropertiesFault::LoneSurrogate),
            ("a=1\nb=\\ud83d\\u0041", 2, 3, PropertiesFault::LoneSurrogate),
            ("a=\\ud83d\\u00", 1, 3, PropertiesFault::MalformedEscape),
        ];
        for (text, line, column, fault) in table {
            assert_eq!(parse(text), Err(PropertiesError { line, column, fault }), "{text:?}");
        }
        let error = parse("a=\\u").expect_err("no digits");
        assert_eq!(error.to_string(), "line 1, column 3: \\u must be followed by four hexadecimal digits");
    }

    /// Every row is the output of `java.util.Properties.store(Writer)` of JDK 17.
    #[test]
    fn write_writes_what_java_writes() {
        let table = [
            ("sp ace", "a b", "sp\\ ace=a b"),
            ("a", " x  y ", "a=\\ x  y "),
            ("  k ", "  v", "\\ \\ k\\ =\\  v"),
            ("a=b", "c=d", "a\\=b=c\\=d"),
            ("a:b", "c:d", "a\\:b=c\\:d"),
            ("#a!", "!b#", "\\#a\\!=\\!b\\#"),
            ("a", "c:\\dir", "a=c\\:\\\\dir"),
            ("t\tk", "\tv\n\r\x0c", "t\\tk=\\tv\\n\\r\\f"),
            ("键", "值é😀", "键=值é😀"),
            ("a", "\0\x07\x7f\u{85}", "a=\0\x07\x7f\u{85}"),
            ("k", "", "k="),
            ("", "v", "=v"),
            ("a", "\"quoted\" 'text'", "a=\"quoted\" 'text'"),
            ("content", "{\"a\":1}\nline # 2 = x", "content={\"a\"\\:1}\\nline \\# 2 \\= x"),
            ("bom", "\u{feff}", "bom=\u{feff}"),
        ];
        for (key, value, expected) in table {
            assert_eq!(write(&pairs(&[(key, value)])), format!("{expected}\n"), "{key:?}={value:?}");
        }
        assert_eq!(write(&Pairs::default()), "");
        assert_eq!(write(&pairs(&[("b", "2"), ("a", "1")])), "b=2\na=1\n");
    }

    #[test]
    fn a_mark_that_begins_the_first_key_is_not_lost() {
        let marked = pairs(&[("\u{feff}\u{feff}", "1"), ("\u{feff}b", "2")]);
        assert_eq!(write(&marked), "\\ufeff\u{feff}=1\n\u{feff}b=2\n");
        assert_eq!(parse(&write(&marked)), Ok(marked));
    }

    /// Generates texts with many characters that are special in the format.
    fn awkward() -> impl Strategy<Value = String> {
        let meant = prop::sample::select("\\ \t\x0c\r\n=:#!uab0中😀\u{feff}".chars().collect::<Vec<_>>());
        prop::collection::vec(prop_oneof![8 => meant, 1 => any::<char>()], 0..12).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(crate::test_seed::cases(256))]

        #[test]
        fn parse_undoes_write(pairs in prop::collection::vec((awkward(), awkward()), 0..6).prop_map(Pairs::from_iter)) {
            let read = parse(&write(&pairs)).expect("what was written");
            prop_assert_eq!(Vec::from_iter(read.iter()), Vec::from_iter(pairs.iter()));
        }

        #[test]
        fn parse_takes_any_text(text in awkward()) {
            if let Ok(pairs) = parse(&text) {
                prop_assert_eq!(parse(&write(&pairs)), Ok(pairs));
            }
        }
    }
}
