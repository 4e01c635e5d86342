//! JSON bodies under the status of their code.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use crate::model::code::Code;

const JSON: &str = "application/json";
/// Initial capacity, enough for most answers.
const BODY_BYTES_USUAL: usize = 1024;

/// Returns `body` under the status of `code`.
pub(crate) fn answer(code: Code, body: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(BODY_BYTES_USUAL);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => written(code, bytes),
        Err(error) => failed(&error),
    }
}

pub(crate) fn written(code: Code, bytes: impl Into<Bytes>) -> Response {
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, JSON)], bytes.into()).into_response()
}

/// Returns the answer that replaces one that could not be serialized.
pub(crate) fn failed(error: &serde_json::Error) -> Response {
    tracing::error!(%error, "an answer could not be serialised");
    plain(Code::ExecuteException, Code::ExecuteException.info().to_owned())
}

#[derive(Serialize)]
pub(super) struct Plain {
    pub(super) code: u32,
    pub(super) info: String,
}

/// Returns an answer with only code and info.
pub(crate) fn plain(code: Code, info: String) -> Response {
    let body = serde_json::to_vec(&Plain { code: code.number(), info }).expect("a number and a text");
    written(code, body)
}

/// Returns a success whose work continues, as `info` says.
pub(crate) fn done_so_far(info: &str) -> Response {
    plain(Code::ExecuteSuccess, info.to_owned())
}

/// Returns a success without further members.
pub(crate) fn done() -> Response {
    plain(Code::ExecuteSuccess, Code::ExecuteSuccess.info().to_owned())
}
