//! Bodies of all answers: `code` and `info`, then the members of the operation. [`Shape`] describes them.

use axum::response::Response;
use schemars::{JsonSchema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::bounded::{self, Measure, Rows, Unwritten};
use crate::api::view::{Derived, View};
use crate::catalog::page::{After, Listed};
use crate::catalog::{Catalog, Entity, Outcome};
use crate::model::code::{Code, Refusal};
use crate::openapi::{SchemaOf, schema_of};

pub(crate) use super::json::{answer, done, done_so_far, written};

/// Returns a success with one named element.
pub(crate) fn single(name: &'static str, element: &impl Serialize) -> Response {
    single_as(Code::ExecuteSuccess, name, element)
}

/// Returns an answer with one named element under the given code.
pub(crate) fn single_as(code: Code, name: &'static str, element: &impl Serialize) -> Response {
    answer(code, &Single { code, info: code.info(), name, element })
}

struct Single<'a, T> {
    code: Code,
    info: &'a str,
    name: &'static str,
    element: &'a T,
}

impl<T: Serialize> Serialize for Single<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &self.code)?;
        map.serialize_entry("info", self.info)?;
        map.serialize_entry(self.name, self.element)?;
        map.end()
    }
}

/// Answer for one item of a write: code, info and, if there is one, the object under the element name of its kind.
pub(crate) struct Item {
    outcome: Outcome,
    derived: Derived,
    with_secrets: bool,
    /// Secret that is returned once and not stored.
    secret: Option<String>,
    warnings: Vec<String>,
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(true, serializer)
    }
}

impl Item {
    fn write<S: Serializer>(&self, with_entity: bool, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &self.outcome.code)?;
        map.serialize_entry("info", &self.outcome.info())?;
        let view = View::of(&self.outcome.entity, &self.derived, self.with_secrets, self.secret.as_deref());
        if let Some(view) = view.filter(|_| with_entity) {
            map.serialize_entry(view.element(), &view)?;
        }
        if let Entity::PolicyBlock(held) = &self.outcome.entity {
            map.serialize_entry("policies", &held.policies)?;
            held.until.iter().try_for_each(|until| map.serialize_entry("until", &until.rfc3339()))?;
        }
        if let Entity::Broken(broken) = &self.outcome.entity {
            map.serialize_entry("path", &broken.path)?;
            broken.line.iter().try_for_each(|line| map.serialize_entry("line", line))?;
            map.serialize_entry("message", &broken.message)?;
        }
        if !self.warnings.is_empty() {
            map.serialize_entry("warnings", &self.warnings)?;
        }
        map.end()
    }

    /// Creates the answer of an item. The secret of an object, such as the token of a service, is shown to the caller
    /// that wrote it, not to one whose write was refused.
    pub(crate) fn new(outcome: Outcome, catalog: &Catalog) -> Self {
        let with_secrets = outcome.code.is_success();
        Item {
            derived: Derived::of(&outcome.entity, catalog),
            with_secrets,
            secret: None,
            warnings: Vec::new(),
            outcome,
        }
    }

    /// Adds the secret that was generated for the item, if the write succeeded.
    pub(crate) fn with_secret(self, secret: Option<String>) -> Self {
        Item { secret: secret.filter(|_| self.with_secrets), ..self }
    }

    /// Adds warnings for the caller.
    pub(crate) fn with_warnings(self, warnings: Vec<String>) -> Self {
        Item { warnings, ..self }
    }
}

#[derive(Serialize)]
struct BatchBody<'a, T> {
    code: Code,
    info: &'a str,
    amount: usize,
    size: usize,
    responses: &'a [T],
}

/// Returns the answer of a batch: its code is the highest of its items. If it would be too long, the items have their
/// codes without the objects, because the writes are done.
pub(crate) fn batch(responses: &[Item]) -> Response {
    let code = responses.iter().map(|item| item.outcome.code).max();
    batch_within(Measure::of_answer(), code, responses)
}

