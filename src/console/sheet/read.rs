//! Parsing of form data to a value.
//!
//! A scalar is sent under its pointer. Optional values, and items of a list or a map, are present if there is an empty
//! field under their own pointer.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Field, FieldKind};
use crate::console::fields::Fields;

/// Text that a ticked check box sends.
pub(super) const TRUE: &str = "true";

/// Submitted values by name.
pub(in crate::console) struct Sent<'a>(HashMap<&'a str, &'a str>); // bound: bodies

impl<'a> Sent<'a> {
    pub(in crate::console) fn of(fields: &'a Fields) -> Sent<'a> {
        Sent(fields.pairs().collect())
    }

    /// Returns the value of the form.
    pub(in crate::console) fn value(&self, kind: &FieldKind) -> Value {
        self.read(kind, "").unwrap_or_default()
    }

    fn read(&self, kind: &FieldKind, at: &str) -> Option<Value> {
        Some(match kind {
            FieldKind::Object(fields) => Value::Object(self.object(fields, at)),
            FieldKind::List(item) | FieldKind::Map(item) => {
                let items = self.places(at).map(|place| self.read(item, &place).unwrap_or_else(|| item.blank()));
                Value::Array(items.collect())
            }
            FieldKind::Several(words) => {
                let is_chosen = |word: &&String| self.get(&pointer(at, word)).is_some();
                Value::from(words.iter().filter(is_chosen).cloned().collect::<Vec<_>>())
            }
            // An unticked check box sends nothing.
            FieldKind::Toggle => Value::from(self.get(at).is_some_and(|given| given == TRUE)),
            // A text that is not a number is left to the operation to refuse.
            FieldKind::Whole => {
                self.given(at).map(|text| text.parse::<u64>().map_or_else(|_| text.into(), Value::from))?
            }
            FieldKind::Choice(_) => Value::from(self.given(at)?),
            // Browsers end lines in forms with two characters.
            FieldKind::Text => Value::from(self.get(at)?.replace("\r\n", "\n")),
        })
    }

    fn object(&self, fields: &[Field], at: &str) -> Map<String, Value> {
        let read = |field: &Field| {
            let place = pointer(at, &field.name);
            let sent = if field.kind.is_scalar() { self.given(&place) } else { self.get(&place) };
            let is_there = !field.is_optional || sent.is_some();
            let value = is_there.then(|| self.read(&field.kind, &place))??;
            Some((field.name.clone(), value))
        };
        fields.iter().filter_map(read).collect()
    }

    /// Returns the pointers of the items of a list.
    fn places(&self, at: &str) -> impl Iterator<Item = String> {
        (0..).map(move |index| format!("{at}/{index}")).take_while(|place| self.get(place).is_some())
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied()
    }

    fn given(&self, name: &str) -> Option<&'a str> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty())
    }
}

/// Returns the pointer of a field (RFC 6901).
pub(super) fn pointer(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Decodes a part of a pointer to a field name.
pub(super) fn name_of(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Formats a pointer as faults do: `rules[0].name`.
pub(in crate::console) fn path(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        match part.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&name_of(part));
            }
        }
    }
    path
}
