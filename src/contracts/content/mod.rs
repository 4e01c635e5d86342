//! Contents as values, each with the line on which it stands.
//!
//! A text that has no structure of its own (text, HTML, XML) is one value, a string. What YAML's aliases stand for is
//! counted with the values of the text, of which there is a limit.

mod json;
mod toml;
mod yaml;

use serde_json::{Map, Value};

use crate::model::config_file::Format;
use crate::model::{limits, properties};
use crate::well_formed::{self, Fault};

/// Depth of nesting of a content that is judged.
pub(super) const DEPTH_MAX: usize = 64;

/// A value and the line on which it begins; of a member, that of its key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    /// Counted from 1.
    line: usize,
    node: LocatedNode,
}

#[derive(Clone, Debug, PartialEq)]
enum LocatedNode {
    Scalar(Value),
    List(Vec<Located>),
    /// In order; of two members with one key the last one counts.
    Map(Vec<(String, Located)>),
}

impl Located {
    fn scalar(line: usize, value: Value) -> Located {
        Located { line, node: LocatedNode::Scalar(value) }
    }

    pub(super) fn value(&self) -> Value {
        match &self.node {
            LocatedNode::Scalar(value) => value.clone(),
            LocatedNode::List(elements) => Value::Array(elements.iter().map(Located::value).collect()),
            LocatedNode::Map(members) => {
                let members = members.iter().map(|(key, member)| (key.clone(), member.value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// The line of what a JSON Pointer leads to, or of the last part of its way that is there.
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

/// Reads a content; `Err` with the place where it is not what its format asks for, or more than is judged.
pub(super) fn read(format: Format, text: &str) -> Result<Located, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > limits::CONTRACT_CONTENT_BYTES_MAX {
        let most = limits::CONTRACT_CONTENT_BYTES_MAX;
        return Err(fault(1, format!("larger than the {most} bytes that contracts judge")));
    }
    well_formed::check(format, text)?;
    let is_blank = text.trim().is_empty();
    match format {
        Format::Text | Format::Html | Format::Xml => Ok(Located::scalar(1, Value::String(text.to_owned()))),
        Format::Json | Format::Yaml if is_blank => Ok(Located::scalar(1, Value::Null)),
        Format::Json => json::read(text),
        Format::Yaml => yaml::read(text),
        Format::Toml => toml::read(text),
        Format::Properties => read_properties(text),
    }
}

fn read_properties(text: &str) -> Result<Located, Fault> {
    let entries = properties::entries(text).map_err(|error| Fault {
        line: error.line,
        column: error.column,
        why: error.fault.to_string(),
    })?;
    let mut count = ValueCount::default();
    let mut members = Vec::new();
    for (key, value, line) in entries {
        count.one(line)?;
        members.push((key, Located::scalar(line, Value::String(value))));
    }
    Ok(Located { line: 1, node: LocatedNode::Map(members) })
}

/// ValueCount of the values of a content.
#[derive(Default)]
struct ValueCount(usize);

impl ValueCount {
    fn one(&mut self, line: usize) -> Result<(), Fault> {
        self.many(1, line)
    }

    fn many(&mut self, values: usize, line: usize) -> Result<(), Fault> {
        self.0 = self.0.saturating_add(values);
        if self.0 > limits::CONTRACT_VALUES_MAX {
            let most = limits::CONTRACT_VALUES_MAX;
            return Err(fault(line, format!("more than the {most} values that contracts judge")));
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
