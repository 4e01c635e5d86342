//! `POST /configs/…/applied`: a client reports that it has applied the release that it pulled, or why it could not.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Surface;
use super::answer;
use super::client_request::ClientRequest;
use super::doc::{self, Doc};
use super::lookup::{Named, lookup};
use crate::model::limits;
use crate::openapi::{Param, Reply, Security, schema_of};
use crate::reads::{ConfigSource, ReadRefusal};

/// Suffix of the path, after the name of a file, which may contain slashes.
pub(super) const SUFFIX: &str = "/applied";
/// Limit of a report, whose message is stored up to 1 KiB.
const BODY_BYTES_MAX: usize = 16 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// Header for warnings on unknown members, as on the management surface for answers without a body.
const WARNINGS: HeaderName = HeaderName::from_static("x-thuban-warnings");

pub(super) const APPLIED: Doc = Doc {
    summary: "A client says that it has applied the release that it pulled, or why it could not.",
    path: doc::FILE,
    query: &[doc::DATA_CENTER, doc::IP, UNKNOWN],
    body: Some(schema_of::<ReportBody>()),
    security: Security::Reader,
    replies: |schemas| {
        let taken = (
            204,
            Reply::empty("Taken, or of a release that is neither in force nor given to the client by this node."),
        );
        let refusals = doc::container_refusals(schemas).filter(|(status, _)| [400, 401, 503].contains(status));
        [taken].into_iter().chain(refusals).collect()
    },
};

const UNKNOWN: Param = Param::word(
    "unknown",
    "What becomes of a report with members that are not known: it is taken, and the header `X-Thuban-Warnings` names \
     them, or it is refused.",
    &["warn", "refuse"],
);

/// Report of a client on the release that it pulled.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AppliedReport")]
struct ReportBody {
    /// Release key from the pull; a report on any other release is ignored.
    #[serde(alias = "release_key")]
    release_key: String,
    /// False if the client could not apply the release and continues with its previous one.
    ok: bool,
    /// Reason for the failure, stored up to 1 KiB.
    message: Option<String>,
}

pub(super) async fn applied<S: ConfigSource>(
    State(surface): State<Surface<S>>,
    path: Result<Path<Named>, PathRejection>,
    ask: ClientRequest,
    uri: Uri,
    body: Body,
) -> Response {
    let named = match path.map_err(|rejection| ReadRefusal::BadRequest(rejection.body_text())) {
        Ok(Path((app, cluster, rest))) => match rest.strip_suffix(SUFFIX).filter(|file| !file.is_empty()) {
            Some(file) => Ok((app, cluster, file.to_owned())),
            None => return ([(header::ALLOW, "GET,HEAD")], answer::method_not_allowed(uri).await).into_response(),
        },
        Err(refusal) => Err(refusal),
    };
    match surface.take(named, &ask, body).await {
        Ok(warnings) => {
            let mut response = StatusCode::NO_CONTENT.into_response();
            if let Some(warnings) = HeaderValue::from_str(&warnings).ok().filter(|warnings| !warnings.is_empty()) {
                response.headers_mut().insert(WARNINGS, warnings);
            }
            response
        }
        Err(refusal) => refusal.for_path(ask.uri.path()),
    }
}

impl<S: ConfigSource> Surface<S> {
    /// Takes a report; returns its warnings.
    async fn take(
        &self,
        named: Result<Named, ReadRefusal>,
        ask: &ClientRequest,
        body: Body,
    ) -> Result<String, ReadRefusal> {
        let lookup = named.and_then(|named| lookup(named, ask));
        let wanted = lookup.as_ref().ok().map(|lookup| (lookup.group.as_str(), lookup.namespaces.as_slice()));
        let admitted = self.reads.admit(ask.asker(), wanted)?;
        let lookup = lookup?;
        let bytes = read(body).await?;
        let (ReportBody { release_key, ok, message }, warnings) = parse(&bytes)?;
        if !warnings.is_empty() && ask.query().get(UNKNOWN.name).as_deref() == Some("refuse") {
            return Err(ReadRefusal::BadRequest(warnings));
        }
        let message = message.as_deref().unwrap_or_default();
        self.reads.applied(&admitted, lookup, &release_key, (ok, message), ask.reader(Duration::ZERO));
        Ok(warnings)
    }
}

/// Parses a report; returns a warning for each unknown member, too.
fn parse(bytes: &[u8]) -> Result<(ReportBody, String), ReadRefusal> {
    let no_report = |error| ReadRefusal::BadRequest(format!("the body is not a report: {error}"));
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(ReadRefusal::BadRequest("the body is not a report: an object is expected".to_owned()));
    }
    let mut strange = BTreeSet::new();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let report = serde_ignored::deserialize(&mut json, |path| {
        if strange.len() < limits::UNKNOWN_FIELDS_TOLD_MAX {
            strange.insert(format!("{path} is not known"));
        }
    })
    .map_err(no_report)?;
    json.end().map_err(no_report)?;
    Ok((report, Vec::from_iter(strange).join(", ")))
}

async fn read(body: Body) -> Result<Bytes, ReadRefusal> {
    let unread = |why: &str| ReadRefusal::BadRequest(format!("the body cannot be read: {why}"));
    match tokio::time::timeout(BODY_WITHIN, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) => Err(unread(&error.to_string())),
        Err(_) => Err(unread("it did not arrive in time")),
    }
}
