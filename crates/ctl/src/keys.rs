//! `thuban key`: access keys with which the config clients of an app sign their requests.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

use super::remote::{CallArgs, call};
use super::tables::{Column, short, text, words};
use super::telling::say;
use super::{accounts, secret};

const KEYS: &str = "/auth/v1/accesskeys";

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Mode {
    /// Signatures are ignored
    Off,
    /// Unsigned requests are accepted and counted
    Observe,
    /// Unsigned requests are refused
    Enforce,
}

#[derive(Args)]
pub(super) struct NamedArgs {
    /// App id of the clients: the group of their files
    app: String,
    /// Name of the key
    name: String,
    #[command(flatten)]
    call: CallArgs,
}

impl NamedArgs {
    fn text(&self) -> String {
        format!("key {} of {}", self.name, self.app)
    }
}

#[derive(Args)]
pub(super) struct GivenArgs {
    /// Treatment of requests without a valid signature
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    #[arg(long)]
    comment: Option<String>,
    /// Namespace of the files that the key can read; a trailing * matches any rest; may be repeated [default for a new
    /// key: all]
    #[arg(long = "for-namespace", value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// File with the secret, `-` for standard input: without it a new key gets a generated secret; for an existing key
    /// it replaces the old one at once
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(super) enum KeyCommand {
    /// List the keys, never the secrets
    List(accounts::ListArgs),
    /// Create a key; its secret is printed once
    Create {
        #[command(flatten)]
        named: NamedArgs,
        #[command(flatten)]
        given: GivenArgs,
    },
    /// Change the given fields of a key
    Set {
        #[command(flatten)]
        named: NamedArgs,
        #[command(flatten)]
        given: GivenArgs,
    },
    /// Delete a key on every node at once; success also if it does not exist
    Delete {
        #[command(flatten)]
        named: NamedArgs,
    },
}

const COLUMNS: &[Column] = &[
    ("app", |key| text(&key["app_id"])),
    ("name", |key| text(&key["name"])),
    ("mode", |key| text(&key["mode"])),
    ("of", |key| Some(words(&key["namespaces"])).filter(|words| words != "-").unwrap_or_else(|| "*".to_owned())),
    ("modified (UTC)", |key| text(&key["mtime"])),
    ("by", |key| text(&key["modify_by"])),
    ("comment", |key| short(&text(&key["comment"]))),
];

/// Builds the body of a write from the given options.
fn item(named: &NamedArgs, GivenArgs { mode, comment, namespaces, secret_file }: GivenArgs) -> anyhow::Result<Value> {
    let mut item = json!({ "app_id": named.app, "name": named.name });
    if let Some(mode) = mode.and_then(|mode| mode.to_possible_value()) {
        item["mode"] = json!(mode.get_name());
    }
    if let Some(comment) = comment {
        item["comment"] = json!(comment);
    }
    if !namespaces.is_empty() {
        item["namespaces"] = json!(namespaces);
    }
    if let Some(file) = secret_file {
        item["secret"] = json!(secret::read_file(&file)?);
    }
    Ok(json!([item]))
}

pub(super) async fn run(command: KeyCommand) -> anyhow::Result<()> {
    match command {
        KeyCommand::List(args) => accounts::list(&args, KEYS, COLUMNS).await,
        KeyCommand::Create { named, given } => {
            let item = item(&named, given)?;
            let answer = call(&named.call, Method::POST, KEYS, Some(&item)).await?;
            let made = &answer["responses"][0]["accessKey"];
            say(made["secret"].as_str().context("no secret in the answer")?);
            Ok(())
        }
        KeyCommand::Set { named, given } => {
            let item = item(&named, given)?;
            accounts::tell(&call(&named.call, Method::PUT, KEYS, Some(&item)).await?, &named.text(), "changed")
        }
        KeyCommand::Delete { named } => {
            let item = json!([{ "app_id": named.app, "name": named.name }]);
            let answer = call(&named.call, Method::POST, "/auth/v1/accesskeys/delete", Some(&item)).await?;
            accounts::tell(&answer, &named.text(), "deleted")
        }
    }
}
