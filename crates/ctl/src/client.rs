//! Login, cluster operations, a health check for containers.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::cluster_time::{self, ConfirmTimeArgs};
use super::errors::Usage;
use super::remote::{CallArgs, EndpointArgs, NO_LEADER, Refused, Remote, TOKEN_ENDED, call};
use super::secret;
use super::sso::{self, SsoArgs};
use super::telling::say;

#[derive(Args)]
pub(super) struct LoginArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[arg(long, default_value = "admin")]
    name: String,
    #[command(flatten)]
    password: PasswordArgs,
    /// Save the token in the context instead of printing it; creates a missing context
    #[arg(long)]
    save: bool,
    #[command(flatten)]
    sso: SsoArgs,
}

#[derive(Args)]
pub(super) struct LogoutArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// Password options. Without them the password is prompted for; on the command line every user of the machine can read
/// it.
#[derive(Args)]
struct PasswordArgs {
    /// Visible to all users of this machine while the command runs: prefer the variable or a file
    #[arg(long, env = "THUBAN_ADMIN_PASSWORD", hide_env_values = true)]
    password: Option<String>,

    /// File with the password, or - for standard input; takes precedence over --password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl PasswordArgs {
    /// Reads the password, without the final line end of a file. Blocks on the file.
    fn read(self) -> anyhow::Result<String> {
        match (self.password_file, self.password) {
            (None, Some(password)) => Ok(password),
            (file, _) => secret::read(file.as_deref(), "Password"),
        }
    }
}

