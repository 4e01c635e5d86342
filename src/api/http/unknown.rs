//! Fields that nothing reads: told of, or refused, in every body. A rule whose conditions were dropped is for all
//! traffic.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_ignored::Path;
use serde_json::value::RawValue;

use super::app::App;
use super::doc::{Input, Sketch};
use super::error::ApiError;
use super::extract::{Batch, parse_seeded};
use super::nulls::without_nulls;
use super::objects::Objects;
use super::query::Query;
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::spelling::is_same_name;
use crate::openapi::Param;

/// Fields that only responses have and nobody sets; a caller that edits what it read sends them back.
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

/// Treatment of an item with fields that are not known: `?unknown=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It is done, and its answer has `warnings`.
    Warn,
    /// It is refused.
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

    /// Turns the fields of an item that nothing read into a refusal, or into warnings.
    pub(crate) fn judge<T>(self, item: Result<T, Refusal>, fields: Vec<String>) -> (Result<T, Refusal>, Vec<String>) {
        let told: Vec<_> = fields.into_iter().map(|field| format!("{field} is not known")).collect();
        match self {
            Unknown::Refuse if item.is_ok() && !told.is_empty() => {
                (Err(Refusal::new(Code::ParseException, told.join(", "))), Vec::new())
            }
            _ => (item, told),
        }
    }

    /// Describes a body whose items are judged by it.
    pub(crate) fn describe(sketch: &mut Sketch<'_>) {
        sketch.query.push(Unknown::PARAM);
        sketch.codes.insert(Code::InvalidParameter);
    }
}

/// Header of an answer that is no JSON.
const WARNINGS: HeaderName = HeaderName::from_static("x-thuban-warnings");

/// Warnings on a body that is one object: an extension of requests that have a body. A batch has those of its items.
#[derive(Clone, Default)]
pub(crate) struct Noticed(Arc<Mutex<Vec<String>>>); // bound: bodies

impl Noticed {
    pub(crate) fn note(&self, warnings: Vec<String>) {
        self.0.lock().extend(warnings);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The same warnings, for an answer that comes later than the one that passes the layers.
    pub(crate) fn moved(&self) -> Noticed {
        Noticed(Arc::new(Mutex::new(std::mem::take(&mut *self.0.lock()))))
    }

    /// The answer with `warnings` beside its other members; one that is no JSON has them in a header.
    pub(crate) async fn add_to(&self, response: Response) -> Response {
        let warnings = std::mem::take(&mut *self.0.lock());
        if warnings.is_empty() || !response.status().is_success() {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        if parts.headers.get(CONTENT_TYPE).is_none_or(|media_type| media_type != "application/json") {
            if let Ok(value) = HeaderValue::from_str(&warnings.join(", ")) {
                parts.headers.insert(WARNINGS, value);
            }
            return Response::from_parts(parts, body);
        }
        parts.headers.remove(CONTENT_LENGTH);
        // The answers of this surface are in memory already.
        let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let mut text = bytes.strip_suffix(b"}").unwrap_or(&bytes).to_vec();
        if text.len() < bytes.len() {
            text.extend_from_slice(b",\"warnings\":");
            text.extend(serde_json::to_vec(&warnings).expect("a list of texts"));
            text.push(b'}');
        }
        Response::from_parts(parts, Body::from(text))
    }
}

/// A batch of acts, whose items answer for the fields that are not known.
pub(crate) struct Noted<T>(pub(crate) Batch<T>);

impl<T: DeserializeOwned> FromRequest<App> for Noted<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        Batch::from_request(request, app).await.map(Noted)
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for Noted<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        Batch::<T>::describe(sketch);
    }
}

/// Reads an object as [`parse_seeded`] does, and notes the fields, by their paths, that `seed` does not read. A field
/// that is null is absent.
pub(crate) fn parse_noting<S, T>(seed: S, raw: &RawValue) -> (Result<T, Refusal>, Vec<String>)
where
    S: for<'de> DeserializeSeed<'de, Value = T> + Copy,
{
    parse_noting_all_but(&OF_ANSWERS, seed, raw)
}

/// The same with other fields that are known and not read.
pub(crate) fn parse_noting_all_but<S, T>(known: &[&str], seed: S, raw: &RawValue) -> (Result<T, Refusal>, Vec<String>)
where
    S: for<'de> DeserializeSeed<'de, Value = T> + Copy,
{
    let mut fields = BTreeSet::new();
    let text = without_nulls(raw.get());
    let mut json = serde_json::Deserializer::from_str(text.as_deref().unwrap_or(raw.get()));
    let mut note = |path: Path<'_>| {
        let field = field_path(&path);
        // A body of nothing else could name a hundred thousand.
        if fields.len() < limits::UNKNOWN_FIELDS_TOLD_MAX && !known.iter().any(|known| is_same_name(known, &field)) {
            fields.insert(field);
        }
    };
    let read = seed.deserialize(Objects(serde_ignored::Deserializer::new(&mut json, &mut note)));
    // What cannot be read is read once more, by who says why.
    (read.or_else(|_| parse_seeded(seed, raw)), fields.into_iter().collect())
}

/// As refusals name fields: `rules[0].amounts`.
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
