//! XML, read as events: no entity is replaced by what it stands for, no document type is fetched.
//!
//! What is judged is the form: one element that holds all others, tags that match, attributes that are quoted and
//! there once, references that are whole. An entity that is not one of the five that XML has is let pass where the
//! document has a document type, which may declare it.

use std::collections::HashSet;

use quick_xml::Reader;
use quick_xml::events::attributes::AttrError;
use quick_xml::events::{BytesStart, Event};

use super::{DEPTH_MAX, Fault};

const ENTITIES: [&str; 5] = ["lt", "gt", "amp", "apos", "quot"];

pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().enable_all_checks(true);
    let (mut depth, mut has_root, mut has_doctype) = (0_usize, false, false);
    loop {
        let start = position(reader.buffer_position());
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => return Err(Fault::at(text, position(reader.error_position()), error.to_string())),
        };
        let refuse = |why: &str| Err(Fault::at(text, start, why));
        match event {
            Event::Start(ref tag) | Event::Empty(ref tag) => {
                if depth == 0 && has_root {
                    return refuse("a second element stands beside the first, and one has to hold all others");
                }
                has_root = true;
                check_tag(tag).map_err(|why| Fault::at(text, start, why))?;
                if matches!(event, Event::Start(_)) {
                    depth += 1;
                    if depth > DEPTH_MAX {
                        return Err(Fault::too_deep(text, start));
                    }
                }
            }
            // That it closes the one that is open is what the reader checks.
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(part) if depth == 0 && !part.trim().is_empty() => {
                return refuse("text stands outside of the element that has to hold all");
            }
            Event::CData(_) | Event::GeneralRef(_) if depth == 0 => {
                return refuse("text stands outside of the element that has to hold all");
            }
            Event::GeneralRef(name) => {
                let name: &str = &name;
                let is_known = name.starts_with('#') || ENTITIES.contains(&name) || has_doctype;
                if !is_known {
                    return refuse(&format!("the entity &{name}; is not declared; a plain & is written &amp;"));
                }
            }
            Event::DocType(_) if has_root => return refuse("the document type comes before the first element"),
            Event::DocType(_) => has_doctype = true,
            Event::Eof if depth > 0 => return refuse("the text ends before all elements are closed"),
            Event::Eof if !has_root => return refuse("there is no element"),
            Event::Eof => return Ok(()),
            Event::Text(_) | Event::CData(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

fn position(byte: u64) -> usize {
    usize::try_from(byte).unwrap_or(usize::MAX)
}

fn check_tag(tag: &BytesStart<'_>) -> Result<(), String> {
    let name = tag.name().into_inner();
    if !name.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | ':')) {
        return Err("a tag has no name that an element may have".to_owned());
    }
    // The reader's own check for repeated names compares each with all before it.
    let mut seen = HashSet::new();
    let mut attributes = tag.attributes();
    for attribute in attributes.with_checks(false) {
        let attribute = attribute.map_err(|error| told(&error).to_owned())?;
        let name = attribute.key.into_inner();
        if !seen.insert(name) {
            return Err(format!("the attribute {name} is there twice"));
        }
        if attribute.value.contains('<') {
            return Err("the value of an attribute holds a <, which is written &lt;".to_owned());
        }
    }
    Ok(())
}

fn told(error: &AttrError) -> &'static str {
    match error {
        AttrError::ExpectedEq(_) => "an attribute has no =",
        AttrError::ExpectedValue(_) => "an attribute has no value",
        AttrError::UnquotedValue(_) => "the value of an attribute is not quoted",
        AttrError::ExpectedQuote(..) => "the value of an attribute lacks its closing quote",
        AttrError::Duplicated(..) => "an attribute is there twice",
    }
}
