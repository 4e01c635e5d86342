//! Addresses of a node.

use std::net::SocketAddr;

use crate::config::Config;

/// Addresses at which a node listens.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Bound {
    pub node_id: u64,
    pub api: SocketAddr,
    pub compat: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grpc: Vec<SocketAddr>,
}

impl Bound {
    /// Logs the first line of a node: version, id, data directory and addresses.
    pub(super) fn log_start(&self, config: &Config) {
        let list = |addresses: &[SocketAddr]| match addresses {
            [] => "none".to_owned(),
            some => some.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(","),
        };
        tracing::info!(
            version = %env!("CARGO_PKG_VERSION"),
            node = self.node_id,
            data_dir = %config.data_dir.display(),
            api = %self.api,
            compat = %self.compat,
            grpc = %list(&self.grpc),
            peer = %list(self.peer.as_slice()),
            metrics = %list(self.metrics.as_slice()),
            "thuban starts"
        );
        if let Some(traces) = &config.traces {
            tracing::info!(endpoint = %traces.url, sample = traces.share, "traces are sent to a collector");
        }
    }
}
