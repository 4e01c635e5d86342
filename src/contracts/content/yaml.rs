//! YAML by the core schema of YAML 1.2, with the lines of its values. A key `<<` merges, as readers of configuration
//! do; several documents are a list.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Number, Value};

use super::{DEPTH_MAX, Fault, Located, LocatedNode, ValueCount, fault, too_deep};

const MERGE: &str = "<<";

/// A mapping or sequence that is open.
struct Open {
    line: usize,
    anchor: usize,
    node: LocatedNode,
    /// A key, as long as its value is awaited; true if it merges.
    key: Option<(String, usize, bool)>,
    /// Members that others bring.
    merged: Vec<(String, Located)>,
}

#[derive(Default)]
struct YamlReading {
    open: Vec<Open>,
    anchored: HashMap<usize, (Located, usize)>,
    documents: Vec<Located>,
    count: ValueCount,
}

pub(super) fn read(text: &str) -> Result<Located, Fault> {
    let mut reading = YamlReading::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| fault(error.marker().line(), error.info()))?;
        reading.take(event, span.start.line())?;
    }
    let is_one = reading.documents.len() < 2;
    let first = reading.documents.first().map_or(1, |document| document.line);
    match reading.documents.pop() {
        Some(only) if is_one => Ok(only),
        Some(last) => {
            reading.documents.push(last);
            Ok(Located { line: first, node: LocatedNode::List(reading.documents) })
        }
        None => Ok(Located::scalar(1, Value::Null)),
    }
}

impl YamlReading {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count.one(line)?;
                let is_plain = style == ScalarStyle::Plain;
                let is_merge = is_plain && text == MERGE;
                let value = scalar(text, is_plain, tag.as_deref());
                self.add(Located::scalar(line, value), anchor, 1, is_merge);
            }
            Event::Alias(anchor) => {
                let (node, values) = self
                    .anchored
                    .get(&anchor)
                    .map_or((LocatedNode::Scalar(Value::Null), 1), |(there, values)| (there.node.clone(), *values));
                self.count.many(values, line)?;
                self.add(Located { line, node }, 0, values, false);
            }
            Event::SequenceStart(anchor, _) => self.begin(line, anchor, LocatedNode::List(Vec::new()))?,
            Event::MappingStart(anchor, _) => self.begin(line, anchor, LocatedNode::Map(Vec::new()))?,
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::DocumentStart(_) => self.anchored.clear(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, anchor: usize, node: LocatedNode) -> Result<(), Fault> {
        self.count.one(line)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(line));
        }
        self.open.push(Open { line, anchor, node, key: None, merged: Vec::new() });
        Ok(())
    }

    fn end(&mut self) {
        let Some(Open { line, anchor, mut node, merged, .. }) = self.open.pop() else { return };
        if let LocatedNode::Map(members) = &mut node {
            // What stands there itself counts more than what is merged, and of that the first.
            let missing: Vec<_> = merged.into_iter().rev().collect();
            members.splice(0..0, missing);
        }
        let values = values_of(&node);
        self.add(Located { line, node }, anchor, values, false);
    }

    /// A value that is complete goes where it belongs.
    fn add(&mut self, value: Located, anchor: usize, values: usize, is_merge: bool) {
        if anchor > 0 {
            self.anchored.insert(anchor, (value.clone(), values));
        }
        let Some(open) = self.open.last_mut() else { return self.documents.push(value) };
        match (&mut open.node, open.key.take()) {
            (LocatedNode::List(elements), _) => elements.push(value),
            (LocatedNode::Map(_), None) => open.key = Some((text_of(&value), value.line, is_merge)),
            (LocatedNode::Map(_), Some((_, _, true))) => merge(&mut open.merged, value),
            (LocatedNode::Map(members), Some((key, line, false))) => members.push((key, Located { line, ..value })),
            (LocatedNode::Scalar(_), _) => {}
        }
    }
}

fn merge(merged: &mut Vec<(String, Located)>, value: Located) {
    match value.node {
        LocatedNode::Map(members) => merged.extend(members.into_iter().rev()),
        LocatedNode::List(elements) => elements.into_iter().for_each(|element| merge(merged, element)),
        LocatedNode::Scalar(_) => {}
    }
}

/// Values within a node, itself among them.
fn values_of(node: &LocatedNode) -> usize {
    match node {
        LocatedNode::Scalar(_) => 1,
        LocatedNode::List(elements) => elements.iter().map(|element| values_of(&element.node)).sum::<usize>() + 1,
        LocatedNode::Map(members) => members.iter().map(|(_, member)| values_of(&member.node) + 1).sum::<usize>() + 1,
    }
}

/// A key as JSON has it.
fn text_of(key: &Located) -> String {
    match key.value() {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn scalar(text: Cow<'_, str>, is_plain: bool, tag: Option<&Tag>) -> Value {
    let core = tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str());
    match core {
        Some("int" | "float" | "bool" | "null") => resolved(&text).unwrap_or_else(|| Value::String(text.into_owned())),
        None if is_plain && tag.is_none() => resolved(&text).unwrap_or_else(|| Value::String(text.into_owned())),
        _ => Value::String(text.into_owned()),
    }
}

/// Meaning of a plain scalar besides a string. Infinities and what is no number, which JSON lacks, are strings.
fn resolved(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => Value::Number(number(text)?),
    })
}

fn number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0x") {
        return i64::from_str_radix(digits, 16).ok().filter(|_| is_of(digits, 16)).map(Number::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return i64::from_str_radix(digits, 8).ok().filter(|_| is_of(digits, 8)).map(Number::from);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.contains(|letter: char| letter.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_number {
        return None;
    }
    let whole = text.parse::<i64>().ok().map(Number::from);
    whole.or_else(|| text.parse::<u64>().ok().map(Number::from)).or_else(|| Number::from_f64(text.parse().ok()?))
}

fn is_of(digits: &str, radix: u32) -> bool {
    digits.chars().all(|digit| digit.is_digit(radix))
}
