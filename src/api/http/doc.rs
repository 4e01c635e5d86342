//! Documentation of the routes: a [`Doc`] in each row of the table of routes.
//!
//! A constant above the handler has the purpose of the route (`says`), the query keys that it reads (`query`), the body
//! of a success (`gives`) and the codes with which it may refuse (`codes`). The handler's arguments are not repeated:
//! [`Input`], implemented by each extractor, describes what the extractor reads and how it refuses.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Extension, State};
use axum::http::Method;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::envelope::{self, Coded, Shape};
use super::route::{Access, Terms, is_read_of};
use crate::model::code::Code;
use crate::model::limits;
use crate::model::rule::Family;
use crate::openapi::{Operation, Param, Reply, SchemaOf, Security};
use crate::operations::Caller;

const JSON: &str = "application/json";
pub(crate) const ZIP: &str = "application/zip";

/// Query keys that [`super::query::Query::page`] reads.
pub(crate) const PAGING: &[Param] = &[
    Param::whole("offset", "Rows to leave out.", 0),
    Param::whole(
        "limit",
        "Rows of the page: more than 100 is cut down, 0 gives the amount alone.",
        limits::PAGE_ROWS_MAX,
    ),
    Param::text("order", "`key`: by namespace, group, name and id instead, where no change moves a row."),
    Param::text("after", "The `after` of the page before, by key: the rows behind it. Not together with `offset`."),
];

/// Parameters that [`super::query::Query::page_of_all`] reads.
pub(crate) const PAGING_OF_ALL: &[Param] = &[
    PAGING[0],
    Param::number("limit", "Rows of the page, which is cut to no other number: all where absent, 0 the amount alone."),
    PAGING[2],
    PAGING[3],
];

/// Query key of deletes without a body.
pub(crate) const REVISION: Param = Param::text("revision", "Refused with 409000 if this is not the current one.");

/// Codes that the cluster may return for a write, and for a read that needs its majority.
pub(crate) const PROPOSED: &[Code] = &[Code::NoLeader, Code::OutcomeUnknown, Code::NoRoom];

/// Description of a route, without the handler's arguments.
#[derive(Clone, Copy)]
pub(crate) struct Doc {
    tag: &'static str,
    summary: &'static str,
    query: &'static [&'static [Param]],
    item: Option<SchemaOf>,
    answer: Success,
    /// JSON type of answers outside of the envelope.
    raw_type: &'static str,
    codes: &'static [&'static [Code]],
}

#[derive(Clone, Copy)]
enum Success {
    Json(Shape),
    Raw(&'static [Raw]),
}

/// An answer outside of the envelope: status, media type (empty for one without a body), description.
type Raw = (u16, &'static str, &'static str);

impl Doc {
    /// Creates the description of a route in the group `tag` that answers only `code` and `info`.
    pub(crate) const fn new(tag: &'static str) -> Self {
        let answer = Success::Json(Shape::Plain);
        Doc { tag, summary: "", query: &[], item: None, answer, raw_type: "object", codes: &[] }
    }

    /// Sets the purpose of the route, in one sentence.
    pub(crate) const fn says(self, summary: &'static str) -> Self {
        Doc { summary, ..self }
    }

    /// Sets the query keys that the handler reads.
    pub(crate) const fn query(self, query: &'static [&'static [Param]]) -> Self {
        Doc { query, ..self }
    }

    /// Sets the item of the body, if the handler's arguments do not describe it.
    pub(crate) const fn takes(self, item: SchemaOf) -> Self {
        Doc { item: Some(item), ..self }
    }

    /// Sets the body of a success.
    pub(crate) const fn gives(self, shape: Shape) -> Self {
        Doc { answer: Success::Json(shape), ..self }
    }

    /// Sets answers outside of the envelope.
    pub(crate) const fn gives_raw(self, raw: &'static [Raw]) -> Self {
        Doc { answer: Success::Raw(raw), ..self }
    }

