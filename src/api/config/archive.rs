//! Bodies that are a zip archive.

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use serde_json::json;

use crate::api::http::{ApiError, App, Input, PROPOSED, Sketch, ZIP, read_body_within};
use crate::model::code::Code;
use crate::model::limits;

/// A zip archive: the body itself, or a part of a form.
pub(crate) struct ZipArchive(pub(crate) Bytes);

impl FromRequest<App> for ZipArchive {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let boundary = multer::parse_boundary(kind).ok();
        let body = read_body_within(request, limits::IMPORT_BODY_BYTES_MAX).await?;
        match boundary {
            Some(boundary) => part(body, &boundary).await,
            None => Ok(ZipArchive(body)),
        }
    }
}

impl Input for ZipArchive {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.body = Some(json!({}));
        sketch.body_types = &[ZIP, "multipart/form-data"];
        sketch.codes.extend([Code::ParseException, Code::RequestTooLarge]);
        sketch.codes.extend(PROPOSED);
    }
}

/// Name of the form part in which Polaris' tools send the archive; a form with only one part may use another name.
const PART: &str = "config";

async fn part(body: Bytes, boundary: &str) -> Result<ZipArchive, ApiError> {
    let refuse = |error: multer::Error| ApiError::new(Code::ParseException, error.to_string());
    let whole = futures_util::stream::once(async move { Ok::<_, std::io::Error>(body) });
    let (mut form, mut found) = (multer::Multipart::new(whole, boundary), None);
    while let Some(field) = form.next_field().await.map_err(refuse)? {
        let is_named = field.name() == Some(PART);
        if is_named || found.is_none() {
            found = Some(ZipArchive(field.bytes().await.map_err(refuse)?));
        }
        if is_named {
            break;
        }
    }
    found.ok_or_else(|| ApiError::new(Code::ParseException, format!("the form has no part {PART:?} with the archive")))
}
