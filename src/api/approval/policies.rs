//! `/admin/v1/policies`: acts on releases that need approval, and freezes.

use axum::extract::State;

use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, answer, envelope};
use crate::api::view::PolicyView;
use crate::catalog::Op;
use crate::model::code::Code;
use crate::model::policy::PolicyDraft;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Approval");
const WRITE: Doc = DOC.gives(Shape::batch::<PolicyView>("policy"));
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];
const FILTERS: &[Param] = &[Param::text("name", "Exact, or with `*` a glob that ignores case.")];

pub(crate) const LIST: Doc = DOC
    .says("A page of the policies, newest change first.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<PolicyView>("data"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let (name, page) = (query.name("name"), query.page()?);
    let policies = app.node().state().catalog().policies.clone();
    let listed = policies.list(&name, &page);
    Ok(envelope::list("data", &listed, |policy| PolicyView::new(policy)))
}

pub(crate) const CREATE: Doc = WRITE
    .says(
        "Creates policies. From then on acts that they gate need approval (409001) or wait for the end of a freeze \
         (409002), through whatever door they are asked for.",
    )
    .codes(&[FIELDS, &[Code::ExistedResource, Code::TooMany]]);

pub(crate) const UPDATE: Doc = WRITE
    .says("Updates policies: an absent field stays.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes policies by name; one that is not there is success. Requests that wait stay.")
    .codes(&[FIELDS, &[Code::DataConflict]]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, Strict(batch): Strict<PolicyDraft>) -> ApiResult {
    let outcomes = app.operations.policies(&caller, op, batch.items).await?;
    Ok(answer::batch(&app, outcomes, Vec::new()))
}
