//! Calls on a running cluster: login, the operator's commands, a health check for containers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use reqwest::redirect::Policy;
use serde_json::{Map, Value, json};

use super::backup::{self, BackupArgs};
use super::{say, secret};
use crate::tls;

pub(super) const WITHIN: Duration = Duration::from_secs(15);

#[derive(Subcommand)]
pub(super) enum ClientCommand {
    /// Print a token for the other commands
    Login(LoginArgs),
    /// Look at the cluster and change its members
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Fetch the whole state into a file, for `restore`
    Backup(BackupArgs),
    /// Exit with 0 if the node is ready, else 1
    Health(EndpointArgs),
}

#[derive(Args)]
pub(super) struct EndpointArgs {
    /// Base URL of the management API of any node, http:// or https://
    #[arg(long, env = "THUBAN_ENDPOINT", default_value = "http://127.0.0.1:8090")]
    endpoint: String,

    /// File with the authorities that may vouch for an https:// endpoint (PEM) [default: those the system
    /// trusts]
    #[arg(long, env = "THUBAN_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl EndpointArgs {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.endpoint.trim_end_matches('/'))
    }

    /// For requests to the endpoint, and to no other.
    pub(super) fn client(&self) -> anyhow::Result<reqwest::ClientBuilder> {
        http_client(&self.endpoint, self.ca_file.as_deref())
    }
}

/// For requests to what is below a URL, and to nothing else.
pub(super) fn http_client(url: &str, ca_file: Option<&Path>) -> anyhow::Result<reqwest::ClientBuilder> {
    let tls = if url.starts_with("https://") { tls::trusting(ca_file)? } else { tls::trusting_nobody()? };
    #[expect(clippy::disallowed_methods, reason = "this is the place that gives it its TLS")]
    let builder = reqwest::Client::builder();
    // A redirection could send a password where nobody has vouched for anything.
    Ok(builder.tls_backend_preconfigured(tls).redirect(Policy::none()))
}

#[derive(Args)]
pub(super) struct LoginArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[arg(long, default_value = "admin")]
    name: String,
    #[command(flatten)]
    password: PasswordArgs,
}

/// A password: asked for where none is given, and not on the command line if it can be helped, where every user of
/// the machine can read it.
#[derive(Args)]
struct PasswordArgs {
    /// Readable by all users of this machine while it runs: rather by the variable or a file
    #[arg(long, env = "THUBAN_ADMIN_PASSWORD", hide_env_values = true)]
    password: Option<String>,

    /// File that holds the password, or - for standard input; counts before --password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl PasswordArgs {
    /// The line end of a file is not part of it. Blocks on the file.
    fn read(self) -> anyhow::Result<String> {
        match (self.password_file, self.password) {
            (None, Some(password)) => Ok(password),
            (file, _) => secret::read(file.as_deref(), "Password"),
        }
    }
}

#[derive(Args)]
pub(super) struct CallArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,
    /// From `thuban login`
    #[arg(long, env = "THUBAN_TOKEN", hide_env_values = true)]
    token: String,
}

impl CallArgs {
    pub(super) fn endpoint(&self) -> &EndpointArgs {
        &self.endpoint
    }

    pub(super) fn url(&self, path: &str) -> String {
        self.endpoint.url(path)
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }
}

