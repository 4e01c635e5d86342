//! Settings of the gRPC listeners and of the xDS clients that they serve.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::faults::Faults;
use crate::model::host;

pub(super) const GRPC_PORT: u16 = 8091;
/// Port at which SDKs of Polaris read config files unless they are configured otherwise.
const POLARIS_CONFIG_PORT: u16 = 8093;
/// Value that disables the listeners.
const OFF: &str = "off";
const ADDRESSES_MAX: usize = 16;

/// Settings of the listeners of gRPC.
#[derive(Args, Clone, Debug)]
pub struct GrpcArgs {
    /// Addresses for gRPC, separated by commas, with xDS for Envoy and for proxyless gRPC clients, and the services of
    /// Polaris for its SDKs; `off` for none
    #[arg(
        long,
        env = "THUBAN_GRPC_ADDR",
        default_value = "0.0.0.0:8091,0.0.0.0:8093,0.0.0.0:15010",
        value_name = "ADDRESSES"
    )]
    pub grpc_addr: String,

    /// HOST:PORT of gRPC as its clients reach it [default: the first bound address]
    #[arg(long, env = "THUBAN_ADVERTISE_GRPC", value_name = "HOST:PORT")]
    pub advertise_grpc: Option<String>,
}

/// Settings of xDS.
#[derive(Args, Clone, Debug)]
pub struct XdsArgs {
    /// Maximum age of an xDS stream in milliseconds, varied by a tenth, so that clients rebalance over the nodes; 0 for
    /// unlimited
    #[arg(long, env = "THUBAN_GRPC_STREAM_MAX_AGE_MS", default_value_t = 1_800_000)]
    pub grpc_stream_max_age_ms: u64,

    /// Authority of the xdstp:// names that are answered [default: none]
    #[arg(long, env = "THUBAN_XDS_AUTHORITY")]
    pub xds_authority: Option<String>,
}

/// Returns the loopback addresses of a development node: with the usual port also that of Polaris' config files.
pub(super) fn on_loopback(port: u16) -> Vec<SocketAddr> {
    let also = (port == GRPC_PORT).then_some(POLARIS_CONFIG_PORT);
    [port].into_iter().chain(also).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect()
}

impl GrpcArgs {
    /// Returns the addresses to listen on; none for `off`.
    pub(super) fn check(&self, others: &[Option<SocketAddr>], faults: &mut Faults) -> Vec<SocketAddr> {
        let text = self.grpc_addr.trim();
        if text.is_empty() || text == OFF {
            return Vec::new();
        }
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        if parts.len() > ADDRESSES_MAX {
            faults.add(format!("--grpc-addr may hold {ADDRESSES_MAX} addresses"));
            return Vec::new();
        }
        let addresses: Vec<SocketAddr> =
            parts.into_iter().filter_map(|part| faults.address("--grpc-addr", part)).collect();
        let is_taken = |(position, address): (usize, &SocketAddr)| {
            address.port() != 0 && (others.contains(&Some(*address)) || addresses[..position].contains(address))
        };
        if addresses.iter().enumerate().any(is_taken) {
            faults.add("--grpc-addr has to differ from the other addresses, and none may be there twice");
        }
        addresses
    }
}

impl XdsArgs {
    pub(super) fn check(&self, faults: &mut Faults) {
        let is_host = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
        if self.authority().is_some_and(|text| host::fault(text).is_some() || !is_host(text)) {
            faults.add("--xds-authority has to be a host name");
        }
    }

    /// Returns the age at which a stream ends; none for never.
    pub fn stream_max_age(&self) -> Option<Duration> {
        (self.grpc_stream_max_age_ms > 0).then(|| Duration::from_millis(self.grpc_stream_max_age_ms))
    }

    /// Returns the authority of xdstp:// names; none if the setting is empty.
    pub fn authority(&self) -> Option<&str> {
        self.xds_authority.as_deref().filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, others: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut faults = Faults::default();
        let others: Vec<_> = others.iter().map(|text| text.parse().ok()).collect();
        let addresses = GrpcArgs { grpc_addr: text.to_owned(), advertise_grpc: None }.check(&others, &mut faults);
        (addresses.iter().map(SocketAddr::to_string).collect(), faults.0)
    }

    #[test]
    fn a_list_of_addresses_or_none() {
        for nothing in ["off", "", " off "] {
            assert_eq!(check(nothing, &[]), (Vec::new(), Vec::new()), "{nothing:?}");
        }
        assert_eq!(check("127.0.0.1:1, [::1]:2,", &[]), (vec!["127.0.0.1:1".into(), "[::1]:2".into()], Vec::new()));
        assert_eq!(check("127.0.0.1:0,127.0.0.1:0", &["127.0.0.1:0"]).1, Vec::<String>::new(), "free ones differ");
        for (text, part) in [
            ("nonsense", "\"nonsense\""),
            ("127.0.0.1:1,OFF", "\"OFF\""),
            ("127.0.0.1:1,127.0.0.1:1", "has to differ"),
            ("127.0.0.1:9", "has to differ"),
            (&["127.0.0.1:0"; 17].join(","), "may hold 16"),
        ] {
            let (_, faults) = check(text, &["127.0.0.1:9"]);
            assert!(matches!(faults.as_slice(), [fault] if fault.contains(part)), "{text}: {faults:?}");
        }
    }

    #[test]
    fn an_authority_is_a_host_name() {
        let of = |text: &str| {
            let mut faults = Faults::default();
            XdsArgs { grpc_stream_max_age_ms: 0, xds_authority: Some(text.to_owned()) }.check(&mut faults);
            faults.0.is_empty()
        };
        assert!(of("") && of("thuban.example.com") && of("10.0.0.1"));
        assert!(!of("a b") && !of("a/b") && !of(&"x".repeat(254)));
    }
}