#[derive(Subcommand)]
pub(super) enum ClusterCommand {
    /// Show members, leader and progress
    Status(CallArgs),
    /// Add a new node as a learner, or change the address of a member
    Add {
        #[command(flatten)]
        call: CallArgs,
        /// Id of the new node, never used before; or of the member with a new address
        #[arg(long)]
        id: u64,
        /// HOST:PORT of its peer listener
        #[arg(long)]
        peer: String,
    },
    /// Promote a learner that has caught up to a voter
    Promote {
        #[command(flatten)]
        call: CallArgs,
        #[arg(long)]
        id: u64,
    },
    /// Remove a member for good
    Remove {
        #[command(flatten)]
        call: CallArgs,
        #[arg(long)]
        id: u64,
    },
    /// Transfer leadership to another voter
    Transfer {
        #[command(flatten)]
        call: CallArgs,
        #[arg(long)]
        to: u64,
    },
    /// Write a snapshot on the node at --endpoint
    Snapshot(CallArgs),
    /// Show the time of the cluster and the clocks of its members
    Time(CallArgs),
    /// Confirm the time of the cluster, or set it to that of most members' clocks
    ConfirmTime(ConfirmTimeArgs),
    /// Reseal data of an earlier data key under the first key of --data-key-file
    Reseal(CallArgs),
    /// Show or change the replicated settings
    Settings {
        #[command(flatten)]
        call: CallArgs,
        /// Changes, e.g. releases_kept=50
        #[arg(value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
}

pub(super) async fn log_in(args: LoginArgs) -> anyhow::Result<()> {
    if args.sso.sso.is_some() {
        return sso::log_in(&args.endpoint, &args.sso).await;
    }
    let remote = args.endpoint.remote()?;
    let token = remote.log_in(&args.name, &args.password.read()?).await?;
    if !args.save {
        say(&token);
        return Ok(());
    }
    let context = args.endpoint.context.keep_token(&remote.endpoints, &token, None)?;
    say(&format!("logged in as {}, for 7 days; kept in the context {context}", args.name));
    Ok(())
}

/// Ends the login of the context on the cluster, then removes it from the context. A login that cannot be ended stays.
pub(super) async fn log_out(LogoutArgs { endpoint }: LogoutArgs) -> anyhow::Result<()> {
    let remote = endpoint.remote()?;
    if remote.is_withheld {
        let why = "the login of the context is for its own servers: leave out --endpoint, or name its context";
        return Err(Usage(why.to_owned()).into());
    }
    if !remote.has_token() {
        say("the context has no login");
        return Ok(());
    }
    let ended = remote.call(Method::POST, "/auth/v1/user/logout", None).await;
    let word = match ended.as_ref().map_err(|error| error.downcast_ref::<Refused>()) {
        Ok(_) => "logged out",
        Err(Some(refused)) if refused.code == TOKEN_ENDED => "the login had ended already",
        Err(_) => return ended.map(drop).context("the login stays in the context"),
    };
    let context = endpoint.context.remove_token()?.unwrap_or_default();
    say(&format!("{word}; removed from the context {context}"));
    Ok(())
}

pub(super) async fn health(endpoint: &EndpointArgs) -> anyhow::Result<()> {
    let remote = endpoint.remote()?;
    let answer = remote.ask(&remote.client()?, (Method::GET, "/readyz"), |request| request).await?;
    if !answer.status().is_success() {
        bail!("{}", answer.text().await?.trim());
    }
    Ok(())
}

pub(super) async fn cluster(command: ClusterCommand) -> anyhow::Result<()> {
    match command {
        ClusterCommand::Status(call) => status(&call).await,
        ClusterCommand::Add { call, id, peer } => {
            order(&call, "add", json!({ "id": id, "peer": peer }), &format!("node {id}: added")).await
        }
        ClusterCommand::Promote { call, id } => {
            order(&call, "promote", json!({ "id": id }), &format!("node {id}: promoted to a voter")).await
        }
        ClusterCommand::Remove { call, id } => {
            order(&call, "remove", json!({ "id": id }), &format!("node {id}: removed for good")).await
        }
        ClusterCommand::Transfer { call, to } => {
            order(&call, "transfer", json!({ "to": to }), &format!("leadership goes to node {to}")).await
        }
        ClusterCommand::Snapshot(call) => order(&call, "snapshot", json!({}), "snapshot written").await,
        ClusterCommand::Time(call) => cluster_time::show(&call).await,
        ClusterCommand::ConfirmTime(args) => cluster_time::confirm(&args).await,
        ClusterCommand::Reseal(call) => reseal(&call).await,
        ClusterCommand::Settings { call, changes } => settings(&call, &changes).await,
    }
}

/// Shows or changes the settings. Values are sent as typed: the node validates them.
async fn settings(to: &CallArgs, changes: &[String]) -> anyhow::Result<()> {
    let mut body = Map::new();
    for change in changes {
        let (key, value) = change.split_once('=').with_context(|| format!("{change:?} is not KEY=VALUE"))?;
        body.insert(key.to_owned(), value.into());
    }
    let (method, body) = if body.is_empty() { (Method::GET, None) } else { (Method::PUT, Some(body.into())) };
    let answer = call(to, method, "/admin/v1/settings", body.as_ref()).await?;
    for (key, value) in answer["settings"].as_object().context("no settings in the answer")? {
        let word = value.as_str().map(str::to_owned);
        say(&format!("{key:<32} {}", word.unwrap_or_else(|| value.to_string())));
    }
    Ok(())
}

/// Reseals part by part until nothing is left that can be resealed.
async fn reseal(to: &CallArgs) -> anyhow::Result<()> {
    const DRAFTS: [(&str, &str); 4] = [
        ("access_keys", "access keys"),
        ("webhooks", "webhooks"),
        ("providers", "identity providers"),
        ("config_files", "drafts of config files"),
    ];
    let mut done = [0; DRAFTS.len()];
    loop {
        let answer = call(to, Method::POST, "/admin/v1/datakey/reseal", None).await?;
        let part = &answer["reseal"];
        let counts = |of: &str| DRAFTS.map(|(member, _)| part[of][member].as_u64().unwrap_or_default());
        let (now, left) = (counts("done"), counts("left"));
        for (sum, count) in done.iter_mut().zip(now) {
            *sum += count;
        }
        if left.iter().sum::<u64>() > 0 && now.iter().sum::<u64>() > 0 {
            continue;
        }
        for ((_, what), (done, left)) in DRAFTS.iter().zip(done.iter().zip(left)) {
            say(&format!("{what:<24} {done} sealed under the first key, {left} left"));
        }
        let releases = part["left"]["config_releases"].as_u64().unwrap_or_default();
        say(&format!("{:<24} {releases} left: publish their files again and delete them", "releases of config files"));
        if left.iter().any(|left| *left > 0) {
            bail!("the node cannot read what is left: its --data-key-file does not hold the key");
        }
        return Ok(());
    }
}

async fn order(to: &CallArgs, verb: &str, body: Value, done: &str) -> anyhow::Result<()> {
    call(to, Method::POST, &format!("/admin/v1/cluster/{verb}"), Some(&body)).await?;
    say(done);
    Ok(())
}

/// Returns the view of the first node with a leader, else that of the first node that answers. A node without a leader
/// that does not know the token reports at its health check why it has none.
async fn best_view(remote: &Remote) -> anyhow::Result<Value> {
    const PATH: &str = "/admin/v1/cluster";
    let (mut alone, mut refusal) = (None, None);
    for node in remote.each() {
        match node.call(Method::GET, PATH, None).await {
            Ok(view) if view["own_view"] != true => return Ok(view),
            Ok(view) => alone = alone.or(Some(view)),
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.code == NO_LEADER) => {
                let answer = node.ask(&node.client()?, (Method::GET, "/readyz?verbose"), |request| request).await?;
                let checks = answer.text().await.unwrap_or_default();
                refusal = refusal.or_else(|| Some(error.context(checks.trim().to_owned())));
            }
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match (alone, refusal) {
        (Some(view), _) => Ok(view),
        (None, Some(error)) => Err(error),
        (None, None) => bail!("there is no address to ask: give --endpoint"),
    }
}

async fn status(to: &CallArgs) -> anyhow::Result<()> {
    let answer = best_view(&to.remote()?).await?;
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (cluster, term, own) = (text(&answer["cluster_id"]), text(&answer["term"]), text(&answer["self"]));
    say(&format!("cluster {cluster}   level {}   term {term}   seen by node {own}", text(&answer["level"])));
    if answer["own_view"] == true {
        say(&format!("NO LEADER is in reach of node {own}: this is what it knew last, by itself"));
    }
    let hash = &answer["state_hash"];
    say(&format!("state hash {} at index {}", text(&hash["hash"]), text(&hash["index"])));
    for alarm in answer["alarms"].as_array().into_iter().flatten() {
        say(&format!("ALARM {}", text(alarm)));
    }
    say(&format!(
        "{:>4}  {:<9} {:<6} {:<10} {:>10} {:>10} {:>9} {:>8}  {:<8} {:<7} {:<22} {:<22} {:<22} {}",
        "id",
        "role",
        "voter",
        "reachable",
        "last log",
        "applied",
        "fresh ms",
        "rtt ms",
        "version",
        "levels",
        "api",
        "compat",
        "grpc",
        "peer"
    ));
    for member in answer["members"].as_array().into_iter().flatten() {
        let column = |key: &str| text(&member[key]);
        say(&format!(
            "{:>4}  {:<9} {:<6} {:<10} {:>10} {:>10} {:>9} {:>8}  {:<8} {:<7} {:<22} {:<22} {:<22} {}",
            column("id"),
            column("role"),
            column("voter"),
            column("reachable"),
            column("last_log"),
            column("applied"),
            column("fresh_ms"),
            column("round_trip_ms"),
            column("version"),
            format!("{}-{}", column("level_min"), column("level_max")),
            column("api"),
            column("compat"),
            column("grpc"),
            column("peer"),
        ));
    }
    for member in answer["members"].as_array().into_iter().flatten() {
        if let Some(problem) = member["problem"].as_str() {
            say(&format!("node {}: {problem}", text(&member["id"])));
        }
    }
    Ok(())
}