pub(crate) fn batch_within(measure: Measure, code: Option<Code>, responses: &[Item]) -> Response {
    match bounded::write(&measure, &BatchBody::of(code, responses)) {
        Ok(bytes) => written(code.unwrap_or(Code::ExecuteSuccess), bytes),
        Err(Unwritten::TooLong { .. }) => batch_under(code, &responses.iter().map(Bare).collect::<Vec<_>>()),
        Err(failed) => bounded::unwritten(failed),
    }
}

fn batch_under(code: Option<Code>, responses: &[impl Serialize]) -> Response {
    answer(code.unwrap_or(Code::ExecuteSuccess), &BatchBody::of(code, responses))
}

impl<'a, T> BatchBody<'a, T> {
    fn of(code: Option<Code>, responses: &'a [T]) -> Self {
        let code = code.unwrap_or(Code::ExecuteSuccess);
        BatchBody { code, info: code.info(), amount: responses.len(), size: responses.len(), responses }
    }
}

/// An item without its object, unless the object has a secret, which is returned only once.
struct Bare<'a>(&'a Item);

impl Serialize for Bare<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(self.0.secret.is_some(), serializer)
    }
}

/// Returns the answer of a batch without a command: the element of each item, or its refusal.
pub(crate) fn batch_of<T: Serialize>(
    name: &'static str,
    items: &[Result<T, Refusal>],
    warnings: &[Vec<String>],
) -> Response {
    let warnings = warnings.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
    let responses: Vec<_> = items.iter().zip(warnings).map(|(item, warnings)| Made { name, item, warnings }).collect();
    batch_under(responses.iter().map(Made::code).max(), &responses)
}

struct Made<'a, T> {
    name: &'static str,
    item: &'a Result<T, Refusal>,
    warnings: &'a [String],
}

impl<T> Made<'_, T> {
    fn code(&self) -> Code {
        self.item.as_ref().map_or_else(|refusal| refusal.code, |_| Code::ExecuteSuccess)
    }
}

impl<T: Serialize> Serialize for Made<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &self.code())?;
        match self.item {
            Ok(element) => {
                map.serialize_entry("info", self.code().info())?;
                map.serialize_entry(self.name, element)?;
            }
            Err(refusal) => map.serialize_entry("info", &refusal.info())?,
        }
        if !self.warnings.is_empty() {
            map.serialize_entry("warnings", self.warnings)?;
        }
        map.end()
    }
}

/// Returns the answer for an item that was sent as a single object.
pub(crate) fn one_of<T: Serialize>(name: &'static str, element: T, warnings: &[String]) -> Response {
    answer(Code::ExecuteSuccess, &Made { name, item: &Ok(element), warnings })
}

/// Returns the answer for a single object, as the configuration centre has it.
pub(crate) fn one(item: &Item) -> Response {
    answer(item.outcome.code, item)
}

/// Returns [`one`] for a single object, else [`batch`].
pub(crate) fn one_or_batch(is_single: bool, responses: &[Item]) -> Response {
    match responses {
        [item] if is_single => one(item),
        responses => batch(responses),
    }
}

/// Returns a page of a list: `amount` counts all matches, `size` this page.
pub(crate) fn list<'a, T, V: Serialize>(
    name: &'static str,
    listed: &'a Listed<T>,
    view: impl Fn(&'a T) -> V,
) -> Response {
    list_releases(name, listed, None, view)
}

/// Returns a list of releases; for a single object, with the highest version that retention has removed.
pub(crate) fn list_releases<'a, T, V: Serialize>(
    name: &'static str,
    listed: &'a Listed<T>,
    removed_through: Option<u64>,
    view: impl Fn(&'a T) -> V,
) -> Response {
    let measure = Measure::of_answer();
    let rows = Rows::of(&listed.rows, &measure, view);
    let after = listed.after.as_ref().map(After::text);
    bounded::answer(Code::ExecuteSuccess, &measure, &List { name, amount: listed.amount, removed_through, after, rows })
}

/// Member with the highest removed version.
const REMOVED_THROUGH: &str = "removed_through_version";

/// Member of a full page by key with the position of the next page.
pub(crate) const AFTER: &str = "after";

