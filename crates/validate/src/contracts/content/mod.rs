//! Contents as values, each with its line.
//!
//! A format without a structure of its own (text, HTML, XML) gives one string. Values and their bytes are counted
//! before they are created, including those that aliases of YAML repeat. The target of an alias is shared until the
//! value is written as JSON.

mod json;
mod toml;
mod yaml;

use std::rc::Rc;

use serde_json::{Map, Value};

use crate::model::config_file::Format;
use crate::model::{limits, properties};
use crate::well_formed::{self, Fault};

/// Highest nesting of a content that contracts check.
pub(super) const DEPTH_MAX: usize = 64;
/// Bytes of a value in addition to its text, for the parsed form and the JSON together.
const VALUE_BYTES: usize = 256;

/// Value and the line on which it begins; the line of a member is that of its key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    /// Counted from 1.
    line: usize,
    node: LocatedNode,
}

/// Value without its line. A clone shares the elements.
#[derive(Clone, Debug, PartialEq)]
enum LocatedNode {
    Scalar(Rc<Value>),
    List(Rc<Vec<Located>>),
    /// Members in order; the last one of equal keys counts.
    Map(Rc<Vec<(String, Located)>>),
}

impl LocatedNode {
    fn list(elements: Vec<Located>) -> LocatedNode {
        LocatedNode::List(Rc::new(elements))
    }

    fn map(members: Vec<(String, Located)>) -> LocatedNode {
        LocatedNode::Map(Rc::new(members))
    }
}

impl Located {
    fn scalar(line: usize, value: Value) -> Located {
        Located { line, node: LocatedNode::Scalar(Rc::new(value)) }
    }

    pub(super) fn value(&self) -> Value {
        match &self.node {
            LocatedNode::Scalar(value) => Value::clone(value),
            LocatedNode::List(elements) => Value::Array(elements.iter().map(Located::value).collect()),
            LocatedNode::Map(members) => {
                let members = members.iter().map(|(key, member)| (key.clone(), member.value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// Returns the line of the value at a JSON Pointer, or of its nearest parent that exists.
    pub(super) fn line_of(&self, pointer: &str) -> usize {
        let mut here = self;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let next = match &here.node {
                LocatedNode::Map(members) => {
                    members.iter().rev().find(|(key, _)| *key == part).map(|(_, member)| member)
                }
                LocatedNode::List(elements) => part.parse().ok().and_then(|index: usize| elements.get(index)),
                LocatedNode::Scalar(_) => None,
            };
            let Some(next) = next else { break };
            here = next;
        }
        here.line
    }
}

/// Reads a content; `Err` if it is malformed or exceeds a limit.
pub(super) fn read(format: Format, text: &str) -> Result<Located, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > limits::CONTRACT_CONTENT_BYTES_MAX {
        let most = limits::CONTRACT_CONTENT_BYTES_MAX;
        return Err(fault(1, format!("larger than the {most} bytes that contracts judge")));
    }
    let mut count = ReadCount::default();
    if text.trim().is_empty() && matches!(format, Format::Json | Format::Yaml) {
        return Ok(Located::scalar(1, Value::Null));
    }
    if format == Format::Yaml {
        return yaml::read(&well_formed::readable_yaml(text)?.text, count);
    }
    if format == Format::Toml {
        toml::check_size(text)?;
    }
    well_formed::check(format, text)?;
    match format {
        Format::Json => json::read(text, count),
        Format::Toml => toml::read(text, count),
        Format::Properties => read_properties(text, count),
        Format::Text | Format::Html | Format::Xml | Format::Yaml => {
            count.one(1, text.len().saturating_mul(2))?;
            Ok(Located::scalar(1, Value::String(text.to_owned())))
        }
    }
}

fn read_properties(text: &str, mut count: ReadCount) -> Result<Located, Fault> {
    let mut members = Vec::new();
    for entry in properties::entries(text) {
        let (key, value, line) =
            entry.map_err(|error| Fault { line: error.line, column: error.column, why: error.fault.to_string() })?;
        count.one(line, (key.len() + value.len()).saturating_mul(2))?;
        members.push((key, Located::scalar(line, Value::String(value))));
    }
    Ok(Located { line: 1, node: LocatedNode::map(members) })
}

/// Number of the values of a content, and of their bytes.
#[derive(Default)]
struct ReadCount {
    values: usize,
    bytes: usize,
}

impl ReadCount {
    /// Counts a value with the bytes of its text or of its key.
    fn one(&mut self, line: usize, text_bytes: usize) -> Result<(), Fault> {
        self.many(1, text_bytes.saturating_add(VALUE_BYTES), line)
    }

    fn many(&mut self, values: usize, bytes: usize, line: usize) -> Result<(), Fault> {
        self.values = self.values.saturating_add(values);
        if self.values > limits::CONTRACT_VALUES_MAX {
            let most = limits::CONTRACT_VALUES_MAX;
            return Err(fault(line, format!("more than the {most} values that contracts judge")));
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > limits::CONTRACT_READ_BYTES_MAX {
            let most = limits::CONTRACT_READ_BYTES_MAX;
            return Err(fault(line, format!("more than the {most} bytes of values that contracts judge")));
        }
        Ok(())
    }
}

fn fault(line: usize, why: impl Into<String>) -> Fault {
    Fault { line, column: 1, why: why.into() }
}

fn too_deep(line: usize) -> Fault {
    fault(line, format!("nested deeper than the {DEPTH_MAX} levels that contracts judge"))
}

#[cfg(test)]
mod tests;
