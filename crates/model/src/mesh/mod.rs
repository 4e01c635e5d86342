//! Rules in the form in which xDS clients, proxies and gRPC clients, carry them out.
//!
//! Rules are translated for one dialect here, without a catalog and without protocol buffers. A part that clients
//! cannot carry out is omitted as a whole and reported as a [`Warning`](warning::Warning). `xds` determines
//! the kind of a client.

pub mod beside;
pub mod breakers;
pub mod callee;
pub mod caller;
pub mod carried;
pub mod conditions;
pub mod domains;
pub mod library;
pub mod limits;
pub mod plan;
pub mod probes;
pub mod re2;
pub mod reached;
pub mod resource;
pub mod routing;
mod shares;
#[cfg(test)]
mod testing;
pub mod warning;
pub mod warnings;

/// Metadata key of a node for a token, for clients that cannot send headers. It is neither a label nor shown anywhere.
pub const TOKEN_KEY: &str = "thuban_token";
/// Prefix of the listener names that gRPC servers request, followed by their address.
pub const SERVER_LISTENERS: &str = "server/";

/// Kind of an xDS client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// A gRPC client without a proxy.
    Grpc,
    /// A sidecar, a gateway or a front proxy.
    Envoy,
}

impl Dialect {
    pub const ALL: [Dialect; 2] = [Dialect::Grpc, Dialect::Envoy];

    /// Returns the dialect for the user agent of a node, with or without its version.
    pub fn of_agent(agent: &str) -> Dialect {
        let is_envoy = agent.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("envoy"));
        if is_envoy { Dialect::Envoy } else { Dialect::Grpc }
    }

    /// Returns the label in metrics and answers.
    pub fn label(self) -> &'static str {
        match self {
            Dialect::Grpc => "grpc",
            Dialect::Envoy => "envoy",
        }
    }
}
