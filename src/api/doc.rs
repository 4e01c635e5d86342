//! Documentation of the routes: beside each row of the table of routes stands a [`Doc`].
//!
//! A constant above the handler says what the route does (`says`), which keys of the query it reads
//! (`query`), what a success carries (`gives`) and with which codes it may refuse (`codes`).
//! What a handler's arguments tell is not repeated there: [`Input`] says what an extractor reads and
//! how it refuses, so that body and consistency of a route are described by the handler's own types.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Extension, State};
use axum::http::Method;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::auth::Caller;
use super::bundles::{Archive, ZIP};
use super::contents::{Contents, NotedContents};
use super::envelope::{self, Coded, Shape};
use super::extract::{Agent, Batch, ClientAddress, Object, RequestId, SentBy, SmallObject};
use super::judged::Force;
use super::layers::{Waiting, is_read_of};
use super::query::{Fresh, Query};
use super::routes::Access;
use super::rules::RuleBatch;
use super::strict::{Strict, StrictObject};
use super::unknown::{Noted, Unknown};
use crate::model::code::Code;
use crate::model::limits;
use crate::model::rule::Family;
use crate::openapi::{Operation, Param, Reply, SchemaOf, Security, schema_of};

const JSON: &str = "application/json";

/// Query keys that [`super::query::Query::page`] reads.
pub(super) const PAGING: &[Param] = &[
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
pub(super) const PAGING_OF_ALL: &[Param] = &[
    PAGING[0],
    Param::number("limit", "Rows of the page, which is cut to no other number: all where absent, 0 the amount alone."),
    PAGING[2],
    PAGING[3],
];

/// Of what is deleted by a query.
pub(super) const REVISION: Param = Param::text("revision", "Refused with 409000 if this is not the current one.");

/// Codes that the cluster may answer to a write, and to a read that needs its majority.
pub(super) const PROPOSED: &[Code] = &[Code::NoLeader, Code::OutcomeUnknown, Code::NoRoom];

/// The description of a route, without what its handler's arguments say.
#[derive(Clone, Copy)]
pub(super) struct Doc {
    tag: &'static str,
    summary: &'static str,
    query: &'static [&'static [Param]],
    item: Option<SchemaOf>,
    answer: Answer,
    codes: &'static [&'static [Code]],
}

#[derive(Clone, Copy)]
enum Answer {
    Json(Shape),
    Raw(&'static [Raw]),
}

/// An answer that is not in the envelope: status, media type, what it is.
type Raw = (u16, &'static str, &'static str);

impl Doc {
    /// A route of the group `tag`, which answers `code` and `info` alone.
    pub(super) const fn new(tag: &'static str) -> Self {
        Doc { tag, summary: "", query: &[], item: None, answer: Answer::Json(Shape::Plain), codes: &[] }
    }

    /// Sets the purpose of the route, in one sentence.
    pub(super) const fn says(self, summary: &'static str) -> Self {
        Doc { summary, ..self }
    }

    /// The keys that the handler reads of the query.
    pub(super) const fn query(self, query: &'static [&'static [Param]]) -> Self {
        Doc { query, ..self }
    }

    /// An item of the body, where the handler's arguments do not tell.
    pub(super) const fn takes(self, item: SchemaOf) -> Self {
        Doc { item: Some(item), ..self }
    }

    /// Sets the body of a success.
    pub(super) const fn gives(self, shape: Shape) -> Self {
        Doc { answer: Answer::Json(shape), ..self }
    }

    /// Answers outside of the envelope.
    pub(super) const fn gives_raw(self, raw: &'static [Raw]) -> Self {
        Doc { answer: Answer::Raw(raw), ..self }
    }

    /// The codes that it may answer beside 200000, for the whole request or for an item.
    pub(super) const fn codes(self, codes: &'static [&'static [Code]]) -> Self {
        Doc { codes, ..self }
    }

    /// True if the handler reads this key of the query.
    #[cfg(test)]
    pub(super) fn reads(&self, key: &str) -> bool {
        self.query.iter().copied().flatten().any(|param| param.name == key)
    }

    /// True if a success carries rows.
    #[cfg(test)]
    pub(super) fn is_list(&self) -> bool {
        matches!(self.answer, Answer::Json(Shape::List(_) | Shape::Releases(_)))
    }

    /// The whole description of a row.
    pub(super) fn operation(
        &self,
        method: &Method,
        path: &str,
        (access, is_always): (Access, bool),
        inputs: Inputs,
        schemas: &mut SchemaGenerator,
    ) -> Operation {
        let codes = self.codes.iter().copied().flatten().copied();
        // A defect, and the limits of time and memory, which meet any route.
        let of_all = [Code::TooMuchUnderWay, Code::ExecuteException, Code::OutcomeUnknown, Code::ReadTimedOut];
        let codes = codes.chain(of_all).collect();
        let mut sketch =
            Sketch { schemas, item: self.item, query: self.query.concat(), body: None, body_types: &[JSON], codes };
        inputs(&mut sketch);
        if !is_always {
            sketch.codes.insert(Code::StateDiverged);
        }
        if access != Access::Anyone {
            sketch.codes.insert(Code::NotAllowedAccess);
            // A token that this node has not heard of is asked for, which needs a majority.
            sketch.codes.extend([Code::EmptyAuthToken, Code::TokenNotExisted, Code::NoLeader]);
            if !is_read_of(method, path) {
                sketch.codes.insert(Code::OperationRoleForbidden);
            }
        }
        Operation {
            method: method.clone(),
            path: path.to_owned(),
            tag: self.tag,
            summary: self.summary,
            security: if access == Access::Anyone { Security::Open } else { Security::Token },
            path_params: Vec::new(),
            replies: self.replies(&mut sketch),
            query: sketch.query,
            body: sketch.body,
            body_types: sketch.body_types,
        }
    }

    fn replies(&self, sketch: &mut Sketch<'_>) -> BTreeMap<u16, Reply> {
        let (mut replies, mut shape) = (BTreeMap::new(), Shape::Plain);
        match self.answer {
            Answer::Json(success) => {
                sketch.codes.insert(Code::ExecuteSuccess);
                if matches!(success, Shape::List(_) | Shape::Releases(_)) {
                    sketch.codes.insert(Code::AnswerTooLong);
                }
                shape = success;
            }
            Answer::Raw(raw) => replies.extend(raw.iter().map(|(status, media_type, about)| {
                let schema = match *media_type {
                    "application/octet-stream" | ZIP => json!({}),
                    text if text.starts_with("text/") => json!({ "type": "string" }),
                    _ => json!({ "type": "object" }),
                };
                (*status, Reply::new(*about, media_type, schema))
            })),
        }
        // An item is judged by itself: it cannot parse, or it meets one of the codes of the route.
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

    /// The keys of the query that are described.
    #[cfg(test)]
    pub(super) fn query_params(&self) -> Vec<Param> {
        self.query.concat()
    }
}

