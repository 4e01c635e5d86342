//! Facts of a route that layers and descriptions need: the paths that they treat in a way of their own, reads that have
//! a body, and the terms of a row in the table of routes.

use axum::extract::Request;
use axum::http::Method;

use crate::model::grant::Verb;

pub(crate) const DISCOVER: &str = "/v1/Discover";
/// Words of clients on what they were given: nothing of the state is changed by them.
pub(crate) const APPLIED: &str = "/v1/Applied";
pub(crate) const DRAIN: &str = "/naming/v1/instances/drain";
pub(crate) const BACKUP: &str = "/admin/v1/backup";
/// End of the paths of explanations, which are reads with a body.
pub(crate) const EXPLAIN: &str = "/explain";
/// Path of the export, a read with a body.
pub(crate) const EXPORT: &str = "/config/v1/configfiles/export";
pub(crate) const IMPORT: &str = "/config/v1/configfiles/import";
/// Served on a listener of its own where there is one.
pub(crate) const METRICS: &str = "/metrics";
pub(crate) const LIVE: &str = "/livez";
pub(crate) const READY: &str = "/readyz";

/// Callers that a route admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Login, health, metrics and the documentation.
    Anyone,
    /// Holders of a token; their rights are judged item by item.
    TokenHolder,
    /// Holders of this verb on everything: for what belongs to the cluster as a whole.
    Everywhere(Verb),
}

/// Terms on which a route is served.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) access: Access,
    /// Held on purpose, within limits of its own.
    pub(crate) is_held: bool,
    /// It answers also where the state of this node is not to be shown.
    pub(crate) is_always: bool,
}

/// The reads that have a body, discovery aside.
pub(crate) fn is_posted_read(path: &str) -> bool {
    path.ends_with(EXPLAIN) || path == EXPORT
}

/// True if the request changes nothing, whichever its method.
pub(crate) fn is_read(request: &Request) -> bool {
    is_read_of(request.method(), request.uri().path())
}

pub(crate) fn is_read_of(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) || is_posted_read(path) || path == DISCOVER || path == APPLIED
}
