//! `/config/v1`: the configuration centre, through which config gets in. Paths, bodies and codes
//! are the Polaris family's.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::App;
use super::auth::Caller;
use super::envelope;
use super::error::ApiError;
use super::extract::{Batch, Write};
use super::query::{Fresh, Query};
use super::view::{ConfigFileView, ConfigGroupView, ConfigReleaseView, FileStatus};
use crate::catalog::configs::{FileFilter, GroupFilter};
use crate::catalog::page::Listed;
use crate::catalog::{Command, Op};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFileDraft, ConfigGroupDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft, Tag};
use crate::model::name;
use crate::model::release::ClientLabel;

// ---- groups ----

/// A page of groups; 400103 for a bad page.
pub(super) async fn list_groups(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let filter = GroupFilter {
        namespace: query.name("namespace"),
        name: query.name("group").or_else(|| query.name("name")),
        business: query.text("business"),
        department: query.text("department"),
    };
    let page = query.page()?;
    let counted = {
        let catalog = app.node.state().catalog();
        catalog.configs.list_groups(&filter, page).map(|group| (catalog.configs.file_count_in(&group), group))
    };
    Ok(envelope::list("configFileGroups", &counted, |(files, group)| ConfigGroupView::new(group, *files)))
}

/// 200000; 400801 bad name; 400201 exists.
pub(super) async fn create_groups(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigGroupDraft>,
) -> Result<Response, ApiError> {
    write_groups(&app, &caller, Op::Create, batch.checked(ConfigGroupDraft::check)).await
}

/// 200000; 200002 nothing changed; 400202 missing.
pub(super) async fn update_groups(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigGroupDraft>,
) -> Result<Response, ApiError> {
    write_groups(&app, &caller, Op::Update, batch.checked(ConfigGroupDraft::check)).await
}

/// 200000, also if it was not there; 400201 has files.
pub(super) async fn delete_groups(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigGroupDraft>,
) -> Result<Response, ApiError> {
    write_groups(&app, &caller, Op::Delete, batch.checked(ConfigGroupDraft::check)).await
}

/// [`delete_groups`] for one group named in the query.
pub(super) async fn delete_group(app: State<App>, caller: Caller, query: Query) -> Result<Response, ApiError> {
    let group = query.get("group").map_or_else(|| query.required("name"), Ok)?.to_owned();
    let draft = ConfigGroupDraft {
        namespace: query.required("namespace")?.to_owned(),
        name: group,
        ..ConfigGroupDraft::default()
    };
    delete_groups(app, caller, Batch { items: vec![Ok(draft)], is_single: true }).await
}

async fn write_groups(
    app: &App,
    caller: &Caller,
    op: Op,
    batch: Batch<ConfigGroupDraft>,
) -> Result<Response, ApiError> {
    Write::new(app, caller).one_or_batch(batch, |items| Command::ConfigGroups(op, items)).await
}

// ---- files ----

/// The key that a query names; all three parts are needed.
fn key(query: &Query) -> Result<ConfigKey, ApiError> {
    let file = ["name", "file_name", "fileName"].iter().find_map(|key| query.get(key));
    let file = file.map_or_else(|| query.required("name"), Ok)?;
    Ok(ConfigKey::new(query.required("namespace")?, query.required("group")?, file))
}

/// 200000; 400202 missing.
pub(super) async fn get_file(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let key = key(&query)?;
    let (file, status) = {
        let catalog = app.node.state().catalog();
        let file = catalog.configs.file(&key).cloned().ok_or(Code::NotFoundResource)?;
        let status = FileStatus::of(&file, &catalog);
        (file, status)
    };
    Ok(envelope::single("configFile", &ConfigFileView::new(&file, status)))
}

