//! Bulk operations on config files: export as a zip archive, import, and copy to another namespace.
//!
//! Imports and copies write drafts, each authorized separately in apply; clients see nothing until they are published.
//! Each file has its own result, even if a later one fails.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::archive::ZipArchive;
use super::encryption;
use super::files::{FIELDS, KEY_FIELDS};
use crate::api::http::{ApiError, ApiResult, App, Caller, Doc, Fresh, Object, PROPOSED, Query, Shape, ZIP, envelope};
use crate::bundle::{self, Bundled, Limits};
use crate::catalog::configs::FileFilter;
use crate::catalog::page::Page;
use crate::catalog::{Catalog, Command, Op, Outcome};
use crate::model::code::{Code, Refusal, info_of};
use crate::model::config_file::{ConfigFile, ConfigFileDraft, ConfigKey, Format, Tag};
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::text::NameFilter;
use crate::openapi::Param;
use crate::operations::FAR;

const DOC: Doc = Doc::new("Config files");
const CONFLICT: Param = Param::word(
    "conflict_handling",
    "What becomes of a file that is there already: it stays as it is, or is replaced.",
    &["skip", "overwrite"],
);

/// Treatment of a file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Conflict {
    #[default]
    Skip,
    Overwrite,
}

impl Conflict {
    fn read(word: Option<&str>) -> Result<Conflict, ApiError> {
        match word {
            None | Some("skip") => Ok(Conflict::Skip),
            Some("overwrite") => Ok(Conflict::Overwrite),
            Some(_) => Err(ApiError::new(Code::InvalidParameter, "conflict_handling has to be skip or overwrite")),
        }
    }
}

/// Selection of the files of a namespace: all, those of some groups, or some of one group.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Selection {
    namespace: String,
    /// Groups; absent or empty for all.
    groups: Vec<String>,
    /// Files of the only group in `groups`; absent or empty for all.
    names: Vec<String>,
}

impl Selection {
    fn check(&self) -> Result<(), ApiError> {
        if self.namespace.is_empty() {
            return Err(ApiError::new(Code::InvalidParameter, "namespace is required"));
        }
        if !self.names.is_empty() && self.groups.len() != 1 {
            return Err(ApiError::new(Code::InvalidParameter, "names are those of one group: give it in groups"));
        }
        Ok(())
    }

    /// Returns the selected files that the caller may see, by group and name.
    fn find(&self, catalog: &Catalog, read_scope: ReadScope) -> Result<Vec<Arc<ConfigFile>>, ApiError> {
        let exact = |text: &String| NameFilter::Exact(text.clone());
        let one_group = Some(&self.groups).filter(|groups| groups.len() == 1).and_then(|groups| groups.first());
        let (namespace, group) = (Some(exact(&self.namespace)), one_group.map(exact));
        let filter = FileFilter { namespace, group, read_scope, ..FileFilter::default() };
        let mut files = catalog.configs.list_files(&filter, &Page::ALL).rows;
        files.retain(|file| {
            (self.groups.is_empty() || self.groups.contains(&file.key.group))
                && (self.names.is_empty() || self.names.contains(&file.key.file))
        });
        files.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let (count, bytes) = (files.len(), files.iter().map(|file| file.content.len()).sum::<usize>());
        if count == 0 {
            return Err(ApiError::new(Code::NotFoundResource, "no such config files"));
        }
        if bytes > limits::EXPORT_BYTES_MAX || count > limits::EXPORT_FILES_MAX {
            let (files_max, bytes_max) = (limits::EXPORT_FILES_MAX, limits::EXPORT_BYTES_MAX);
            let why =
                format!("{count} files with {bytes} bytes, at most {files_max} and {bytes_max}: name fewer groups");
            return Err(ApiError::new(Code::BadRequest, why));
        }
        Ok(files)
    }
}

pub(crate) const EXPORT: Doc = DOC
    .says(
        "Files as they are edited, as a zip archive in Polaris' layout: `group/file`, without the group where files \
         are named, and `META` with tags and comments. Encrypted files come as they are kept, sealed, and can be \
         imported where the data key is the same.",
    )
    .gives_raw(&[(200, ZIP, "The archive.")])
    .codes(&[&[Code::InvalidParameter, Code::BadRequest, Code::NotFoundResource, Code::TooManyWaiters]]);

