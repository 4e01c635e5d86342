//! XML, read as events: entities are not expanded, and document types are not fetched.
//!
//! The check covers the form: a single root element, matching tags, names and characters of XML, attributes that are
//! quoted and unique, complete references ([`tag`]). Entities other than the five of XML are accepted in a document
//! with a document type, which may declare them. Prefixes of names are not checked, because readers without support for
//! namespaces accept any.

mod tag;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::{DEPTH_MAX, Fault};
use tag::{check_reference, check_tag};

pub(super) fn check(text: &str) -> Result<(), Fault> {
    let strange = text.char_indices().find(|(_, character)| !tag::is_character(*character));
    let form = check_form(text);
    let Some((byte, character)) = strange else { return form };
    let fault = Fault::at(text, byte, format!("the character U+{:04X} is not allowed in XML", u32::from(character)));
    let is_first = |other: &Fault| (fault.line, fault.column) <= (other.line, other.column);
    if form.as_ref().err().is_none_or(is_first) { Err(fault) } else { form }
}

fn check_form(text: &str) -> Result<(), Fault> {
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
        let told = |(byte, why): (usize, String)| Fault::at(text, start + byte, why);
        match event {
            Event::Start(_) | Event::Empty(_) => {
                if depth == 0 && has_root {
                    return refuse("there is a second root element");
                }
                has_root = true;
                let is_empty = matches!(event, Event::Empty(_));
                let end = position(reader.buffer_position()) - if is_empty { 2 } else { 1 };
                check_tag(text.get(start..end).unwrap_or_default(), has_doctype).map_err(told)?;
                if !is_empty {
                    depth += 1;
                    if depth > DEPTH_MAX {
                        return Err(Fault::too_deep(text, start));
                    }
                }
            }
            // The reader checks that the tag matches the open element.
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(part) if depth == 0 && !part.trim().is_empty() => {
                return refuse("there is text outside of the root element");
            }
            Event::Text(part) => {
                if let Some(at) = part.find("]]>") {
                    return Err(told((at, "]]> in a text has to be written ]]&gt;".to_owned())));
                }
            }
            Event::CData(_) | Event::GeneralRef(_) if depth == 0 => {
                return refuse("there is text outside of the root element");
            }
            Event::GeneralRef(name) => check_reference(&name, has_doctype).map_err(|why| told((0, why)))?,
            Event::Decl(_) if start > 0 => return refuse("the declaration <?xml has to be at the very start"),
            Event::DocType(_) if has_root => return refuse("the document type has to precede the root element"),
            Event::DocType(_) => has_doctype = true,
            Event::Eof if depth > 0 => return refuse("the text ends before all elements are closed"),
            Event::Eof if !has_root => return refuse("there is no root element"),
            Event::Eof => return Ok(()),
            Event::CData(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

fn position(byte: u64) -> usize {
    usize::try_from(byte).unwrap_or(usize::MAX)
}