/// A description while the arguments of the handler add to it.
pub(super) struct Sketch<'a> {
    schemas: &'a mut SchemaGenerator,
    item: Option<SchemaOf>,
    query: Vec<Param>,
    body: Option<Value>,
    body_types: &'static [&'static str],
    codes: BTreeSet<Code>,
}

impl Sketch<'_> {
    /// The body is a batch of these, and it is written.
    fn batch(&mut self, item: SchemaOf) {
        let item = item(self.schemas);
        let many = json!({ "type": "array", "items": item, "minItems": 1, "maxItems": limits::BATCH_ITEMS_MAX });
        self.body = Some(json!({ "anyOf": [many, item] }));
        self.codes.extend([Code::ParseException, Code::EmptyRequest, Code::BatchSizeOverLimit, Code::RequestTooLarge]);
        self.codes.extend(PROPOSED);
    }

    /// The body is one object, and it is written.
    fn object<T: JsonSchema>(&mut self) {
        self.body = Some(self.schemas.subschema_for::<T>().to_value());
        self.codes.extend([Code::ParseException, Code::RequestTooLarge]);
        self.codes.extend(PROPOSED);
    }

    fn judges_unknown(&mut self) {
        const UNKNOWN: Param = Param::word(
            Unknown::KEY,
            "What becomes of an item with fields that are not known: it is done and its answer has `warnings`, or it is refused.",
            Unknown::WORDS,
        );
        self.query.push(UNKNOWN);
        self.codes.insert(Code::InvalidParameter);
    }
}

/// Description by the arguments of a handler, all together.
pub(super) type Inputs = fn(&mut Sketch<'_>);

/// An argument of a handler: what it reads of the request, and how it refuses.
pub(super) trait Input {
    fn describe(_: &mut Sketch<'_>) {}
}

impl<S> Input for State<S> {}
/// Judged before the handler runs, see [`Access::TokenHolder`].
impl Input for Caller {}
/// The keys are read one by one, so the [`Doc`] names them.
impl Input for Query {}
impl Input for ClientAddress {}
impl Input for SentBy {}
impl Input for RequestId {}

impl Input for Fresh {
    fn describe(sketch: &mut Sketch<'_>) {
        const CONSISTENCY: Param = Param::word(
            "consistency",
            "Whether everything acknowledged before is seen, which needs a majority, or what this node has applied.",
            &["linearizable", "local"],
        );
        sketch.query.push(CONSISTENCY);
        sketch.codes.insert(Code::InvalidParameter);
        sketch.codes.extend(PROPOSED);
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for Batch<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.batch(schema_of::<T>());
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for Noted<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.batch(schema_of::<T>());
        sketch.judges_unknown();
    }
}

impl<T: JsonSchema> Input for Strict<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.batch(schema_of::<T>());
    }
}

impl<T: JsonSchema> Input for StrictObject<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.object::<T>();
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for Contents<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.batch(schema_of::<T>());
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for NotedContents<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.batch(schema_of::<T>());
        sketch.judges_unknown();
    }
}

/// The fields of an item depend on the family of the route, and are described by its [`Doc::takes`].
impl Input for RuleBatch {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.judges_unknown();
        sketch.batch(sketch.item.expect("the documentation of a route on rules says what an item is"));
    }
}

impl Input for Archive {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.body = Some(json!({}));
        sketch.body_types = &[ZIP, "multipart/form-data"];
        sketch.codes.extend([Code::ParseException, Code::RequestTooLarge]);
        sketch.codes.extend(PROPOSED);
    }
}

impl Input for Force {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.query.push(Force::PARAM);
        sketch.codes.insert(Code::InvalidParameter);
    }
}

impl Input for Extension<Family> {}
impl Input for Agent {}
impl Input for Waiting {}

impl<T: DeserializeOwned + JsonSchema> Input for Object<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.object::<T>();
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for SmallObject<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.object::<T>();
    }
}

/// The arguments of a handler, as axum tells handlers apart: a marker, then one type for each.
pub(super) trait Arguments {
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
