//! The command line: nodes to run, calls on a running cluster, work on what stopped nodes left.

mod accounts;
mod apply;
mod approvals;
mod backup;
mod certs;
mod client;
mod contexts;
mod contracts;
mod dev;
mod documents;
mod drain;
mod edit;
mod explain;
mod find;
mod get;
mod import;
mod keys;
mod kinds;
mod kinds_of_approval;
mod normal;
mod offline;
mod plan;
mod policies;
mod progress;
mod releases;
mod remote;
mod rollouts;
mod sealed;
mod secret;
mod shell;
mod tables;
mod telling;
mod trail;
mod who;
mod xds;
mod yaml;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use self::client::ClientCommand;
use crate::config::{Config, DevArgs, InspectArgs, LogFormat, RecoverArgs, ResetPasswordArgs, RestoreArgs, ServeArgs};
use crate::server::{Bound, Server};
use crate::traces::Pipeline;
use telling::{confirm, say, say_document, say_error};

/// Default of the log filter, without `RUST_LOG`. openraft warns of every call to a peer that fails:
/// many a second while one is away, for days perhaps. That a peer is lost, or the leader, is told by
/// lines of our own, once.
const LOG_FILTER: &str = "info,openraft=error,thuban::audit=off";

/// In the data directory: the generated password of the administrator, where no terminal shows it.
const FIRST_PASSWORD_FILE: &str = "first-password";

/// There is something to do.
const EXIT_DIFFERENT: u8 = 1;
/// Bad configuration.
const EXIT_CONFIG: u8 = 2;
const EXIT_REFUSED: u8 = 3;
const EXIT_NO_ANSWER: u8 = 4;
/// Codes from here on say nothing of the request.
const SERVER_FAULTS: u64 = 500_000;

/// A replicated registry of services and governance rules, and a configuration store for Apollo
/// clients.
#[derive(Parser)]
#[command(name = "thuban", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one node on 127.0.0.1, ready in a second
    Dev(DevArgs),
    /// Run a member of a cluster
    Serve(Box<ServeArgs>),
    /// Make the first data directory of a new cluster from a backup, and the file for its other nodes
    Restore(RestoreArgs),
    /// Make a new cluster from one stopped node, when the others are lost for good
    Recover(RecoverArgs),
    /// Reset a lost password: leave the new one in the data directory of a stopped node
    ResetPassword(ResetPasswordArgs),
    /// Describe the data directory of a stopped node, a backup or a snapshot
    Inspect(InspectArgs),
    /// Make certificates, and a certificate authority
    Certs(certs::CertsArgs),
    /// Import config files from other systems, or show the changes first
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// List objects
    Get(get::GetArgs),
    /// Apply documents to the cluster, after showing the changes
    Apply(apply::ApplyArgs),
    /// Compare documents with the cluster, or a draft with its release; exit code 1 if they differ
    Diff(apply::DiffArgs),
    /// Delete objects
    Delete(apply::DeleteArgs),
    /// Edit one object in an editor
    Edit(edit::EditArgs),
    /// Write objects as documents that can be applied
    Export(get::ExportArgs),
    /// List objects, then their changes
    Watch(get::WatchArgs),
    /// Publish a rule or a config file: to all clients, to some, or later
    Release(releases::ReleaseArgs),
    /// Put an earlier release in force again
    Rollback(releases::RollbackArgs),
    /// Publish a gray release to all clients
    Promote(releases::PromoteArgs),
    /// Stop a gray release: its clients get the normal one again
    Stop(releases::GrayArgs),
    /// Show and steer the rollout of a gray release by steps
    #[command(subcommand)]
    Rollout(rollouts::RolloutCommand),
    /// Withdraw the release in force from all clients
    Withdraw(releases::WithdrawArgs),
    /// Show the release history of a rule or a config file
    History(releases::HistoryArgs),
    /// Show which rule would apply to a request, and why
    Explain(Box<explain::ExplainArgs>),
    /// Show which client has which release
    Who(who::WhoArgs),
    /// Keep traffic away from an instance, and wait until its clients know
    #[command(subcommand)]
    Drain(drain::DrainCommand),
    /// Set up and look at clients of xDS: proxies and gRPC clients
    #[command(subcommand)]
    Xds(xds::XdsCommand),
    #[command(flatten)]
    Approval(approvals::ApprovalCommand),
    /// Show the audit trail
    Audit(trail::AuditArgs),
    /// List, create and delete access keys of config clients
    #[command(subcommand)]
    Key(keys::KeyCommand),
    /// Manage named clusters and their logins
    #[command(subcommand)]
    Context(contexts::ContextCommand),
    /// Print a shell completion script
    Completion(shell::CompletionArgs),
    /// Print the manual page, or write one per command
    Man(shell::ManArgs),
    /// Show the current user and its grants
    Whoami(accounts::ListArgs),
    /// List, create and change users
    #[command(subcommand)]
    User(accounts::UserCommand),
    /// List, create, change and delete service tokens
    #[command(subcommand)]
    Token(accounts::TokenCommand),
    /// List the roles for grants
    #[command(subcommand)]
    Role(accounts::RoleCommand),
    #[command(flatten)]
    Client(ClientCommand),
}

