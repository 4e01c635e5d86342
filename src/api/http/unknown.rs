//! Fields that nothing reads: told of, or refused, where a field that is dropped in silence does harm. A rule whose
//! conditions were dropped is for all traffic.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_ignored::Path;
use serde_json::value::RawValue;

use super::app::App;
use super::bodies::read_body;
use super::doc::{Input, Sketch};
use super::error::ApiError;
use super::extract::{Batch, parse_seeded};
use super::nulls::without_nulls;
use super::objects::Objects;
use super::query::Query;
use crate::model::code::{Code, Refusal};
use crate::openapi::{Param, schema_of};

/// Fields that only responses have and nobody sets; a caller that edits what it read sends them back.
const OF_ANSWERS: [&str; 11] = [
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

/// A batch whose items answer for the fields that are not known.
pub(crate) struct Noted<T>(pub(crate) Batch<T>);

impl<T: DeserializeOwned> FromRequest<App> for Noted<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let unknown = Unknown::of(&request)?;
        Noted::read(unknown, &read_body(request).await?)
    }
}

impl<T: DeserializeOwned> Noted<T> {
    pub(crate) fn read(unknown: Unknown, body: &[u8]) -> Result<Self, ApiError> {
        let read = |raw: &RawValue| {
            let (item, fields) = parse_noting(PhantomData::<T>, raw);
            unknown.judge(item, fields)
        };
        Ok(Noted(Batch::parse_noting(body, read)?))
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for Noted<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.batch(schema_of::<T>());
        Unknown::describe(sketch);
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
        let field = shown(&path);
        if !known.contains(&field.as_str()) {
            fields.insert(field);
        }
    };
    let read = seed.deserialize(Objects(serde_ignored::Deserializer::new(&mut json, &mut note)));
    // What cannot be read is read once more, by who says why.
    (read.or_else(|_| parse_seeded(seed, raw)), fields.into_iter().collect())
}

/// As refusals name fields: `rules[0].amounts`.
fn shown(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Map { parent, key } => match shown(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Seq { parent, index } => {
            let mut text = shown(parent);
            let _ = write!(text, "[{index}]");
            text
        }
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => shown(parent),
    }
}
