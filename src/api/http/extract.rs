//! Bodies: read within limits, split into the items of a batch, parsed item by item.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::IpAddr;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thuban_documents::parse_noting;
#[cfg(any(test, feature = "fuzzing"))]
use thuban_documents::parse_seeded;
use url::form_urlencoded;

use super::answer::joined;
use super::app::App;
use super::bodies::{read_body, read_body_within};
use super::doc::{Input, Sketch};
use super::error::ApiError;
use super::unknown::{Noticed, Unknown};
use crate::address::{agent, client_address, sender};
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::openapi::{Param, schema_of};
use crate::operations::{Items, write};
use crate::origin::Sender;
use crate::well_formed::deeper_than;

/// The items of a write, each parsed or refused on its own.
pub(crate) struct Batch<T> {
    pub(crate) items: Items<T>,
    /// True if the body was one object, not an array.
    pub(crate) is_single: bool,
    /// Warnings of each item; empty if there are none.
    pub(crate) warnings: Vec<Vec<String>>,
}

impl<T: DeserializeOwned> FromRequest<App> for Batch<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let unknown = Unknown::of(&request)?;
        Batch::read(unknown, &read_body(request).await?)
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for Batch<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.batch(schema_of::<T>());
        Unknown::describe(sketch);
    }
}

impl<T: DeserializeOwned> Batch<T> {
    /// Parses a batch whose unknown fields lead to warnings or refusals per item.
    pub(crate) fn read(unknown: Unknown, body: &[u8]) -> Result<Self, ApiError> {
        Batch::parse_noting(body, |raw| {
            let (item, fields) = parse_noting(PhantomData::<T>, raw);
            unknown.judge(item, fields)
        })
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        Batch::parse_noting(body, |raw| (parse_item(raw), Vec::new()))
    }
}

impl<T> Batch<T> {
    /// Parses a batch with `parse_item`, which also returns the warnings of each item.
    pub(crate) fn parse_noting(
        body: &[u8],
        parse_item: impl Fn(&RawValue) -> (Result<T, Refusal>, Vec<String>),
    ) -> Result<Self, ApiError> {
        let text = text_of(body)?;
        let is_single = text.trim_start().starts_with('{');
        let raw: Vec<&RawValue> = if is_single {
            vec![serde_json::from_str(text).map_err(unparsable)?]
        } else {
            serde_json::from_str(text).map_err(unparsable)?
        };
        match raw.len() {
            0 => Err(Code::EmptyRequest.into()),
            count if count > limits::BATCH_ITEMS_MAX => {
                let why = format!("{count} items, at most {}", limits::BATCH_ITEMS_MAX);
                Err(ApiError::new(Code::BatchSizeOverLimit, why))
            }
            _ => {
                let (items, warnings) = raw.into_iter().map(parse_item).unzip();
                Ok(Batch { items, is_single, warnings })
            }
        }
    }

    pub(crate) fn of_one(item: T) -> Self {
        Batch { items: vec![Ok(item)], is_single: true, warnings: Vec::new() }
    }

    /// Refuses the items that `check` refuses.
    pub(crate) fn checked(self, check: impl Fn(&T) -> Result<(), Refusal>) -> Self {
        Batch { items: write::checked(self.items, check), ..self }
    }

    /// Adds the warnings on values of each item.
    pub(crate) fn warned(self, warnings: impl Fn(&T) -> Vec<String>) -> Self {
        let of_values = self.items.iter().map(|item| item.as_ref().map(&warnings).unwrap_or_default()).collect();
        Batch { warnings: joined(self.warnings, of_values), ..self }
    }

    /// Converts each item with `make`, or refuses it.
    pub(crate) fn made<U>(self, make: impl Fn(T) -> Result<U, Refusal>) -> Batch<U> {
        Batch { items: write::made(self.items, make), is_single: self.is_single, warnings: self.warnings }
    }
}

/// Requires an empty body: the parameters of a single delete are in its query, and a body would be ignored silently.
pub(crate) struct NoBody;

impl FromRequest<App> for NoBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        if read_body(request).await?.iter().all(u8::is_ascii_whitespace) {
            return Ok(NoBody);
        }
        let why = "no body is read here: what it says, request and emergency too, are words of the query";
        Err(ApiError::new(Code::InvalidParameter, why))
    }
}

impl Input for NoBody {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.codes.extend([Code::InvalidParameter, Code::RequestTooLarge]);
    }
}

/// Address of the client, if it is known.
pub(crate) struct ClientAddress(pub(crate) Option<IpAddr>);

impl FromRequestParts<App> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(ClientAddress(client_address(&parts.headers, &parts.extensions, &app.settings.trusted_proxies)))
    }
}

/// Sender of the request.
pub(crate) struct SentBy(pub(crate) Sender);

impl FromRequestParts<App> for SentBy {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(SentBy(sender(&parts.headers, &parts.extensions, &app.settings.trusted_proxies)))
    }
}

/// User agent of the client.
pub(crate) struct Agent(pub(crate) String);

impl FromRequestParts<App> for Agent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(Agent(agent(&parts.headers)))
    }
}

/// Id of the request.
pub(crate) struct RequestIdText(pub(crate) String);

impl FromRequestParts<App> for RequestIdText {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(RequestIdText(crate::request_id::of(&parts.extensions)))
    }
}

impl Input for ClientAddress {}
impl Input for SentBy {}
impl Input for Agent {}
impl Input for RequestIdText {}

/// A body with one object of at most `BYTES_MAX` bytes.
pub(crate) struct Object<T, const BYTES_MAX: usize = { limits::BODY_BYTES_MAX }>(pub(crate) T);

