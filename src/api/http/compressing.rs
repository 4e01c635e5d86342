//! Compression of answers, for routes with many clients.

use std::sync::Arc;

use axum::response::Response;

use super::app::App;
use super::json;
use super::layers::Waiting;
use crate::compression::{self, Accepted, Coding, CompressedAnswers};
use crate::model::code::Code;

/// Compression of the answers to one request.
pub(crate) struct Compressing {
    accepted: Accepted,
    answers: Option<Arc<CompressedAnswers>>,
}

impl Compressing {
    /// Returns a value that compresses nothing.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn none() -> Self {
        Compressing { accepted: Accepted::Identity, answers: None }
    }

    /// Returns JSON under the status of its code, compressed if that is worthwhile.
    pub(crate) fn written(&self, code: Code, bytes: Vec<u8>) -> Response {
        let compressed = self.answers.as_ref().filter(|_| self.accepted.is_worth(bytes.len()));
        let (coding, bytes) = match compressed {
            Some(answers) => (Coding::Gzip, answers.gzip(&bytes)),
            None => (Coding::Identity, bytes.into()),
        };
        let mut response = json::written(code, bytes);
        compression::mark(response.headers_mut(), coding);
        response
    }
}

impl App {
    /// Returns the compression for a request. An answer to which warnings are added is not compressed.
    pub(crate) fn compressing(&self, waiting: &Waiting) -> Compressing {
        let answers = (!waiting.has_warnings()).then(|| self.compressed.clone());
        Compressing { accepted: waiting.accepted(), answers }
    }
}