    /// Sets answers outside of the envelope whose JSON is an array.
    pub(crate) const fn gives_raw_array(self, raw: &'static [Raw]) -> Self {
        Doc { answer: Success::Raw(raw), raw_type: "array", ..self }
    }

    /// Sets the codes, besides 200000, of the whole request or of an item.
    pub(crate) const fn codes(self, codes: &'static [&'static [Code]]) -> Self {
        Doc { codes, ..self }
    }

    /// Reports whether the handler reads this query key.
    #[cfg(test)]
    pub(crate) fn reads(&self, key: &str) -> bool {
        self.query.iter().copied().flatten().any(|param| param.name == key)
    }

    /// Reports whether a success has rows.
    #[cfg(test)]
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.answer, Success::Json(Shape::List(_) | Shape::Releases(_)))
    }

    /// Builds the whole description of a row.
    pub(crate) fn operation(
        &self,
        method: &Method,
        path: &str,
        terms: Terms,
        inputs: Inputs,
        schemas: &mut SchemaGenerator,
    ) -> Operation {
        let codes = self.codes.iter().copied().flatten().copied();
        // Codes of any route: an internal error, and limits of time and memory.
        let of_all = [Code::TooMuchUnderWay, Code::ExecuteException, Code::OutcomeUnknown, Code::ReadTimedOut];
        let codes = codes.chain(of_all).collect();
        let mut sketch = self.sketch(schemas, codes);
        inputs(&mut sketch);
        if !terms.is_always {
            sketch.codes.insert(Code::StateDiverged);
        }
        if terms.access != Access::Anyone {
            sketch.codes.insert(Code::NotAllowedAccess);
            // An unknown token is looked up at the leader, which needs a majority.
            sketch.codes.extend([Code::EmptyAuthToken, Code::TokenNotExisted, Code::NoLeader, Code::ProviderAway]);
            if !is_read_of(method, path) {
                sketch.codes.insert(Code::OperationRoleForbidden);
            }
        }
        Operation {
            method: method.clone(),
            path: path.to_owned(),
            tag: self.tag,
            summary: self.summary,
            security: if terms.access == Access::Anyone { Security::Open } else { Security::Token },
            replies: self.replies(&mut sketch),
            path_params: sketch.path,
            query: sketch.query,
            body: sketch.body,
            body_types: sketch.body_types,
        }
    }

    /// Returns the keys of the query that a row reads, those of its arguments included.
    pub(crate) fn query_keys(&self, inputs: Inputs) -> Vec<&'static str> {
        let schemas = &mut SchemaGenerator::default();
        let mut sketch = self.sketch(schemas, BTreeSet::new());
        inputs(&mut sketch);
        sketch.query.iter().flat_map(Param::names).collect()
    }

    /// Returns a description without the parts of the handler's arguments.
    fn sketch<'a>(&self, schemas: &'a mut SchemaGenerator, codes: BTreeSet<Code>) -> Sketch<'a> {
        let query = self.query.concat();
        Sketch { schemas, item: self.item, path: Vec::new(), query, body: None, body_types: &[JSON], codes }
    }

    fn replies(&self, sketch: &mut Sketch<'_>) -> BTreeMap<u16, Reply> {
        let (mut replies, mut shape) = (BTreeMap::new(), Shape::Plain);
        match self.answer {
            Success::Json(success) => {
                sketch.codes.insert(Code::ExecuteSuccess);
                if matches!(success, Shape::List(_) | Shape::Releases(_)) {
                    sketch.codes.insert(Code::AnswerTooLong);
                }
                shape = success;
            }
            Success::Raw(raw) => replies.extend(raw.iter().map(|(status, media_type, about)| {
                if media_type.is_empty() {
                    return (*status, Reply::empty(*about));
                }
                let schema = match *media_type {
                    "application/octet-stream" | ZIP => json!({}),
                    text if text.starts_with("text/") => json!({ "type": "string" }),
                    _ => json!({ "type": self.raw_type }),
                };
                (*status, Reply::new(*about, media_type, schema))
            })),
        }
        // Each item has its own code: a parse error, or one of the codes of the route.
        let items = self.codes.iter().copied().flatten().copied();
        let items: BTreeSet<_> =
            items.chain([Code::ExecuteSuccess, Code::ParseException, Code::NotAllowedAccess]).collect();
        let (all, items) = (Vec::from_iter(sketch.codes.iter().copied()), Vec::from_iter(items));
        for whole in all.chunk_by(|one, next| one.status() == next.status()) {
            let coded = Coded { whole, items: &items };
            let is_of_items = items.iter().any(|item| item.status() == whole[0].status());
            let schema = match (whole[0].is_success(), is_of_items) {
                _ if whole.contains(&Code::AnswerTooLong) => envelope::refusal_of_length(coded),
                (true, _) => shape.schema(sketch.schemas, coded),
                (false, true) => shape.refusal_schema(sketch.schemas, coded),
                (false, false) => Shape::Plain.schema(sketch.schemas, coded),
            };
            let about: Vec<_> = whole.iter().map(|code| format!("{} {}", code.number(), code.info())).collect();
            replies.entry(whole[0].status()).or_insert(Reply::new(about.join("; "), JSON, schema));
        }
        replies
    }

    /// Returns the described query keys.
    #[cfg(test)]
    pub(crate) fn query_params(&self) -> Vec<Param> {
        self.query.concat()
    }
}

