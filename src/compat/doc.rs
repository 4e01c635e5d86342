//! Description of a route of this surface: the last column of the table of routes.

use axum::http::Method;
use schemars::SchemaGenerator;

use crate::openapi::{Operation, Param, Reply, SchemaOf, Security, schema_of};

use super::answer::{Container, Exception};

pub(super) const JSON: &str = "application/json";

/// Parameters in the path of every pull.
pub(super) const FILE: &[Param] = &[
    Param::text("appId", "App id of the client: the group of the file.").example("app"),
    Param::text("cluster", "Cluster of the client: the namespace that is looked at first, unless it is `default`.")
        .example("default"),
    Param::text("namespace", "The file, slashes included; `.properties` may be left out.").example("application"),
];
/// Parameters that clients send but the route ignores.
pub(super) const UNREAD: &[Param] = &[
    Param::text("appId", "App id of the client; every app gets the same answer."),
    Param::text("ip", "Address of the client; every client gets the same answer."),
];
pub(super) const DATA_CENTER: Param =
    Param::text("dataCenter", "The namespace that is looked at second, before `default`.");
pub(super) const IP: Param = Param::text("ip", "Address of the client for gray releases; else that of its connection.");
pub(super) const LABEL: Param =
    Param::text("label", "Label `label` of the client for gray releases; `key=value,key2=value2` are labels besides.");
pub(super) const RELEASE_KEY: Param =
    Param::text("releaseKey", "What the client has: never is it answered with something older.");
pub(super) const MESSAGES: Param =
    Param::text("messages", "The messages of the notification that the client follows; as for `releaseKey`.");

/// The description of a route.
pub(super) struct Doc {
    pub(super) summary: &'static str,
    pub(super) path: &'static [Param],
    pub(super) query: &'static [Param],
    pub(super) body: Option<SchemaOf>,
    pub(super) security: Security,
    pub(super) replies: fn(&mut SchemaGenerator) -> Vec<(u16, Reply)>,
}

impl Doc {
    pub(super) fn operation(self, method: Method, path: &str, schemas: &mut SchemaGenerator) -> Operation {
        Operation {
            method,
            path: path.to_owned(),
            tag: "Config clients",
            summary: self.summary,
            security: self.security,
            path_params: self.path.to_vec(),
            query: self.query.to_vec(),
            body: self.body.map(|body| body(schemas).to_value()),
            body_types: if self.body.is_some() { &[JSON] } else { &[] },
            replies: (self.replies)(schemas).into_iter().collect(),
        }
    }
}

/// Statuses of refusals, and their meaning on this surface.
const REFUSALS: [(u16, &str); 5] = [
    (400, "A parameter is missing or cannot be read."),
    (401, "The token is not known, or no access key of the app has signed the request and one has to."),
    (403, "The file is kept encrypted, and the token is neither a client's nor one that may edit it."),
    (500, "What was released cannot be read, or the node has a defect."),
    (
        503,
        "This node has not what the client knows of, cannot read the keys of the app or an encrypted file, or holds \
         too many polls.",
    ),
];
const MISSING: (u16, &str) = (404, "Nothing is released under this name.");

pub(super) fn unchanged() -> (u16, Reply) {
    (304, Reply::empty("Nothing is newer than what the client has."))
}

/// Returns the refusals of `/configs`, with a body.
pub(super) fn container_refusals(schemas: &mut SchemaGenerator) -> impl Iterator<Item = (u16, Reply)> {
    let schema = schema_of::<Container>()(schemas);
    let refusals = REFUSALS.into_iter().chain([MISSING]);
    refusals.map(move |(status, about)| (status, Reply::new(about, JSON, schema.clone())))
}

/// Returns the refusals of `/configfiles`, without a body, which some clients would accept as configuration.
pub(super) fn bare_refusals() -> impl Iterator<Item = (u16, Reply)> {
    REFUSALS.into_iter().chain([MISSING]).map(|(status, about)| (status, Reply::empty(about)))
}

pub(super) fn poll_refusals(schemas: &mut SchemaGenerator) -> impl Iterator<Item = (u16, Reply)> {
    let schema = schema_of::<Exception>()(schemas);
    let refusals = REFUSALS.into_iter().filter(|(status, _)| ![403, 500].contains(status));
    refusals.map(move |(status, about)| (status, Reply::new(about, JSON, schema.clone())))
}

/// Returns a success with a JSON body.
pub(super) fn success(about: &str, schema: impl Into<serde_json::Value>) -> (u16, Reply) {
    (200, Reply::new(about, JSON, schema))
}
