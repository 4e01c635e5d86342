//! `thuban import`: config files of other systems, imported through the HTTP API.
//!
//! A source yields files; the command asks the cluster which are new, changed or equal, and changes something only with
//! `--yes`. A repeated run finds the files equal and does nothing, so an interrupted import is completed by the same
//! command.

mod apollo;
mod archives;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use thuban_model::config_file::{ConfigKey, Format, Tag, file_of_namespace};
use thuban_model::limits;
use url::form_urlencoded;

use super::errors::{Differences, Usage};
use super::remote::{CallArgs, Paging, Refused, answer_of, is_done};
use super::telling::{say, say_error};

const FILES: &str = "/config/v1/configfiles";
/// Rows per page of files, which include their contents.
const PAGE_ROWS: usize = 50;
/// Maximum bytes of contents in one call; a larger content is sent alone.
const SENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Subcommand)]
pub(super) enum ImportCommand {
    /// Import from an Apollo config service or an export of its portal: app id, cluster and namespace become
    /// group, namespace and file
    Apollo(Box<apollo::ApolloArgs>),
    /// Import from an export of Nacos: group and data id become group and file
    Nacos {
        #[command(flatten)]
        archive: ArchiveArgs,
        #[command(flatten)]
        into: IntoArgs,
    },
    /// Import from an export of Polaris or of `POST /config/v1/configfiles/export`: group/file
    Polaris {
        #[command(flatten)]
        archive: ArchiveArgs,
        /// Group of all files, for an archive without groups
        #[arg(long)]
        group: Option<String>,
        #[command(flatten)]
        into: IntoArgs,
    },
    /// Import from any archive of namespace/group/file
    Zip {
        /// Archive file
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        into: IntoArgs,
    },
}

#[derive(Args)]
pub(super) struct ArchiveArgs {
    /// Archive file
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Target namespace
    #[arg(long, default_value = "default")]
    to_namespace: String,
}

/// Treatment of the files found.
#[derive(Args)]
pub(super) struct IntoArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Import; without it, only show the changes, with exit code 1 if there are any
    #[arg(long)]
    yes: bool,
    /// Change nothing, even with --yes; exit code 1 if there are changes
    #[arg(long)]
    dry_run: bool,
    /// Keep existing files with a different content
    #[arg(long)]
    keep: bool,
    /// Save drafts only, publish nothing
    #[arg(long)]
    drafts: bool,
    /// Also publish malformed files
    #[arg(long, conflicts_with = "drafts")]
    force: bool,
}

/// A file of another system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FoundFile {
    key: ConfigKey,
    content: String,
    format: Option<Format>,
    comment: String,
    tags: Vec<Tag>,
}

impl FoundFile {
    fn new(key: ConfigKey, content: String) -> Self {
        FoundFile { key, content, ..FoundFile::default() }
    }

    fn display_name(&self) -> String {
        format!("{}/{}/{}", self.key.namespace, self.key.group, self.key.file)
    }
}

/// Files of a source, and those that cannot be imported.
#[derive(Debug, Default)]
struct ImportSource {
    files: Vec<FoundFile>,
    /// True for Apollo: file names are namespace names, which its clients find under several spellings.
    is_by_namespace: bool,
    left_out: Vec<String>,
}

/// Existing file of the cluster.
struct Existing {
    content: String,
    format: String,
    md5: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportStep {
    Create,
    Change,
    /// The file exists with another content and is kept.
    Keep,
}

pub(super) async fn run(command: ImportCommand) -> anyhow::Result<()> {
    let (source, into) = match command {
        ImportCommand::Apollo(args) => args.read().await?,
        ImportCommand::Nacos { archive, into } => {
            (archives::nacos(&read(&archive.file)?, &archive.to_namespace)?, into)
        }
        ImportCommand::Polaris { archive, group, into } => {
            (archives::polaris(&read(&archive.file)?, &archive.to_namespace, group.as_deref())?, into)
        }
        ImportCommand::Zip { file, into } => (archives::plain(&read(&file)?)?, into),
    };
    bring_in(source, &into).await
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))
}

