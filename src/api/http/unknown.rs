//! Unknown fields in bodies and unknown keys of queries: reported or refused. A rule whose conditions were dropped
//! silently would apply to all traffic, and a list whose filter was dropped would have all rows.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny};
use serde_ignored::Path;
use serde_json::value::RawValue;

use super::doc::{Doc, Inputs, Sketch};
use super::error::ApiError;
use super::nulls::without_nulls;
use super::objects::Objects;
use super::parse::parse_seeded;
use super::query::Query;
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::spelling::is_same_name;
use crate::openapi::Param;

/// Fields that only answers have; a caller that edits a read object sends them back.
const OF_ANSWERS: [&str; 23] = [
    "id",
    "revision",
    "token",
    "healthy",
    "total_service_count",
    "total_health_instance_count",
    "total_instance_count",
    "healthy_instance_count",
    "file_count",
    "status",
    "release_time",
    "release_by",
    "ctime",
    "mtime",
    "etime",
    "editable",
    "deleteable",
    "active",
    "version",
    "create_time",
    "create_by",
    "modify_time",
    "modify_by",
];

/// Treatment of an item with unknown fields: `?unknown=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The item is written, and its answer has `warnings`.
    Warn,
    /// The item is refused.
    Refuse,
}

impl Unknown {
    const PARAM: Param = Param::word(
        "unknown",
        "What becomes of an item with fields that are not known: it is done and its answer has `warnings`, or it is \
         refused.",
        &["warn", "refuse"],
    );

    pub(crate) fn of(request: &Request) -> Result<Unknown, ApiError> {
        match Query::parse(request.uri().query().unwrap_or("")).get(Unknown::PARAM.name) {
            None | Some("warn") => Ok(Unknown::Warn),
            Some("refuse") => Ok(Unknown::Refuse),
            Some(_) => Err(ApiError::new(Code::InvalidParameter, "unknown has to be warn or refuse")),
        }
    }

    /// Turns the unknown fields of an item into a refusal or into warnings.
    pub(crate) fn judge<T>(self, item: Result<T, Refusal>, fields: Vec<String>) -> (Result<T, Refusal>, Vec<String>) {
        let told: Vec<_> = fields.into_iter().map(|field| format!("{field} is not known")).collect();
        match self {
            Unknown::Refuse if item.is_ok() && !told.is_empty() => {
                (Err(Refusal::new(Code::ParseException, told.join(", "))), Vec::new())
            }
            _ => (item, told),
        }
    }

    /// Describes a body whose items are checked for unknown fields.
    pub(crate) fn describe(sketch: &mut Sketch<'_>) {
        sketch.query.push(Unknown::PARAM);
        sketch.codes.insert(Code::InvalidParameter);
    }
}

/// Keys of the query that a route reads; clones share them.
#[derive(Clone)]
pub(crate) struct QueryKeys(Arc<RouteKeys>);

struct RouteKeys {
    doc: Doc,
    inputs: Inputs,
    /// Set by the first request with a query: describing the arguments of a route builds their schemas.
    known: OnceLock<Vec<&'static str>>,
}

impl QueryKeys {
    pub(crate) fn new(doc: Doc, inputs: Inputs) -> QueryKeys {
        QueryKeys(Arc::new(RouteKeys { doc, inputs, known: OnceLock::new() }))
    }

    /// Returns a warning for each key of the query that the route does not read.
    pub(crate) fn warnings(&self, request: &Request) -> Vec<String> {
        let Some(text) = request.uri().query().filter(|text| !text.is_empty()) else { return Vec::new() };
        let RouteKeys { doc, inputs, known } = &*self.0;
        let known = known.get_or_init(|| doc.query_keys(*inputs));
        let query = Query::parse(text);
        let is_known = |key: &str| known.iter().any(|known| is_same_name(key, known)) || key == Unknown::PARAM.name;
        let strange: BTreeSet<_> = query.keys().filter(|key| !is_known(key)).collect();
        strange.into_iter().take(limits::UNKNOWN_FIELDS_TOLD_MAX).map(|key| format!("{key} is not known")).collect()
    }
}

/// Header for warnings on an answer that is not a JSON object.
const WARNINGS: HeaderName = HeaderName::from_static("x-thuban-warnings");