/// A command was not called as it has to be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// The cluster differs from the documents.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Differences(String);

impl Differences {
    fn to_do(count: usize) -> Self {
        Differences(format!("{count} to do: `thuban apply` does it"))
    }

    fn to_bring_in() -> Self {
        Differences("nothing was done: --yes does it".to_owned())
    }

    fn between(from: &str, to: &str) -> Self {
        Differences(format!("{from} and {to} differ: `thuban release` puts a draft in force"))
    }
}

/// Documents that no node would take.
#[derive(Debug, thiserror::Error)]
#[error("{0} faults, nothing was changed: mend the documents")]
struct NothingDone(usize);

/// Runs the command; 2 for bad configuration, 1 for any other failure.
pub fn run(cli: Cli) -> ExitCode {
    // Whatever is written from here on, data or backup, is for the user of this process alone.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    match cli.command {
        Command::Dev(args) => match args.check() {
            Ok(config) => report(block_on(dev::run(config))),
            Err(faults) => list_faults(&faults),
        },
        Command::Serve(args) => match args.check() {
            Ok(config) => report(block_on(serve(config))),
            Err(faults) => list_faults(&faults),
        },
        Command::Restore(args) => match args.check() {
            Ok(order) => report_by_kind(offline::run_restore(&order)),
            Err(faults) => list_faults(&faults),
        },
        Command::Recover(args) => {
            let is_sure = args.yes;
            match args.check() {
                Ok(order) => report(offline::run_recover(&order, is_sure)),
                Err(faults) => list_faults(&faults),
            }
        }
        Command::ResetPassword(args) => report_by_kind(offline::run_reset_password(&args)),
        Command::Whoami(args) => report_by_kind(block_on(accounts::whoami(args))),
        Command::User(command) => report_by_kind(block_on(accounts::user(command))),
        Command::Token(command) => report_by_kind(block_on(accounts::token(command))),
        Command::Role(command) => report_by_kind(block_on(accounts::role(command))),
        Command::Import(command) => report_to_pipelines(block_on(import::run(command))),
        Command::Inspect(args) => report(offline::run_inspect(&args)),
        Command::Certs(args) => report(certs::run(&args)),
        Command::Get(args) => report_to_pipelines(block_on(get::get(args))),
        Command::Apply(args) => report_to_pipelines(block_on(apply::apply(args))),
        Command::Diff(args) => report_to_pipelines(block_on(apply::diff(args))),
        Command::Delete(args) => report_to_pipelines(block_on(apply::delete(args))),
        Command::Edit(args) => report_to_pipelines(block_on(edit::run(args))),
        Command::Export(args) => report_to_pipelines(block_on(get::export(args))),
        Command::Watch(args) => report_to_pipelines(block_on(get::watch(args))),
        Command::Release(args) => report_to_pipelines(block_on(releases::release(args))),
        Command::Rollback(args) => report_to_pipelines(block_on(releases::roll_back(args))),
        Command::Promote(args) => report_to_pipelines(block_on(releases::promote(args))),
        Command::Stop(args) => report_to_pipelines(block_on(releases::stop(args))),
        Command::Rollout(command) => report_to_pipelines(block_on(rollouts::run(command))),
        Command::Withdraw(args) => report_to_pipelines(block_on(releases::withdraw(args))),
        Command::History(args) => report_to_pipelines(block_on(releases::history(args))),
        Command::Explain(args) => report_to_pipelines(block_on(explain::run(*args))),
        Command::Who(args) => report_to_pipelines(block_on(who::run(args))),
        // Who waits for it knows 0 and 1.
        Command::Drain(command) => report(block_on(drain::run(command))),
        Command::Xds(command) => report_by_kind(block_on(xds::run(command))),
        Command::Approval(command) => report_to_pipelines(block_on(approvals::run(command))),
        Command::Audit(args) => report_to_pipelines(block_on(trail::run(args))),
        Command::Key(command) => report_to_pipelines(block_on(keys::run(command))),
        Command::Context(command) => report_to_pipelines(contexts::run(command)),
        Command::Completion(args) => report_to_pipelines(shell::completion(&args)),
        Command::Man(args) => report_to_pipelines(shell::man(&args)),
        // Who asks for health knows 0 and 1.
        Command::Client(command @ (ClientCommand::Health(_) | ClientCommand::Backup(_))) => {
            report(block_on(client::run(command)))
        }
        Command::Client(command) => report_by_kind(block_on(client::run(command))),
    }
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&format!("thuban: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// [`report`] for commands that tell by their status what went wrong: 1 that there are differences, 2 how they were
/// called, 3 what the node refused, 4 that no node could say.
fn report_by_kind(result: anyhow::Result<()>) -> ExitCode {
    let kind = result.as_ref().err().and_then(kind_of);
    let code = report(result);
    kind.map_or(code, ExitCode::from)
}

/// The same where a pipeline takes 1 for differences and for nothing else.
fn report_to_pipelines(result: anyhow::Result<()>) -> ExitCode {
    let kind = result.as_ref().err().map(|error| kind_of(error).unwrap_or(EXIT_CONFIG));
    let code = report(result);
    kind.map_or(code, ExitCode::from)
}

fn kind_of(error: &anyhow::Error) -> Option<u8> {
    match error.downcast_ref::<remote::Refused>() {
        Some(refused) if refused.code < SERVER_FAULTS => Some(EXIT_REFUSED),
        Some(_) => Some(EXIT_NO_ANSWER),
        None if error.is::<Usage>() => Some(EXIT_CONFIG),
        None if error.is::<NothingDone>() => Some(EXIT_REFUSED),
        None if error.is::<Differences>() => Some(EXIT_DIFFERENT),
        None if error.is::<remote::Stranger>() => Some(EXIT_NO_ANSWER),
        None => error.is::<reqwest::Error>().then_some(EXIT_NO_ANSWER),
    }
}

fn list_faults(faults: &[String]) -> ExitCode {
    for fault in faults {
        say_error(&format!("thuban: {fault}"));
    }
    ExitCode::from(EXIT_CONFIG)
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let traces = start_log(&config);
    let stop = stop_signal()?;
    let first_password = config.data_dir.join(FIRST_PASSWORD_FILE);
    let server = Server::start(config).await?;
    if let Some(password) = &server.generated_password {
        hand_over(password, &first_password)?;
    }
    announce(&server.bound);
    run_traced(server, traces, stop).await
}

/// Serves until `stop`; what was recorded last is sent when nothing is served any more.
async fn run_traced(server: Server, traces: Option<Pipeline>, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    if let Some(traces) = &traces {
        traces.count_in(server.node.metrics().clone());
    }
    let result = server.run(stop).await;
    if let Some(traces) = traces {
        traces.close().await;
    }
    result
}

/// A password that was generated is shown to whoever sits before the terminal. Where nobody does, stdout is
/// a log that others read too, and it goes to a file.
fn hand_over(password: &str, file: &Path) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        say("This node has no data yet. If it founds the cluster, the administrator is:");
        say(&format!("  name admin, password {password}"));
    } else {
        keep_password(file, password).with_context(|| format!("{} cannot be written", file.display()))?;
        let file = file.display();
        tracing::info!(%file, "if this node founds the cluster, the first password of admin is in the file");
    }
    Ok(())
}

