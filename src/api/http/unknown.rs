//! Unknown fields in bodies and unknown keys of queries: reported or refused. A rule whose conditions were dropped
//! silently would apply to all traffic, and a list whose filter was dropped would have all rows.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use thuban_documents::{refuse_unknown, unknown_warnings};

use super::doc::{Doc, Inputs, Sketch};
use super::error::ApiError;
use super::query::Query;
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::spelling::is_same_name;
use crate::openapi::Param;

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
        match self {
            Unknown::Warn => (item, unknown_warnings(fields)),
            Unknown::Refuse => refuse_unknown(item, fields),
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
