//! Forms generated from schemas, those that describe the routes: a new field or family of rules has its form without
//! further code.
//!
//! A [`FieldKind`] describes the possible values. [`read`] builds a value from the form data, whose names are JSON
//! pointers; [`edit`] applies the buttons of the form; [`show`] makes the controls. Lists and maps grow by buttons that
//! send the form, so no script is needed. Within a form a map is a list of its entries, because names may be empty or
//! repeated until it is saved ([`FieldKind::opened`], [`FieldKind::closed`]).

pub(super) mod edit;
pub(super) mod read;
pub(super) mod show;
#[cfg(test)]
pub(super) mod tests;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::model::code::{Code, Refusal};

/// Fields of an entry of a map.
const KEY: &str = "key";
const VALUE: &str = "value";

/// Kind of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldKind {
    Object(Vec<Field>),
    List(Box<FieldKind>),
    /// Values by arbitrary names; holds the kind of an entry, an object of `key` and `value`.
    Map(Box<FieldKind>),
    /// One of these words.
    Choice(Vec<String>),
    /// Any subset of these words.
    Several(Vec<String>),
    Whole,
    Toggle,
    Text,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: FieldKind,
    /// Description of the field in the documentation of the routes.
    pub(super) about: String,
    /// True if absence has a meaning of its own.
    pub(super) is_optional: bool,
    /// Default value of the field.
    default: Option<Value>,
}

impl Field {
    /// Returns the sort key: naming fields first, then short ones, then long ones; otherwise in the declared order.
    fn rank(&self) -> (usize, usize) {
        const FIRST: [&str; 5] = ["name", "namespace", "service", "type", "key"];
        let length = match self.kind {
            FieldKind::Object(_) => 1,
            _ if self.kind.is_scalar() => 0,
            _ => 2,
        };
        (length, FIRST.iter().position(|name| *name == self.name).unwrap_or(FIRST.len()))
    }
}

impl FieldKind {
    /// Returns the kind of a type.
    pub(super) fn of<T: JsonSchema>() -> FieldKind {
        let mut schemas = SchemaGenerator::default();
        let schema = schemas.subschema_for::<T>().to_value();
        let definitions = schemas.take_definitions(true);
        Schemas(&definitions).kind(&schema)
    }

    /// Returns an object whose only field is a map of texts.
    pub(super) fn texts(name: &str) -> FieldKind {
        let kind = FieldKind::Map(Box::new(entry_of(FieldKind::Text)));
        let name = name.to_owned();
        let about = String::new();
        FieldKind::Object(vec![Field { name, kind, about, is_optional: false, default: None }])
    }

    /// Removes fields of this object.
    pub(super) fn without(self, is_left_out: impl Fn(&str) -> bool) -> FieldKind {
        match self {
            FieldKind::Object(mut fields) => {
                fields.retain(|field| !is_left_out(&field.name));
                FieldKind::Object(fields)
            }
            kind => kind,
        }
    }

    /// Appends the fields of another object.
    pub(super) fn and(self, other: FieldKind) -> FieldKind {
        match (self, other) {
            (FieldKind::Object(mut fields), FieldKind::Object(others)) => {
                fields.extend(others);
                FieldKind::Object(fields)
            }
            (kind, _) => kind,
        }
    }

    /// Returns the initial value.
    pub(super) fn blank(&self) -> Value {
        match self {
            FieldKind::Object(fields) => {
                let needed = fields.iter().filter(|field| !field.is_optional);
                let value = |field: &Field| field.default.clone().unwrap_or_else(|| field.kind.blank());
                Value::Object(needed.map(|field| (field.name.clone(), value(field))).collect())
            }
            FieldKind::List(_) | FieldKind::Map(_) | FieldKind::Several(_) => Value::Array(Vec::new()),
            FieldKind::Choice(words) => Value::from(words.first().map_or("", String::as_str)),
            FieldKind::Whole => Value::from(0),
            FieldKind::Toggle => Value::from(false),
            FieldKind::Text => Value::from(""),
        }
    }

    /// Converts a value to the form's representation.
    pub(super) fn opened(&self, value: Value) -> Value {
        match (self, value) {
            (FieldKind::Object(fields), Value::Object(mut object)) => {
                let mut opened = Map::new();
                for Field { name, kind, .. } in fields {
                    if let Some(value) = object.remove(name) {
                        opened.insert(name.clone(), kind.opened(value));
                    }
                }
                Value::Object(opened)
            }
            (FieldKind::List(item), Value::Array(items)) => items.into_iter().map(|one| item.opened(one)).collect(),
            (FieldKind::Map(entry), Value::Object(entries)) => {
                let open = |(key, value): (String, Value)| entry.opened(json!({ KEY: key, VALUE: value }));
                entries.into_iter().map(open).collect()
            }
            (_, value) => value,
        }
    }