pub(crate) async fn export(
    State(app): State<App>,
    _: Fresh,
    caller: Caller,
    Object(selection): Object<Selection>,
) -> ApiResult {
    selection.check()?;
    let find = move |catalog: &Catalog| selection.find(catalog, caller.read_scope()).map(|files| (selection, files));
    let archive = app.scan(FAR, find, |found| {
        let (selection, files) = found?;
        let bundled = |file: &Arc<ConfigFile>| Bundled {
            group: if selection.names.is_empty() { file.key.group.clone() } else { String::new() },
            name: file.key.file.clone(),
            // Stored form: encrypted contents stay encrypted.
            text: Ok(file.content.to_string()),
            sealed_for: file.encrypted.then(|| file.key.clone()),
            comment: Some(file.comment.clone()),
            tags: Some(file.tags.clone()),
            format: Some(file.format),
        };
        let bundled: Vec<_> = files.iter().map(bundled).collect();
        let archive = bundle::write_polaris(&bundled);
        let archive = archive.map_err(|error| ApiError::new(Code::ExecuteException, error.to_string()))?;
        Ok::<_, ApiError>((selection.namespace, archive))
    });
    let (namespace, archive) = archive.await??;
    let name: String = namespace.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let disposition = format!("attachment; filename=\"{name}.zip\"");
    Ok(([(CONTENT_TYPE, ZIP), (CONTENT_DISPOSITION, &disposition)], archive).into_response())
}

/// Result for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Became {
    Created,
    Overwritten,
    Skipped,
    Failed,
}