async fn bring_in(mut source: ImportSource, into: &IntoArgs) -> anyhow::Result<()> {
    for what in &source.left_out {
        say(&format!("left out  {what}"));
    }
    if source.files.is_empty() {
        return Err(Usage("there is no file to import".to_owned()).into());
    }
    if source.is_by_namespace {
        let names = Box::pin(names_there(&source.files, into)).await?;
        source.files.iter_mut().for_each(|found| respell(found, &names));
    }
    let there = Box::pin(there(&source.files, into)).await?;
    let mut steps = Vec::new();
    let mut same = 0;
    for found in &source.files {
        let step = match there.get(&found.key) {
            None => ImportStep::Create,
            Some(there) if is_same(found, there) => {
                same += 1;
                continue;
            }
            Some(_) if into.keep => ImportStep::Keep,
            Some(_) => ImportStep::Change,
        };
        let word = match step {
            ImportStep::Create => "create",
            ImportStep::Change => "change",
            ImportStep::Keep => "keep",
        };
        say(&format!("{word:<8}  {}  {} bytes", found.display_name(), found.content.len()));
        steps.push((step, found));
    }
    let count = |step: ImportStep| steps.iter().filter(|(one, _)| *one == step).count();
    let (create, change, keep) = (count(ImportStep::Create), count(ImportStep::Change), count(ImportStep::Keep));
    say(&format!("{create} to create, {change} to change, {keep} kept as they are, {same} the same already"));
    steps.retain(|(step, _)| *step != ImportStep::Keep);
    if steps.is_empty() {
        return Ok(());
    }
    if into.dry_run || !into.yes {
        return Err(Differences::to_bring_in().into());
    }
    let refused = Box::pin(send(&steps, &there, into)).await?;
    say(&format!("{} done, {refused} refused", steps.len() - refused));
    if refused > 0 { Err(Refused::some(refused, steps.len()).into()) } else { Ok(()) }
}

fn is_same(found: &FoundFile, there: &Existing) -> bool {
    let read_as = |format: Format| Format::read_as(&found.key.file, format);
    let format = Format::of_word(&there.format).unwrap_or_default();
    found.content == there.content && found.format.is_none_or(|given| read_as(given) == read_as(format))
}

/// Renames a file to the spelling that the cluster uses.
fn respell(found: &mut FoundFile, names: &BTreeSet<ConfigKey>) {
    let ConfigKey { namespace, group, file } = &found.key;
    let start = ConfigKey::new(namespace.as_str(), group.as_str(), "");
    let of_group = names.range(start..).take_while(|key| key.namespace == *namespace && key.group == *group);
    found.key.file = file_of_namespace(file, of_group.map(|key| key.file.as_str()));
}

/// Returns the namespaces and groups of these files.
fn groups_of(files: &[FoundFile]) -> BTreeSet<(&String, &String)> {
    files.iter().map(|found| (&found.key.namespace, &found.key.group)).collect()
}

/// Returns the names of all files in the same groups of the cluster, released or not.
async fn names_there(files: &[FoundFile], into: &IntoArgs) -> anyhow::Result<BTreeSet<ConfigKey>> {
    let remote = into.call.remote()?;
    let mut names = BTreeSet::new();
    for (namespace, group) in groups_of(files) {
        let page = |paging: &Paging| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("namespace", namespace).append_pair("group", group);
            paging.ask(&mut query);
            format!("{FILES}/search?{}", query.finish())
        };
        let (rows, _) = remote.pages("configFiles", (limits::PAGE_ROWS_MAX, usize::MAX), page).await?;
        let name = |row: &Value| row["name"].as_str().unwrap_or_default().to_owned();
        names.extend(rows.iter().map(|row| ConfigKey::new(namespace.as_str(), group.as_str(), name(row))));
    }
    Ok(names)
}

