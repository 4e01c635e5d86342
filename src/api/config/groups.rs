//! `/config/v1/configfilegroups`: groups of the configuration centre. Paths, bodies and codes of the centre are the
//! Polaris family's.

use axum::extract::State;

use crate::api::http::{
    ApiResult, App, Batch, Caller, Doc, Fresh, PAGING, PROPOSED, Query, REVISION, Shape, answer, envelope,
};
use crate::api::view::ConfigGroupView;
use crate::catalog::configs::GroupFilter;
use crate::catalog::{Catalog, Op};
use crate::model::code::Code;
use crate::model::config_file::ConfigGroupDraft;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Config groups");
const WRITE: Doc = DOC.gives(Shape::one_or_batch::<ConfigGroupView>("configFileGroup"));
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] =
    &[Code::InvalidNamespaceName, Code::InvalidConfigFileGroupName, Code::InvalidMetadata, Code::InvalidParameter];
const NAMESPACE: Param = Param::text("namespace", "Namespace of the group.");
const GROUP: Param = Param::text("group", "Name of the group.").also(&["name"]);
const FILTERS: &[Param] = &[
    Param::text("namespace", "Exact, or with `*` a glob that ignores case."),
    Param::text("group", "Exact, or with `*` a glob that ignores case.").also(&["name"]),
    Param::text("business", "A part of it, ignoring case."),
    Param::text("department", "Exact."),
];

pub(crate) const LIST: Doc =
    DOC.says("A page of groups.").query(&[FILTERS, PAGING]).gives(Shape::list::<ConfigGroupView>("configFileGroups"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let filter = GroupFilter {
        namespace: query.name("namespace"),
        name: query.name("group").or_else(|| query.name("name")),
        business: query.text("business"),
        department: query.text("department"),
        read_scope: caller.read_scope(),
    };
    let page = query.page()?;
    let reach = app.node().state().catalog().configs.reach_of_groups();
    let find = move |catalog: &Catalog| {
        let configs = &catalog.configs;
        configs.list_groups(&filter, &page).map(|group| (configs.file_count_in(&group), group))
    };
    app.scan(reach, find, |counted| {
        envelope::list("configFileGroups", &counted, |(files, group)| ConfigGroupView::new(group, *files))
    })
    .await
}

pub(crate) const CREATE: Doc =
    WRITE.says("Creates groups; a missing namespace is made.").codes(&[FIELDS, &[Code::ExistedResource]]);

pub(crate) const UPDATE: Doc = WRITE
    .says("Updates groups: an absent field stays; with `revision`, only if that is the current one.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes groups that hold no files; one that is not there is success.")
    .codes(&[FIELDS, &[Code::ExistedResource, Code::DataConflict]]);

pub(crate) const DELETE_ONE: Doc = WRITE
    .says("Deletes one group that holds no files.")
    .query(&[&[NAMESPACE.required(), GROUP.required(), REVISION]])
    .codes(&[FIELDS, &[Code::ExistedResource, Code::DataConflict], PROPOSED]);

pub(crate) async fn delete_one(app: State<App>, caller: Caller, query: Query) -> ApiResult {
    let group = query.get("group").map_or_else(|| query.required("name"), Ok)?.to_owned();
    let draft = ConfigGroupDraft {
        namespace: query.required("namespace")?.to_owned(),
        name: group,
        revision: query.text(REVISION.name),
        ..ConfigGroupDraft::default()
    };
    write(Op::Delete, app, caller, Batch::of_one(draft)).await
}

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, batch: Batch<ConfigGroupDraft>) -> ApiResult {
    let outcomes = app.operations.config_groups(&caller, op, batch.items).await?;
    Ok(answer::one_or_batch(&app, outcomes, batch.warnings, batch.is_single))
}
