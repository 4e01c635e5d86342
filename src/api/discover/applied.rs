//! `POST /v1/Applied`: reports of clients on applying a release of a rule.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use super::request::{DiscoverCaller, TypeName};
use crate::api::http::{Agent, ApiError, App, Caller, ClientAddress, Doc, Object};
use crate::model::code::Code;
use crate::model::wire::Uint64;
use crate::reads::{ReportedRelease, RuleReport};

/// Limit of a report, whose message is stored up to 1 KiB.
const BODY_BYTES_MAX: usize = 64 * 1024;

pub(crate) const APPLIED: Doc = Doc::new("Discovery")
    .says("A client says that it has applied a release of a rule that it discovered, or why it could not.")
    .gives_raw(&[(204, "", "Taken, or of a release that is neither in force nor given to the client by this node.")])
    .codes(&[&[
        Code::InvalidDiscoverResource,
        Code::InvalidNamespaceName,
        Code::InvalidParameter,
        Code::InvalidMetadata,
    ]]);

/// The body of the request.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "AppliedRule")]
pub(crate) struct AppliedRequest {
    /// Type of the rule, as it is discovered.
    r#type: Option<TypeName>,
    /// Id of the rule; without it `namespace` and `name` identify it.
    id: String,
    /// Namespace of the rule, as the client received it.
    namespace: String,
    /// Name of the rule, as the client received it.
    name: String,
    /// Reported release; without it and without `version`, the last one that the client received.
    #[serde(alias = "releaseName")]
    release_name: String,
    /// Version of the reported release.
    version: Option<Uint64>,
    /// False if the client could not apply it and continues with its previous release.
    ok: Option<bool>,
    /// Reason for the refusal, stored up to 1 KiB.
    message: String,
    /// Client as in its discoveries: by its labels, including `CLIENT_IP`.
    client: DiscoverCaller,
}

/// Answers 204 even for an unknown client or release, so that nothing is revealed about others.
pub(crate) async fn applied(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    caller: Caller,
    Agent(agent): Agent,
    Object(request): Object<AppliedRequest, BODY_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let needed = |field: &str| ApiError::new(Code::InvalidParameter, format!("{field} is needed"));
    let family = TypeName::family(request.r#type.as_ref())?;
    if request.name.is_empty() && request.id.is_empty() {
        return Err(needed("name or id"));
    }
    let report = RuleReport {
        family,
        id: request.id,
        namespace: request.namespace,
        name: request.name,
        release: match (request.release_name, request.version) {
            (_, Some(version)) => ReportedRelease::Version(version.0),
            (name, None) if !name.is_empty() => ReportedRelease::Named(name),
            _ => ReportedRelease::Given,
        },
        is_ok: request.ok.ok_or_else(|| needed("ok"))?,
        message: request.message,
        labels: request.client.labels,
        agent,
        address,
        origin: caller.origin(),
        read_scope: caller.client_sight(),
    };
    report.note(app.node().member())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