/// A page of files, newest change first.
pub(super) async fn list_files(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let filter = FileFilter {
        namespace: query.name("namespace"),
        group: query.name("group"),
        file: query.name("name"),
        ..FileFilter::default()
    };
    let page = query.page()?;
    let listed = {
        let catalog = app.node.state().catalog();
        catalog.configs.list_files(&filter, page).map(|file| (FileStatus::of(&file, &catalog), file))
    };
    Ok(envelope::list("configFiles", &listed, |(status, file)| ConfigFileView::new(file, *status)))
}

fn check_file(app: &App) -> impl Fn(&ConfigFileDraft) -> Result<(), Refusal> {
    let content_chars_max = app.settings.config_content_chars_max;
    move |draft| draft.check(content_chars_max)
}

/// 200000; 400802, 400803, 400804 … bad field; 400201 exists. Missing namespace and group are made.
pub(super) async fn create_files(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigFileDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(check_file(&app));
    write_files(&app, &caller, Op::Create, batch).await
}

/// 200000; 200002 nothing changed; 400202 missing. Clients see nothing until it is published.
pub(super) async fn update_files(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigFileDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(check_file(&app));
    write_files(&app, &caller, Op::Update, batch).await
}

/// 200000, also if it was not there. The releases go with the file.
pub(super) async fn delete_files(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigFileDraft>,
) -> Result<Response, ApiError> {
    write_files(&app, &caller, Op::Delete, batch.checked(|draft| draft.key().check())).await
}

/// [`delete_files`] for one file named in the query.
pub(super) async fn delete_file(app: State<App>, caller: Caller, query: Query) -> Result<Response, ApiError> {
    let ConfigKey { namespace, group, file } = key(&query)?;
    let draft = ConfigFileDraft { namespace, group, name: file, ..ConfigFileDraft::default() };
    delete_files(app, caller, Batch { items: vec![Ok(draft)], is_single: true }).await
}

async fn write_files(app: &App, caller: &Caller, op: Op, batch: Batch<ConfigFileDraft>) -> Result<Response, ApiError> {
    Write::new(app, caller).one_or_batch(batch, |items| Command::ConfigFiles(op, items)).await
}

// ---- releases ----

/// 200000; 400202 no such file; 400201 the file has a release of this name; 409000 a gray release is
/// active; 400904 gray without labels.
pub(super) async fn publish(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigReleaseDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(ConfigReleaseDraft::check);
    Write::new(&app, &caller).one_or_batch(batch, Command::ConfigPublish).await
}

/// The body of `createandpub`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PublishBody {
    #[serde(alias = "releaseName")]
    release_name: Option<String>,
    namespace: String,
    group: String,
    #[serde(alias = "fileName", alias = "name")]
    file_name: String,
    content: Option<String>,
    comment: Option<String>,
    format: Option<String>,
    #[serde(alias = "releaseDescription")]
    release_description: Option<String>,
    #[serde(alias = "releaseType")]
    release_type: Option<String>,
    #[serde(rename = "betaLabels", alias = "beta_labels", alias = "client_labels")]
    beta_labels: Option<Vec<ClientLabel>>,
    tags: Option<Vec<Tag>>,
    md5: Option<String>,
}

impl From<PublishBody> for ConfigPublish {
    fn from(body: PublishBody) -> Self {
        let release = ConfigReleaseDraft {
            id: None,
            name: body.release_name,
            namespace: body.namespace.clone(),
            group: body.group.clone(),
            file_name: body.file_name.clone(),
            release_description: body.release_description,
            release_type: body.release_type,
            beta_labels: body.beta_labels,
        };
        let file = ConfigFileDraft {
            namespace: body.namespace,
            group: body.group,
            name: body.file_name,
            content: body.content,
            format: body.format,
            comment: body.comment,
            tags: body.tags,
        };
        ConfigPublish { file, release, md5: body.md5 }
    }
}

