//! `/openapi.json` and `/docs`: the description of both surfaces, open to everyone.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::doc::Doc;
use crate::openapi;

const DOC: Doc = Doc::new("Reference");

pub(crate) const DOCUMENT: Doc =
    DOC.says("This description, OpenAPI 3.1.").gives_raw(&[(200, "application/json", "An OpenAPI document.")]);

/// Returns the description, the same bytes on both ports.
pub(crate) async fn document(State(app): State<App>) -> Response {
    ([(CONTENT_TYPE, "application/json")], Bytes::clone(&app.settings.document)).into_response()
}

pub(crate) const PAGE: Doc =
    DOC.says("This description for people to read.").gives_raw(&[(200, "text/html", "A page.")]);

/// Returns the page that shows [`document`]; it loads nothing else.
pub(crate) async fn page() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, openapi::PAGE_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, openapi::PAGE).into_response()
}
