//! `/config/v1/configfiles`: drafts of config files. Clients see only their releases.

use axum::extract::State;

use super::CONTENTS;
use super::batch::FileBatch;
use super::encryption;
use crate::api::http::{
    ApiError, ApiResult, App, Batch, Caller, Doc, Fresh, NoBody, PAGING, PROPOSED, Query, REVISION, Shape, answer,
    envelope,
};
use crate::api::view::{ConfigFileView, FileStatus};
use crate::catalog::configs::FileFilter;
use crate::catalog::{Catalog, Op};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFileDraft, ConfigKey};
use crate::openapi::Param;
use crate::operations::FAR;

const DOC: Doc = Doc::new("Config files");
const WRITE: Doc = DOC.gives(Shape::one_or_batch::<ConfigFileView>("configFile"));
/// Codes that refuse the name of a file.
pub(crate) const KEY_FIELDS: &[Code] = &[
    Code::InvalidNamespaceName,
    Code::InvalidConfigFileGroupName,
    Code::InvalidConfigFileName,
    Code::InvalidParameter,
];
/// Codes that refuse the other fields of an item.
pub(crate) const FIELDS: &[Code] =
    &[Code::InvalidConfigFileContentLength, Code::InvalidConfigFileFormat, Code::InvalidConfigFileTags];
const FILTERS: &[Param] = &[
    Param::text("namespace", "Exact, or with `*` a glob that ignores case."),
    Param::text("group", "Exact, or with `*` a glob that ignores case."),
    Param::text("name", "Name of the file; with `*` a glob that ignores case."),
    Param::text(
        "content",
        "A text that the content of the file holds; letter case counts. Encrypted contents are never searched.",
    ),
];
/// Query keys for policies, as in the body of a bulk delete.
const PLEA: &[Param] = &[
    Param::text("request", "Asks others for their approval with this comment, where a policy gates the deletion."),
    Param::text("request_set", "With `request`: a word that acts share which are one request.").also(&["requestSet"]),
    Param::flag("hold", "With `request`: what is approved waits until it is run."),
    Param::text("emergency", "Reason, of 8 characters or more, to do it without approval or in a freeze."),
];
/// Query keys that [`key`] reads.
const KEY: &[Param] = &[
    Param::text("namespace", "Namespace of the file.").required(),
    Param::text("group", "Group of the file.").required(),
    Param::text("name", "Name of the file.").also(&["file_name", "fileName"]).required(),
];

/// Returns the key that a query names; all three parts are required.
fn key(query: &Query) -> Result<ConfigKey, ApiError> {
    let file = ["name", "file_name", "fileName"].iter().find_map(|key| query.get(key));
    let file = file.map_or_else(|| query.required("name"), Ok)?;
    Ok(ConfigKey::new(query.required("namespace")?, query.required("group")?, file))
}

pub(crate) const GET: Doc = DOC
    .says("One file; the content of one that is kept encrypted for who may edit it.")
    .query(&[KEY])
    .gives(Shape::single::<ConfigFileView>("configFile"))
    .codes(&[&[Code::NotFoundResource], encryption::READ_CODES]);

pub(crate) async fn get(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let key = key(&query)?;
    let (file, status) = {
        let catalog = app.node().state().catalog();
        let seen = caller.read_scope().sees(&key.namespace, &key.group);
        let file = catalog.configs.file(&key).filter(|_| seen).cloned();
        let file = file.ok_or_else(|| Refusal::missing(&key.placed()))?;
        let status = FileStatus::of(&file, &catalog);
        (file, status)
    };
    let content = app.operations.shown_content(&caller, &key, file.encrypted, &file.content)?;
    Ok(envelope::single("configFile", &ConfigFileView::new(&file, status).with_content(content.as_deref())))
}

pub(crate) const LIST: Doc = DOC
    .says("A page of files, newest change first, without the contents unless `brief=false` asks for them.")
    .query(&[FILTERS, &[CONTENTS], PAGING])
    .gives(Shape::list::<ConfigFileView>("configFiles"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let filter = FileFilter {
        namespace: query.name("namespace"),
        group: query.name("group"),
        file: query.name("name"),
        content: query.text("content"),
        read_scope: caller.read_scope(),
        ..FileFilter::default()
    };
    let (with_content, page) = (query.flag("brief")? == Some(false), query.page()?);
    let find = move |catalog: &Catalog| {
        catalog.configs.list_files(&filter, &page).map(|file| (FileStatus::of(&file, catalog), file))
    };
    // Even a few files may be megabytes of text.
    app.scan(FAR, find, move |listed| {
        envelope::list("configFiles", &listed, |(status, file)| {
            let view = ConfigFileView::new(file, *status);
            if with_content { view } else { view.with_content(None) }
        })
    })
    .await
}

pub(crate) const CREATE: Doc = WRITE
    .says(
        "Creates files, which clients see once published; a missing namespace and group are made. A content \
         that is not well-formed by its format is kept, and its answer has `warnings` with line and column. With \
         `encrypted` the content is kept encrypted under `--data-key-file`: no list, search, export or backup shows \
         it.",
    )
    .codes(&[KEY_FIELDS, FIELDS, encryption::CODES, &[Code::ExistedResource, Code::NotFoundResource]]);

pub(crate) const UPDATE: Doc = WRITE
    .says(
        "Updates files: an absent field stays. Clients see nothing of it until it is published. A content that is not \
         well-formed by its format is kept, and its answer has `warnings` with line and column. `encrypted` turns \
         encryption on or off for the draft and for what is released of it from then on.",
    )
    .codes(&[KEY_FIELDS, FIELDS, encryption::CODES, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(crate) async fn save(
    op: Op,
    app: State<App>,
    caller: Caller,
    FileBatch(batch): FileBatch<ConfigFileDraft>,
) -> ApiResult {
    write(op, app, caller, batch).await
}

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes files with their releases; one that is not there is success.")
    .codes(&[KEY_FIELDS, &[Code::DataConflict]]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, batch: Batch<ConfigFileDraft>) -> ApiResult {
    let (outcomes, told) = app.operations.config_files(&caller, op, batch.items).await?;
    Ok(answer::one_or_batch(&app, outcomes, joined(batch.warnings, told), batch.is_single))
}

pub(crate) const DELETE_ONE: Doc = WRITE
    .says("Deletes one file with its releases.")
    .query(&[KEY, &[REVISION], PLEA])
    .codes(&[KEY_FIELDS, &[Code::DataConflict], PROPOSED]);

pub(crate) async fn delete_one(app: State<App>, caller: Caller, query: Query, _: NoBody) -> ApiResult {
    let ConfigKey { namespace, group, file } = key(&query)?;
    let draft = ConfigFileDraft {
        namespace,
        group,
        name: file,
        revision: query.text(REVISION.name),
        request: query.text("request"),
        request_set: query.text("request_set").or_else(|| query.text("requestSet")),
        hold: query.flag("hold")?,
        emergency: query.text("emergency"),
        ..ConfigFileDraft::default()
    };
    write(Op::Delete, app, caller, Batch::of_one(draft)).await
}

/// Appends to the warnings of each item those about its publish.
pub(super) fn joined(warnings: Vec<Vec<String>>, published: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let own = warnings.into_iter().chain(std::iter::repeat_with(Vec::new));
    own.zip(published).map(|(own, published)| [own, published].concat()).collect()
}
