//! `/config/v1/configfiletemplates`: what new config files may begin with. They are the cluster's; every holder of a
//! token reads them.

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::answer;
use super::auth::Caller;
use super::doc::{Doc, PAGING};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::extract::Batch;
use super::query::{Fresh, Query};
use super::view::ConfigTemplateView;
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

pub(super) const LIST: Doc = DOC
    .says("A page of templates, newest change first.")
    .query(&[&[Param::text("name", "Exact, or with `*` a glob that ignores case.")], PAGING])
    .gives(Shape::list::<ConfigTemplateView>("configFileTemplates"));

pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let (name, page) = (query.name("name"), query.page()?);
    let find = move |catalog: &Catalog| catalog.templates.list(&name, &page);
    // A page may be megabytes of text.
    app.scan(FAR, find, |listed| {
        envelope::list("configFileTemplates", &listed, |template| ConfigTemplateView::new(template))
    })
    .await
}

pub(super) const CREATE: Doc = WRITE
    .says("Creates templates of config files, by who may edit everything. A content that is not well-formed by its format is kept, and its answer has `warnings` with line and column.")
    .codes(&[FIELDS, &[Code::ExistedResource, Code::TooMany]]);

pub(super) async fn create(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigTemplateDraft>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Create, batch).await
}

pub(super) const UPDATE: Doc = WRITE
    .says("Updates templates: an absent field stays; files that were made of one stay as they are.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(super) async fn update(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigTemplateDraft>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Update, batch).await
}

pub(super) const DELETE: Doc =
    WRITE.says("Deletes templates, by name; one that is not there is success.").codes(&[FIELDS, &[Code::DataConflict]]);

pub(super) async fn delete(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigTemplateDraft>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch).await
}

async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<ConfigTemplateDraft>) -> Result<Response, ApiError> {
    let (outcomes, warnings) = app.config_templates(caller, op, batch.items).await?;
    Ok(answer::one_or_batch(app, outcomes, warnings, batch.is_single))
}
