//! `/auth/v1/tokens`: service tokens, for programs.

use std::sync::Arc;

use axum::extract::State;

use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, answer, envelope};
use crate::api::view::ServiceTokenView;
use crate::catalog::page::Listed;
use crate::model::code::Code;
use crate::model::service_token::{RotationRequest, ServiceToken, ServiceTokenRequest};
use crate::model::text::NameFilter;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Tokens");
const WRITE: Doc = DOC.gives(Shape::batch::<ServiceTokenView>("token"));
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];

pub(crate) const LIST: Doc = DOC
    .says("A page of service tokens, by name; never the tokens themselves.")
    .query(&[&[Param::text("name", "Exact, or with `*` a glob that ignores case.")], PAGING])
    .gives(Shape::list::<ServiceTokenView>("data"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let (name, page) = (query.name("name"), query.page()?);
    let wanted = |token: &ServiceToken| NameFilter::passes(&name, &token.name);
    let listed: Listed<Arc<ServiceToken>> = app.node().state().catalog().access.list_service_tokens(wanted, &page);
    Ok(envelope::list("data", &listed, |token| ServiceTokenView::new(token, None)))
}

pub(crate) const CREATE: Doc = WRITE
    .says("Makes tokens for programs. The token is in `secret`, and nowhere else: it is not kept.")
    .codes(&[FIELDS, &[Code::ExistedResource, Code::TooMany]]);

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<ServiceTokenRequest>,
) -> ApiResult {
    let outcomes = app.operations.create_tokens(&caller, batch.items).await?;
    Ok(answer::batch_with_secrets(&app, outcomes))
}

pub(crate) const UPDATE: Doc = WRITE
    .says(
        "Changes tokens by name: an absent field stays. `expires_in_s` counts from now on. Who is `disabled`, or whose \
         time is over, is out at once, on every node.",
    )
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(crate) async fn update(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<ServiceTokenRequest>,
) -> ApiResult {
    let outcomes = app.operations.update_tokens(&caller, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

pub(crate) const ROTATE: Doc = WRITE
    .says(
        "Gives tokens another secret, which is in this answer and nowhere else; name, grants, networks and end \
         stay. The secret before lets in for `overlap_s` seconds more, and the one before that does not any more.",
    )
    .codes(&[FIELDS, &[Code::NotFoundResource, Code::DataConflict]]);

pub(crate) async fn rotate(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<RotationRequest>,
) -> ApiResult {
    let outcomes = app.operations.rotate_tokens(&caller, batch.items).await?;
    Ok(answer::batch_with_secrets(&app, outcomes))
}

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes tokens by name, at once and on every node; one that is not there is success.")
    .codes(&[FIELDS, &[Code::DataConflict]]);

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<ServiceTokenRequest>,
) -> ApiResult {
    let outcomes = app.operations.delete_tokens(&caller, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}