    /// Converts a value from the form's representation.
    pub(super) fn closed(&self, value: Value) -> Result<Value, Refusal> {
        Ok(match (self, value) {
            (FieldKind::Object(fields), Value::Object(mut object)) => {
                let mut closed = Map::new();
                for Field { name, kind, .. } in fields {
                    if let Some(value) = object.remove(name) {
                        closed.insert(name.clone(), kind.closed(value)?);
                    }
                }
                Value::Object(closed)
            }
            (FieldKind::List(item), Value::Array(items)) => {
                Value::Array(items.into_iter().map(|one| item.closed(one)).collect::<Result<_, _>>()?)
            }
            (FieldKind::Map(entry), Value::Array(items)) => {
                let mut entries = Map::new();
                for one in items {
                    let mut one = entry.closed(one)?;
                    let key = one[KEY].as_str().unwrap_or_default().trim().to_owned();
                    if entries.contains_key(&key) {
                        return Err(Refusal::new(Code::InvalidParameter, format!("{key:?} is there twice")));
                    }
                    entries.insert(key, one[VALUE].take());
                }
                Value::Object(entries)
            }
            (_, value) => value,
        })
    }

    /// Reports whether the value is shown in one control.
    fn is_scalar(&self) -> bool {
        !self.grows() && !matches!(self, FieldKind::Several(_))
    }

    /// Reports whether buttons add parts to it; the words of `Several` are all shown as check boxes.
    fn grows(&self) -> bool {
        matches!(self, FieldKind::Object(_) | FieldKind::List(_) | FieldKind::Map(_))
    }
}

/// Named schemas, for references.
struct Schemas<'a>(&'a Map<String, Value>);

impl Schemas<'_> {
    fn kind(&self, schema: &Value) -> FieldKind {
        let schema = self.resolved(schema);
        let kinds = [&schema["anyOf"], &schema["oneOf"]].into_iter().filter_map(Value::as_array).flatten();
        let mut given = kinds.filter(|one| one["type"] != "null");
        if let Some(words) = schema["enum"].as_array() {
            return FieldKind::Choice(words.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        }
        if let Some(first) = given.next() {
            // A word is also accepted as its number: users choose the word.
            return self.kind(first);
        }
        match kind_word(schema) {
            "object" => match schema["properties"].as_object() {
                Some(fields) => {
                    let mut fields: Vec<_> = fields.iter().map(|(name, field)| self.field(name, field)).collect();
                    fields.sort_by_key(Field::rank);
                    FieldKind::Object(fields)
                }
                None => FieldKind::Map(Box::new(entry_of(self.kind(&schema["additionalProperties"])))),
            },
            "array" => match self.kind(&schema["items"]) {
                FieldKind::Choice(words) => FieldKind::Several(words),
                item => FieldKind::List(Box::new(item)),
            },
            "integer" | "number" => FieldKind::Whole,
            "boolean" => FieldKind::Toggle,
            _ => FieldKind::Text,
        }
    }

    fn field(&self, name: &str, schema: &Value) -> Field {
        let about = [schema, self.resolved(schema)].into_iter().find_map(|schema| schema["description"].as_str());
        let kind = self.kind(schema);
        Field {
            name: name.to_owned(),
            about: about.unwrap_or_default().replace('`', "").split_whitespace().collect::<Vec<_>>().join(" "),
            is_optional: may_be_null(schema),
            default: start_of(name, &kind).or_else(|| {
                let default = schema.get("default").filter(|default| !default.is_null());
                default.map(|one| kind.opened(one.clone()))
            }),
            kind,
        }
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        name.and_then(|name| self.0.get(name)).unwrap_or(schema)
    }
}

/// Initial words of choices, where the first word of the list is a dangerous or useless one.
const STARTS: [(&str, &str); 5] = [
    ("role", "reader"),
    ("type", "HEADER"),
    ("input_type", "RET_CODE"),
    ("trigger_type", "CONSECUTIVE_ERROR"),
    ("protocol", "HTTP"),
];

/// Returns the initial word of a choice; `None` if the first word of its list will do.
fn start_of(name: &str, kind: &FieldKind) -> Option<Value> {
    let FieldKind::Choice(words) = kind else { return None };
    let start = STARTS.into_iter().find(|(field, word)| *field == name && words.iter().any(|known| known == word));
    start.map(|(_, word)| Value::from(word))
}

/// Returns the kind of a map's entry with values of this kind.
fn entry_of(kind: FieldKind) -> FieldKind {
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind,
        about: String::new(),
        is_optional: false,
        default: None,
    };
    FieldKind::Object(vec![field(KEY, FieldKind::Text), field(VALUE, kind)])
}

fn kind_word(schema: &Value) -> &str {
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default(),
        kind => kind.as_str().unwrap_or_default(),
    }
}

fn may_be_null(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null" || kind["type"] == "null";
    let listed = |kinds: &Value| kinds.as_array().is_some_and(|kinds| kinds.iter().any(is_null));
    listed(&schema["type"]) || listed(&schema["anyOf"])
}
