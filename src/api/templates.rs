//! `/config/v1/configfiletemplates`: what new config files may begin with. They are the cluster's; every holder of a
//! token reads them.

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::auth::Caller;
use super::doc::{Doc, PAGING};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::extract::{Batch, Write};
use super::query::{Fresh, Query};
use super::view::ConfigTemplateView;
use crate::catalog::{Catalog, Command, Op};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::Format;
use crate::model::config_template::ConfigTemplateDraft;
use crate::openapi::Param;
use crate::operations::FAR;
use crate::well_formed;

const DOC: Doc = Doc::new("Config file templates");
const WRITE: Doc = DOC.gives(Shape::one_or_batch::<ConfigTemplateView>("configFileTemplate"));
/// What the fields of an item may be refused with.
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
    let find = move |catalog: &Catalog| catalog.templates.list(&name, page);
    // A page may be megabytes of text.
    app.scan(FAR, find, |listed| {
        envelope::list("configFileTemplates", &listed, |template| ConfigTemplateView::new(template))
    })
    .await
}

pub(super) const CREATE: Doc = WRITE
    .says("Creates templates of config files, by who may edit everything. A content that is not well-formed by its format is kept, and its answer has `warnings` with line and column.")
    .codes(&[FIELDS, &[Code::ExistedResource, Code::BadRequest]]);

pub(super) async fn create(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigTemplateDraft>,
) -> Result<Response, ApiError> {
    let batch = note_faults(&app, batch.checked(ConfigTemplateDraft::check)).await?;
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
    let batch = note_faults(&app, batch.checked(ConfigTemplateDraft::check)).await?;
    write(&app, &caller, Op::Update, batch).await
}

pub(super) const DELETE: Doc =
    WRITE.says("Deletes templates, by name; one that is not there is success.").codes(&[FIELDS]);

pub(super) async fn delete(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigTemplateDraft>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch.checked(ConfigTemplateDraft::check_named)).await
}

async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<ConfigTemplateDraft>) -> Result<Response, ApiError> {
    Write::new(app, caller).one_or_batch(batch, |items| Command::ConfigTemplates(op, items)).await
}

/// Notes beside each draft what is not as its format has it. What it does not say is what is there.
async fn note_faults(app: &App, mut batch: Batch<ConfigTemplateDraft>) -> Result<Batch<ConfigTemplateDraft>, ApiError> {
    let there: Vec<_> = {
        let catalog = app.node.state().catalog();
        let of =
            |item: &Result<ConfigTemplateDraft, Refusal>| catalog.templates.get(&item.as_ref().ok()?.name).cloned();
        batch.items.iter().map(of).collect()
    };
    let weight = batch.items.iter().flatten().filter_map(|draft| draft.content.as_ref()).map(String::len);
    let weight = weight.chain(there.iter().flatten().map(|template| template.content.len())).sum();
    let note = move || {
        batch.warnings.resize(batch.items.len(), Vec::new());
        for ((item, there), warnings) in batch.items.iter().zip(&there).zip(&mut batch.warnings) {
            let Ok(draft) = item else { continue };
            let kept = there.as_ref().map_or((Format::Text, ""), |template| (template.format, &template.content));
            let format = draft.given_format().unwrap_or(kept.0);
            if let Err(fault) = well_formed::check(format, draft.content.as_deref().unwrap_or(kept.1)) {
                warnings.push(format!("{fault}; as {} no file of it could be published like this", format.word()));
            }
        }
        batch
    };
    Ok(app.judge(weight, note).await?)
}