/// Warnings on a query or on a body with one object: an extension of requests that have one of them. Items of a batch
/// have their own.
#[derive(Clone, Default)]
pub(crate) struct Noticed(Arc<Mutex<Vec<String>>>); // bound: bodies

impl Noticed {
    pub(crate) fn note(&self, warnings: Vec<String>) {
        self.0.lock().extend(warnings);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Takes the warnings out, for an answer that is completed after the layers have returned.
    pub(crate) fn moved(&self) -> Noticed {
        Noticed(Arc::new(Mutex::new(std::mem::take(&mut *self.0.lock()))))
    }

    /// Adds `warnings` to the members of the answer, after those that it has. An answer that is not a JSON object has
    /// them in a header.
    pub(crate) async fn add_to(&self, response: Response) -> Response {
        let warnings = std::mem::take(&mut *self.0.lock());
        if warnings.is_empty() || !response.status().is_success() {
            return response;
        }
        let (mut parts, mut body) = response.into_parts();
        if parts.headers.get(CONTENT_TYPE).is_some_and(|media_type| media_type == "application/json") {
            // Answers of this surface are complete in memory.
            let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
            if let Some(text) = with_warnings(&bytes, &warnings) {
                parts.headers.remove(CONTENT_LENGTH);
                return Response::from_parts(parts, Body::from(text));
            }
            body = Body::from(bytes);
        }
        if let Ok(value) = HeaderValue::from_str(&warnings.join(", ")) {
            parts.headers.insert(WARNINGS, value);
        }
        Response::from_parts(parts, body)
    }
}

/// Returns the object with warnings as its last member; `None` for anything but an object without that member.
fn with_warnings(object: &[u8], warnings: &[String]) -> Option<Vec<u8>> {
    /// Member that an answer may have already: the list of clients of a file warns of lookups.
    #[derive(Deserialize)]
    struct WarnedAnswer {
        #[serde(default)]
        warnings: Vec<IgnoredAny>,
    }
    let mut text = object.strip_suffix(b"}")?.to_vec();
    let known: WarnedAnswer = serde_json::from_slice(object).ok()?;
    if !known.warnings.is_empty() {
        return None;
    }
    text.extend_from_slice(b",\"warnings\":");
    text.extend(serde_json::to_vec(warnings).expect("a list of texts"));
    text.push(b'}');
    Some(text)
}

/// Parses an object as [`parse_seeded`] does, and returns the paths of unknown fields. Null fields count as absent.
pub(crate) fn parse_noting<S, T>(seed: S, raw: &RawValue) -> (Result<T, Refusal>, Vec<String>)
where
    S: for<'de> DeserializeSeed<'de, Value = T> + Copy,
{
    parse_noting_all_but(&OF_ANSWERS, seed, raw)
}

/// Parses like [`parse_noting`], with further fields that are known and ignored.
pub(crate) fn parse_noting_all_but<S, T>(known: &[&str], seed: S, raw: &RawValue) -> (Result<T, Refusal>, Vec<String>)
where
    S: for<'de> DeserializeSeed<'de, Value = T> + Copy,
{
    let mut fields = BTreeSet::new();
    let text = without_nulls(raw.get());
    let mut json = serde_json::Deserializer::from_str(text.as_deref().unwrap_or(raw.get()));
    let mut note = |path: Path<'_>| {
        let field = field_path(&path);
        // A body of unknown fields could have a hundred thousand.
        if fields.len() < limits::UNKNOWN_FIELDS_TOLD_MAX && !known.iter().any(|known| is_same_name(known, &field)) {
            fields.insert(field);
        }
    };
    let read = seed.deserialize(Objects(serde_ignored::Deserializer::new(&mut json, &mut note)));
    // A failed item is parsed again for the error message.
    (read.or_else(|_| parse_seeded(seed, raw)), fields.into_iter().collect())
}

/// Formats a path as refusals do: `rules[0].amounts`.
fn field_path(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Map { parent, key } => match field_path(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Seq { parent, index } => {
            let mut text = field_path(parent);
            let _ = write!(text, "[{index}]");
            text
        }
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => field_path(parent),
    }
}