/// Writes the file and publishes it: both or neither. 200000; 400201 the release name is taken;
/// 409000 with `md5`, if another content is published.
pub(super) async fn create_and_publish(
    app: State<App>,
    caller: Caller,
    batch: Batch<PublishBody>,
) -> Result<Response, ApiError> {
    let content_chars_max = app.settings.config_content_chars_max;
    let items = batch.items.into_iter().map(|item| item.map(ConfigPublish::from)).collect();
    let batch = Batch { items, is_single: batch.is_single }.checked(|publish: &ConfigPublish| {
        publish.file.check(content_chars_max).and_then(|()| publish.release.check())
    });
    Write::new(&app, &caller).one_or_batch(batch, Command::ConfigCreateAndPublish).await
}

/// Per item 200000; 200002 it was stopped before; 400000 it is not gray; 400202 missing.
pub(super) async fn stop_gray(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigReleaseDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(ConfigReleaseDraft::check_named);
    Write::new(&app, &caller).batch(batch, Command::ConfigStopGray).await
}

/// Per item 200000; 200002 it is active; 400000 it is gray; 400202 missing.
pub(super) async fn roll_back(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigReleaseDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(ConfigReleaseDraft::check_named);
    Write::new(&app, &caller).batch(batch, Command::ConfigRollback).await
}

/// Per item 200000, also if it was not there; 400000 it is active.
pub(super) async fn delete_releases(
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigReleaseDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(ConfigReleaseDraft::check_named);
    Write::new(&app, &caller).batch(batch, Command::ConfigDeleteReleases).await
}

/// [`delete_releases`] for one release named in the query.
pub(super) async fn delete_release(app: State<App>, caller: Caller, query: Query) -> Result<Response, ApiError> {
    let ConfigKey { namespace, group, file } = release_key(&query)?;
    let name = Some(release_name(&query)?.to_owned());
    let draft = ConfigReleaseDraft { name, namespace, group, file_name: file, ..ConfigReleaseDraft::default() };
    delete_releases(app, caller, Batch { items: vec![Ok(draft)], is_single: true }).await
}

/// In queries about releases `name` is the release, so the file is `file_name` alone.
fn release_key(query: &Query) -> Result<ConfigKey, ApiError> {
    let file = query.get("fileName").map_or_else(|| query.required("file_name"), Ok)?;
    let key = ConfigKey::new(query.required("namespace")?, query.required("group")?, file);
    name::check_config_file(&key.file)?;
    Ok(key)
}

fn release_name(query: &Query) -> Result<&str, ApiError> {
    query.get("name").map_or_else(|| query.required("release_name"), Ok)
}

/// The named release, or without `release_name` the active one. 200000; 400202 missing.
pub(super) async fn get_release(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let key = release_key(&query)?;
    let release = {
        let catalog = app.node.state().catalog();
        match query.get("release_name").or_else(|| query.get("name")) {
            Some(name) => catalog.configs.release(&key, name).cloned(),
            None => catalog.configs.active_release(&key).cloned(),
        }
    };
    let release = release.ok_or(Code::NotFoundResource)?;
    Ok(envelope::single("configFileRelease", &ConfigReleaseView::new(&release)))
}

/// A page of releases of all matching files.
pub(super) async fn list_releases(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let filter = FileFilter {
        namespace: query.name("namespace"),
        group: query.name("group"),
        file: query.name("file_name").or_else(|| query.name("fileName")),
        release: query.name("release_name").or_else(|| query.name("name")),
        only_active: query.flag("only_active")?.unwrap_or(false),
    };
    let listed = app.node.state().catalog().configs.list_releases(&filter, query.page()?);
    Ok(envelope::list("configFileReleases", &listed, |release| ConfigReleaseView::new(release)))
}

/// All releases of one file, highest version first.
pub(super) async fn list_versions(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let rows = app.node.state().catalog().configs.versions_of(&release_key(&query)?);
    let listed = Listed { amount: rows.len(), rows };
    Ok(envelope::list("configFileReleases", &listed, |release| ConfigReleaseView::new(release)))
}
