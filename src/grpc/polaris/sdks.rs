//! Versions of SDKs, as their clients reported them.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;

use crate::model::text::first_bytes;

/// Maximum number of remembered clients. Beyond it all are forgotten: each reports again within minutes.
const SDKS_MAX: usize = 10_000;
/// Bytes of a version that are stored.
const VERSION_BYTES_MAX: usize = 64;
/// Bytes of a user agent that are stored.
const AGENT_BYTES_MAX: usize = 256;

/// Reported versions by address and user agent: an SDK reports on another connection than it discovers on.
#[derive(Default)]
pub(super) struct Sdks {
    versions: Mutex<HashMap<(Option<IpAddr>, String), String>>, // bound: sdk-versions
}

impl Sdks {
    /// Records the version that a client reports.
    pub(super) fn report(&self, address: Option<IpAddr>, agent: &str, version: &str) {
        let key = (address, first_bytes(agent, AGENT_BYTES_MAX).to_owned());
        let mut versions = self.versions.lock();
        if versions.len() >= SDKS_MAX && !versions.contains_key(&key) {
            versions.clear();
        }
        versions.insert(key, first_bytes(version, VERSION_BYTES_MAX).to_owned());
    }

    /// Returns the program of a client, with its version if it reported one: the user agent names the library of gRPC
    /// alone.
    pub(super) fn agent(&self, address: Option<IpAddr>, agent: &str) -> String {
        let agent = first_bytes(agent, AGENT_BYTES_MAX);
        match self.versions.lock().get(&(address, agent.to_owned())) {
            Some(version) => format!("polaris/{version} {agent}"),
            None => agent.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_an_address_and_bounded() {
        let (sdks, address) = (Sdks::default(), Some(IpAddr::from([10, 0, 0, 1])));
        sdks.report(address, "grpc-go/1.51.0", "v1.7.0");
        assert_eq!(sdks.agent(address, "grpc-go/1.51.0"), "polaris/v1.7.0 grpc-go/1.51.0");
        assert_eq!(sdks.agent(None, "grpc-go/1.51.0"), "grpc-go/1.51.0");
        for number in 0..=SDKS_MAX {
            sdks.report(None, &number.to_string(), "1");
        }
        assert!(sdks.versions.lock().len() <= SDKS_MAX);
    }
}
