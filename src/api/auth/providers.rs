//! `/auth/v1/providers`: identity providers. No answer has a secret.

use std::sync::Arc;

use axum::extract::State;

use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, answer, envelope};
use crate::api::view::ProviderView;
use crate::catalog::Op;
use crate::catalog::page::Listed;
use crate::model::code::Code;
use crate::model::sso::{Provider, ProviderRequest};
use crate::model::text::NameFilter;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Single sign-on");
const WRITE: Doc = DOC.gives(Shape::batch::<ProviderView>("provider"));
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];

pub(crate) const LIST: Doc = DOC
    .says("A page of the identity providers, by name; never with a secret.")
    .query(&[&[Param::text("name", "Exact, or with `*` a glob that ignores case.")], PAGING])
    .gives(Shape::list::<ProviderView>("data"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let (name, page) = (query.name("name"), query.page()?);
    let wanted = |provider: &Provider| NameFilter::passes(&name, &provider.name);
    let listed: Listed<Arc<Provider>> = app.node().state().access().sso().list_providers(wanted, &page);
    Ok(envelope::list("data", &listed, |provider| ProviderView::new(provider)))
}

pub(crate) const CREATE: Doc = WRITE
    .says(
        "Creates identity providers. People for whom a binding holds can sign in there; with `bearer` programs call by \
         its tokens. `client_secret` is kept encrypted under `--data-key-file`.",
    )
    .codes(&[FIELDS, &[Code::ExistedResource, Code::NoDataKey, Code::TooMany]]);

pub(crate) const UPDATE: Doc = WRITE
    .says(
        "Updates identity providers: an absent field stays. The sessions of one that is `disabled` end, on every node, \
         and its tokens are refused.",
    )
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict, Code::NoDataKey]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes identity providers with their people, and ends their sessions; one that is not there is success.")
    .codes(&[FIELDS, &[Code::DataConflict]]);

pub(crate) async fn write(
    op: Op,
    app: State<App>,
    caller: Caller,
    Strict(batch): Strict<ProviderRequest>,
) -> ApiResult {
    let outcomes = app.operations.providers(&caller, op, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}
