//! `/naming/v1/service/alias` and `/naming/v1/service/aliases`.

use axum::extract::State;

use crate::api::http::{ApiResult, App, Batch, Caller, Doc, Fresh, PAGING, Query, Shape, answer, envelope};
use crate::api::view::AliasView;
use crate::catalog::aliases::AliasFilter;
use crate::catalog::{Catalog, Op};
use crate::model::alias::AliasDraft;
use crate::model::code::Code;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Service aliases");
const WRITE: Doc = DOC.gives(Shape::batch::<AliasView>("serviceAlias"));
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[
    Code::InvalidNamespaceName,
    Code::InvalidServiceName,
    Code::InvalidServiceAlias,
    Code::InvalidNamespaceWithAlias,
    Code::InvalidServiceAliasComment,
    Code::InvalidServiceAliasOwners,
    Code::InvalidServiceToken,
    Code::InvalidParameter,
];
/// Codes that refuse the target service of an alias.
const TARGET: &[Code] = &[Code::NotFoundService, Code::NotAllowCreateAliasForAlias];
const FILTERS: &[Param] = &[
    Param::text("service", "Name of the service; with `*` a glob that ignores case."),
    Param::text("namespace", "Namespace of the service; with `*` a glob that ignores case."),
    Param::text("alias", "Exact, or with `*` a glob that ignores case."),
    Param::text("alias_namespace", "Exact, or with `*` a glob that ignores case."),
    Param::text("owner", "One of the owners, which stand between commas, semicolons or blanks."),
];

pub(crate) const LIST: Doc = DOC
    .says("A page of aliases, newest change first.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<AliasView>("aliases"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let filter = AliasFilter {
        service: query.name("service"),
        namespace: query.name("namespace"),
        alias: query.name("alias"),
        alias_namespace: query.name("alias_namespace"),
        owner: query.text("owner"),
        read_scope: caller.read_scope(),
    };
    let page = query.page()?;
    let reach = app.node().state().catalog().aliases.reach(&page);
    let find = move |catalog: &Catalog| catalog.aliases.list(&filter, &page);
    app.scan(reach, find, |listed| envelope::list("aliases", &listed, |alias| AliasView::new(alias))).await
}

pub(crate) const CREATE: Doc =
    WRITE.says("Creates aliases of services.").codes(&[FIELDS, TARGET, &[Code::ExistedResource]]);

pub(crate) const UPDATE: Doc = WRITE
    .says(
        "Updates aliases: an absent field stays; `service` with `namespace` points it to another service. With \
         `revision`, only if that is the current one.",
    )
    .codes(&[FIELDS, TARGET, &[Code::NoNeedUpdate, Code::NotFoundServiceAlias, Code::DataConflict]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes aliases, by alias and alias namespace or by id; one that is not there is success.")
    .codes(&[&[Code::InvalidServiceAlias, Code::InvalidNamespaceWithAlias, Code::DataConflict]]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, batch: Batch<AliasDraft>) -> ApiResult {
    let outcomes = app.operations.aliases(&caller, op, batch.items).await?;
    let advice = if op == Op::Create { app.operations.advice_on_names(&caller, &outcomes) } else { Vec::new() };
    Ok(answer::batch(&app, outcomes, answer::joined(batch.warnings, advice)))
}
