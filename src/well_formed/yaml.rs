//! YAML, read as events: an alias is counted with all that it stands for, and never written out.
//!
//! Beside what the parser refuses: keys that a mapping has twice, which most readers refuse or silently overwrite,
//! and aliases that stand for more than a reader would survive. Tags are not judged: what they mean is up to the
//! reader.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::{DEPTH_MAX, Fault};

/// Nodes that all aliases of a text may stand for.
const ALIASED_NODES_MAX: u64 = 1_000_000;
/// The one key that may be there several times: each merges another mapping.
const MERGE: &str = "<<";

/// A mapping or sequence that is open.
struct Open {
    anchor: usize,
    /// Nodes within, aliases with what they stand for.
    nodes: u64,
    keys: Option<Keys>,
}

/// The plain keys of a mapping.
#[derive(Default)]
struct Keys {
    seen: HashSet<String>,
    is_value_next: bool,
}

#[derive(Default)]
struct Reading {
    open: Vec<Open>,
    /// Nodes that each anchor stands for.
    anchored: HashMap<usize, u64>,
    aliased: u64,
}

fn fault(at: Marker, why: impl Into<String>) -> Fault {
    Fault { line: at.line(), column: at.col() + 1, why: why.into() }
}

pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut reading = Reading::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| fault(*error.marker(), error.info()))?;
        reading.take(&event, span.start)?;
    }
    Ok(())
}

impl Reading {
    fn take(&mut self, event: &Event<'_>, at: Marker) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_merge = text == MERGE && *style == ScalarStyle::Plain;
                self.begin_node(at, (!is_merge).then_some(text.as_ref()))?;
                self.end_node(*anchor, 1);
            }
            Event::Alias(anchor) => {
                self.begin_node(at, None)?;
                let nodes = self.anchored.get(anchor).copied().unwrap_or(1);
                self.aliased = self.aliased.saturating_add(nodes);
                if self.aliased > ALIASED_NODES_MAX {
                    return Err(fault(at, format!("the aliases stand for more than {ALIASED_NODES_MAX} nodes")));
                }
                self.end_node(0, nodes);
            }
            Event::SequenceStart(anchor, _) => self.open(at, *anchor, None)?,
            Event::MappingStart(anchor, _) => self.open(at, *anchor, Some(Keys::default()))?,
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(closed) = self.open.pop() {
                    self.end_node(closed.anchor, closed.nodes.saturating_add(1));
                }
            }
            // An anchor is of one document.
            Event::DocumentStart(_) => self.anchored.clear(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn open(&mut self, at: Marker, anchor: usize, keys: Option<Keys>) -> Result<(), Fault> {
        self.begin_node(at, None)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(fault(at, format!("nested deeper than {DEPTH_MAX} levels")));
        }
        self.open.push(Open { anchor, nodes: 0, keys });
        Ok(())
    }

    /// A node where it begins; with its text where it is a scalar that may be a key.
    fn begin_node(&mut self, at: Marker, text: Option<&str>) -> Result<(), Fault> {
        let Some(keys) = self.open.last_mut().and_then(|open| open.keys.as_mut()) else { return Ok(()) };
        let is_key = !keys.is_value_next;
        keys.is_value_next = is_key;
        match text {
            Some(text) if is_key && !keys.seen.insert(text.to_owned()) => {
                Err(fault(at, format!("the key {:?} is there twice", shortened(text))))
            }
            _ => Ok(()),
        }
    }

    fn end_node(&mut self, anchor: usize, nodes: u64) {
        if anchor > 0 {
            self.anchored.insert(anchor, nodes);
        }
        if let Some(open) = self.open.last_mut() {
            open.nodes = open.nodes.saturating_add(nodes);
        }
    }
}

/// A key as it is told of.
fn shortened(key: &str) -> &str {
    key.char_indices().nth(60).map_or(key, |(end, _)| &key[..end])
}
