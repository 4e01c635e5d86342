//! Shape of a schema: the graph of its subschemas that apply to the same value.
//!
//! A schema that refers to itself without descending into the value would recurse without end, and one that branches
//! many times before it descends would work without reading a value. Both are refused when a schema is saved.
//! References to other documents are refused too: nothing is ever fetched.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::model::limits;

/// Nesting of the JSON of a schema.
const DEPTH_MAX: usize = 64;
/// Subschemas reachable from one at the same value, counted once per path; below, the length of the longest path.
const PARTS_MAX: u64 = 1000;
const PARTS_IN_A_ROW_MAX: u64 = 32;
/// Regular expressions of a schema. Each of them holds memory as long as the schema does.
const PATTERNS_MAX: usize = 64;
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords by the form of their values. Those of the first three lists apply to the same value as their parent.
const HERE_ONE: [&str; 4] = ["not", "if", "then", "else"];
const HERE_MANY: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const HERE_NAMED: [&str; 2] = ["dependentSchemas", "dependencies"];
const WITHIN_ONE: [&str; 8] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "propertyNames",
    "contains",
    "contentSchema",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const WITHIN_MANY: [&str; 2] = ["prefixItems", "items"];
const WITHIN_NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Formats a JSON Pointer for error messages.
pub(super) fn place(pointer: &str) -> String {
    if pointer.is_empty() { "schema: /".to_owned() } else { format!("schema: {pointer}") }
}

pub(super) fn check(schema: &Value) -> Result<(), String> {
    check_depth(schema, 0)?;
    let patterns = patterns(schema);
    if patterns > PATTERNS_MAX {
        return Err(format!("schema: {patterns} patterns, at most {PATTERNS_MAX}"));
    }
    check_patterns(schema, "")?;
    let mut shape =
        SchemaShape { root: schema, anchors: HashMap::new(), measured: HashMap::new(), waiting: Vec::new() };
    shape.find_anchors(schema, String::new());
    shape.measure("")?;
    while let Some(pointer) = shape.waiting.pop() {
        shape.measure(&pointer)?;
    }
    Ok(())
}

fn check_depth(value: &Value, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("schema: nested deeper than {DEPTH_MAX} levels"));
    }
    match value {
        Value::Array(elements) => elements.iter().try_for_each(|element| check_depth(element, depth + 1)),
        Value::Object(members) => members.values().try_for_each(|member| check_depth(member, depth + 1)),
        _ => Ok(()),
    }
}

/// Counts the regular expressions, including members that only look like one.
pub(super) fn patterns(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.iter().map(patterns).sum(),
        Value::Object(members) => {
            let own = |(key, value): (&String, &Value)| match key.as_str() {
                "pattern" => usize::from(value.is_string()),
                "patternProperties" => value.as_object().map_or(0, Map::len),
                _ => 0,
            };
            members.iter().map(own).sum::<usize>() + members.values().map(patterns).sum::<usize>()
        }
        _ => 0,
    }
}

/// Refuses patterns that are too long to be parsed.
fn check_patterns(value: &Value, pointer: &str) -> Result<(), String> {
    let check = |pattern: &str, at: &str| {
        let most = limits::CONTRACT_PATTERN_BYTES_MAX;
        let is_short = pattern.len() <= most;
        if is_short { Ok(()) } else { Err(format!("{}: a pattern of more than {most} bytes", place(at))) }
    };
    match value {
        Value::Array(elements) => {
            let mut all = elements.iter().enumerate();
            all.try_for_each(|(index, element)| check_patterns(element, &format!("{pointer}/{index}")))
        }
        Value::Object(members) => members.iter().try_for_each(|(key, member)| {
            let at = child(pointer, key);
            match (key.as_str(), member) {
                ("pattern", Value::String(pattern)) => check(pattern, &at)?,
                ("patternProperties", Value::Object(named)) => named.keys().try_for_each(|key| check(key, &at))?,
                _ => {}
            }
            check_patterns(member, &at)
        }),
        _ => Ok(()),
    }
}

/// Work of a subschema at one value.
#[derive(Clone, Copy)]
enum Measure {
    UnderWay,
    Done { parts: u64, in_a_row: u64 },
}

struct SchemaShape<'a> {
    root: &'a Value,
    /// Places by name of their anchor; a dynamic anchor may have several.
    anchors: HashMap<&'a str, Vec<String>>, // bound: contract-work
    measured: HashMap<String, Measure>, // bound: contract-work
    /// Places of subschemas that apply to nested values.
    waiting: Vec<String>,
}