#[derive(Subcommand)]
pub(super) enum ClusterCommand {
    /// Who is a member, who leads, how far everybody is
    Status(CallArgs),
    /// Let a new node receive the log, without a vote yet; or tell the others that a member has moved
    Add {
        #[command(flatten)]
        call: CallArgs,
        /// Id of the new node, never used before; or of the member that has another address now
        #[arg(long)]
        id: u64,
        /// HOST:PORT of its peer listener
        #[arg(long)]
        peer: String,
    },
    /// Give a node that has caught up a vote
    Promote {
        #[command(flatten)]
        call: CallArgs,
        #[arg(long)]
        id: u64,
    },
    /// Take a member out for good
    Remove {
        #[command(flatten)]
        call: CallArgs,
        #[arg(long)]
        id: u64,
    },
    /// Let another voter lead
    Transfer {
        #[command(flatten)]
        call: CallArgs,
        #[arg(long)]
        to: u64,
    },
    /// Let the node at --endpoint write a snapshot
    Snapshot(CallArgs),
    /// Show the replicated settings, or change some of them
    Settings {
        #[command(flatten)]
        call: CallArgs,
        /// What is to change, e.g. releases_kept=50
        #[arg(value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
}

pub(super) async fn run(command: ClientCommand) -> anyhow::Result<()> {
    match command {
        ClientCommand::Login(args) => log_in(args).await,
        ClientCommand::Health(args) => health(&args).await,
        ClientCommand::Backup(args) => backup::run(args).await,
        ClientCommand::Cluster(command) => cluster(command).await,
    }
}

fn client(endpoint: &EndpointArgs) -> anyhow::Result<reqwest::Client> {
    Ok(endpoint.client()?.timeout(WITHIN).build()?)
}

/// The body of an answer, or its `info` as an error.
async fn send(request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
    judged(request.send().await?.json().await.context("the answer is not of a thuban node")?)
}

fn judged(body: Value) -> anyhow::Result<Value> {
    match body["code"].as_u64() {
        Some(200_000..=200_999) => Ok(body),
        Some(code) => {
            // Of a batch of one the item says it better.
            let info = body["responses"][0]["info"].as_str().or(body["info"].as_str()).unwrap_or("refused");
            Err(Refused { code, info: info.to_owned() }.into())
        }
        None => bail!("the answer is not of a thuban node"),
    }
}

/// What a node answered instead of doing it.
#[derive(Debug, thiserror::Error)]
#[error("{info} ({code})")]
pub(super) struct Refused {
    pub(super) code: u64,
    info: String,
}

impl Refused {
    /// Of a batch, of which each item was told.
    pub(super) fn some(count: usize) -> Self {
        Refused { code: 400_000, info: format!("{count} were refused, the others are done") }
    }
}

/// One call with a batch, and the body of its answer, also where items were refused.
pub(super) async fn answer_of(to: &CallArgs, method: Method, path: &str, batch: &Value) -> anyhow::Result<Value> {
    let request = client(&to.endpoint)?.request(method, to.url(path)).header("Authorization", to.token());
    let body: Value = request.json(batch).send().await?.json().await.context("the answer is not of a thuban node")?;
    if body["responses"].is_array() { Ok(body) } else { judged(body) }
}

/// One call with a token, and the body of its answer.
pub(super) async fn call(to: &CallArgs, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    let request = client(&to.endpoint)?.request(method, to.url(path)).header("Authorization", to.token());
    send(match body {
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

async fn log_in(args: LoginArgs) -> anyhow::Result<()> {
    let body = json!({ "name": args.name, "password": args.password.read()? });
    let request = client(&args.endpoint)?.post(args.endpoint.url("/auth/v1/user/login"));
    let answer = send(request.json(&body)).await?;
    say(answer["loginResponse"]["token"].as_str().context("no token in the answer")?);
    Ok(())
}

async fn health(endpoint: &EndpointArgs) -> anyhow::Result<()> {
    let answer = client(endpoint)?.get(endpoint.url("/readyz")).send().await?;
    if !answer.status().is_success() {
        bail!("{}", answer.text().await?.trim());
    }
    Ok(())
}

async fn cluster(command: ClusterCommand) -> anyhow::Result<()> {
    match command {
        ClusterCommand::Status(call) => status(&call).await,
        ClusterCommand::Add { call, id, peer } => order(&call, "add", json!({ "id": id, "peer": peer })).await,
        ClusterCommand::Promote { call, id } => order(&call, "promote", json!({ "id": id })).await,
        ClusterCommand::Remove { call, id } => order(&call, "remove", json!({ "id": id })).await,
        ClusterCommand::Transfer { call, to } => order(&call, "transfer", json!({ "to": to })).await,
        ClusterCommand::Snapshot(call) => order(&call, "snapshot", json!({})).await,
        ClusterCommand::Settings { call, changes } => settings(&call, &changes).await,
    }
}

/// Values go as they were typed: the node knows the table, and says what is wrong.
async fn settings(call: &CallArgs, changes: &[String]) -> anyhow::Result<()> {
    let mut body = Map::new();
    for change in changes {
        let (key, value) = change.split_once('=').with_context(|| format!("{change:?} is not KEY=VALUE"))?;
        body.insert(key.to_owned(), value.into());
    }
    let (client, url) = (client(&call.endpoint)?, call.url("/admin/v1/settings"));
    let request = if body.is_empty() { client.get(url) } else { client.put(url).json(&body) };
    let answer = send(request.header("Authorization", &call.token)).await?;
    for (key, value) in answer["settings"].as_object().context("no settings in the answer")? {
        say(&format!("{key:<32} {value}"));
    }
    Ok(())
}

async fn order(call: &CallArgs, verb: &str, body: Value) -> anyhow::Result<()> {
    let url = call.url(&format!("/admin/v1/cluster/{verb}"));
    let answer = send(client(&call.endpoint)?.post(url).header("Authorization", &call.token).json(&body)).await?;
    say(answer["info"].as_str().unwrap_or("done"));
    Ok(())
}

async fn status(call: &CallArgs) -> anyhow::Result<()> {
    let answer =
        send(client(&call.endpoint)?.get(call.url("/admin/v1/cluster")).header("Authorization", &call.token)).await?;
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (cluster, term, own) = (text(&answer["cluster_id"]), text(&answer["term"]), text(&answer["self"]));
    say(&format!("cluster {cluster}   level {}   term {term}   seen by node {own}", text(&answer["level"])));
    let hash = &answer["state_hash"];
    say(&format!("state hash {} at index {}", text(&hash["hash"]), text(&hash["index"])));
    for alarm in answer["alarms"].as_array().into_iter().flatten() {
        say(&format!("ALARM {}", text(alarm)));
    }
    say(&format!(
        "{:>4}  {:<9} {:<6} {:<10} {:>10} {:>10}  {:<8} {:<7} {:<22} {:<22} {}",
        "id", "role", "voter", "reachable", "last log", "applied", "version", "levels", "api", "compat", "peer"
    ));
    for member in answer["members"].as_array().into_iter().flatten() {
        let column = |key: &str| text(&member[key]);
        say(&format!(
            "{:>4}  {:<9} {:<6} {:<10} {:>10} {:>10}  {:<8} {:<7} {:<22} {:<22} {}",
            column("id"),
            column("role"),
            column("voter"),
            column("reachable"),
            column("last_log"),
            column("applied"),
            column("version"),
            format!("{}-{}", column("level_min"), column("level_max")),
            column("api"),
            column("compat"),
            column("peer"),
        ));
    }
    Ok(())
}