impl<T: DeserializeOwned, const BYTES_MAX: usize> FromRequest<App> for Object<T, BYTES_MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let (unknown, noticed) = (Unknown::of(&request)?, request.extensions().get::<Noticed>().cloned());
        let body = read_body_within(request, BYTES_MAX).await?;
        let mut warnings = Vec::new();
        let read = |raw: &RawValue| {
            let (item, fields) = parse_noting(PhantomData::<T>, raw);
            let (item, told) = unknown.judge(item, fields);
            warnings = told;
            item
        };
        let item = parse_object_by(&body, read)?;
        if let Some(noticed) = noticed {
            noticed.note(warnings);
        }
        Ok(Object(item))
    }
}

impl<T: DeserializeOwned + JsonSchema, const BYTES_MAX: usize> Input for Object<T, BYTES_MAX> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.object::<T>();
        Unknown::describe(sketch);
    }
}

/// The name of an object in the path of the route.
pub(crate) struct PathName(pub(crate) String);

impl FromRequestParts<App> for PathName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let name = Path::<String>::from_request_parts(parts, app).await;
        let Path(name) = name.map_err(|error| ApiError::new(Code::BadRequest, error.to_string()))?;
        Ok(PathName(name))
    }
}

impl Input for PathName {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.path.push(Param::text("name", "Name of the object."));
        sketch.codes.extend([Code::BadRequest, Code::NotFoundResource]);
    }
}

/// A body with the fields of a form, at most `BYTES_MAX` bytes. A repeated field is refused.
pub(crate) struct FormBody<T, const BYTES_MAX: usize>(pub(crate) T);

impl<T: DeserializeOwned, const BYTES_MAX: usize> FromRequest<App> for FormBody<T, BYTES_MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let body = read_body_within(request, BYTES_MAX).await?;
        let mut fields = Map::new();
        for (name, value) in form_urlencoded::parse(&body).take(limits::FORM_PAIRS_MAX) {
            if fields.insert(name.clone().into_owned(), Value::String(value.into_owned())).is_some() {
                return Err(ApiError::new(Code::ParseException, format!("{name:.40}: more than one")));
            }
        }
        let read = serde_json::from_value(Value::Object(fields));
        read.map(FormBody).map_err(unparsable)
    }
}

impl<T: JsonSchema, const BYTES_MAX: usize> Input for FormBody<T, BYTES_MAX> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.object::<T>();
        sketch.body_types = &["application/x-www-form-urlencoded"];
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn parse_object<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    parse_object_by(body, parse_item)
}

pub(crate) fn parse_object_by<T>(
    body: &[u8],
    read: impl FnOnce(&RawValue) -> Result<T, Refusal>,
) -> Result<T, ApiError> {
    let raw: &RawValue = serde_json::from_str(text_of(body)?).map_err(unparsable)?;
    Ok(read(raw)?)
}

fn text_of(body: &[u8]) -> Result<&str, ApiError> {
    let text = str::from_utf8(body).map_err(|_| ApiError::new(Code::ParseException, "the body is not UTF-8"))?;
    if deeper_than(text, limits::JSON_DEPTH_MAX).is_some() {
        let why = format!("the body is nested deeper than {} levels", limits::JSON_DEPTH_MAX);
        return Err(ApiError::new(Code::ParseException, why));
    }
    Ok(text)
}

fn unparsable(error: serde_json::Error) -> ApiError {
    ApiError::new(Code::ParseException, error.to_string())
}

/// Parses an item with the deserializer of its type.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn parse_item<T: DeserializeOwned>(raw: &RawValue) -> Result<T, Refusal> {
    parse_seeded(PhantomData, raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::service::ServiceDraft;

    fn code_of(body: &str) -> Result<Vec<Option<Refusal>>, u32> {
        match Batch::<ServiceDraft>::parse(body.as_bytes()) {
            Ok(batch) => Ok(batch.items.into_iter().map(Result::err).collect()),
            Err(error) => Err(error.0.code.number()),
        }
    }

    #[test]
    fn bodies_that_are_refused_whole() {
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        let many = format!("[{}]", vec!["{}"; 101].join(","));
        let rows = [
            ("", 400001),
            ("[", 400001),
            ("nonsense", 400001),
            ("5", 400001),
            ("\"x\"", 400001),
            ("[{}] trailing", 400001),
            ("[{},]", 400001),
            ("\u{feff}[{}]", 400001),
            ("[]", 400002),
            (&many, 400003),
            (&deep, 400001),
        ];
        for (body, code) in rows {
            assert_eq!(code_of(body), Err(code), "{body:.40}");
        }
    }

    #[test]
    fn items_are_refused_by_name_of_field() {
        let refusals =
            code_of(r#"[{"name":"a","namespace":"b"},{"name":5},null,{"metadata":{"k":[]}}]"#).expect("a batch");
        assert_eq!(refusals[0], None);
        let details: Vec<_> = refusals.iter().flatten().map(|refusal| refusal.detail.as_str()).collect();
        assert!(details[0].starts_with("name: invalid type: integer `5`, expected a string"), "{}", details[0]);
        assert_eq!(details[1], "an object is expected");
        assert!(details[2].starts_with("metadata.k: invalid type"), "{}", details[2]);
    }

    #[test]
    fn a_lone_surrogate_is_refused() {
        let refusals = code_of(r#"[{"name":"\ud800"}]"#).expect("a batch");
        assert_eq!(refusals[0].as_ref().map(|refusal| refusal.code), Some(Code::ParseException));
    }

    #[test]
    fn one_object_is_a_batch_of_one() {
        let batch = Batch::<ServiceDraft>::parse(br#" {"name":"a"} "#).expect("a batch");
        assert!(batch.is_single);
        assert_eq!(batch.items.len(), 1);
    }
}