/// Returns the cluster's files in the same groups: the published ones, or the drafts.
async fn there(files: &[FoundFile], into: &IntoArgs) -> anyhow::Result<BTreeMap<ConfigKey, Existing>> {
    let remote = into.call.remote()?;
    let mut all = BTreeMap::new();
    for (namespace, group) in groups_of(files) {
        let (path, element, file) = if into.drafts {
            (format!("{FILES}/search"), "configFiles", "name")
        } else {
            (format!("{FILES}/releases"), "configFileReleases", "fileName")
        };
        let page = |paging: &Paging| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("namespace", namespace).append_pair("group", group).append_pair("only_active", "true");
            query.append_pair("brief", "false");
            paging.ask(&mut query);
            format!("{path}?{}", query.finish())
        };
        let (rows, _) = remote.pages(element, (PAGE_ROWS, usize::MAX), page).await?;
        for row in rows.iter().filter(|row| row["releaseType"] != "gray") {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let key = ConfigKey::new(namespace.as_str(), group.as_str(), text(file));
            let md5 = row["md5"].as_str().map(str::to_owned);
            all.insert(key, Existing { content: text("content"), format: text("format"), md5 });
        }
    }
    Ok(all)
}

/// Sends the changes in batches; returns the number refused.
async fn send(
    steps: &[(ImportStep, &FoundFile)],
    there: &BTreeMap<ConfigKey, Existing>,
    into: &IntoArgs,
) -> anyhow::Result<usize> {
    let mut refused = 0;
    let mut rest = steps;
    while let Some((first, _)) = rest.first() {
        let (mut count, mut bytes) = (0, 0);
        for (step, found) in rest {
            bytes += found.content.len();
            let is_full = count == limits::BATCH_ITEMS_MAX || (count > 0 && bytes > SENT_BYTES_MAX);
            // Drafts are created and changed by different calls.
            if is_full || (into.drafts && step != first) {
                break;
            }
            count += 1;
        }
        let (part, after) = rest.split_at(count);
        rest = after;
        let (method, path) = match (into.drafts, first) {
            (false, _) => (Method::POST, format!("{FILES}/createandpub?force={}", into.force)),
            (true, ImportStep::Create) => (Method::POST, FILES.to_owned()),
            (true, _) => (Method::PUT, FILES.to_owned()),
        };
        let items: Vec<_> = part.iter().map(|(_, found)| item(found, there.get(&found.key), into.drafts)).collect();
        let answer = answer_of(&into.call, method, &path, &Value::Array(items)).await?;
        for ((_, found), outcome) in part.iter().zip(answer["responses"].as_array().into_iter().flatten()) {
            let code = outcome["code"].as_u64().unwrap_or_default();
            if !is_done(code) {
                refused += 1;
                let info = outcome["info"].as_str().unwrap_or("refused");
                say_error(&format!("refused   {}: {info} ({code})", found.display_name()));
            }
            for warning in outcome["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                say(&format!("warning   {}: {warning}", found.display_name()));
            }
        }
    }
    Ok(refused)
}

/// Returns the item to send. A publish replaces only the version that was compared.
fn item(found: &FoundFile, there: Option<&Existing>, is_draft: bool) -> Value {
    let ConfigKey { namespace, group, file } = &found.key;
    let mut item = json!({ "namespace": namespace, "group": group, "content": found.content });
    item[if is_draft { "name" } else { "file_name" }] = json!(file);
    if let Some(format) = found.format {
        item["format"] = json!(format.word());
    }
    if !found.comment.is_empty() {
        item["comment"] = json!(found.comment);
    }
    if !found.tags.is_empty() {
        item["tags"] = json!(found.tags);
    }
    if let Some(md5) = there.and_then(|there| there.md5.as_ref()).filter(|_| !is_draft) {
        item["md5"] = json!(md5);
    }
    item
}