impl<'a> SchemaShape<'a> {
    fn find_anchors(&mut self, value: &'a Value, pointer: String) {
        match value {
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.find_anchors(element, format!("{pointer}/{index}"));
                }
            }
            Value::Object(members) => {
                for keyword in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = members.get(keyword).and_then(Value::as_str) {
                        self.anchors.entry(name).or_default().push(pointer.clone());
                    }
                }
                for (key, member) in members {
                    self.find_anchors(member, child(&pointer, key));
                }
            }
            _ => {}
        }
    }

    /// Counts the subschemas reachable from a place at the same value, including itself, and the longest path of them.
    fn measure(&mut self, pointer: &str) -> Result<(u64, u64), String> {
        match self.measured.get(pointer) {
            Some(Measure::Done { parts, in_a_row }) => return Ok((*parts, *in_a_row)),
            Some(Measure::UnderWay) => {
                return Err(format!("{}: it leads back to itself at the same value", place(pointer)));
            }
            None => {}
        }
        self.measured.insert(pointer.to_owned(), Measure::UnderWay);
        let (mut parts, mut in_a_row) = (1_u64, 0);
        // A place without an object is not a schema for the crate either.
        if let Some(Value::Object(members)) = self.root.pointer(pointer) {
            let here = self.parts_here(members, pointer)?;
            for part in here {
                let (more, row) = self.measure(&part)?;
                parts = parts.saturating_add(more);
                in_a_row = in_a_row.max(row);
            }
        }
        in_a_row += 1;
        if parts > PARTS_MAX || in_a_row > PARTS_IN_A_ROW_MAX {
            let what = format!("more than {PARTS_MAX} parts, or {PARTS_IN_A_ROW_MAX} in a row");
            return Err(format!("{}: it leads to {what}, at the same value", place(pointer)));
        }
        self.measured.insert(pointer.to_owned(), Measure::Done { parts, in_a_row });
        Ok((parts, in_a_row))
    }

    /// Returns the places of subschemas that apply to the same value, and queues those of nested values.
    fn parts_here(&mut self, members: &'a Map<String, Value>, pointer: &str) -> Result<Vec<String>, String> {
        self.check_identity(members, pointer)?;
        let mut here = Vec::new();
        for (keyword, value) in members {
            let at = child(pointer, keyword);
            let keyword = keyword.as_str();
            if HERE_ONE.contains(&keyword) {
                here.push(at);
            } else if HERE_MANY.contains(&keyword) || HERE_NAMED.contains(&keyword) {
                here.extend(children(value, &at));
            } else if matches!(keyword, "$ref" | "$dynamicRef") {
                if let Some(reference) = value.as_str() {
                    here.extend(self.resolve(reference, &at)?);
                }
            } else if WITHIN_MANY.contains(&keyword) && value.is_array() || WITHIN_NAMED.contains(&keyword) {
                self.waiting.extend(children(value, &at));
            } else if WITHIN_ONE.contains(&keyword) {
                self.waiting.push(at);
            }
        }
        Ok(here)
    }

    fn check_identity(&self, members: &Map<String, Value>, pointer: &str) -> Result<(), String> {
        let text = |keyword: &str| members.get(keyword).and_then(Value::as_str);
        if text("$schema").is_some_and(|draft| draft.trim_end_matches('#') != DRAFT) {
            return Err(format!("{}: schemas are of {DRAFT}", place(&child(pointer, "$schema"))));
        }
        if !pointer.is_empty() && text("$id").is_some() {
            let why = "only the schema as a whole has an id";
            return Err(format!("{}: {why}", place(&child(pointer, "$id"))));
        }
        if members.contains_key("$recursiveRef") {
            let why = "is of an earlier draft, use $dynamicRef";
            return Err(format!("{}: {why}", place(&child(pointer, "$recursiveRef"))));
        }
        Ok(())
    }

    /// Returns the places to which a reference may resolve.
    fn resolve(&self, reference: &str, at: &str) -> Result<Vec<String>, String> {
        let id = self.root.get("$id").and_then(Value::as_str).unwrap_or_default().trim_end_matches('#');
        let fragment = reference.strip_prefix(id).filter(|_| !id.is_empty()).unwrap_or(reference);
        let fragment = match fragment.strip_prefix('#') {
            Some(fragment) => decoded(fragment),
            None if fragment.is_empty() && !reference.is_empty() => String::new(),
            None => {
                let why = format!("{reference:?} is outside of the schema, references begin with #");
                return Err(format!("{}: {why}", place(at)));
            }
        };
        if fragment.is_empty() || fragment.starts_with('/') {
            let is_there = self.root.pointer(&fragment).is_some();
            return if is_there { Ok(vec![fragment]) } else { Err(format!("{}: nothing is there", place(at))) };
        }
        let places = self.anchors.get(fragment.as_str()).cloned();
        places.ok_or_else(|| format!("{}: there is no anchor {fragment:?}", place(at)))
    }
}

fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn children(value: &Value, pointer: &str) -> Vec<String> {
    match value {
        Value::Array(elements) => (0..elements.len()).map(|index| format!("{pointer}/{index}")).collect(),
        Value::Object(members) => members.keys().map(|key| child(pointer, key)).collect(),
        _ => Vec::new(),
    }
}

/// Removes percent-encoding from a fragment.
fn decoded(fragment: &str) -> String {
    percent_decoded(fragment.as_bytes()).unwrap_or_else(|| fragment.to_owned())
}

fn percent_decoded(bytes: &[u8]) -> Option<String> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(*rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        decoded.push(if *byte == b'%' { digit()? * 16 + digit()? } else { *byte });
    }
    String::from_utf8(decoded).ok()
}
