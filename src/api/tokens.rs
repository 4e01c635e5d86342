//! `/auth/v1/tokens`: service tokens, for programs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::answer;
use super::auth::Caller;
use super::doc::{Doc, PAGING};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::query::{Fresh, Query};
use super::strict::Strict;
use crate::catalog::page::Listed;
use crate::model::code::Code;
use crate::model::grant::Grants;
use crate::model::service_token::{RotationRequest, ServiceToken, ServiceTokenRequest};
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Tokens");
const WRITE: Doc = DOC.gives(Shape::batch::<ServiceTokenView>("token"));
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];

/// A service token.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServiceToken")]
pub(super) struct ServiceTokenView<'a> {
    /// What the audit trail calls it.
    id: &'a str,
    name: &'a str,
    comment: &'a str,
    /// Nobody gets in by it.
    disabled: bool,
    grants: &'a Grants,
    /// None given: it may be used from anywhere.
    networks: Vec<String>,
    /// `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    /// Empty before the first change.
    mtime: String,
    modify_by: &'a str,
    /// Empty for never.
    expires: String,
    /// Until when the secret before lets in as well; empty where there is none.
    previous_until: String,
    /// Changes with every write that changes something; empty of one that is older than that.
    revision: &'a str,
    /// The token itself: in the answer of the create, or of the rotation, only.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

impl<'a> ServiceTokenView<'a> {
    pub(super) fn new(token: &'a ServiceToken, secret: Option<&'a str>) -> Self {
        let text = |time: Option<Timestamp>| time.map(Timestamp::text).unwrap_or_default();
        ServiceTokenView {
            id: token.hash.id(),
            name: &token.name,
            comment: &token.comment,
            disabled: token.disabled,
            grants: &token.grants,
            networks: token.networks.iter().map(ToString::to_string).collect(),
            ctime: token.ctime.text(),
            create_by: &token.by,
            mtime: text(token.modified.as_ref().map(|stamp| stamp.time)),
            modify_by: token.modified.as_ref().map_or("", |stamp| &stamp.by),
            expires: text(token.expires),
            previous_until: text(token.previous.as_ref().map(|previous| previous.until)),
            revision: &token.revision,
            secret,
        }
    }
}

pub(super) const LIST: Doc = DOC
    .says("A page of service tokens, by name; never the tokens themselves.")
    .query(&[&[Param::text("name", "Exact, or with `*` a glob that ignores case.")], PAGING])
    .gives(Shape::list::<ServiceTokenView>("data"));

pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let (name, page) = (query.name("name"), query.page()?);
    let wanted = |token: &ServiceToken| NameFilter::passes(&name, &token.name);
    let listed: Listed<Arc<ServiceToken>> = app.node.state().catalog().access.list_service_tokens(wanted, &page);
    Ok(envelope::list("data", &listed, |token| ServiceTokenView::new(token, None)))
}

pub(super) const CREATE: Doc = WRITE
    .says("Makes tokens for programs. The token is in `secret`, and nowhere else: it is not kept.")
    .codes(&[FIELDS, &[Code::ExistedResource, Code::TooMany]]);

pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<ServiceTokenRequest>,
) -> Result<Response, ApiError> {
    let outcomes = app.create_tokens(&caller, batch.items).await?;
    Ok(answer::batch_with_secrets(&app, outcomes))
}

pub(super) const UPDATE: Doc = WRITE
    .says(
        "Changes tokens by name: an absent field stays. `expires_in_s` counts from now on. Who is `disabled`, or whose \
         time is over, is out at once, on every node.",
    )
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<ServiceTokenRequest>,
) -> Result<Response, ApiError> {
    let outcomes = app.update_tokens(&caller, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

pub(super) const ROTATE: Doc = WRITE
    .says(
        "Gives tokens another secret, which is in this answer and nowhere else; name, grants, networks and end stay. The \
         secret before lets in for `overlap_s` seconds more, and the one before that does not any more.",
    )
    .codes(&[FIELDS, &[Code::NotFoundResource, Code::DataConflict]]);

pub(super) async fn rotate(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<RotationRequest>,
) -> Result<Response, ApiError> {
    let outcomes = app.rotate_tokens(&caller, batch.items).await?;
    Ok(answer::batch_with_secrets(&app, outcomes))
}

pub(super) const DELETE: Doc = WRITE
    .says("Retires tokens by name, at once and on every node; one that is not there is success.")
    .codes(&[FIELDS, &[Code::DataConflict]]);

pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<ServiceTokenRequest>,
) -> Result<Response, ApiError> {
    let outcomes = app.delete_tokens(&caller, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}
