//! Answers that are compressed for who accepts it: those of routes whose clients are many.

use std::sync::Arc;

use axum::response::Response;

use super::app::App;
use super::json;
use super::layers::Waiting;
use crate::compression::{self, Accepted, Coding, CompressedAnswers};
use crate::model::code::Code;

/// Decision for the answers of one request.
pub(crate) struct Compressing {
    accepted: Accepted,
    answers: Option<Arc<CompressedAnswers>>,
}

impl Compressing {
    /// Compresses nothing.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn none() -> Self {
        Compressing { accepted: Accepted::Identity, answers: None }
    }

    /// An answer of JSON under the status of its code.
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
    /// Compresses answers for who accepts it. One that warnings are added to is left as it is.
    pub(crate) fn compressing(&self, waiting: &Waiting) -> Compressing {
        let answers = (!waiting.has_warnings()).then(|| self.compressed.clone());
        Compressing { accepted: waiting.accepted(), answers }
    }
}
