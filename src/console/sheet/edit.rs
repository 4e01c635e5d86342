//! Changes that the buttons of a form make to its value before it is saved.

use serde_json::Value;

use super::read::name_of;
use super::{Field, FieldKind};

/// Applies the change of a button: `add:/rules`, `remove:/rules/0`, `up:/rules/1`. Other values change nothing.
pub(in crate::console) fn edited(kind: &FieldKind, mut value: Value, asked: &str) -> Value {
    if let Some((what, pointer)) = asked.split_once(':') {
        match what {
            "add" => add(kind, &mut value, pointer),
            "remove" => remove(&mut value, pointer),
            "up" => up(&mut value, pointer),
            _ => {}
        }
    }
    value
}

/// Adds an item to a list or a map, or adds an optional value.
fn add(kind: &FieldKind, value: &mut Value, pointer: &str) {
    let Some(wanted) = kind_at(kind, pointer) else { return };
    let blank = wanted.blank();
    let Some(there) = value.pointer_mut(pointer).filter(|there| !there.is_null()) else {
        let Some((parent, name)) = pointer.rsplit_once('/') else { return };
        if let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.insert(name_of(name), with_one(wanted, blank));
        }
        return;
    };
    *there = with_one(wanted, there.take());
}

fn with_one(kind: &FieldKind, mut value: Value) -> Value {
    if let (FieldKind::List(item) | FieldKind::Map(item), Value::Array(items)) = (kind, &mut value) {
        items.push(item.blank());
    }
    value
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Array(items)) => {
            if let Some(index) = name.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        Some(Value::Object(entries)) => {
            entries.remove(&name_of(name));
        }
        _ => {}
    }
}

fn up(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let (Some(Value::Array(items)), Ok(index)) = (value.pointer_mut(parent), name.parse::<usize>())
        && (1..items.len()).contains(&index)
    {
        items.swap(index - 1, index);
    }
}

/// Returns the kind of the value at a pointer; `None` for an invalid pointer.
pub(in crate::console) fn kind_at<'a>(kind: &'a FieldKind, pointer: &str) -> Option<&'a FieldKind> {
    let mut kind = kind;
    for part in pointer.split('/').skip(1) {
        kind = match kind {
            FieldKind::Object(fields) => {
                let name = name_of(part);
                &fields.iter().find(|Field { name: field, .. }| *field == name)?.kind
            }
            FieldKind::List(item) | FieldKind::Map(item) => item,
            _ => return None,
        };
    }
    Some(kind)
}
