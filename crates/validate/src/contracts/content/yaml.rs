//! YAML by the core schema of YAML 1.2, with the lines of its values. A key `<<` merges a mapping, as in most readers
//! of configuration. Several documents become a list.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Number, Value};

use super::{DEPTH_MAX, Fault, Located, LocatedNode, ReadCount, VALUE_BYTES, fault, too_deep};

const MERGE: &str = "<<";

/// Values within a node, including itself, and their bytes.
#[derive(Clone, Copy, Default)]
struct Size {
    values: usize,
    bytes: usize,
}

impl Size {
    fn with(self, other: Size) -> Size {
        Size { values: self.values.saturating_add(other.values), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

/// Elements or members read so far.
enum Within {
    List(Vec<Located>),
    Map(Vec<(String, Located)>),
}

/// A mapping or sequence that is open.
struct Open {
    line: usize,
    anchor: usize,
    within: Within,
    size: Size,
    /// Key whose value follows: text, line, and true for a merge key.
    key: Option<(String, usize, bool)>,
    /// Members of merged mappings.
    merged: Vec<(String, Located)>,
}

struct YamlReading {
    open: Vec<Open>,
    anchored: HashMap<usize, (Located, Size)>, // bound: contract-work
    documents: Vec<Located>,
    count: ReadCount,
}

pub(super) fn read(text: &str, count: ReadCount) -> Result<Located, Fault> {
    let mut reading = YamlReading { open: Vec::new(), anchored: HashMap::new(), documents: Vec::new(), count };
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
            Ok(Located { line: first, node: LocatedNode::list(reading.documents) })
        }
        None => Ok(Located::scalar(1, Value::Null)),
    }
}

impl YamlReading {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let size = self.count_one(line, text.len())?;
                let is_plain = style == ScalarStyle::Plain;
                let is_merge = is_plain && text == MERGE;
                let value = scalar(text, is_plain, tag.as_deref());
                self.add(Located::scalar(line, value), anchor, size, is_merge)
            }
            Event::Alias(anchor) => {
                let null = || (Located::scalar(line, Value::Null), Size { values: 1, bytes: VALUE_BYTES });
                let (there, size) = self.anchored.get(&anchor).cloned().unwrap_or_else(null);
                self.count.many(size.values, size.bytes, line)?;
                self.add(Located { line, ..there }, 0, size, false)
            }
            Event::SequenceStart(anchor, _) => self.begin(line, anchor, Within::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.begin(line, anchor, Within::Map(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::DocumentStart(_) => {
                self.anchored.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    /// Counts a value and its text, for the parsed form and the JSON together.
    fn count_one(&mut self, line: usize, text_bytes: usize) -> Result<Size, Fault> {
        let bytes = text_bytes.saturating_mul(2);
        self.count.one(line, bytes)?;
        Ok(Size { values: 1, bytes: bytes.saturating_add(VALUE_BYTES) })
    }

    fn begin(&mut self, line: usize, anchor: usize, within: Within) -> Result<(), Fault> {
        let size = self.count_one(line, 0)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(line));
        }
        self.open.push(Open { line, anchor, within, size, key: None, merged: Vec::new() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(Open { line, anchor, within, size, merged, .. }) = self.open.pop() else { return Ok(()) };
        let node = match within {
            Within::List(elements) => LocatedNode::list(elements),
            Within::Map(mut members) => {
                // The mapping's own members take precedence over merged ones, and earlier merges over later ones.
                members.splice(0..0, merged.into_iter().rev());
                LocatedNode::map(members)
            }
        };
        self.add(Located { line, node }, anchor, size, false)
    }

    /// Adds a complete value to the open collection, or to the documents.
    fn add(&mut self, value: Located, anchor: usize, size: Size, is_merge: bool) -> Result<(), Fault> {
        if anchor > 0 {
            self.anchored.insert(anchor, (value.clone(), size));
        }
        let Some(open) = self.open.last_mut() else {
            self.documents.push(value);
            return Ok(());
        };
        open.size = open.size.with(size);
        match (&mut open.within, open.key.take()) {
            (Within::List(elements), _) => elements.push(value),
            (Within::Map(_), None) => open.key = Some((text_of(&value), value.line, is_merge)),
            (Within::Map(_), Some((_, _, true))) => merge(&mut open.merged, &value, &mut self.count)?,
            (Within::Map(members), Some((key, line, false))) => members.push((key, Located { line, ..value })),
        }
        Ok(())
    }
}

/// Merges the members of a mapping, or of each mapping in a list. Keys are copied and values shared.
fn merge(merged: &mut Vec<(String, Located)>, value: &Located, count: &mut ReadCount) -> Result<(), Fault> {
    match &value.node {
        LocatedNode::Map(members) => {
            for (key, member) in members.iter().rev() {
                count.many(0, VALUE_BYTES.saturating_add(key.len()), value.line)?;
                merged.push((key.clone(), member.clone()));
            }
            Ok(())
        }
        LocatedNode::List(elements) => elements.iter().try_for_each(|element| merge(merged, element, count)),
        LocatedNode::Scalar(_) => Ok(()),
    }
}

/// Returns a key as JSON writes it.
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

/// Resolves a plain scalar that is not a string. JSON has no infinities and NaN, so these remain strings.
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
