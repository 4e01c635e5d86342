//! Settings of `thuban dev`: one node on loopback addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::faults::Faults;
use super::secure::CERTIFICATE_WARN_DAYS;
use super::{API_PORT, COMPAT_PORT, Config, Tuning, grpc};

/// Settings of `thuban dev`.
#[derive(Args, Clone, Debug)]
pub struct DevArgs {
    /// Data directory of the node
    #[arg(long, env = "THUBAN_DATA_DIR", default_value = "./thuban-data")]
    pub data_dir: PathBuf,

    /// Port of the management API on 127.0.0.1; 0 for a free one
    #[arg(long, default_value_t = API_PORT)]
    pub api_port: u16,

    /// Port for config clients on 127.0.0.1; 0 for a free one
    #[arg(long, default_value_t = COMPAT_PORT)]
    pub compat_port: u16,

    /// Port for gRPC on 127.0.0.1, with xDS for Envoy and for gRPC clients without a proxy, and the services of Polaris
    /// for its SDKs, which are on 8093 too unless another port is given; 0 for a free one
    #[arg(long, default_value_t = grpc::GRPC_PORT)]
    pub grpc_port: u16,

    /// Fill an empty directory with services, config files, rules and rollouts, and run clients that use them
    #[arg(long)]
    pub demo: bool,

    #[command(flatten)]
    pub tuning: Tuning,
}

impl DevArgs {
    pub fn check(self) -> Result<Config, Vec<String>> {
        let mut faults = Faults::default();
        faults.tuning(&self.tuning);
        let data_keys = faults.data_keys(self.tuning.data_key_file.as_deref());
        let traces = self.tuning.otlp.check(&mut faults);
        if !faults.0.is_empty() {
            return Err(faults.0);
        }
        Ok(Config {
            node_id: 1,
            data_dir: self.data_dir,
            api_addr: SocketAddr::from(([127, 0, 0, 1], self.api_port)),
            compat_addr: SocketAddr::from(([127, 0, 0, 1], self.compat_port)),
            metrics_addr: None,
            peer_addr: None,
            grpc_addrs: grpc::on_loopback(self.grpc_port),
            advertise_api: None,
            advertise_compat: None,
            advertise_grpc: None,
            initial_cluster: BTreeMap::from([(1, "127.0.0.1:8190".to_owned())]),
            form_with_majority: false,
            cluster_secret: None,
            admin_password: None,
            tls: None,
            certificate_warn_days: CERTIFICATE_WARN_DAYS,
            data_keys,
            traces,
            hold: Duration::from_millis(self.tuning.long_poll_timeout_ms),
            drain: Duration::ZERO,
            tuning: self.tuning,
        })
    }
}
