//! The command line: commands that run nodes, call a running cluster, or work on data of stopped nodes.

mod accounts;
mod apply;
mod approvals;
mod backup;
mod certs;
mod client;
mod cluster_time;
mod contexts;
mod contracts;
mod demo;
mod dev;
mod differences;
mod documents;
mod drafts;
mod drain;
mod edit;
mod errors;
mod examples;
mod explain;
mod find;
mod get;
mod help;
mod import;
mod instances;
mod keys;
mod kinds;
mod kinds_of_approval;
mod normal;
mod offline;
mod plan;
mod policies;
mod progress;
mod refusals;
mod releases;
mod remote;
mod requests;
mod rollouts;
mod running;
mod sealed;
mod secret;
mod shell;
mod signals;
mod tables;
mod telling;
mod trail;
mod under_way;
mod waiting;
mod who;
mod xds;
mod yaml;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::client::ClientCommand;
use crate::config::{DevArgs, InspectArgs, RecoverArgs, ResetPasswordArgs, RestoreArgs, ServeArgs};
use crate::raft::removal::Removed;
use crate::tasks::TaskDied;
use telling::{confirm, say, say_document, say_error};

pub use self::help::parse;

/// Differences exist, or changes remain to be made.
const EXIT_DIFFERENT: u8 = 1;
/// Bad configuration.
const EXIT_CONFIG: u8 = 2;
const EXIT_REFUSED: u8 = 3;
const EXIT_NO_ANSWER: u8 = 4;
/// Certificate files are unusable, perhaps only for a moment: a restart may succeed.
const EXIT_CERTIFICATES: u8 = 5;
/// The node was removed from its cluster: a restart does not bring it back.
const EXIT_REMOVED: u8 = 6;
/// A release was not where `wait` waited for it in time.
const EXIT_TIMED_OUT: u8 = 7;
/// The event that `wait` waited for cannot happen any more.
const EXIT_LOST: u8 = 8;
/// A required task panicked: `EX_SOFTWARE` of sysexits.
const EXIT_TASK_DIED: u8 = 70;
/// Lowest code of a fault of the server; smaller ones describe the request.
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
    /// Create the first data directory of a new cluster from a backup, and the file for its other nodes
    Restore(RestoreArgs),
    /// Create a new cluster from one stopped node, when the others are lost for good
    Recover(RecoverArgs),
    /// Reset a lost password: leave the new one in the data directory of a stopped node
    ResetPassword(ResetPasswordArgs),
    /// Describe the data directory of a stopped node, a backup or a snapshot
    Inspect(InspectArgs),
    /// Create certificates, and a certificate authority
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
    /// Discard changes of a draft
    #[command(subcommand, alias = "drafts")]
    Draft(drafts::DraftCommand),
    /// Write objects as documents that can be applied
    Export(get::ExportArgs),
    /// List objects, then their changes
    Watch(get::WatchArgs),
    /// Publish a rule or a config file: to all clients, to some, or later
    Release(releases::ReleaseArgs),
    /// Reactivate an earlier release
    Rollback(releases::RollbackArgs),
    /// Publish a gray release to all clients
    Promote(releases::PromoteArgs),
    /// Stop a gray release: its clients get the normal one again
    Stop(releases::GrayArgs),
    /// Show and control the stepwise rollout of a gray release
    #[command(subcommand, alias = "rollouts")]
    Rollout(rollouts::RolloutCommand),
    /// Wait until a release is live, or until a share of its clients have it; exit code 7 after --timeout, 8 if it
    /// cannot happen any more
    Wait(waiting::WaitArgs),
    /// Withdraw the active release from all clients
    Withdraw(releases::WithdrawArgs),
    /// Show the release history of a rule or a config file
    History(releases::HistoryArgs),
    /// Show which rule would apply to a request, and why
    Explain(Box<explain::ExplainArgs>),
    /// Show which client has which release, or all that one client has
    Who(who::WhoArgs),
    /// Keep traffic away from an instance, and wait until its clients know
    #[command(subcommand)]
    Drain(drain::DrainCommand),
    /// Register and list instances of services
    #[command(subcommand, alias = "instances")]
    Instance(instances::InstanceCommand),
    /// Set up and inspect xDS clients: proxies and gRPC clients
    #[command(subcommand)]
    Xds(xds::XdsCommand),
    #[command(flatten)]
    Approval(approvals::ApprovalCommand),
    /// Show the audit trail
    Audit(trail::AuditArgs),
    /// List, create and delete access keys of config clients
    #[command(subcommand, alias = "keys")]
    Key(keys::KeyCommand),
    /// Manage named clusters and their logins
    #[command(subcommand, alias = "contexts")]
    Context(contexts::ContextCommand),
    /// Print a shell completion script
    Completion(shell::CompletionArgs),
    /// Print the manual page, or write one per command
    Man(shell::ManArgs),
    /// Show the current user and its grants
    Whoami(accounts::ListArgs),
    /// List, create and change users
    #[command(subcommand, alias = "users")]
    User(accounts::UserCommand),
    /// List, create, change and delete service tokens
    #[command(subcommand, alias = "tokens")]
    Token(accounts::TokenCommand),
    /// List the roles for grants
    #[command(subcommand, alias = "roles")]
    Role(accounts::RoleCommand),
    #[command(flatten)]
    Client(ClientCommand),
}

