//! Syntax checks of texts by format, with third-party parsers, when a request is received.
//!
//! The error gives line and column of the first fault. No client could read such a text, so publishing it would only
//! break clients. A newer parser may decide differently, so no replicated state depends on the result: the catalog and
//! its model never call this module. Properties are the exception, because their parser is our own
//! (`model::properties`).
//!
//! The cost of a check is bounded by the length of the text: nesting is limited, and the expansions of YAML's aliases
//! and XML's entities are counted or ignored, never written out.

mod json;
mod xml;
mod yaml;

use std::fmt;

use crate::model::config_file::Format;
use crate::model::properties;

pub use json::deeper_than;
pub use yaml::readable as readable_yaml;

/// Highest nesting of a text, since clients read it recursively.
const DEPTH_MAX: usize = 128;

/// Place and reason of the first fault of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
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
    /// Creates a fault at a byte of the text.
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

/// Counts the characters that begin within these bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Reports whether texts of this format are checked.
pub fn has_rules(format: Format) -> bool {
    !matches!(format, Format::Text | Format::Html)
}

/// Returns the first fault of a text. Text and HTML have none. A blank text has none either: it is the draft of a file
/// that has no content yet.
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

/// Checks TOML; the parser limits the depth itself.
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
