//! `/config/v1/configfiletemplates`: initial contents for new config files. Templates belong to the cluster; every
//! token holder can read them.

use axum::extract::State;

use super::files::joined;
use crate::api::http::{ApiResult, App, Batch, Caller, Doc, Fresh, PAGING, Query, Shape, answer, envelope};
use crate::api::view::ConfigTemplateView;
use crate::catalog::{Catalog, Op};
use crate::model::code::Code;
use crate::model::config_template::ConfigTemplateDraft;
use crate::openapi::Param;
use crate::operations::FAR;

const DOC: Doc = Doc::new("Config file templates");
const WRITE: Doc = DOC.gives(Shape::one_or_batch::<ConfigTemplateView>("configFileTemplate"));
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[
    Code::InvalidConfigFileTemplateName,
    Code::InvalidConfigFileContentLength,
    Code::InvalidConfigFileFormat,
    Code::InvalidParameter,
    Code::LevelNotReached,
];

pub(crate) const LIST: Doc = DOC
    .says("A page of templates, newest change first.")
    .query(&[&[Param::text("name", "Exact, or with `*` a glob that ignores case.")], PAGING])
    .gives(Shape::list::<ConfigTemplateView>("configFileTemplates"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let (name, page) = (query.name("name"), query.page()?);
    let find = move |catalog: &Catalog| catalog.templates.list(&name, &page);
    // A page may be megabytes of text.
    app.scan(FAR, find, |listed| {
        envelope::list("configFileTemplates", &listed, |template| ConfigTemplateView::new(template))
    })
    .await
}

pub(crate) const CREATE: Doc = WRITE
    .says(
        "Creates templates of config files, by who may edit everything. A content that is not well-formed by its \
         format is kept, and its answer has `warnings` with line and column.",
    )
    .codes(&[FIELDS, &[Code::ExistedResource, Code::TooMany]]);

pub(crate) const UPDATE: Doc = WRITE
    .says("Updates templates: an absent field stays; files that were made of one stay as they are.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(crate) const DELETE: Doc =
    WRITE.says("Deletes templates, by name; one that is not there is success.").codes(&[FIELDS, &[Code::DataConflict]]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, batch: Batch<ConfigTemplateDraft>) -> ApiResult {
    let (outcomes, told) = app.operations.config_templates(&caller, op, batch.items).await?;
    Ok(answer::one_or_batch(&app, outcomes, joined(batch.warnings, told), batch.is_single))
}
