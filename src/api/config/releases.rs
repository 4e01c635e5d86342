//! `/config/v1/configfiles/release…`: publishing, lists of releases, and rollback.

use std::sync::Arc;

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::CONTENTS;
use super::batch::FileBatch;
use super::encryption;
use super::files::{FIELDS as FILE_FIELDS, KEY_FIELDS, joined};
use super::force::Force;
use crate::api::http::{
    ApiError, ApiResult, App, Batch, Caller, Doc, Fresh, NoBody, PAGING, PROPOSED, Query, Shape, answer, envelope,
};
use crate::api::releases::answer_history;
use crate::api::view::{ConfigReleaseView, EventView};
use crate::catalog::Catalog;
use crate::catalog::configs::FileFilter;
use crate::catalog::history::Thing;
use crate::catalog::page::{Listed, Page};
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFileDraft, ConfigKey, ConfigPublish, ConfigRelease, ConfigReleaseDraft, Tag};
use crate::model::content::Content;
use crate::model::release::{GivenTime, ReleaseOp};
use crate::model::rollout::RolloutPlan;
use crate::model::{limits, name};
use crate::openapi::Param;
use crate::operations::FAR;

const DOC: Doc = Doc::new("Config releases");
const WRITE: Doc = DOC.gives(Shape::batch::<ConfigReleaseView>("configFileRelease"));
const FILTERS: &[Param] = &[
    Param::text("namespace", "Exact, or with `*` a glob that ignores case."),
    Param::text("group", "Exact, or with `*` a glob that ignores case."),
    Param::text("file_name", "Exact, or with `*` a glob that ignores case.").also(&["fileName"]),
    Param::text("release_name", "Exact, or with `*` a glob that ignores case.").also(&["name"]),
    Param::flag("only_active", "Only what clients see."),
];
/// Codes that refuse the name of a release, or the labels of the draft.
const NAMED: &[Code] = &[
    Code::InvalidNamespaceName,
    Code::InvalidConfigFileGroupName,
    Code::InvalidConfigFileName,
    Code::InvalidParameter,
    Code::InvalidMatchRule,
];
/// Query keys that [`key`] reads.
pub(crate) const KEY: &[Param] = &[
    Param::text("namespace", "Namespace of the file.").required(),
    Param::text("group", "Group of the file.").required(),
    Param::text("file_name", "Name of the file.").also(&["fileName"]).required(),
];
const RELEASE: Param = Param::text("release_name", "Name of the release.").also(&["name"]);

/// Codes that refuse a publish.
const PUBLISHED: &[Code] =
    &[Code::ExistedResource, Code::DataConflict, Code::NotMatchContentToFormat, Code::ContractBroken, Code::TooMany];

pub(crate) const PUBLISH: Doc = DOC
    .says(
        "Publishes files as they stand, if they are well-formed by their format; without a name, one is made. With \
         `md5`, only if that is of the published content.",
    )
    .gives(Shape::one_or_batch::<ConfigReleaseView>("configFileRelease"))
    .codes(&[NAMED, PUBLISHED, encryption::READ_CODES, &[Code::NotFoundResource]]);

pub(crate) async fn publish(
    app: State<App>,
    caller: Caller,
    force: Force,
    batch: Batch<ConfigReleaseDraft>,
) -> ApiResult {
    let (outcomes, told) = app.operations.publish_files(&caller, batch.items, force.0).await?;
    Ok(answer::one_or_batch(&app, outcomes, joined(batch.warnings, told), batch.is_single))
}

