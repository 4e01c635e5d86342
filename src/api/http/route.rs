//! Properties of routes for layers and descriptions: paths with special treatment, reads that have a body, and the
//! terms of a row in the table of routes.

use axum::extract::Request;
use axum::http::Method;

use crate::model::grant::Verb;

pub(crate) const DISCOVER: &str = "/v1/Discover";
/// Path of clients' reports, which change no replicated state.
pub(crate) const APPLIED: &str = "/v1/Applied";
/// Path of targets for Prometheus, which takes the token as the password of basic authentication too.
pub(crate) const TARGETS: &str = "/v1/prometheus/targets";
pub(crate) const DRAIN: &str = "/naming/v1/instances/drain";
pub(crate) const BACKUP: &str = "/admin/v1/backup";
/// Suffix of the paths of explanations, which are reads with a body.
pub(crate) const EXPLAIN: &str = "/explain";
/// Path of the export, a read with a body.
pub(crate) const EXPORT: &str = "/config/v1/configfiles/export";
pub(crate) const IMPORT: &str = "/config/v1/configfiles/import";
/// Path of metrics, served on a separate listener if there is one.
pub(crate) const METRICS: &str = "/metrics";
pub(crate) const LIVE: &str = "/livez";
pub(crate) const READY: &str = "/readyz";

/// Callers that a route admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Any caller: login, health, metrics and the documentation.
    Anyone,
    /// Holders of a token; their rights are checked item by item.
    TokenHolder,
    /// Holders of this verb on everything, for objects of the cluster as a whole.
    Everywhere(Verb),
}

/// Terms on which a route is served.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) access: Access,
    /// True for a route that holds requests, within limits of its own.
    pub(crate) is_held: bool,
    /// True for a route that answers on a node out of service too.
    pub(crate) is_always: bool,
}

/// Reports whether a path is a read with a body; discovery is not included.
pub(crate) fn is_posted_read(path: &str) -> bool {
    path.ends_with(EXPLAIN) || path == EXPORT
}

/// Reports whether the request changes nothing, regardless of its method.
pub(crate) fn is_read(request: &Request) -> bool {
    is_read_of(request.method(), request.uri().path())
}

pub(crate) fn is_read_of(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) || is_posted_read(path) || path == DISCOVER || path == APPLIED
}
