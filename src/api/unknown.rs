//! Fields that nothing reads: told of, or refused, where a field that is dropped in silence does harm. A rule whose
//! conditions were dropped is for all traffic.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_ignored::Path;
use serde_json::value::RawValue;

use super::App;
use super::error::ApiError;
use super::extract::{Batch, parse_seeded, read_body};
use super::objects::Objects;
use super::query::Query;
use crate::model::code::{Code, Refusal};

/// What answers say of a thing that nobody sets: whoever changes what was read sends it back.
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

/// What becomes of an item with fields that are not known: `?unknown=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It is done, and its answer has `warnings`.
    Warn,
    /// It is refused.
    Refuse,
}

impl Unknown {
    pub(super) const KEY: &str = "unknown";
    pub(super) const WORDS: &[&str] = &["warn", "refuse"];

    pub(super) fn of(request: &Request) -> Result<Unknown, ApiError> {
        match Query::parse(request.uri().query().unwrap_or("")).get(Unknown::KEY) {
            None | Some("warn") => Ok(Unknown::Warn),
            Some("refuse") => Ok(Unknown::Refuse),
            Some(_) => Err(ApiError::new(Code::InvalidParameter, "unknown has to be warn or refuse")),
        }
    }

    /// What is done with an item that was read, and of which nothing read these fields.
    pub(super) fn judge<T>(
        self,
        (item, fields): (Result<T, Refusal>, Vec<String>),
    ) -> (Result<T, Refusal>, Vec<String>) {
        let told: Vec<_> = fields.into_iter().map(|field| format!("{field} is not known")).collect();
        match self {
            Unknown::Refuse if item.is_ok() && !told.is_empty() => {
                (Err(Refusal::new(Code::ParseException, told.join(", "))), Vec::new())
            }
            _ => (item, told),
        }
    }
}

/// A batch whose items answer for the fields that are not known.
pub(super) struct Noted<T>(pub(super) Batch<T>);

impl<T: DeserializeOwned> FromRequest<App> for Noted<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let unknown = Unknown::of(&request)?;
        Noted::read(unknown, &read_body(request.into_body()).await?)
    }
}

impl<T: DeserializeOwned> Noted<T> {
    pub(super) fn read(unknown: Unknown, body: &[u8]) -> Result<Self, ApiError> {
        let read = |raw: &RawValue| unknown.judge(parse_noting(PhantomData::<T>, raw));
        Ok(Noted(Batch::parse_noting(body, read)?))
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
pub(super) fn parse_noting_all_but<S, T>(known: &[&str], seed: S, raw: &RawValue) -> (Result<T, Refusal>, Vec<String>)
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

/// The text without the members of objects that are null; `None` where there are none.
pub(super) fn without_nulls(text: &str) -> Option<String> {
    text.contains("null").then_some(())?;
    let mut value = serde_json::from_str(text).ok()?;
    drop_nulls(&mut value).then(|| value.to_string())
}

/// Whether there were any.
fn drop_nulls(value: &mut serde_json::Value) -> bool {
    match value {
        serde_json::Value::Object(members) => {
            let before = members.len();
            members.retain(|_, member| !member.is_null());
            drop_nulls_in(members.values_mut()) || members.len() < before
        }
        serde_json::Value::Array(elements) => drop_nulls_in(elements.iter_mut()),
        _ => false,
    }
}

fn drop_nulls_in<'a>(values: impl Iterator<Item = &'a mut serde_json::Value>) -> bool {
    values.map(drop_nulls).filter(|dropped| *dropped).count() > 0
}
