//! Rules as clients of xDS carry them out: proxies and gRPC clients.
//!
//! A rule is planned here for one dialect, without a catalog and without protocol buffers. A part that clients cannot
//! carry out is left out whole and comes as a [`Warning`](warning::Warning). [`crate::xds`] decides which client it is.

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

/// Key of the metadata of a node that has a token, for clients that can send no header. No label, and shown nowhere.
pub const TOKEN_KEY: &str = "thuban_token";
/// Beginning of the names of listeners that servers of gRPC ask for; their address follows.
pub const SERVER_LISTENERS: &str = "server/";

/// Kind of a client, as it takes resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// A gRPC client without a proxy.
    Grpc,
    /// A sidecar, a gateway or a front proxy.
    Envoy,
}

impl Dialect {
    pub const ALL: [Dialect; 2] = [Dialect::Grpc, Dialect::Envoy];

    /// Finds the dialect by the user agent of a node, with or without its version.
    pub fn of_agent(agent: &str) -> Dialect {
        let is_envoy = agent.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("envoy"));
        if is_envoy { Dialect::Envoy } else { Dialect::Grpc }
    }

    /// Label on metrics and in answers.
    pub fn label(self) -> &'static str {
        match self {
            Dialect::Grpc => "grpc",
            Dialect::Envoy => "envoy",
        }
    }
}