#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "ConfigFileName")]
struct Named {
    namespace: String,
    group: String,
    name: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigFileSaved")]
struct Saved {
    code: u32,
    info: String,
    result: Became,
    #[serde(flatten)]
    named: Named,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Results for all files: one list per result, and one list of all.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AllSaved {
    code: u32,
    info: String,
    amount: usize,
    size: usize,
    responses: Vec<Saved>,
    create_config_files: Vec<Named>,
    overwrite_config_files: Vec<Named>,
    skip_config_files: Vec<Named>,
    failed_config_files: Vec<Named>,
    /// Paths of entries that an operating system added to the archive.
    #[serde(rename = "left_out", skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

const SAVES: Doc = DOC.gives(Shape::whole::<AllSaved>()).codes(&[
    KEY_FIELDS,
    FIELDS,
    PROPOSED,
    encryption::CODES,
    &[Code::NoNeedUpdate, Code::BadRequest, Code::ParseException, Code::NotFoundResource, Code::NotAllowedAccess],
    &[Code::RequestTooLarge, Code::TooManyWaiters],
]);

pub(crate) const IMPORT: Doc = SAVES
    .says(
        "Saves the files of a zip archive in Polaris' layout, as drafts; each has its result. Nacos' and Apollo's \
         archives: `thuban import`.",
    )
    .query(&[&[
        Param::text("namespace", "Where the files go.").required(),
        Param::text("group", "The group of all files; without it paths begin with a group."),
        CONFLICT,
    ]]);

pub(crate) async fn import(
    State(app): State<App>,
    caller: Caller,
    query: Query,
    ZipArchive(archive): ZipArchive,
) -> ApiResult {
    let (namespace, group) = (query.required("namespace")?.to_owned(), query.text("group"));
    let conflict = Conflict::read(query.get("conflict_handling"))?;
    let limits = Limits {
        entries: limits::IMPORT_FILES_MAX,
        bytes: limits::IMPORT_BYTES_MAX,
        entry_bytes: (app.operations.bounds().config_content_chars_max as u64).saturating_mul(4),
    };
    let read = move || bundle::read_polaris(&archive, group.as_deref(), limits);
    let bundled = app.operations.on_scan_turn(read).await?;
    let (bundled, left_out) = bundled.map_err(|refused| ApiError::new(Code::BadRequest, refused.to_string()))?;
    let drafts = bundled.into_iter().map(|Bundled { group, name, text, sealed_for, comment, tags, format }| {
        let key = ConfigKey::new(namespace.as_str(), group, name);
        let text = text.map_err(|why| Refusal::new(Code::InvalidParameter, format!("the content is {why}")));
        let encrypted = sealed_for.is_some().then_some(true);
        let clear = text.and_then(|text| match sealed_for {
            Some(place) => Ok(app.operations.needed_content(&caller, &place, true, &text.as_str().into())?.to_string()),
            None => Ok(text),
        });
        (clear.map(|text| ConfigFileDraft { encrypted, ..draft_of(&key, text, comment, tags, format) }), key)
    });
    let drafts = drafts.map(|(draft, key)| (key, draft));
    save_all(&app, &caller, (drafts.collect(), left_out), conflict).await
}

fn draft_of(
    key: &ConfigKey,
    content: String,
    comment: Option<String>,
    tags: Option<Vec<Tag>>,
    format: Option<Format>,
) -> ConfigFileDraft {
    let ConfigKey { namespace, group, file } = key.clone();
    let format = format.map(|format| format.word().to_owned());
    let content = Some(content);
    ConfigFileDraft { namespace, group, name: file, content, format, comment, tags, ..ConfigFileDraft::default() }
}

/// Files to copy, and their target.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CopyOrder {
    namespace: String,
    /// Groups; absent or empty for all.
    groups: Vec<String>,
    /// Files of the only group in `groups`; absent or empty for all.
    names: Vec<String>,
    to_namespace: String,
    /// Target for a single group; without it files stay in groups of the same name.
    to_group: Option<String>,
    conflict_handling: Conflict,
}

pub(crate) const COPY: Doc = SAVES.says(
    "Copies files of a namespace, as they are edited, to another one, or of a group to another one, as drafts; \
         each has its result. Encrypted files are copied by who may edit them, and stay encrypted.",
);

pub(crate) async fn copy(
    State(app): State<App>,
    _: Fresh,
    caller: Caller,
    Object(order): Object<CopyOrder>,
) -> ApiResult {
    let CopyOrder { namespace, groups, names, to_namespace, to_group, conflict_handling } = order;
    let from = Selection { namespace, groups, names };
    from.check()?;
    if to_namespace.is_empty() {
        return Err(ApiError::new(Code::InvalidParameter, "to_namespace is required"));
    }
    if to_group.is_some() && from.groups.len() != 1 {
        return Err(ApiError::new(Code::InvalidParameter, "to_group is for one group: give it in groups"));
    }
    let by = caller.clone();
    let find = move |catalog: &Catalog| match from.find(catalog, by.read_scope()) {
        // Clients know that a file exists, but not its draft.
        Err(_) if from.find(catalog, by.client_sight()).is_ok() => {
            Err(ApiError::new(Code::NotAllowedAccess, "this needs read"))
        }
        found => found,
    };
    let files = app.scan(FAR, find, |files| files).await??;
    let drafts = files.iter().map(|file| {
        let group = to_group.as_ref().unwrap_or(&file.key.group);
        let key = ConfigKey::new(to_namespace.as_str(), group.as_str(), file.key.file.as_str());
        let (comment, tags) = (Some(file.comment.clone()), Some(file.tags.clone()));
        let clear = app.operations.needed_content(&caller, &file.key, file.encrypted, &file.content);
        let draft = clear.map(|clear| ConfigFileDraft {
            encrypted: file.encrypted.then_some(true),
            ..draft_of(&key, clear.to_string(), comment, tags, Some(file.format))
        });
        (key, draft)
    });
    save_all(&app, &caller, (drafts.collect(), Vec::new()), conflict_handling).await
}

/// Drafts by key, each parsed or refused, and the names that were left out.
type ReadFiles = (Vec<(ConfigKey, Result<ConfigFileDraft, Refusal>)>, Vec<String>);

/// Saves drafts in batches and answers with a result for each.
async fn save_all(app: &App, caller: &Caller, (drafts, left_out): ReadFiles, conflict: Conflict) -> ApiResult {
    let (keys, items): (Vec<_>, Vec<_>) = drafts.into_iter().unzip();
    let (items, warnings) = app.operations.judged_files(caller, items).await?;
    let mut saving = Saving { app, caller, conflict, failed: None };
    let mut became: Vec<(Became, Outcome)> = Vec::with_capacity(items.len());
    let mut part = Vec::new();
    let mut bytes = 0;
    for item in items {
        let refusal = match item {
            Ok(draft) => {
                bytes += draft.content.as_ref().map_or(0, String::len);
                part.push(draft);
                None
            }
            Err(refusal) => Some((Became::Failed, refusal.into())),
        };
        // Results are in order, so the files before a refused one are saved first.
        if refusal.is_some() || part.len() == limits::BATCH_ITEMS_MAX || bytes >= limits::BODY_BYTES_MAX {
            bytes = 0;
            became.extend(saving.save(std::mem::take(&mut part)).await);
            became.extend(refusal);
        }
    }
    became.extend(saving.save(part).await);
    Ok(import_response(keys, became, warnings, left_out))
}

struct Saving<'a> {
    app: &'a App,
    caller: &'a Caller,
    conflict: Conflict,
    /// Reason of the failed command; `None` while commands succeed.
    failed: Option<Refusal>,
}

impl Saving<'_> {
    async fn save(&mut self, drafts: Vec<ConfigFileDraft>) -> Vec<(Became, Outcome)> {
        let again = if self.conflict == Conflict::Overwrite { drafts.clone() } else { Vec::new() };
        let outcomes = self.propose(Op::Create, drafts).await;
        let mut became: Vec<_> = outcomes.into_iter().map(|outcome| (Became::Created, outcome)).collect();
        let is_there = |(_, outcome): &(Became, Outcome)| outcome.code == Code::ExistedResource;
        let there: Vec<usize> = (0..became.len()).filter(|at| is_there(&became[*at])).collect();
        let updates = there.iter().filter_map(|at| again.get(*at).cloned()).collect();
        let mut updated = self.propose(Op::Update, updates).await.into_iter();
        for at in there {
            let skipped = || Outcome { detail: "it is there already".to_owned(), ..Code::NoNeedUpdate.into() };
            became[at] =
                updated.next().map_or_else(|| (Became::Skipped, skipped()), |outcome| (Became::Overwritten, outcome));
        }
        for (became, outcome) in &mut became {
            match outcome.code {
                Code::NoNeedUpdate => *became = Became::Skipped,
                code if !code.is_success() => *became = Became::Failed,
                _ => {}
            }
        }
        became
    }

