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

    /// Label on metrics and in answers.
    pub fn label(self) -> &'static str {
        match self {
            Dialect::Grpc => "grpc",
            Dialect::Envoy => "envoy",
        }
    }
}