/// A config file and the options of its publish.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PublishBody {
    /// Name of the release, 1 to 128 characters; generated from file and time if absent.
    #[serde(alias = "releaseName")]
    release_name: Option<String>,
    #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
    namespace: String,
    #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
    group: String,
    #[serde(alias = "fileName", alias = "name")]
    file_name: String,
    /// New content; if absent, the content is unchanged.
    content: Option<String>,
    /// Encryption of the content from now on; if absent, unchanged.
    encrypted: Option<bool>,
    /// Algorithm: `XChaCha20-Poly1305`, the default and only one.
    #[serde(rename = "encryptAlgo", alias = "encrypt_algo")]
    encrypt_algo: Option<String>,
    /// Comment for the history, at most 1024 characters.
    comment: Option<String>,
    /// `text`, `yaml`, `xml`, `json`, `html`, `properties` or `toml`; if absent, chosen by the suffix of the name.
    format: Option<String>,
    /// Description of the release, at most 1024 characters.
    #[serde(alias = "releaseDescription")]
    release_description: Option<String>,
    /// `normal` (default) or `gray`.
    #[serde(alias = "releaseType")]
    release_type: Option<String>,
    /// Labels of the clients of a gray release: all have to match, and there must be one or more.
    #[serde(rename = "betaLabels", alias = "beta_labels", alias = "client_labels")]
    beta_labels: Option<Vec<ClientLabel>>,
    /// Share of the clients of a gray release, in addition to or instead of labels.
    #[serde(alias = "clientPercent")]
    client_percent: Option<ClientPercent>,
    /// Steps by which the share of a gray release grows, instead of `client_percent`.
    plan: Option<RolloutPlan>,
    /// Time of a planned publish of this content: RFC 3339, or `YYYY-MM-DD HH:MM:SS` in UTC.
    #[serde(alias = "publishAt")]
    publish_at: Option<GivenTime>,
    tags: Option<Vec<Tag>>,
    /// Expected md5 of the active content; the item is refused with 409000 if it differs.
    md5: Option<String>,
    /// Expected revision of the draft; the item is refused with 409000 if it differs.
    revision: Option<String>,
    /// Comment of a request for approval, made if a policy gates the act; nothing is written before the approval.
    request: Option<String>,
    /// Key of at most 64 characters, with `request`: acts of one person with the same key form one request, which is
    /// decided as a whole.
    request_set: Option<String>,
    /// True to put the approved request on hold until it is run; with `request`.
    hold: Option<bool>,
    /// Reason, of 8 characters or more, to perform a gated act without approval or during a freeze.
    emergency: Option<String>,
}

impl From<PublishBody> for ConfigPublish {
    fn from(body: PublishBody) -> Self {
        let release = ConfigReleaseDraft {
            name: body.release_name,
            namespace: body.namespace.clone(),
            group: body.group.clone(),
            file_name: body.file_name.clone(),
            release_description: body.release_description,
            release_type: body.release_type,
            beta_labels: body.beta_labels,
            client_percent: body.client_percent,
            plan: body.plan,
            publish_at: body.publish_at,
            request: body.request,
            request_set: body.request_set,
            hold: body.hold,
            emergency: body.emergency,
            ..ConfigReleaseDraft::default()
        };
        let file = ConfigFileDraft {
            namespace: body.namespace,
            group: body.group,
            name: body.file_name,
            content: body.content,
            format: body.format,
            comment: body.comment,
            tags: body.tags,
            revision: body.revision,
            encrypted: body.encrypted,
            encrypt_algo: body.encrypt_algo,
            ..ConfigFileDraft::default()
        };
        ConfigPublish { file, release, md5: body.md5 }
    }
}

pub(crate) const CREATE_AND_PUBLISH: Doc = DOC
    .says(
        "Writes files and publishes them if they are well-formed by their format: both or neither. With `md5`, only \
         if that is of the published content.",
    )
    .gives(Shape::one_or_batch::<ConfigReleaseView>("configFileRelease"))
    .codes(&[KEY_FIELDS, FILE_FIELDS, PUBLISHED, encryption::CODES, &[Code::InvalidMatchRule]]);

pub(crate) async fn create_and_publish(
    app: State<App>,
    caller: Caller,
    force: Force,
    FileBatch(batch): FileBatch<PublishBody>,
) -> ApiResult {
    let batch = batch.made(|body| Ok(ConfigPublish::from(body)));
    let (outcomes, told) = app.operations.create_and_publish_files(&caller, batch.items, force.0).await?;
    Ok(answer::one_or_batch(&app, outcomes, joined(batch.warnings, told), batch.is_single))
}

pub(crate) const STOP_GRAY: Doc = WRITE
    .says("Stops gray releases: their clients fall back to the normal one at once.")
    .codes(&[NAMED, &[Code::NoNeedUpdate, Code::BadRequest, Code::NotFoundResource]]);

