//! YAML, read as events: an alias counts as the nodes of its target, and is never expanded.
//!
//! In addition to the parser's errors, it refuses duplicate keys of a mapping, which most readers refuse or silently
//! overwrite, and aliases that would expand beyond a reader's memory. Tags are not checked, because their meaning
//! depends on the reader. Brackets with lines at the margin are accepted, as by most readers ([`margin`]).

mod margin;

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::{DEPTH_MAX, Fault};
use margin::Moved;

/// Nodes to which all aliases of a text may expand.
const ALIASED_NODES_MAX: u64 = 1_000_000;
/// Bytes of a `%TAG` directive, whose prefix is copied for each tag that uses it.
const TAG_DIRECTIVE_BYTES_MAX: usize = 1024;
/// Key that a mapping may have several times; each merges another mapping.
const MERGE: &str = "<<";

/// A mapping or sequence that is open.
struct Open {
    anchor: usize,
    /// Nodes within, with aliases expanded.
    nodes: u64,
    keys: Option<Keys>,
}

/// Plain keys of a mapping.
#[derive(Default)]
struct Keys {
    seen: HashSet<String>,
    is_value_next: bool,
}

struct Reading<'a> {
    place: CharCursor<'a>,
    open: Vec<Open>,
    /// Nodes of the target of each anchor.
    anchored: HashMap<usize, u64>,
    aliased: u64,
    /// Byte of the outermost bracket that is open, and the number of collections outside of it.
    flow: Option<(usize, usize)>,
}

/// Cursor that converts the index of a character to that of its byte, starting from the last one.
struct CharCursor<'a> {
    text: &'a str,
    character: usize,
    byte: usize,
}

impl CharCursor<'_> {
    fn byte_of(&mut self, character: usize) -> usize {
        let bytes = self.text.as_bytes();
        let begins = |byte: usize| bytes.get(byte).is_none_or(|byte| byte & 0xc0 != 0x80);
        while self.character != character && (self.character > character || self.byte < bytes.len()) {
            let is_behind = self.character > character;
            self.byte = if is_behind { self.byte - 1 } else { self.byte + 1 };
            while !begins(self.byte) {
                self.byte = if is_behind { self.byte - 1 } else { self.byte + 1 };
            }
            self.character = if is_behind { self.character - 1 } else { self.character + 1 };
        }
        self.byte
    }
}

fn fault(at: Marker, why: impl Into<String>) -> Fault {
    Fault { line: at.line(), column: at.col() + 1, why: why.into() }
}

/// Returns the text in a form that the parser accepts, with the same lines; `Err` with its first fault.
pub fn readable(text: &str) -> Result<Moved<'_>, Fault> {
    check_directives(text)?;
    let mut moved = Moved::new(text);
    loop {
        let Err(told) = Reading::of(&moved.text).read() else { return Ok(moved) };
        if !told.bracket.is_some_and(|from| moved.move_lines(from)) {
            return Err(moved.as_it_was(told.fault));
        }
    }
}

pub(super) fn check(text: &str) -> Result<(), Fault> {
    readable(text).map(drop)
}

fn check_directives(text: &str) -> Result<(), Fault> {
    let begins_line = |at: &usize| *at == 0 || matches!(text.as_bytes()[at - 1], b'\n' | b'\r');
    for at in memchr::memmem::find_iter(text.as_bytes(), b"%TAG").filter(begins_line) {
        let line = text[at..].lines().next().unwrap_or_default();
        if line.len() > TAG_DIRECTIVE_BYTES_MAX {
            return Err(Fault::at(text, at, format!("a directive of more than {TAG_DIRECTIVE_BYTES_MAX} bytes")));
        }
    }
    Ok(())
}

/// Fault in the text that the parser read.
struct YamlFault {
    fault: Fault,
    /// Byte after which the outermost bracket opens, if a line is indented less than the parser requires.
    bracket: Option<usize>,
}

impl From<Fault> for YamlFault {
    fn from(fault: Fault) -> YamlFault {
        YamlFault { fault, bracket: None }
    }
}

impl<'a> Reading<'a> {
    fn of(text: &'a str) -> Reading<'a> {
        let place = CharCursor { text, character: 0, byte: 0 };
        Reading { place, open: Vec::new(), anchored: HashMap::new(), aliased: 0, flow: None }
    }

    fn read(mut self) -> Result<(), YamlFault> {
        let mut end = 0;
        for event in Parser::new_from_str(self.place.text) {
            let (event, span) = match event {
                Ok(event) => event,
                Err(error) => {
                    let is_at_margin = error.info().starts_with("invalid indentation");
                    let open = self.flow.map(|(byte, _)| byte);
                    let bracket = is_at_margin.then(|| open.unwrap_or_else(|| self.place.byte_of(end)));
                    return Err(YamlFault { fault: fault(*error.marker(), error.info()), bracket });
                }
            };
            end = span.end.index();
            self.note_bracket(&event, span.start);
            self.take(&event, span.start)?;
        }
        Ok(())
    }

    fn note_bracket(&mut self, event: &Event<'_>, at: Marker) {
        match (event, self.flow) {
            (Event::SequenceStart(..) | Event::MappingStart(..), None) => {
                let byte = self.place.byte_of(at.index());
                let is_bracket = matches!(self.place.text.as_bytes().get(byte), Some(b'[' | b'{'));
                self.flow = is_bracket.then_some((byte, self.open.len()));
            }
            (Event::SequenceEnd | Event::MappingEnd, Some((_, outside))) if self.open.len() <= outside + 1 => {
                self.flow = None;
            }
            _ => {}
        }
    }

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
            // An anchor is valid within one document.
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

    /// Records the beginning of a node; `text` is given for scalars, which may be keys.
    fn begin_node(&mut self, at: Marker, text: Option<&str>) -> Result<(), Fault> {
        let Some(keys) = self.open.last_mut().and_then(|open| open.keys.as_mut()) else { return Ok(()) };
        let is_key = !keys.is_value_next;
        keys.is_value_next = is_key;
        match text {
            Some(text) if is_key && !keys.seen.insert(text.to_owned()) => {
                Err(fault(at, format!("the key {:?} occurs twice", shortened(text))))
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

/// Shortens a key for error messages.
fn shortened(key: &str) -> &str {
    key.char_indices().nth(60).map_or(key, |(end, _)| &key[..end])
}