/// A command was used incorrectly.
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

/// Documents that every node would refuse.
#[derive(Debug, thiserror::Error)]
#[error("{0} faults, nothing was changed: mend the documents")]
struct NothingDone(usize);

/// Runs the command. Returns 2 for bad configuration, 5 for unusable certificate files, 6 for a removed node, 1 for any
/// other failure.
pub fn run(cli: Cli) -> ExitCode {
    // Every file written from here on, data or backup, is accessible to the user of this process alone.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    if changes_nothing(&cli.command) {
        telling::end_with_reader();
    }
    match cli.command {
        Command::Dev(args) => {
            let is_demo = args.demo;
            match args.check() {
                Ok(config) => report_of_node(block_on(dev::run(config, is_demo))),
                Err(faults) => list_faults(&faults),
            }
        }
        Command::Serve(args) => match args.check() {
            Ok(config) => report_of_node(block_on(running::serve(config))),
            Err(faults) if faults.may_pass => {
                list_faults(&faults.lines);
                ExitCode::from(EXIT_CERTIFICATES)
            }
            Err(faults) => list_faults(&faults.lines),
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
        Command::Draft(command) => report_to_pipelines(block_on(drafts::run(command))),
        Command::Export(args) => report_to_pipelines(block_on(get::export(args))),
        Command::Watch(args) => report_to_pipelines(block_on(get::watch(args))),
        Command::Release(args) => report_to_pipelines(block_on(releases::release(args))),
        Command::Rollback(args) => report_to_pipelines(block_on(releases::roll_back(args))),
        Command::Promote(args) => report_to_pipelines(block_on(releases::promote(args))),
        Command::Stop(args) => report_to_pipelines(block_on(releases::stop(args))),
        Command::Rollout(command) => report_to_pipelines(block_on(rollouts::run(command))),
        Command::Wait(args) => report_to_pipelines(block_on(waiting::run(args))),
        Command::Withdraw(args) => report_to_pipelines(block_on(releases::withdraw(args))),
        Command::History(args) => report_to_pipelines(block_on(releases::history(args))),
        Command::Explain(args) => report_to_pipelines(block_on(explain::run(*args))),
        Command::Who(args) => report_to_pipelines(block_on(who::run(args))),
        // Exit codes of `drain` are 0 and 1 only.
        Command::Drain(command) => report(block_on(drain::run(command))),
        Command::Instance(command) => report_to_pipelines(block_on(instances::run(command))),
        Command::Xds(command) => report_by_kind(block_on(xds::run(command))),
        Command::Approval(command) => report_to_pipelines(block_on(approvals::run(command))),
        Command::Audit(args) => report_to_pipelines(block_on(trail::run(args))),
        Command::Key(command) => report_to_pipelines(block_on(keys::run(command))),
        Command::Context(command) => report_to_pipelines(contexts::run(command)),
        Command::Completion(args) => report_to_pipelines(shell::completion(&args)),
        Command::Man(args) => report_to_pipelines(shell::man(&args)),
        // Exit codes of `health` and `backup` are 0 and 1 only.
        Command::Client(command @ (ClientCommand::Health(_) | ClientCommand::Backup(_))) => {
            report(block_on(client::run(command)))
        }
        Command::Client(command) => report_by_kind(block_on(client::run(command))),
    }
}

