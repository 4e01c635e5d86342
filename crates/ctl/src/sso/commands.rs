//! `thuban sso`: the identity providers of a cluster, and a test of one.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::remote::{CallArgs, EndpointArgs, JudgedTokenArgs};
use super::super::secret;
use super::super::tables::{Column, OutputFormat, table, text, words};
use super::super::telling::say;
use super::sign_in::{PROVIDERS, checked_name, providers};

#[derive(Subcommand)]
pub(crate) enum SsoCommand {
    /// List the identity providers at which people can sign in; needs no login
    List {
        #[command(flatten)]
        endpoint: EndpointArgs,
        /// Output format
        #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Test an identity provider step by step, and show the rights that a token gives; exit code 1 if a step fails
    Test(TestArgs),
}

#[derive(Args)]
pub(crate) struct TestArgs {
    /// Name of the provider
    name: String,
    #[command(flatten)]
    call: JudgedTokenArgs,
    /// File with a token of the provider, `-` for standard input: its claims, bindings and rights are shown
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

const COLUMNS: &[Column] = &[
    ("name", |row| text(&row["name"])),
    ("issuer", |row| text(&row["issuer"])),
    ("client of the command line", |row| text(&row["client_id"])),
    ("scopes", |row| words(&row["scopes"])),
];

pub(crate) async fn run(command: SsoCommand) -> anyhow::Result<()> {
    match command {
        SsoCommand::List { endpoint, output } => {
            let rows = providers(&endpoint.remote()?.without_token()).await?;
            match output {
                OutputFormat::Json => say(&serde_json::to_string_pretty(&rows)?),
                OutputFormat::Table => table(&rows, COLUMNS).iter().for_each(|line| say(line)),
            }
            Ok(())
        }
        SsoCommand::Test(args) => test(args).await,
    }
}

async fn test(args: TestArgs) -> anyhow::Result<()> {
    let TestArgs { name, call, token, output } = args;
    let path = format!("{PROVIDERS}/{}/test", checked_name(&name)?);
    let body = match token {
        Some(file) => json!({ "token": secret::read_file(&file)? }),
        None => json!({}),
    };
    let answer = CallArgs::from(call).remote()?.call(Method::POST, &path, Some(&body)).await?;
    let steps = answer["steps"].as_array().context("no steps in the answer")?;
    match output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(steps)?),
        OutputFormat::Table => steps.iter().for_each(|step| say(&line(step))),
    }
    match steps.iter().filter(|step| step["ok"] != true).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} steps failed", steps.len()),
    }
}

fn line(step: &Value) -> String {
    let mark = if step["ok"] == true { '✓' } else { '✗' };
    let detail = step["detail"].as_str().filter(|detail| !detail.is_empty());
    let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{mark} {}{detail}", text(&step["step"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_mark_and_its_reason() {
        for (step, expected) in [
            (json!({"step": "keys", "ok": true, "detail": "3 keys"}), "✓ keys: 3 keys"),
            (json!({"step": "discovery", "ok": false, "detail": "no answer"}), "✗ discovery: no answer"),
            (json!({"step": "clock", "ok": true, "detail": ""}), "✓ clock"),
            (json!({"step": "of a later version"}), "✗ of a later version"),
        ] {
            assert_eq!(line(&step), expected);
        }
    }
}
