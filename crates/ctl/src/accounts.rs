//! `thuban user`, `thuban token` and `thuban role`: accounts of a running cluster and their grants.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};
use thuban_model::grant::{Grant, Role};
use thuban_model::limits;
use url::form_urlencoded;

use super::holders::HolderArgs;
use super::remote::{CallArgs, Paging, call};
use super::secret;
use super::tables::{Column, OutputFormat, table, text, words};
use super::telling::say;

const USERS: &str = "/auth/v1/users";
const TOKENS: &str = "/auth/v1/tokens";

#[derive(Subcommand)]
pub(super) enum UserCommand {
    /// List the users and their grants
    List(ListArgs),
    /// Create a user, or grant roles to a person of an identity provider
    Add {
        #[command(flatten)]
        holder: HolderArgs,
        #[command(flatten)]
        call: CallArgs,
        #[command(flatten)]
        granted: GrantArgs,
        #[arg(long)]
        comment: Option<String>,
        /// File with the password, `-` for standard input [default: prompt]
        #[arg(long, value_name = "FILE", conflicts_with = "provider")]
        password_file: Option<PathBuf>,
    },
    /// Change the given fields; new grants replace all old ones
    Set {
        #[command(flatten)]
        holder: HolderArgs,
        #[command(flatten)]
        call: CallArgs,
        #[command(flatten)]
        granted: GrantArgs,
        /// Remove all grants
        #[arg(long, conflicts_with = "grants")]
        no_grants: bool,
        #[arg(long)]
        comment: Option<String>,
        /// Disable the user and end all its logins
        #[arg(long, conflicts_with = "enable")]
        disable: bool,
        #[arg(long)]
        enable: bool,
    },
    /// Delete a user and end its logins; success also if it does not exist
    Delete {
        #[command(flatten)]
        holder: HolderArgs,
        #[command(flatten)]
        call: CallArgs,
    },
    /// Change your own password with the old one, or as an administrator another user's
    Passwd {
        /// User [default: yourself]
        name: Option<String>,
        #[command(flatten)]
        call: CallArgs,
        /// File with the old password, for your own [default: prompt]
        #[arg(long, value_name = "FILE", conflicts_with = "name")]
        old_password_file: Option<PathBuf>,
        /// File with the new password, `-` for standard input [default: prompt]
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
pub(super) enum TokenCommand {
    /// List the service tokens, never the secrets
    List(ListArgs),
    /// Create a token for a program; its secret is printed once
    Create {
        name: String,
        #[command(flatten)]
        call: CallArgs,
        #[command(flatten)]
        granted: GrantArgs,
        /// Validity in seconds; 0 for ever
        #[arg(long, default_value_t = 0)]
        expires_in_s: u64,
        /// Network or address that may use it, e.g. 10.0.0.0/8; may be repeated [default: any]
        #[arg(long = "network", value_name = "NETWORK")]
        networks: Vec<String>,
        /// Output format; a table prints only the secret
        #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Change the given fields of a token; new grants and networks replace all old ones
    Update {
        name: String,
        #[command(flatten)]
        call: CallArgs,
        #[command(flatten)]
        granted: GrantArgs,
        /// Remove all grants
        #[arg(long, conflicts_with = "grants")]
        no_grants: bool,
        /// Validity in seconds from now on; 0 for ever
        #[arg(long)]
        expires_in_s: Option<u64>,
        /// Network or address that may use it, e.g. 10.0.0.0/8; may be repeated
        #[arg(long = "network", value_name = "NETWORK")]
        networks: Vec<String>,
        /// Allow any network
        #[arg(long, conflicts_with = "networks")]
        any_network: bool,
        #[arg(long)]
        comment: Option<String>,
        /// Disable it on every node at once
        #[arg(long, conflicts_with = "enable")]
        disable: bool,
        #[arg(long)]
        enable: bool,
    },
    /// Replace the secret of a token; the new one is printed once
    Rotate {
        name: String,
        #[command(flatten)]
        call: CallArgs,
        /// Seconds for which the old secret stays valid; 0 ends it at once
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        overlap: u64,
        /// Output format; a table prints only the secret
        #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Delete a token on every node at once; success also if it does not exist
    Delete {
        name: String,
        #[command(flatten)]
        call: CallArgs,
    },
}

#[derive(Subcommand)]
pub(super) enum RoleCommand {
    /// List the roles and their permissions
    List(ListArgs),
}

#[derive(Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Args)]
pub(super) struct GrantArgs {
    /// Role and scope: editor,prod,pay* for names in prod that begin with pay; reader,prod for all of prod; admin,* for
    /// everything; may be repeated
    #[arg(long = "grant", value_name = "ROLE,NAMESPACE[,NAME]", value_parser = read_grant)]
    grants: Vec<Grant>,
}

/// Parses a grant. A name may contain a comma, a namespace cannot. The scope is required, as in the API.
fn read_grant(text: &str) -> Result<Grant, String> {
    let mut parts = text.splitn(3, ',');
    let word = parts.next().unwrap_or_default();
    let role = Role::ALL.into_iter().find(|role| role.word() == word);
    let known = || Role::ALL.map(Role::word).join(", ");
    let mut grant = Grant::of(role.ok_or_else(|| format!("{word:?} is no role; there are {}", known()))?);
    let namespace =
        parts.next().ok_or_else(|| format!("where is it for? {word},prod for a namespace, {word},* for all"))?;
    let name = parts.next().unwrap_or(&grant.name);
    if let Some(part) = [namespace, name].into_iter().find(|part| part.is_empty() || part.trim() != *part) {
        return Err(format!("{part:?} is no name: it is empty, or has blanks around it"));
    }
    (grant.namespace, grant.name) = (namespace.to_owned(), name.to_owned());
    Ok(grant)
}

pub(super) async fn user(command: UserCommand) -> anyhow::Result<()> {
    match command {
        UserCommand::List(args) => {
            let columns: &[Column] = &[
                ("name", |user| text(&user["name"])),
                ("state", |user| if user["disabled"] == true { "disabled" } else { "enabled" }.to_owned()),
                ("grants", grants),
                ("comment", |user| text(&user["comment"])),
            ];
            list(&args, USERS, columns).await
        }
        UserCommand::Add { holder, call: to, granted, comment, password_file } => {
            let is_local = holder.is_local();
            let (mut item, who) = holder.read();
            item["grants"] = json!(granted.grants);
            let password = is_local.then(|| secret::read_new(password_file.as_deref())).transpose()?;
            give(&mut item, "password", password);
            give(&mut item, "comment", comment);
            tell(&call(&to, Method::POST, USERS, Some(&json!([item]))).await?, &who, "added")
        }
        UserCommand::Set { holder, call: to, granted, no_grants, comment, disable, enable } => {
            let (mut item, who) = holder.read();
            give(&mut item, "comment", comment);
            give(&mut item, "disabled", (disable || enable).then_some(disable));
            give(&mut item, "grants", (no_grants || !granted.grants.is_empty()).then_some(granted.grants));
            tell(&call(&to, Method::PUT, USERS, Some(&json!([item]))).await?, &who, "changed")
        }
        UserCommand::Delete { holder, call: to } => {
            let (item, who) = holder.read();
            tell(&call(&to, Method::POST, "/auth/v1/users/delete", Some(&json!([item]))).await?, &who, "deleted")
        }
        UserCommand::Passwd { name, call: to, old_password_file, password_file } => {
            let mut order = Map::new();
            let what = name.as_ref().map_or_else(|| "your password".to_owned(), |name| format!("password of {name}"));
            match name {
                Some(name) => order.insert("name".to_owned(), name.into()),
                None => {
                    let old = secret::read(old_password_file.as_deref(), "Old password")?;
                    order.insert("old_password".to_owned(), old.into())
                }
            };
            order.insert("new_password".to_owned(), secret::read_new(password_file.as_deref())?.into());
            tell(&call(&to, Method::PUT, "/auth/v1/user/password", Some(&order.into())).await?, &what, "changed")
        }
    }
}

pub(super) async fn token(command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::List(args) => {
            let columns: &[Column] = &[
                ("name", |token| text(&token["name"])),
                ("id", |token| text(&token["id"])),
                ("state", |token| if token["disabled"] == true { "disabled" } else { "enabled" }.to_owned()),
                ("expires", |token| text(&token["expires"])),
                ("networks", |token| words(&token["networks"])),
                ("grants", grants),
                ("made by", |token| text(&token["create_by"])),
            ];
            list(&args, TOKENS, columns).await
        }
        TokenCommand::Create { name, call: to, granted, expires_in_s, networks, output } => {
            let item = json!({
                "name": name, "grants": granted.grants, "expires_in_s": expires_in_s, "networks": networks,
            });
            tell_secret(&call(&to, Method::POST, TOKENS, Some(&json!([item]))).await?, output)
        }
        TokenCommand::Update {
            name,
            call: to,
            granted,
            no_grants,
            expires_in_s,
            networks,
            any_network,
            comment,
            disable,
            enable,
        } => {
            let mut item = json!({ "name": name });
            give(&mut item, "comment", comment);
            give(&mut item, "disabled", (disable || enable).then_some(disable));
            give(&mut item, "expires_in_s", expires_in_s);
            give(&mut item, "networks", (any_network || !networks.is_empty()).then_some(networks));
            give(&mut item, "grants", (no_grants || !granted.grants.is_empty()).then_some(granted.grants));
            tell(&call(&to, Method::PUT, TOKENS, Some(&json!([item]))).await?, &format!("token {name}"), "changed")
        }
        TokenCommand::Rotate { name, call: to, overlap, output } => {
            let item = json!({ "name": name, "overlap_s": overlap });
            tell_secret(&call(&to, Method::POST, "/auth/v1/tokens/rotate", Some(&json!([item]))).await?, output)
        }
        TokenCommand::Delete { name, call: to } => {
            let answer = call(&to, Method::POST, "/auth/v1/tokens/delete", Some(&json!([{ "name": name }]))).await?;
            tell(&answer, &format!("token {name}"), "deleted")
        }
    }
}

pub(super) async fn role(command: RoleCommand) -> anyhow::Result<()> {
    let RoleCommand::List(args) = command;
    let columns: &[Column] = &[
        ("name", |role| text(&role["name"])),
        ("verbs", |role| words(&role["verbs"])),
        ("comment", |role| text(&role["comment"])),
    ];
    let answer = call(&args.call, Method::GET, "/auth/v1/roles", None).await?;
    show(args.output, rows_of(&answer), columns)
}

/// Prints a secret, which the server returns only once.
fn tell_secret(answer: &Value, output: OutputFormat) -> anyhow::Result<()> {
    let made = &answer["responses"][0]["token"];
    match output {
        OutputFormat::Table => say(made["secret"].as_str().context("no secret in the answer")?),
        OutputFormat::Json => say(&serde_json::to_string_pretty(made)?),
    }
    Ok(())
}

/// Prints the current user and its grants.
pub(super) async fn whoami(ListArgs { call: to, output }: ListArgs) -> anyhow::Result<()> {
    let mut answer = call(&to, Method::GET, "/auth/v1/user", None).await?;
    let user = answer["user"].take();
    match output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&user)?),
        OutputFormat::Table => {
            let columns: &[Column] = &[
                ("name", |user| text(&user["name"])),
                ("signed in by", |user| text(&user["signed_in_by"])),
                ("until (UTC)", |user| text(&user["until"])),
                ("verbs", |user| words(&user["verbs"])),
                ("grants", grants),
            ];
            table(&[user], columns).iter().for_each(|line| say(line));
        }
    }
    Ok(())
}