struct List<'a, 'm, T, F> {
    name: &'static str,
    amount: usize,
    removed_through: Option<u64>,
    after: Option<String>,
    rows: Rows<'a, 'm, T, F>,
}

impl<'a, T, V: Serialize, F: Fn(&'a T) -> V> Serialize for List<'a, '_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &Code::ExecuteSuccess)?;
        map.serialize_entry("info", Code::ExecuteSuccess.info())?;
        map.serialize_entry("amount", &self.amount)?;
        // The configuration centre's name for the same number.
        map.serialize_entry("total", &self.amount)?;
        map.serialize_entry("size", &self.rows.count())?;
        if let Some(version) = self.removed_through {
            map.serialize_entry(REMOVED_THROUGH, &version)?;
        }
        if let Some(after) = &self.after {
            map.serialize_entry(AFTER, after)?;
        }
        map.serialize_entry(self.name, &self.rows)?;
        map.end()
    }
}

/// Element of an answer: its name and schema.
type Element = (&'static str, SchemaOf);

/// Shape of an answer.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// Only code and info.
    Plain,
    /// [`single`].
    Single(Element),
    /// [`batch`].
    Batch(Element),
    /// [`one`] for a single object, else [`batch`].
    OneOrBatch(Element),
    /// [`list`].
    List(Element),
    /// [`list_releases`].
    Releases(Element),
    /// A body of its own kind, with `code` and `info`.
    Whole(SchemaOf),
}

/// Codes of the answers with one status: of the whole request, and of items.
#[derive(Clone, Copy)]
pub(crate) struct Coded<'a> {
    pub(crate) whole: &'a [Code],
    pub(crate) items: &'a [Code],
}

impl Shape {
    pub(crate) const fn single<V: JsonSchema>(name: &'static str) -> Self {
        Shape::Single((name, schema_of::<V>()))
    }

    pub(crate) const fn batch<V: JsonSchema>(name: &'static str) -> Self {
        Shape::Batch((name, schema_of::<V>()))
    }

    pub(crate) const fn one_or_batch<V: JsonSchema>(name: &'static str) -> Self {
        Shape::OneOrBatch((name, schema_of::<V>()))
    }

    pub(crate) const fn list<V: JsonSchema>(name: &'static str) -> Self {
        Shape::List((name, schema_of::<V>()))
    }

    pub(crate) const fn releases<V: JsonSchema>(name: &'static str) -> Self {
        Shape::Releases((name, schema_of::<V>()))
    }

    pub(crate) const fn whole<B: JsonSchema>() -> Self {
        Shape::Whole(schema_of::<B>())
    }

    pub(crate) fn schema(self, schemas: &mut SchemaGenerator, codes: Coded<'_>) -> Value {
        let items = Coded { whole: codes.items, ..codes };
        let count = || json!({ "type": "integer", "minimum": 0 });
        match self {
            Shape::Plain => coded(codes, [], []),
            Shape::Single((name, element)) => coded(codes, [(name, element(schemas).to_value())], []),
            Shape::Batch((name, element)) => {
                let item = coded(items, [], [(name, element(schemas).to_value())]);
                let responses = json!({ "type": "array", "items": item });
                coded(codes, [("amount", count()), ("size", count()), ("responses", responses)], [])
            }
            Shape::OneOrBatch((name, element)) => {
                let one = coded(codes, [], [(name, element(schemas).to_value())]);
                json!({ "anyOf": [Shape::Batch((name, element)).schema(schemas, codes), one] })
            }
            Shape::List((name, element)) => {
                let rows = json!({ "type": "array", "items": element(schemas) });
                let after = json!({
                    "type": "string",
                    "description": "On a full page by key (`order=key`): what the next one is asked for with.",
                });
                let members = [("amount", count()), ("total", count()), ("size", count()), (name, rows)];
                coded(codes, members, [(AFTER, after)])
            }
            Shape::Releases(element) => {
                let mut list = Shape::List(element).schema(schemas, codes);
                list["properties"][REMOVED_THROUGH] = json!({
                    "type": "integer",
                    "minimum": 0,
                    "description": "Where the releases of one thing are listed: inactive ones up to this version were \
                                    removed, as newer ones are kept (`releases_kept`). 0 if none were.",
                });
                list
            }
            Shape::Whole(body) => body(schemas).to_value(),
        }
    }