/// Reports whether a command only prints: such a command may end when its reader has ended. One that changes something
/// runs to its end.
fn changes_nothing(command: &Command) -> bool {
    matches!(
        command,
        Command::Get(_)
            | Command::Diff(_)
            | Command::Export(_)
            | Command::Watch(_)
            | Command::History(_)
            | Command::Explain(_)
            | Command::Who(_)
            | Command::Wait(_)
            | Command::Audit(_)
            | Command::Inspect(_)
            | Command::Completion(_)
            | Command::Man(_)
            | Command::Whoami(_)
            | Command::Role(_)
    )
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&format!("thuban: {}", errors::in_words(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Reports like [`report`] for commands that run a node. A panic, and a removal from the cluster, after which the node
/// must not be restarted, have exit codes of their own. Waits a limited time until the output is written.
fn report_of_node(result: anyhow::Result<()>) -> ExitCode {
    let kind = result.as_ref().err().and_then(|error| match () {
        () if error.is::<TaskDied>() => Some(EXIT_TASK_DIED),
        () if error.is::<Removed>() => Some(EXIT_REMOVED),
        () if error.is::<Usage>() => Some(EXIT_CONFIG),
        () => None,
    });
    let code = report(result);
    telling::flush();
    kind.map_or(code, ExitCode::from)
}

/// Reports like [`report`], with an exit code for the kind of failure: 1 for differences, 2 for wrong usage, 3 for a
/// refusal by the node, 4 for no answer.
fn report_by_kind(result: anyhow::Result<()>) -> ExitCode {
    let kind = result.as_ref().err().and_then(kind_of);
    let code = report(result);
    kind.map_or(code, ExitCode::from)
}

/// Reports like [`report_by_kind`] for pipelines, in which 1 means differences and nothing else.
fn report_to_pipelines(result: anyhow::Result<()>) -> ExitCode {
    let kind = result.as_ref().err().map(|error| kind_of(error).unwrap_or(EXIT_CONFIG));
    let code = report(result);
    kind.map_or(code, ExitCode::from)
}

/// Reports whether a repetition would end in the same way: the request is wrong, or a node refused it for another
/// reason than its load.
fn is_final(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<remote::Refused>().map(|refused| refused.code);
    error.is::<Usage>() || code.is_some_and(|code| code < SERVER_FAULTS && code / 1000 != 429)
}

fn kind_of(error: &anyhow::Error) -> Option<u8> {
    match error.downcast_ref::<remote::Refused>() {
        Some(refused) if refused.code < SERVER_FAULTS => Some(EXIT_REFUSED),
        Some(_) => Some(EXIT_NO_ANSWER),
        None if error.is::<Usage>() => Some(EXIT_CONFIG),
        None if error.is::<NothingDone>() => Some(EXIT_REFUSED),
        None if error.is::<Differences>() => Some(EXIT_DIFFERENT),
        None if error.is::<waiting::TimedOut>() => Some(EXIT_TIMED_OUT),
        None if error.is::<waiting::Lost>() => Some(EXIT_LOST),
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_final_unless_it_is_for_load() {
        let refused = |code| anyhow::Error::from(remote::Refused::new(code, ""));
        for (error, expected) in [
            (refused(401_001), true),
            (refused(400_140), true),
            (refused(429_003), false),
            (refused(503_001), false),
            (Usage("wrong".to_owned()).into(), true),
            (anyhow::anyhow!("connection refused"), false),
        ] {
            assert_eq!(is_final(&error), expected, "{error}");
        }
    }

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
    fn a_defect_of_a_node_has_an_exit_code_of_its_own() {
        for (result, code) in [
            (Ok(()), 0),
            (Err(anyhow::anyhow!("a port is taken")), 1),
            (Err(TaskDied("links").into()), EXIT_TASK_DIED),
            (Err(anyhow::Error::from(TaskDied("links")).context("the node stops")), EXIT_TASK_DIED),
        ] {
            assert_eq!(report_of_node(result), ExitCode::from(code));
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
