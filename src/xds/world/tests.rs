//! Worlds over catalogs in memory.

use std::sync::Arc;

use serde_json::json;

use super::testing::{Stage, client};
use crate::catalog::Op;
use crate::model::grant::{Grant, Grants, ReadScope, Role, Verb};
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{ResourceType, Resources};
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;
use crate::model::rule::traffic::ServiceKey;
use crate::proto::envoy::config::cluster::v3::Cluster;
use crate::proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, lb_endpoint::HostIdentifier};
use crate::proto::envoy::config::listener::v3::Listener;
use crate::proto::envoy::config::route::v3::RouteConfiguration;
use crate::xds::Source;
use crate::xds::client::Client;

fn names(resources: &Resources) -> Vec<&str> {
    resources.keys().map(|name| &**name).collect()
}

fn grpc() -> Client {
    client(Dialect::Grpc, &[])
}

fn envoy() -> Client {
    client(Dialect::Envoy, &[])
}

/// Priority, locality, weight of the locality, and addresses with health and weight.
fn shown(message: &ClusterLoadAssignment) -> Vec<String> {
    let localities = message.endpoints.iter().map(|of| {
        let locality = of.locality.clone().unwrap_or_default();
        let endpoints = of.lb_endpoints.iter().map(|one| {
            let Some(HostIdentifier::Endpoint(endpoint)) = &one.host_identifier else { return String::new() };
            let text = format!("{:?}", endpoint.address);
            let address = text.split('"').nth(1).unwrap_or_default().to_owned();
            format!("{address}:{}:{}", one.health_status, one.load_balancing_weight.unwrap_or_default())
        });
        let endpoints: Vec<_> = endpoints.collect();
        let weight = of.load_balancing_weight.unwrap_or_default();
        let place = format!("{}/{}/{}", locality.region, locality.zone, locality.sub_zone);
        format!("{} {place} {weight} {}", of.priority, endpoints.join(" "))
    });
    localities.collect()
}

#[test]
fn a_service_is_there_by_all_four_types() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("a/b", "c")]);
    for (name, service) in [("shop/pay", "shop/pay"), ("a%2Fb/c", "a%2Fb/c")] {
        let listener: Listener = stage.decoded(&grpc(), ResourceType::Listener, name);
        assert_eq!(listener.name, name);
        let routes: RouteConfiguration = stage.decoded(&grpc(), ResourceType::Route, service);
        assert_eq!((routes.virtual_hosts.len(), &*routes.virtual_hosts[0].domains), (1, &["*".to_owned()][..]));
        let cluster: Cluster = stage.decoded(&grpc(), ResourceType::Cluster, service);
        assert_eq!(cluster.eds_cluster_config.expect("by endpoints").service_name, service);
        let endpoints: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, service);
        assert_eq!((endpoints.cluster_name.as_str(), endpoints.endpoints.len()), (service, 0));
    }
    for kind in ResourceType::ALL {
        assert_eq!(stage.get(&grpc(), kind, "shop/other"), None, "{kind:?}");
    }
}
