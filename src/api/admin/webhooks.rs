//! `/admin/v1/webhooks`: receivers of events over HTTP.
//!
//! A generated secret is only in the answer to its create.

use axum::extract::State;

use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, answer, envelope};
use crate::api::view::WebhookView;
use crate::catalog::Op;
use crate::model::code::Code;
use crate::model::webhook::WebhookRequest;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Webhooks");
const WRITE: Doc = DOC.gives(Shape::batch::<WebhookView>("webhook"));
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::InvalidNamespaceName, Code::LevelNotReached];
const FILTERS: &[Param] = &[Param::text("name", "Exact, or with `*` a glob that ignores case.")];

pub(crate) const LIST: Doc = DOC
    .says("A page of the webhooks with the progress of their deliveries, newest change first; never with a secret.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<WebhookView>("data"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let (name, page) = (query.name("name"), query.page()?);
    let hooks = app.node().state().catalog().webhooks.clone();
    let listed = hooks.list(name.as_ref(), &page);
    Ok(envelope::list("data", &listed, |hook| WebhookView::new(hook, hooks.pending(&hook.name), None)))
}

pub(crate) const CREATE: Doc = WRITE
    .says(
        "Creates webhooks, at most 20 in all. Events from now on are posted to the URL, signed with the secret: \
         `X-Thuban-Signature: sha256=<hex HMAC-SHA256 of the body>`. The answer alone carries the secret, whether it \
         was given or generated; it is kept encrypted under `--data-key-file`.",
    )
    .codes(&[FIELDS, &[Code::ExistedResource, Code::NoDataKey, Code::TooMany]]);

pub(crate) const UPDATE: Doc = WRITE
    .says(
        "Updates webhooks: an absent field stays. What waits is delivered as it is asked for now; what is `disabled` \
         drops it.",
    )
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict, Code::NoDataKey]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes webhooks by name, with what waits for them; one that is not there is success.")
    .codes(&[FIELDS, &[Code::DataConflict]]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, Strict(batch): Strict<WebhookRequest>) -> ApiResult {
    let outcomes = app.operations.webhooks(&caller, op, batch.items).await?;
    Ok(answer::batch_with_secrets(&app, outcomes))
}