    /// Proposes one command. After a failed command the following ones are not proposed.
    async fn propose(&mut self, op: Op, drafts: Vec<ConfigFileDraft>) -> Vec<Outcome> {
        let count = drafts.len();
        if self.failed.is_none() && count > 0 {
            let items = drafts.into_iter().map(Ok).collect();
            match self.app.operations.write(self.caller, items, |drafts| Command::ConfigFiles(op, drafts)).await {
                Ok(outcomes) => return outcomes,
                Err(refusal) => self.failed = Some(refusal),
            }
        }
        let failed = self.failed.clone().unwrap_or_else(|| Code::ExecuteException.into());
        vec![failed.into(); count]
    }
}

fn import_response(
    keys: Vec<ConfigKey>,
    became: Vec<(Became, Outcome)>,
    warnings: Vec<Vec<String>>,
    left_out: Vec<String>,
) -> Response {
    let code = became.iter().map(|(_, outcome)| outcome.code).max().unwrap_or(Code::ExecuteSuccess);
    let saved = keys.into_iter().zip(became).zip(warnings).map(|((key, (result, outcome)), warnings)| Saved {
        code: outcome.code.number(),
        info: info_of(outcome.code, &outcome.detail),
        result,
        named: Named { namespace: key.namespace, group: key.group, name: key.file },
        warnings,
    });
    let responses: Vec<_> = saved.collect();
    let those = |result: Became| {
        responses.iter().filter(|saved| saved.result == result).map(|saved| saved.named.clone()).collect()
    };
    let all = AllSaved {
        code: code.number(),
        info: code.info().to_owned(),
        amount: responses.len(),
        size: responses.len(),
        create_config_files: those(Became::Created),
        overwrite_config_files: those(Became::Overwritten),
        skip_config_files: those(Became::Skipped),
        failed_config_files: those(Became::Failed),
        left_out,
        responses,
    };
    envelope::answer(code, &all)
}
