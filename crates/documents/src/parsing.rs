//! Parsing of an object with the path of its fault, and with the paths of unknown fields. A rule whose conditions were
//! dropped silently would apply to all traffic.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::de::DeserializeSeed;
use serde_ignored::Path;
use serde_json::value::RawValue;
use serde_path_to_error::Track;
use thuban_model::code::{Code, Refusal};
use thuban_model::limits;
use thuban_model::spelling::is_same_name;

use super::nulls::without_nulls;
use super::objects::Objects;

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

/// Parses an item; a wrong type is refused with the name of its field. Only a refused item is parsed a second time:
/// without null members, which count as absent, and with a deserializer that tracks the path.
pub fn parse_seeded<S, T>(seed: S, raw: &RawValue) -> Result<T, Refusal>
where
    S: for<'de> DeserializeSeed<'de, Value = T> + Copy,
{
    let refuse = |why: String| Refusal::new(Code::ParseException, why);
    if !raw.get().starts_with('{') {
        return Err(refuse("an object is expected".into()));
    }
    let mut json = serde_json::Deserializer::from_str(raw.get());
    if let Ok(read) = seed.deserialize(Objects(&mut json)) {
        return Ok(read);
    }
    let without_nulls = without_nulls(raw.get());
    let mut json = serde_json::Deserializer::from_str(without_nulls.as_deref().unwrap_or(raw.get()));
    let mut track = Track::new();
    let read = seed.deserialize(Objects(serde_path_to_error::Deserializer::new(&mut json, &mut track)));
    read.map_err(|error| match track.path().to_string() {
        path if path == "." => refuse(error.to_string()),
        path => refuse(format!("{path}: {error}")),
    })
}

/// Parses an object as [`parse_seeded`] does, and returns the paths of unknown fields. Null fields count as absent.
pub fn parse_noting<S, T>(seed: S, raw: &RawValue) -> (Result<T, Refusal>, Vec<String>)
where
    S: for<'de> DeserializeSeed<'de, Value = T> + Copy,
{
    parse_noting_all_but(&OF_ANSWERS, seed, raw)
}

/// Parses like [`parse_noting`], with further fields that are known and ignored.
pub fn parse_noting_all_but<S, T>(known: &[&str], seed: S, raw: &RawValue) -> (Result<T, Refusal>, Vec<String>)
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

/// Returns a warning for each unknown field.
pub fn unknown_warnings(fields: Vec<String>) -> Vec<String> {
    fields.into_iter().map(|field| format!("{field} is not known")).collect()
}

/// Refuses a parsed item that has unknown fields. A refused item keeps its refusal, and has them as warnings.
pub fn refuse_unknown<T>(item: Result<T, Refusal>, fields: Vec<String>) -> (Result<T, Refusal>, Vec<String>) {
    let warnings = unknown_warnings(fields);
    if item.is_ok() && !warnings.is_empty() {
        return (Err(Refusal::new(Code::ParseException, warnings.join(", "))), Vec::new());
    }
    (item, warnings)
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
