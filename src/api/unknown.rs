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
use super::bodies::read_body;
use super::error::ApiError;
use super::extract::{Batch, parse_seeded};
use super::objects::Objects;
use super::query::Query;
use crate::model::code::{Code, Refusal};

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

    /// Turns the fields of an item that nothing read into a refusal, or into warnings.
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
        Noted::read(unknown, &read_body(request).await?)
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

/// The text without the members of objects that are null; `None` where there are none. It is valid JSON, and nothing
/// is made of it but a text of at most its length.
pub(super) fn without_nulls(text: &str) -> Option<String> {
    text.contains("null").then_some(())?;
    // Most texts have no null anywhere, and are neither walked nor copied.
    if !text.contains("null") {
        return None;
    }
    let mut sieve = Sieve { text, at: 0, out: String::with_capacity(text.len()), has_dropped: false };
    sieve.value()?;
    sieve.has_dropped.then_some(sieve.out)
}

/// A copy of a JSON text on its way.
struct Sieve<'a> {
    text: &'a str,
    at: usize,
    out: String,
    has_dropped: bool,
}

impl Sieve<'_> {
    /// The byte after white space, which is passed over.
    fn next(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..)?;
        self.at += rest.len() - rest.trim_start().len();
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<()> {
        match self.next()? {
            b'{' => self.many(b'}', Sieve::member),
            b'[' => self.many(b']', Sieve::element),
            b'"' => self.copy_to(self.end_of_string()?),
            _ => self.copy_to(self.end_of_word()),
        }
    }

    /// Copies the parts between two brackets, separated by commas.
    fn many(&mut self, close: u8, one: fn(&mut Self, bool) -> Option<bool>) -> Option<()> {
        self.copy_to(self.at + 1)?;
        let mut is_first = true;
        while self.next()? != close {
            is_first &= !one(self, is_first)?;
            if self.next()? == b',' {
                self.at += 1;
            }
        }
        self.copy_to(self.at + 1)
    }

    /// Copies a member unless it is null; true if it is kept.
    fn member(&mut self, is_first: bool) -> Option<bool> {
        self.next()?;
        let (begin, end) = (self.at, self.end_of_string()?);
        self.at = end;
        self.skip(b':')?;
        self.next()?;
        if self.text.get(self.at..)?.starts_with("null") {
            self.at += "null".len();
            self.has_dropped = true;
            return Some(false);
        }
        if !is_first {
            self.out.push(',');
        }
        self.out.push_str(self.text.get(begin..end)?);
        self.out.push(':');
        self.value()?;
        Some(true)
    }

    fn element(&mut self, is_first: bool) -> Option<bool> {
        if !is_first {
            self.out.push(',');
        }
        self.value()?;
        Some(true)
    }

    fn copy_to(&mut self, end: usize) -> Option<()> {
        self.out.push_str(self.text.get(self.at..end)?);
        self.at = end;
        Some(())
    }

    /// Behind the quotation mark that ends the string which begins here.
    fn end_of_string(&self) -> Option<usize> {
        let mut bytes = self.text.as_bytes().iter().enumerate().skip(self.at + 1);
        loop {
            match bytes.next()? {
                (_, b'\\') => drop(bytes.next()?),
                (at, b'"') => return Some(at + 1),
                _ => {}
            }
        }
    }

    /// Behind a number, `true`, `false` or `null`.
    fn end_of_word(&self) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_end = |character: char| matches!(character, ',' | '}' | ']') || character.is_whitespace();
        // At least a byte, so that what is no JSON comes to an end as well.
        self.at + rest.find(is_end).unwrap_or(rest.len()).max(1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Removes nulls by a tree of values, to compare with.
    fn by_tree(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|_, member| !member.is_null());
                members.values_mut().for_each(by_tree);
            }
            Value::Array(elements) => elements.iter_mut().for_each(by_tree),
            _ => {}
        }
    }

    #[test]
    fn members_that_are_null_are_left_out_and_nothing_else() {
        for (text, expected) in [
            (r#"{"a":null}"#, Some("{}")),
            (r#"{ "a" : null , "b" : 1 }"#, Some(r#"{"b":1}"#)),
            (r#"{"b":1,"a":null}"#, Some(r#"{"b":1}"#)),
            (r#"{"b":1,"a":null,"c":[null,{"d":null,"e":"null"}]}"#, Some(r#"{"b":1,"c":[null,{"e":"null"}]}"#)),
            (r#"{"a\\":null,"b\"":"\\","c":null}"#, Some(r#"{"b\"":"\\"}"#)),
            ("{\n\t\"ä\": -1.5e3,\r\"ö\": null}", Some("{\"ä\":-1.5e3}")),
            (r#"[null, null]"#, None),
            (r#"{"a":"null"}"#, None),
            (r#"{"null":[]}"#, None),
            (r#"{"a":1}"#, None),
            // What is no JSON.
            ("null", None),
            (r#"{"a":null"#, None),
            (r#"{"a"}null"#, None),
            (r#"{:null}"#, None),
            (r#"{"a":}null"#, None),
        ] {
            assert_eq!(without_nulls(text).as_deref(), expected, "{text}");
            if let (Some(left), Ok(mut tree)) = (expected, serde_json::from_str(text)) {
                by_tree(&mut tree);
                assert_eq!(serde_json::from_str::<Value>(left).expect("JSON"), tree, "{text}");
            }
        }
    }
}
