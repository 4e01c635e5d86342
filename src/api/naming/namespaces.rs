//! `/naming/v1/namespaces` and `/core/v1/namespaces`.

use std::sync::Arc;

use axum::extract::State;

use crate::api::http::{ApiResult, App, Batch, Caller, Doc, Fresh, PAGING, Query, Shape, answer, envelope};
use crate::api::view::NamespaceView;
use crate::catalog::namespaces::NamespaceFilter;
use crate::catalog::{Catalog, Op};
use crate::model::code::Code;
use crate::model::namespace::{Namespace, NamespaceDraft};
use crate::openapi::Param;
use crate::operations::FAR;

const DOC: Doc = Doc::new("Namespaces");
const WRITE: Doc = DOC.gives(Shape::batch::<NamespaceView>("namespace"));
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[Code::InvalidNamespaceName, Code::InvalidParameter, Code::InvalidMetadata];
const FILTERS: &[Param] = &[
    Param::text("name", "Exact, or with `*` a glob that ignores case."),
    Param::text("owner", "One of the owners, which stand between commas, semicolons or blanks."),
];

pub(crate) const LIST: Doc =
    DOC.says("A page of namespaces.").query(&[FILTERS, PAGING]).gives(Shape::list::<NamespaceView>("namespaces"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let read_scope = caller.read_scope();
    let filter =
        NamespaceFilter { name: query.name("name"), owner: query.text("owner"), read_scope: read_scope.clone() };
    let page = query.page()?;
    let reach = if read_scope.is_whole() { app.node().state().catalog().namespaces.len() } else { FAR };
    let find = move |catalog: &Catalog| {
        let count = |namespace: Arc<Namespace>| {
            let (services, instances) = catalog.counts_in(&namespace.name, &read_scope);
            (services, instances, namespace)
        };
        catalog.namespaces.list(&filter, &page).map(count)
    };
    app.scan(reach, find, |counted| {
        envelope::list("namespaces", &counted, |(services, instances, namespace)| {
            NamespaceView::new(namespace, *services, *instances)
        })
    })
    .await
}

pub(crate) const CREATE: Doc = WRITE.says("Creates namespaces.").codes(&[FIELDS, &[Code::ExistedResource]]);

pub(crate) const UPDATE: Doc = WRITE
    .says("Updates namespaces: an absent field stays; with `revision`, only if that is the current one.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(crate) const DELETE: Doc =
    WRITE.says("Deletes namespaces that are empty; one that is not there is success.").codes(&[
        FIELDS,
        &[Code::NamespaceExistedServices, Code::NamespaceExistedConfigGroups, Code::NamespaceExistedGovernanceRules],
        &[Code::DataConflict],
    ]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, batch: Batch<NamespaceDraft>) -> ApiResult {
    let outcomes = app.operations.namespaces(&caller, op, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}