fn give(item: &mut Value, key: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        item[key] = json!(value);
    }
}

/// Prints what was done to an object, or that it was so before.
pub(super) fn tell(answer: &Value, what: &str, done: &str) -> anyhow::Result<()> {
    say(&format!("{what}: {}", outcome(answer, done)));
    Ok(())
}

fn outcome<'a>(answer: &Value, done: &'a str) -> &'a str {
    const NO_NEED: u64 = 200_002;
    let code = answer["responses"][0]["code"].as_u64().or(answer["code"].as_u64());
    if code == Some(NO_NEED) { "unchanged" } else { done }
}

/// Formats grants as on the command line; those that an identity provider gives are marked.
fn grants(row: &Value) -> String {
    let grant = |grant: &Value| {
        let source = if grant["source"] == "binding" { " (binding)" } else { "" };
        format!("{},{},{}{source}", text(&grant["role"]), text(&grant["namespace"]), text(&grant["name"]))
    };
    let all: Vec<_> = row["grants"].as_array().into_iter().flatten().map(grant).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(" ") }
}

fn rows_of(answer: &Value) -> Vec<Value> {
    answer["data"].as_array().cloned().unwrap_or_default()
}

/// Prints all pages of a list.
pub(super) async fn list(args: &ListArgs, path: &str, columns: &[Column]) -> anyhow::Result<()> {
    let page = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        paging.ask(&mut query);
        format!("{path}?{}", query.finish())
    };
    let (all, _) = args.call.remote()?.pages("data", (limits::PAGE_ROWS_MAX, usize::MAX), page).await?;
    show(args.output, all, columns)
}

