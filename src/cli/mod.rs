//! The command line: commands that run nodes or work on data of stopped nodes, and those of [`thuban_ctl`], which call
//! a running cluster.

mod backup;
mod certs;
mod demo;
mod dev;
mod examples;
mod help;
mod offline;
mod running;
mod shell;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use thuban_ctl::block_on;
use thuban_ctl::errors::Usage;
use thuban_ctl::exit::{EXIT_CONFIG, report, report_by_kind, report_to_pipelines};
use thuban_ctl::telling::{self, say_error};

use crate::config::{DevArgs, InspectArgs, RecoverArgs, ResetPasswordArgs, RestoreArgs, ServeArgs};
use crate::raft::removal::Removed;
use crate::tasks::TaskDied;

pub use self::help::parse;

/// Certificate files are unusable, perhaps only for a moment: a restart may succeed.
const EXIT_CERTIFICATES: u8 = 5;
/// The node was removed from its cluster: a restart does not bring it back.
const EXIT_REMOVED: u8 = 6;
/// A required task panicked: `EX_SOFTWARE` of sysexits.
const EXIT_TASK_DIED: u8 = 70;

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
    /// Save the whole state to a file, for `restore`
    Backup(backup::BackupArgs),
    #[command(flatten)]
    Client(thuban_ctl::ClientCommand),
    /// Print a shell completion script
    Completion(shell::CompletionArgs),
    /// Print the manual page, or write one per command
    Man(shell::ManArgs),
}

/// Runs the command. Returns 2 for bad configuration, 5 for unusable certificate files, 6 for a removed node, 1 for any
/// other failure.
pub fn run(cli: Cli) -> ExitCode {
    // Every file written from here on, data or backup, is accessible to the user of this process alone.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    if matches!(cli.command, Command::Inspect(_) | Command::Completion(_) | Command::Man(_)) {
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
        Command::Inspect(args) => report(offline::run_inspect(&args)),
        Command::Certs(args) => report(certs::run(&args)),
        Command::Completion(args) => report_to_pipelines(shell::completion(&args)),
        Command::Man(args) => report_to_pipelines(shell::man(&args)),
        // Exit codes of `backup` are 0 and 1 only.
        Command::Backup(args) => report(block_on(backup::run(args))),
        Command::Client(command) => thuban_ctl::run(command),
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

fn list_faults(faults: &[String]) -> ExitCode {
    for fault in faults {
        say_error(&format!("thuban: {fault}"));
    }
    ExitCode::from(EXIT_CONFIG)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

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
