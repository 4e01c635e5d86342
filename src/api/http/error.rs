//! Refusal of a whole request: one code, one detail, one conversion to an answer.

use axum::http::header::{CONNECTION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};

use super::json;
use crate::model::code::{Code, Refusal};
use crate::raft::node::NodeError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError(pub(crate) Refusal);

impl ApiError {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        ApiError(Refusal::new(code, detail))
    }
}

impl From<Code> for ApiError {
    fn from(code: Code) -> Self {
        ApiError(code.into())
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        ApiError(refusal)
    }
}

impl From<NodeError> for ApiError {
    fn from(error: NodeError) -> Self {
        ApiError(error.into())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = json::plain(self.0.code, self.0.info());
        // The body was not read to its end, so no other request can follow on the connection.
        if matches!(self.0.code, Code::RequestTooLarge | Code::TooMuchUnderWay) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        match self.0.code {
            // A known caller without the right gains nothing from another login.
            Code::EmptyAuthToken | Code::TokenNotExisted => {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // Default, unless the refusal has a better value.
            Code::TooManyLogins | Code::TooMuchUnderWay => {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}
