//! Answers that carry no configuration: refusals in the two shapes of Apollo's server, and the headers of every answer.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::model::signature::Flaw;
use crate::reads::ReadRefusal;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json;charset=UTF-8");

/// An error in the shape of Apollo's web container.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ContainerError")]
pub(super) struct Container<'a> {
    timestamp: String,
    status: u16,
    error: &'a str,
    message: &'a str,
    path: &'a str,
}

/// An error in the shape of Apollo's exception handler.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PollError")]
pub(super) struct Exception {
    exception: &'static str,
    message: String,
    status: u16,
    timestamp: String,
}

impl ReadRefusal {
    fn status(&self) -> StatusCode {
        match self {
            ReadRefusal::BadRequest(_) => StatusCode::BAD_REQUEST,
            // Another node may be able to read the key.
            ReadRefusal::Unsigned(Flaw::Unreadable) => StatusCode::SERVICE_UNAVAILABLE,
            ReadRefusal::Unauthorized | ReadRefusal::Token(_) | ReadRefusal::Unsigned(_) => StatusCode::UNAUTHORIZED,
            ReadRefusal::Withheld => StatusCode::FORBIDDEN,
            ReadRefusal::NotFound => StatusCode::NOT_FOUND,
            ReadRefusal::Behind | ReadRefusal::Full(_) | ReadRefusal::Sealed | ReadRefusal::OutOfService(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ReadRefusal::Damaged(_) | ReadRefusal::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the refusal in the shape of Apollo's web container, used by the pulls.
    pub(super) fn for_path(&self, path: &str) -> Response {
        container(self.status(), &self.to_string(), path)
    }

    /// Returns only the status: some clients accept any body of `/configfiles` as configuration.
    pub(super) fn bare(&self) -> Response {
        self.status().into_response()
    }

    /// Returns the refusal in the shape of Apollo's exception handler, used by the poll.
    pub(super) fn for_poll(&self) -> Response {
        let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]");
        let exception = match self {
            ReadRefusal::BadRequest(_) => "BadRequestException",
            ReadRefusal::Unauthorized | ReadRefusal::Token(_) => "UnauthorizedException",
            ReadRefusal::Unsigned(flaw) if *flaw != Flaw::Unreadable => "UnauthorizedException",
            _ => "ServiceException",
        };
        let body = Exception {
            exception,
            message: self.to_string(),
            status: self.status().as_u16(),
            timestamp: OffsetDateTime::now_utc().format(&format).unwrap_or_default(),
        };
        json(self.status(), &body)
    }
}

pub(super) async fn not_found(uri: Uri) -> Response {
    container(StatusCode::NOT_FOUND, "no such path", uri.path())
}

pub(super) async fn method_not_allowed(uri: Uri) -> Response {
    container(StatusCode::METHOD_NOT_ALLOWED, "this listener takes GET, and POST of what came of a release", uri.path())
}

fn container(status: StatusCode, message: &str, path: &str) -> Response {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]+0000");
    let body = Container {
        timestamp: OffsetDateTime::now_utc().format(&format).unwrap_or_default(),
        status: status.as_u16(),
        error: status.canonical_reason().unwrap_or_default(),
        message,
        path,
    };
    json(status, &body)
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_string(body).expect("an object of texts and numbers is JSON");
    (status, [(header::CONTENT_TYPE, JSON)], body).into_response()
}

/// Closes the connection after the answer, so that the client reconnects to another node.
pub(super) fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn not_modified() -> Response {
    (StatusCode::NOT_MODIFIED, Body::empty()).into_response()
}

/// Sets the headers that keep configuration out of caches, and prevent browsers from interpreting it as a page.
pub(super) fn set_common_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-cache, no-store, max-age=0, must-revalidate"),
        (header::PRAGMA, "no-cache"),
        (header::EXPIRES, "0"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
