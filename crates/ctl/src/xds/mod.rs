//! `thuban xds`: proxies and gRPC clients that fetch rules over xDS.

mod bootstrap;
pub(super) mod fleet;

use clap::Subcommand;

use bootstrap::BootstrapCommand;
use fleet::{ClientsArgs, DumpArgs};

#[derive(Subcommand)]
pub(super) enum XdsCommand {
    /// Write the bootstrap of a client
    #[command(subcommand)]
    Bootstrap(Box<BootstrapCommand>),
    /// List the connected clients and what each has
    Clients(ClientsArgs),
    /// Show every resource of a client, with the release that it was built from
    Dump(DumpArgs),
}

pub(super) async fn run(command: XdsCommand) -> anyhow::Result<()> {
    match command {
        XdsCommand::Bootstrap(command) => bootstrap::run(*command).await,
        XdsCommand::Clients(args) => fleet::clients(args).await,
        XdsCommand::Dump(args) => fleet::dump(args).await,
    }
}