/// A description to which the arguments of a handler add their parts.
pub(crate) struct Sketch<'a> {
    schemas: &'a mut SchemaGenerator,
    pub(crate) item: Option<SchemaOf>,
    /// Parameters of the path.
    pub(crate) path: Vec<Param>,
    pub(crate) query: Vec<Param>,
    pub(crate) body: Option<Value>,
    pub(crate) body_types: &'static [&'static str],
    pub(crate) codes: BTreeSet<Code>, // bound: fixed
}

impl Sketch<'_> {
    /// Describes the body as a batch of `item`, which is written.
    pub(crate) fn batch(&mut self, item: SchemaOf) {
        let item = item(self.schemas);
        let many = json!({ "type": "array", "items": item, "minItems": 1, "maxItems": limits::BATCH_ITEMS_MAX });
        self.body = Some(json!({ "anyOf": [many, item] }));
        self.codes.extend([Code::ParseException, Code::EmptyRequest, Code::BatchSizeOverLimit, Code::RequestTooLarge]);
        self.codes.extend(PROPOSED);
    }

    /// Describes the body as one object, which is written.
    pub(crate) fn object<T: JsonSchema>(&mut self) {
        self.body = Some(self.schemas.subschema_for::<T>().to_value());
        self.codes.extend([Code::ParseException, Code::RequestTooLarge]);
        self.codes.extend(PROPOSED);
    }
}

/// Function that adds the descriptions of all arguments of a handler.
pub(crate) type Inputs = fn(&mut Sketch<'_>);

/// An argument of a handler: describes the parts of the request that it reads, and its refusals.
pub(crate) trait Input {
    fn describe(_: &mut Sketch<'_>) {}
}

impl<S> Input for State<S> {}

impl<A: Input, B: Input> Input for (A, B) {
    fn describe(sketch: &mut Sketch<'_>) {
        A::describe(sketch);
        B::describe(sketch);
    }
}

impl Input for Extension<Family> {}
/// The caller is checked before the handler runs, see [`Access::TokenHolder`].
impl Input for Caller {}

/// The arguments of a handler, as in axum's handler traits: a marker, then one type each.
pub(crate) trait Arguments {
    fn describe(sketch: &mut Sketch<'_>);
}

impl Arguments for ((),) {
    fn describe(_: &mut Sketch<'_>) {}
}

macro_rules! arguments {
    ($($input:ident)+) => {
        impl<M, $($input: Input),+> Arguments for (M, $($input,)+) {
            fn describe(sketch: &mut Sketch<'_>) {
                $( $input::describe(sketch); )+
            }
        }
    };
}

arguments!(A);
arguments!(A B);
arguments!(A B C);
arguments!(A B C D);
arguments!(A B C D E);
arguments!(A B C D E F);