fn show(output: OutputFormat, rows: Vec<Value>, columns: &[Column]) -> anyhow::Result<()> {
    match output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&rows)?),
        OutputFormat::Table => table(&rows, columns).iter().for_each(|line| say(line)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_was_so_before_is_unchanged() {
        for (answer, expected) in [
            (json!({ "code": 200_000, "info": "execute success" }), "added"),
            (json!({ "code": 200_002 }), "unchanged"),
            (json!({ "code": 200_002, "responses": [{ "code": 200_002 }] }), "unchanged"),
            (json!({ "code": 200_000, "responses": [{ "code": 200_000 }] }), "added"),
        ] {
            assert_eq!(outcome(&answer, "added"), expected, "{answer}");
        }
    }

    #[test]
    fn grants_are_read_as_they_are_shown() {
        for (given, shown) in [
            ("admin,*", "admin,*,*"),
            ("reader,prod", "reader,prod,*"),
            ("editor,prod,pay*", "editor,prod,pay*"),
            ("releaser,*,a rule, and more", "releaser,*,a rule, and more"),
        ] {
            let grant = read_grant(given).expect(given);
            assert_eq!(grants(&json!({ "grants": [grant] })), shown);
        }
        let of_provider = json!({ "role": "reader", "namespace": "prod", "name": "*", "source": "binding" });
        assert_eq!(grants(&json!({ "grants": [of_provider] })), "reader,prod,* (binding)");
        assert!(read_grant("owner,prod").expect_err("no role").contains("releaser"));
        for bad in ["", "admin", "editor", "editor,", "editor, ", "editor, prod", "editor,prod, ", "editor,prod,"] {
            assert!(read_grant(bad).is_err(), "{bad:?}");
        }
    }
}
