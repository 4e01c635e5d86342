//! `thuban contract`: schemas and expressions for config files and rules, and a check of local files against them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};
use thuban_model::limits;

use super::documents::Document;
use super::errors::{Differences, Usage};
use super::find::InArgs;
use super::kinds::{Nature, placed};
use super::normal::normal;
use super::policies::SubjectArgs;
use super::remote::{CallArgs, Refused, Remote};
use super::tables::{Column, short, text, words, words_or_all};
use super::telling::{say, say_error};
use super::{accounts, yaml};

const CONTRACTS: &str = "/admin/v1/contracts";
const TEST: &str = "/admin/v1/contracts/test";

#[derive(Subcommand)]
pub(super) enum ContractCommand {
    /// List the contracts
    List(accounts::ListArgs),
    /// Create a contract
    Create(Box<ContractArgs>),
    /// Change the given fields of a contract
    Update(Box<ContractArgs>),
    /// Delete a contract; success also if it does not exist
    Delete {
        #[command(flatten)]
        call: CallArgs,
        /// Name of the contract
        name: String,
    },
    /// Check local files against the contracts of the cluster, for a pipeline; exit code 1 if one is refused
    Test(TestArgs),
}

#[derive(Args)]
pub(super) struct ContractArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Name of the contract
    name: String,
    #[command(flatten)]
    subject: SubjectArgs,
    /// warn or refuse [default for a new contract: warn]
    #[arg(long)]
    mode: Option<String>,
    /// File with a JSON Schema 2020-12, as JSON or YAML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rules", "rules_file"])]
    schema: Option<PathBuf>,
    /// CEL expression that must be true; may be repeated
    #[arg(long = "rule", value_name = "EXPRESSION", conflicts_with = "rules_file")]
    rules: Vec<String>,
    /// File with [{"expression", "message"}], as JSON or YAML
    #[arg(long, value_name = "FILE")]
    rules_file: Option<PathBuf>,
    #[arg(long)]
    comment: Option<String>,
}

