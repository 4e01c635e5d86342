//! `/auth/v1/accesskeys`: keys with which config clients sign their requests.
//!
//! A generated secret is only in the answer to its create.

use axum::extract::State;

use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, answer, envelope};
use crate::api::view::AccessKeyView;
use crate::catalog::access_keys::AccessKeyFilter;
use crate::catalog::{Catalog, Op};
use crate::model::access_key::AccessKeyRequest;
use crate::model::code::Code;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Access keys");
const WRITE: Doc = DOC.gives(Shape::batch::<AccessKeyView>("accessKey"));
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];
const FILTERS: &[Param] = &[
    Param::text("app_id", "Exact, or with `*` a glob that ignores case."),
    Param::text("name", "Exact, or with `*` a glob that ignores case."),
];

pub(crate) const LIST: Doc = DOC
    .says("A page of the access keys of config clients, newest change first; never with a secret.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<AccessKeyView>("data"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let filter = AccessKeyFilter { app_id: query.name("app_id"), name: query.name("name") };
    let page = query.page()?;
    let reach = app.node().state().catalog().access_keys.len();
    let find = move |catalog: &Catalog| catalog.access_keys.list(&filter, &page);
    app.scan(reach, find, |listed| envelope::list("data", &listed, |key| AccessKeyView::new(key, None))).await
}

pub(crate) const CREATE: Doc = WRITE
    .says(
        "Creates access keys, at most 5 for an app. The answer alone carries the secret, whether it was given or \
         generated; it is kept encrypted under `--data-key-file`.",
    )
    .codes(&[FIELDS, &[Code::ExistedResource, Code::NoDataKey, Code::TooMany]]);

pub(crate) const UPDATE: Doc = WRITE
    .says("Updates access keys: an absent field stays. A new secret replaces the old one at once.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict, Code::NoDataKey]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes access keys, by app id and name; one that is not there is success.")
    .codes(&[FIELDS, &[Code::DataConflict]]);

pub(crate) async fn write(
    op: Op,
    app: State<App>,
    caller: Caller,
    Strict(batch): Strict<AccessKeyRequest>,
) -> ApiResult {
    let outcomes = app.operations.access_keys(&caller, op, batch.items).await?;
    Ok(answer::batch_with_secrets(&app, outcomes))
}
