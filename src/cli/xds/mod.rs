//! `thuban xds`: proxies and gRPC clients that fetch rules over xDS.

mod bootstrap;

use clap::Subcommand;

use bootstrap::BootstrapCommand;

#[derive(Subcommand)]
pub(super) enum XdsCommand {
    /// Write the bootstrap of a client
    #[command(subcommand)]
    Bootstrap(BootstrapCommand),
}

pub(super) fn run(command: XdsCommand) -> anyhow::Result<()> {
    match command {
        XdsCommand::Bootstrap(command) => bootstrap::run(command),
    }
}