    /// Returns the schema of a refusal: code and info if the request is refused as a whole; a batch whose items are
    /// refused has each item's.
    pub(crate) fn refusal_schema(self, schemas: &mut SchemaGenerator, codes: Coded<'_>) -> Value {
        let plain = coded(codes, [], []);
        match self {
            Shape::Batch(_) => json!({ "anyOf": [self.schema(schemas, codes), plain] }),
            Shape::OneOrBatch(_) => self.schema(schemas, codes),
            Shape::Plain | Shape::Single(_) | Shape::List(_) | Shape::Releases(_) | Shape::Whole(_) => plain,
        }
    }
}

/// Returns the schema of the refusal of a list that would be too long, with the number of rows that fit.
pub(crate) fn refusal_of_length(codes: Coded<'_>) -> Value {
    let limit = json!({ "type": "integer", "minimum": 0, "description": "With 413002: so many rows fit." });
    coded(codes, [], [("limit", limit)])
}

/// Returns the schema of an object with `code`, `info` and these fields.
fn coded<const N: usize, const M: usize>(
    codes: Coded<'_>,
    required: [(&'static str, Value); N],
    optional: [(&'static str, Value); M],
) -> Value {
    let numbers: Vec<_> = codes.whole.iter().map(|code| code.number()).collect();
    let mut properties = Map::new();
    properties.insert("code".into(), json!({ "type": "integer", "enum": numbers }));
    properties.insert("info".into(), json!({ "type": "string" }));
    properties.extend(required.map(|(name, schema)| (name.to_owned(), schema)));
    let names: Vec<_> = properties.keys().cloned().collect();
    properties.extend(optional.map(|(name, schema)| (name.to_owned(), schema)));
    json!({ "type": "object", "properties": properties, "required": names })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::super::json::Plain;
    use super::*;
    use crate::api::view::NamespaceView;
    use crate::catalog::Entity;
    use crate::model::namespace::Namespace;

    fn members(object: &Value) -> BTreeSet<&str> {
        object.as_object().expect("an object").keys().map(String::as_str).collect()
    }

    /// The encoding and its schema are both written by hand: they have the same members.
    #[test]
    fn shapes_have_the_members_that_are_written() {
        let (code, info, name) = (Code::ExecuteSuccess, "", "namespace");
        let outcome = || Outcome::done(Entity::Namespace(Arc::new(Namespace::default())));
        let responses = [Item::new(outcome(), &Catalog::default())];
        let batch = BatchBody { code, info, amount: 1, size: 1, responses: &responses };
        let after = || Some(String::new());
        let measure = Measure::of_answer();
        let rows = || Rows::of(&[(); 0], &measure, |row| row);
        let list = |removed_through| List { name, amount: 0, removed_through, after: after(), rows: rows() };
        let rows = [
            (Shape::Plain, serde_json::to_value(Plain { code: 0, info: String::new() })),
            (Shape::single::<NamespaceView>(name), serde_json::to_value(Single { code, info, name, element: &() })),
            (Shape::list::<NamespaceView>(name), serde_json::to_value(list(None))),
            (Shape::releases::<NamespaceView>(name), serde_json::to_value(list(Some(3)))),
            (Shape::batch::<NamespaceView>(name), serde_json::to_value(batch)),
        ];
        let mut schemas = SchemaGenerator::default();
        for (shape, written) in rows {
            let written = written.expect("an object");
            let schema = shape.schema(&mut schemas, Coded { whole: &[code], items: &[code] });
            assert_eq!(members(&schema["properties"]), members(&written), "{written}");
            if let Some(item) = written.pointer("/responses/0") {
                assert_eq!(members(&schema["properties"]["responses"]["items"]["properties"]), members(item));
            }
        }
    }
}