#[derive(Args)]
pub(super) struct TestArgs {
    #[command(flatten)]
    at: InArgs,
    /// Group of the files [default: the name of each file's folder]
    #[arg(long)]
    group: Option<String>,
    /// Format of the files: json, yaml, toml, properties, xml, html or text [default: by the suffix of each]
    #[arg(long)]
    format: Option<String>,
    /// Files to check
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

const COLUMNS: &[Column] = &[
    ("name", |row| text(&row["name"])),
    ("namespace", |row| text(&row["namespace"])),
    ("names", |row| words(&row["names"])),
    ("kinds", |row| words_or_all(&row["kinds"])),
    ("mode", |row| text(&row["mode"])),
    ("by", |row| row["rules"].as_array().map_or_else(|| "schema".to_owned(), |rules| format!("{} rules", rules.len()))),
    ("comment", |row| short(&text(&row["comment"]))),
];

pub(super) async fn run(command: ContractCommand) -> anyhow::Result<()> {
    match command {
        ContractCommand::List(args) => accounts::list(&args, CONTRACTS, COLUMNS).await,
        ContractCommand::Create(args) => write(Method::POST, &args).await,
        ContractCommand::Update(args) => write(Method::PUT, &args).await,
        ContractCommand::Delete { call, name } => {
            let path = format!("{CONTRACTS}/delete");
            let answer = super::remote::call(&call, Method::POST, &path, Some(&json!([{ "name": name }]))).await?;
            accounts::tell(&answer, &format!("contract {name}"), "deleted")
        }
        ContractCommand::Test(args) => test(args).await,
    }
}

async fn write(method: Method, args: &ContractArgs) -> anyhow::Result<()> {
    let done = if method == Method::POST { "created" } else { "changed" };
    let answer = args.call.remote()?.batch(method, CONTRACTS, &json!([args.item()?])).await?;
    match answer.first().and_then(Refused::of) {
        Some(refused) => Err(refused.into()),
        None => accounts::tell(&answer[0], &format!("contract {}", args.name), done),
    }
}

impl ContractArgs {
    fn item(&self) -> anyhow::Result<Value> {
        let mut item = json!({ "name": self.name });
        self.subject.put_into(&mut item);
        for (member, given) in [("mode", &self.mode), ("comment", &self.comment)] {
            if let Some(given) = given {
                item[member] = json!(given);
            }
        }
        if let Some(path) = &self.schema {
            item["schema"] = read(path)?;
        }
        if let Some(path) = &self.rules_file {
            item["rules"] = read(path)?;
        }
        if !self.rules.is_empty() {
            item["rules"] = self.rules.iter().map(|rule| json!({ "expression": rule })).collect();
        }
        Ok(item)
    }
}

/// Reads a file with exactly one document.
fn read(path: &Path) -> anyhow::Result<Value> {
    let shown = path.display().to_string();
    let found = std::fs::read_to_string(path).with_context(|| shown.clone())?;
    let mut documents = yaml::read(&found).with_context(|| shown.clone())?;
    match (documents.pop(), documents.is_empty()) {
        (Some((_, document)), true) => Ok(document),
        _ => Err(Usage(format!("{shown}: one document is expected")).into()),
    }
}

async fn test(args: TestArgs) -> anyhow::Result<()> {
    let (remote, namespace) = args.at.remote()?;
    let mut items = Vec::new();
    for path in &args.files {
        let content = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let Some(group) = args.group.clone().or(folder) else {
            return Err(Usage(format!("{}: say its group with --group", path.display())).into());
        };
        let mut item = json!({ "namespace": namespace, "name": format!("{group}/{file}"), "content": content });
        if let Some(format) = &args.format {
            item["format"] = json!(format);
        }
        items.push((path.display().to_string(), item));
    }
    let refused = tried(&remote, &items, say).await?;
    if refused > 0 {
        return Err(Differences(format!("{refused} break a contract that refuses")).into());
    }
    say(&format!("{} files keep their contracts", items.len()));
    Ok(())
}

/// Checks the items against the contracts and reports each finding as `PLACE:LINE: MESSAGE`; returns the number
/// refused.
async fn tried(remote: &Remote, items: &[(String, Value)], tell: fn(&str)) -> anyhow::Result<usize> {
    let mut refused = 0;
    for part in items.chunks(limits::BATCH_ITEMS_MAX / 10) {
        let bodies: Vec<&Value> = part.iter().map(|(_, item)| item).collect();
        let answers = remote.batch(Method::POST, TEST, &json!(bodies)).await?;
        for ((place, _), answer) in part.iter().zip(&answers) {
            if let Some(why) = Refused::of(answer) {
                refused += 1;
                say_error(&format!("{place}: {why}"));
                continue;
            }
            let broken = answer["broken"].as_array().into_iter().flatten();
            let mut is_refused = false;
            for broken in broken {
                let refuses = broken["mode"] == "refuse";
                is_refused |= refuses;
                let line = broken["line"].as_u64().map(|line| format!("{line}:")).unwrap_or_default();
                let warning = if refuses { "" } else { "warning: " };
                let (contract, path) = (text(&broken["contract"]), text(&broken["path"]));
                tell(&format!("{place}:{line} {warning}contract {contract}: {path}: {}", text(&broken["message"])));
            }
            refused += usize::from(is_refused);
        }
    }
    Ok(refused)
}

/// Reports the documents that violate contracts; returns the number that could not be released.
pub(super) async fn try_documents(remote: &Remote, documents: &[Document], tell: fn(&str)) -> anyhow::Result<usize> {
    let mut items = Vec::new();
    for document in documents {
        let Ok(fields) = normal(document.kind, &document.key, &document.spec) else { continue };
        let place = format!("broken    {}: {}", document.place, placed(document.kind, &document.key));
        let namespace = &document.key.namespace;
        let item = match document.kind.nature {
            Nature::File => {
                let name = format!("{}/{}", document.key.group.as_deref().unwrap_or_default(), document.key.name);
                let (content, format) = (&fields["content"], &fields["format"]);
                json!({ "namespace": namespace, "name": name, "content": content, "format": format })
            }
            Nature::Rule(family) => {
                let mut body: Map<String, Value> = fields;
                body.insert("name".to_owned(), json!(document.key.name));
                body.insert("namespace".to_owned(), json!(namespace));
                json!({ "kind": family.word(), "namespace": namespace, "name": document.key.name, "body": body })
            }
            _ => continue,
        };
        items.push((place, item));
    }
    tried(remote, &items, tell).await
}
