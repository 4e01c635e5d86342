//! The client half of the command line: every command that calls a running cluster over its management API, prints what
//! the nodes answer, and ends with an exit code for it; and the means of printing, asking and ending that the commands
//! of a node share.
//!
//! It knows a node by its API alone: no RocksDB, no Raft, no server, no data directory. The binary adds the commands
//! that run a node or work on data of stopped nodes.

mod accounts;
mod apply;
mod approvals;
mod client;
mod cluster_time;
mod contexts;
mod contracts;
mod differences;
mod documents;
mod drafts;
mod drain;
mod edit;
pub mod errors;
pub mod exit;
mod explain;
mod find;
mod freezes;
mod get;
mod history;
mod holders;
mod identities;
mod import;
mod instances;
mod keys;
mod kind;
mod kinds;
mod kinds_of_access;
mod kinds_of_approval;
mod normal;
mod plan;
mod policies;
mod progress;
mod refusals;
mod release_outcome;
mod releases;
pub mod remote;
mod requests;
mod rollout_plan;
mod rollouts;
mod sealed;
pub mod secret;
pub mod signals;
mod sso;
mod tables;
pub mod telling;
mod trail;
mod under_way;
mod waiting;
mod who;
mod xds;
pub mod yaml;

use std::process::ExitCode;

use clap::Subcommand;

use exit::{report, report_by_kind, report_to_pipelines};

pub use contexts::CONNECTION;
pub use tables::OutputFormat;

#[derive(Subcommand)]
#[expect(
    private_interfaces,
    reason = "clap fills the arguments, and `run` takes them: no other crate names their types"
)]
pub enum ClientCommand {
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
    History(history::HistoryArgs),
    /// Show which rule would apply to a request, and why
    #[command(long_about = explain::LONG_ABOUT)]
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
    /// Log in: print a token, or save it in the context
    Login(Box<client::LoginArgs>),
    /// Log out: end the login of the context, on the cluster and here
    Logout(client::LogoutArgs),
    /// List and test identity providers, for single sign-on
    #[command(subcommand)]
    Sso(sso::SsoCommand),
    /// List and delete the people that signed in by identity providers
    #[command(subcommand, alias = "identities")]
    Identity(identities::IdentityCommand),
    /// Show the cluster and change its members
    #[command(subcommand)]
    Cluster(client::ClusterCommand),
    /// Exit with 0 if the node is ready, else 1
    Health(remote::EndpointArgs),
}

impl ClientCommand {
    /// Reports whether a command only prints: such a command may end when its reader has ended. One that changes
    /// something runs to its end.
    fn changes_nothing(&self) -> bool {
        matches!(
            self,
            ClientCommand::Get(_)
                | ClientCommand::Diff(_)
                | ClientCommand::Export(_)
                | ClientCommand::Watch(_)
                | ClientCommand::History(_)
                | ClientCommand::Explain(_)
                | ClientCommand::Who(_)
                | ClientCommand::Wait(_)
                | ClientCommand::Audit(_)
                | ClientCommand::Whoami(_)
                | ClientCommand::Role(_)
        )
    }
}

/// Runs the command. Returns its exit code, after an error has been reported.
pub fn run(command: ClientCommand) -> ExitCode {
    if command.changes_nothing() {
        telling::end_with_reader();
    }
    match command {
        ClientCommand::Whoami(args) => report_by_kind(block_on(accounts::whoami(args))),
        ClientCommand::User(command) => report_by_kind(block_on(accounts::user(command))),
        ClientCommand::Token(command) => report_by_kind(block_on(accounts::token(command))),
        ClientCommand::Role(command) => report_by_kind(block_on(accounts::role(command))),
        ClientCommand::Import(command) => report_to_pipelines(block_on(import::run(command))),
        ClientCommand::Get(args) => report_to_pipelines(block_on(get::get(args))),
        ClientCommand::Apply(args) => report_to_pipelines(block_on(apply::apply(args))),
        ClientCommand::Diff(args) => report_to_pipelines(block_on(apply::diff(args))),
        ClientCommand::Delete(args) => report_to_pipelines(block_on(apply::delete(args))),
        ClientCommand::Edit(args) => report_to_pipelines(block_on(edit::run(args))),
        ClientCommand::Draft(command) => report_to_pipelines(block_on(drafts::run(command))),
        ClientCommand::Export(args) => report_to_pipelines(block_on(get::export(args))),
        ClientCommand::Watch(args) => report_to_pipelines(block_on(get::watch(args))),
        ClientCommand::Release(args) => report_to_pipelines(block_on(releases::release(args))),
        ClientCommand::Rollback(args) => report_to_pipelines(block_on(releases::roll_back(args))),
        ClientCommand::Promote(args) => report_to_pipelines(block_on(releases::promote(args))),
        ClientCommand::Stop(args) => report_to_pipelines(block_on(releases::stop(args))),
        ClientCommand::Rollout(command) => report_to_pipelines(block_on(rollouts::run(command))),
        ClientCommand::Wait(args) => report_to_pipelines(block_on(waiting::run(args))),
        ClientCommand::Withdraw(args) => report_to_pipelines(block_on(releases::withdraw(args))),
        ClientCommand::History(args) => report_to_pipelines(block_on(history::run(args))),
        ClientCommand::Explain(args) => report_to_pipelines(block_on(explain::run(*args))),
        ClientCommand::Who(args) => report_to_pipelines(block_on(who::run(args))),
        // Exit codes of `drain` are 0 and 1 only.
        ClientCommand::Drain(command) => report(block_on(drain::run(command))),
        ClientCommand::Instance(command) => report_to_pipelines(block_on(instances::run(command))),
        ClientCommand::Xds(command) => report_by_kind(block_on(xds::run(command))),
        ClientCommand::Approval(command) => report_to_pipelines(block_on(approvals::run(command))),
        ClientCommand::Audit(args) => report_to_pipelines(block_on(trail::run(args))),
        ClientCommand::Key(command) => report_to_pipelines(block_on(keys::run(command))),
        ClientCommand::Context(command) => report_to_pipelines(contexts::run(command)),
        ClientCommand::Login(args) => report_by_kind(block_on(client::log_in(*args))),
        ClientCommand::Logout(args) => report_by_kind(block_on(client::log_out(args))),
        ClientCommand::Identity(command) => report_by_kind(block_on(identities::run(command))),
        ClientCommand::Sso(command) => report_by_kind(block_on(sso::run(command))),
        ClientCommand::Cluster(command) => report_by_kind(block_on(client::cluster(command))),
        // Exit codes of `health` are 0 and 1 only.
        ClientCommand::Health(endpoint) => report(block_on(client::health(&endpoint))),
    }
}

/// Runs the work of a command on a runtime of its own.
pub fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
