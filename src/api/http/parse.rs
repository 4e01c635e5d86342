//! Parsing of items with the deserializers of their types.

use serde::de::DeserializeSeed;
use serde_json::value::RawValue;
use serde_path_to_error::Track;

use super::nulls::without_nulls;
use super::objects::Objects;
use crate::model::code::{Code, Refusal};

/// Parses an item; a wrong type is refused with the name of its field. Only a refused item is parsed a second time:
/// without null members, which count as absent, and with a deserializer that tracks the path.
pub(crate) fn parse_seeded<S, T>(seed: S, raw: &RawValue) -> Result<T, Refusal>
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