pub(crate) const PROMOTE: Doc = WRITE
    .says("Makes normal releases of active gray ones, in one step: their clients never step back.")
    .codes(&[NAMED, &[Code::BadRequest, Code::ContractBroken, Code::ExistedResource, Code::NotFoundResource]]);

pub(crate) const WITHDRAW: Doc = WRITE
    .says("Takes active normal releases from all clients; with `to_previous`, back to the one before each.")
    .codes(&[NAMED, &[Code::NoNeedUpdate, Code::BadRequest, Code::NotFoundResource]]);

pub(crate) const ROLLOUT: Doc = WRITE
    .says("Pauses, resumes, advances or stops the rollouts of gray releases that were published with a plan.")
    .codes(&[NAMED, &[Code::NoNeedUpdate, Code::BadRequest, Code::NotFoundResource]]);

pub(crate) const SIGNAL: Doc = WRITE
    .says("Tells rollouts with a guard of the kind `signal` how they go: `ok: false` stops them.")
    .codes(&[NAMED, &[Code::BadRequest, Code::NotFoundResource]]);

pub(crate) const HISTORY: Doc = DOC
    .says("The release history of one file, newest first: the newest 200 events.")
    .query(&[KEY, PAGING])
    .gives(Shape::releases::<EventView>("data"))
    .codes(&[&[Code::InvalidConfigFileName]]);

pub(crate) async fn history(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (key, read_scope, page) = (key(&query)?, caller.read_scope(), query.page()?);
    let find = move |catalog: &Catalog| {
        if !read_scope.sees(&key.namespace, &key.group) {
            return Ok((Listed::amount(0), Some(0)));
        }
        let removed_through = catalog.configs.removed_through_version(&key);
        let events = catalog.history.numbered(&Thing::File(key));
        Ok((Listed::cut(events.iter(), &page), Some(removed_through)))
    };
    answer_history(&app, find).await
}

