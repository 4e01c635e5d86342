//! Judgement of a text by the rules of its format: the parsers of others, called where a request is taken.
//!
//! A text is refused with line and column of its first fault. No client could read it then, so publishing it would
//! only break them. What a newer parser says may differ, so nothing that is replicated depends on it: the catalog
//! and its model never ask here. Properties are the exception, whose rules are our own (`model::properties`).
//!
//! The cost of a judgement is bounded by the length of the text, whatever it says: nesting is limited, what YAML's
//! aliases and XML's entities stand for is counted or left alone, never written out.

mod json;
mod xml;
mod yaml;

use std::fmt;

use crate::model::config_file::Format;
use crate::model::properties;

pub(crate) use json::deeper_than;
pub(crate) use yaml::readable as readable_yaml;

/// Depth of nesting of a text; clients read by recursion.
const DEPTH_MAX: usize = 128;

/// Place where a text first is not what it should be, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { line, column, why } = self;
        write!(f, "line {line}, column {column}: {why}")
    }
}

impl Fault {
    /// At a byte of the text.
    fn at(text: &str, byte: usize, why: impl Into<String>) -> Fault {
        let before = &text.as_bytes()[..byte.min(text.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        Fault { line, column: characters(&before[line_start..]) + 1, why: why.into() }
    }

    fn too_deep(text: &str, byte: usize) -> Fault {
        Fault::at(text, byte, format!("nested deeper than {DEPTH_MAX} levels"))
    }
}

/// The characters that begin within these bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// True if there are rules by which a text of this format is judged.
pub fn has_rules(format: Format) -> bool {
    !matches!(format, Format::Text | Format::Html)
}

/// The first fault of a text. Text and HTML have none; neither has a text that holds nothing but blanks, which
/// stands for a file that is not written yet.
pub fn check(format: Format, text: &str) -> Result<(), Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(());
    }
    match format {
        Format::Text | Format::Html => Ok(()),
        Format::Properties => match properties::parse(text) {
            Ok(_) => Ok(()),
            Err(error) => Err(Fault { line: error.line, column: error.column, why: error.fault.to_string() }),
        },
        Format::Json => json::check(text),
        Format::Yaml => yaml::check(text),
        Format::Xml => xml::check(text),
        Format::Toml => check_toml(text),
    }
}

/// The parser limits the depth itself.
fn check_toml(text: &str) -> Result<(), Fault> {
    match toml::de::DeTable::parse(text) {
        Ok(_) => Ok(()),
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            Err(Fault::at(text, start, error.message()))
        }
    }
}

#[cfg(test)]
mod tests;
