//! `/auth/v1/tokens`: service tokens, for programs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::auth::Caller;
use super::doc::{Doc, PAGING};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::extract::Batch;
use super::query::{Fresh, Query};
use crate::catalog::page::Listed;
use crate::model::access::{ServiceToken, ServiceTokenRequest};
use crate::model::code::Code;
use crate::model::grant::Grants;
use crate::model::text::NameFilter;
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
    grants: &'a Grants,
    /// None given: it may be used from anywhere.
    networks: Vec<String>,
    /// `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    /// Empty for never.
    expires: String,
    /// The token itself: in the answer of the create only.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

impl<'a> ServiceTokenView<'a> {
    pub(super) fn new(token: &'a ServiceToken, secret: Option<&'a str>) -> Self {
        ServiceTokenView {
            id: token.hash.id(),
            name: &token.name,
            grants: &token.grants,
            networks: token.networks.iter().map(ToString::to_string).collect(),
            ctime: token.ctime.text(),
            create_by: &token.by,
            expires: token.expires.map(|expires| expires.text()).unwrap_or_default(),
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
    let listed: Listed<Arc<ServiceToken>> = app.node.state().catalog().access.list_service_tokens(wanted, page);
    Ok(envelope::list("data", &listed, |token| ServiceTokenView::new(token, None)))
}

pub(super) const CREATE: Doc = WRITE
    .says("Makes tokens for programs. The token is in `secret`, and nowhere else: it is not kept.")
    .codes(&[FIELDS, &[Code::ExistedResource]]);

pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    batch: Batch<ServiceTokenRequest>,
) -> Result<Response, ApiError> {
    batch.drawn_by(&app, |items| app.create_tokens(&caller, items)).await
}

pub(super) const DELETE: Doc =
    WRITE.says("Retires tokens by name, at once and on every node; one that is not there is success.").codes(&[FIELDS]);

pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    batch: Batch<ServiceTokenRequest>,
) -> Result<Response, ApiError> {
    batch.done_by(&app, |items| app.delete_tokens(&caller, items)).await
}