/// Writes a password down for the owner of the file alone.
fn keep_password(file: &Path, password: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    writeln!(options.open(file)?, "{password}")
}

/// One line that programs read: where the node listens.
fn announce(bound: &Bound) {
    let addresses = serde_json::to_string(bound).expect("addresses are JSON");
    say(&format!("THUBAN READY {addresses}"));
}

/// The log goes to stderr; `RUST_LOG` in the place of [`LOG_FILTER`]. Traces go to a collector, if there is one.
fn start_log(config: &Config) -> Option<Pipeline> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_FILTER));
    let format = config.tuning.log_format;
    let is_terminal = std::io::stderr().is_terminal();
    let Some(settings) = &config.traces else {
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        match format {
            LogFormat::Text => builder.with_ansi(is_terminal).init(),
            LogFormat::Json => builder.json().init(),
        }
        return None;
    };
    let traces = Pipeline::start(settings, config.node_id);
    let (subscriber, log) = (
        tracing_subscriber::registry().with(traces.layer()),
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr),
    );
    match format {
        LogFormat::Text => subscriber.with(log.with_ansi(is_terminal).with_filter(filter)).init(),
        LogFormat::Json => subscriber.with(log.json().with_filter(filter)).init(),
    }
    tracing::info!(endpoint = %settings.url, sample = settings.share, "traces are sent to a collector");
    Some(traces)
}

/// Ready at the first SIGTERM or SIGINT. Installed before anything is started.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::json;

    use super::*;

    #[test]
    fn endings_say_what_went_wrong() {
        let refused = |code: u64| anyhow::Error::from(remote::Refused::of(&json!({ "code": code })).expect("refused"));
        for (error, kind) in [
            (Differences::to_do(1).into(), Some(EXIT_DIFFERENT)),
            (Usage("wrong".to_owned()).into(), Some(EXIT_CONFIG)),
            (anyhow::Error::from(Usage("wrong".to_owned())).context("line 1"), Some(EXIT_CONFIG)),
            (NothingDone(1).into(), Some(EXIT_REFUSED)),
            (refused(409_000), Some(EXIT_REFUSED)),
            (refused(503_001), Some(EXIT_NO_ANSWER)),
            (remote::Stranger.into(), Some(EXIT_NO_ANSWER)),
            (anyhow::anyhow!("a disk is full"), None),
        ] {
            assert_eq!(kind_of(&error), kind, "{error:#}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
