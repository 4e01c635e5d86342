//! Warnings about the instances of a service: those that xDS clients do not reach, or reach differently from their
//! registration.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::callee;
use super::warning::{ENVOY, EVERY_CLIENT, Warning};
use crate::model::instance::Instance;

/// Highest number of addresses in one list of warnings.
const NAMED_MAX: usize = 10;

/// Facts about the instances of one service.
pub struct Reached {
    /// Number of instances by address.
    addresses: BTreeMap<(IpAddr, u16), usize>,
    is_mixed: bool,
    is_http2: bool,
}

impl Reached {
    pub fn of<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> Self {
        let (mut addresses, mut counts) = (BTreeMap::new(), [0_usize; 2]);
        for instance in instances {
            counts[usize::from(callee::is_http2(&instance.protocol))] += 1;
            if let Ok(host) = instance.host.parse() {
                *addresses.entry((host, instance.port)).or_default() += 1;
            }
        }
        Reached { addresses, is_mixed: !counts.contains(&0), is_http2: counts[1] > counts[0] }
    }

    /// Returns the warnings on one of the instances.
    pub fn warnings_on(&self, instance: &Instance) -> Vec<Warning> {
        let twice = |host| self.addresses.get(&(host, instance.port)).is_some_and(|count| *count > 1);
        let on_address = match instance.host.parse() {
            Err(_) => Some(no_address(instance)),
            Ok(host) => twice(host).then(|| there_twice(host, instance.port)),
        };
        on_address.into_iter().chain(self.mixed()).collect()
    }

    /// Returns the warnings on all instances; only the first few of those with host names and of duplicates.
    pub fn warnings<'a>(&self, instances: impl IntoIterator<Item = &'a Instance>) -> Vec<Warning> {
        let named: BTreeSet<Warning> =
            instances.into_iter().filter(|one| one.host.parse::<IpAddr>().is_err()).map(no_address).collect();
        let twice = self.addresses.iter().filter(|(_, count)| **count > 1);
        let twice = twice.map(|((host, port), _)| there_twice(*host, *port));
        named.into_iter().take(NAMED_MAX).chain(twice.take(NAMED_MAX)).chain(self.mixed()).collect()
    }

    fn mixed(&self) -> Option<Warning> {
        let protocol = if self.is_http2 { "HTTP/2" } else { "HTTP/1.1" };
        let text = format!("instances speak different protocols: Envoy takes {protocol} for all");
        self.is_mixed.then(|| Warning::approximate(3, ENVOY, text))
    }
}

fn no_address(instance: &Instance) -> Warning {
    let Instance { host, port, .. } = instance;
    let text = format!("instance {host}:{port} is a name: proxies and gRPC take addresses only, it is left out");
    Warning::left_out(1, EVERY_CLIENT, text)
}

fn there_twice(host: IpAddr, port: u16) -> Warning {
    let host = if host.is_ipv6() { format!("[{host}]") } else { host.to_string() };
    Warning::approximate(2, EVERY_CLIENT, format!("{host}:{port} is there more than once: kept once"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::mesh::testing;

    fn instance((host, port, protocol, vpc): &(&str, u16, &str, &str)) -> Instance {
        testing::instance(&json!({ "id": format!("{host}{port}{vpc}"), "namespace": "shop", "service": "pay",
            "host": host, "port": port, "protocol": protocol, "vpc_id": vpc }))
    }

    #[test]
    fn instances_that_are_not_reached_as_registered_are_named() {
        let rows = [
            (vec![("10.0.0.1", 80, "http", ""), ("10.0.0.1", 81, "http", "")], vec![]),
            (
                vec![("10.0.0.1", 80, "", ""), ("pay.example.internal", 8002, "", "")],
                vec![
                    "W1: instance pay.example.internal:8002 is a name: proxies and gRPC take addresses only, \
                     it is left out",
                ],
            ),
            (
                vec![("::1", 80, "http", "a"), ("0:0:0:0:0:0:0:1", 80, "http", "b")],
                vec!["W2: [::1]:80 is there more than once: kept once"],
            ),
            (
                vec![("10.0.0.1", 80, "grpc", ""), ("10.0.0.2", 80, "GRPC", ""), ("10.0.0.3", 80, "http", "")],
                vec!["W3: instances speak different protocols: Envoy takes HTTP/2 for all"],
            ),
        ];
        for (given, expected) in rows {
            let all: Vec<_> = given.iter().map(instance).collect();
            let reached = Reached::of(&all);
            let shown = |warnings: Vec<Warning>| warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(shown(reached.warnings(&all)), expected, "{given:?}");
            assert_eq!(shown(reached.warnings_on(&all[all.len() - 1])), expected, "{given:?}");
        }
    }
}