pub(crate) const ROLL_BACK: Doc = WRITE
    .says("Makes earlier releases active again, under a new version.")
    .codes(&[NAMED, &[Code::NoNeedUpdate, Code::BadRequest, Code::NotFoundResource]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes releases that are not active; one that is not there is success.")
    .codes(&[NAMED, &[Code::BadRequest]]);

pub(crate) async fn change(
    op: ReleaseOp,
    app: State<App>,
    caller: Caller,
    batch: Batch<ConfigReleaseDraft>,
) -> ApiResult {
    let outcomes = app.operations.change_config_releases(&caller, op, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

pub(crate) const DELETE_ONE: Doc = WRITE
    .says("Deletes one release that is not active.")
    .query(&[KEY, &[RELEASE.required()]])
    .codes(&[NAMED, &[Code::BadRequest], PROPOSED]);

pub(crate) async fn delete_one(app: State<App>, caller: Caller, query: Query, _: NoBody) -> ApiResult {
    let ConfigKey { namespace, group, file } = key(&query)?;
    let name = Some(release_name(&query)?.to_owned());
    let draft = ConfigReleaseDraft { name, namespace, group, file_name: file, ..ConfigReleaseDraft::default() };
    change(ReleaseOp::Delete, app, caller, Batch::of_one(draft)).await
}

/// Returns the file that a query names. In queries about releases `name` is the release, so the file is `file_name`
/// only.
pub(crate) fn key(query: &Query) -> Result<ConfigKey, ApiError> {
    let file = query.get("fileName").map_or_else(|| query.required("file_name"), Ok)?;
    let key = ConfigKey::new(query.required("namespace")?, query.required("group")?, file);
    name::check_config_file(&key.file)?;
    Ok(key)
}

fn release_name(query: &Query) -> Result<&str, ApiError> {
    query.get("name").map_or_else(|| query.required("release_name"), Ok)
}

pub(crate) const GET: Doc = DOC
    .says(
        "The named release of a file, or without a name the active one; the content of one that is kept encrypted for \
         who may edit the file.",
    )
    .query(&[KEY, &[RELEASE]])
    .gives(Shape::single::<ConfigReleaseView>("configFileRelease"))
    .codes(&[&[Code::InvalidConfigFileName, Code::NotFoundResource], encryption::READ_CODES]);

pub(crate) async fn get(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (key, name) = (key(&query)?, query.get("release_name").or_else(|| query.get("name")));
    let release = {
        let catalog = app.node().state().catalog();
        match name {
            Some(name) => catalog.configs.release(&key, name).cloned(),
            None => catalog.configs.active_release(&key).cloned(),
        }
    };
    let seen = caller.read_scope().sees(&key.namespace, &key.group);
    let release = release.filter(|_| seen).ok_or_else(|| {
        let which = name.map_or_else(|| "live release".to_owned(), |name| format!("release {name}"));
        Refusal::missing(&format!("{which} of {}", key.placed()))
    })?;
    let is_in_memory = release.content.text().is_some();
    let show = move |app: &App| {
        let content = app.operations.shown_content(&caller, &key, release.encrypted, &release.content)?;
        Ok(envelope::single("configFileRelease", &ConfigReleaseView::new(&release).with_content(content.as_deref())))
    };
    if is_in_memory {
        return show(&app);
    }
    let reader = app.clone();
    app.operations.on_scan_turn(move || show(&reader)).await?
}

pub(crate) const LIST: Doc = DOC
    .says("A page of releases of all matching files, without the contents unless `brief=false` asks for them.")
    .query(&[FILTERS, &[CONTENTS], PAGING])
    .gives(Shape::releases::<ConfigReleaseView>("configFileReleases"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let filter = FileFilter {
        namespace: query.name("namespace"),
        group: query.name("group"),
        file: query.name("file_name").or_else(|| query.name("fileName")),
        content: None,
        release: query.name("release_name").or_else(|| query.name("name")),
        only_active: query.flag("only_active")?.unwrap_or(false),
        read_scope: caller.read_scope(),
    };
    let (with_content, page) = (query.flag("brief")? == Some(false), query.page()?);
    let find = move |catalog: &Catalog| {
        (catalog.configs.list_releases(&filter, &page), catalog.configs.removed_through_version_of(&filter))
    };
    answer_list(&app, with_content, find).await
}

pub(crate) const VERSIONS: Doc = DOC
    .says(
        "The releases of one file, highest version first: without any of `offset`, `limit`, `order` and `after` all \
         of them, but not more than 1000. `amount` counts all.",
    )
    .query(&[KEY, &[CONTENTS], PAGING])
    .gives(Shape::releases::<ConfigReleaseView>("configFileReleases"))
    .codes(&[&[Code::InvalidConfigFileName]]);

pub(crate) async fn versions(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (key, read_scope) = (key(&query)?, caller.read_scope());
    let with_content = query.flag("brief")? == Some(false);
    let is_paged = with_content || ["offset", "limit", "order", "after"].iter().any(|key| query.get(key).is_some());
    let unpaged = Page::first(limits::VERSIONS_UNPAGED_MAX);
    let page = if is_paged { query.page()? } else { unpaged };
    let find = move |catalog: &Catalog| {
        if !read_scope.sees(&key.namespace, &key.group) {
            return (Listed::amount(0), Some(0));
        }
        let rows = catalog.configs.versions_of(&key);
        (Listed::cut(rows.iter(), &page), Some(catalog.configs.removed_through_version(&key)))
    };
    answer_list(&app, with_content, find).await
}

/// Answers with a list of releases, computed off the async threads because even a few may be megabytes of text.
async fn answer_list(
    app: &App,
    with_content: bool,
    find: impl FnOnce(&Catalog) -> (Listed<Arc<ConfigRelease>>, Option<u64>) + Send + 'static,
) -> ApiResult {
    let reader = app.clone();
    app.scan(FAR, find, move |(listed, removed_through)| {
        envelope::list_releases("configFileReleases", &listed, removed_through, |release| {
            let is_shown = with_content && !release.encrypted;
            // A release that was deleted meanwhile has no content.
            let content = is_shown.then(|| reader.operations.whole(&release.content).ok()).flatten();
            ReleaseWithContent { release, content }
        })
    })
    .await
}

/// A release whose content is read while the answer is written, and not cached.
struct ReleaseWithContent<'a> {
    release: &'a ConfigRelease,
    content: Option<Content>,
}

impl Serialize for ReleaseWithContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ConfigReleaseView::new(self.release).with_content(self.content.as_deref()).serialize(serializer)
    }
}
