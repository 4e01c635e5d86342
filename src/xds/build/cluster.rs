//! Clusters: of all instances of a service, and of its sets of labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::label_sets::LabelSet;
use super::listener::{address_of, over_the_stream};
use super::{Draft, Site, UnitKey};
use crate::model::instance::Instance;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, ResourceType};
use crate::proto::Any;
use crate::proto::envoy::config::cluster::v3 as cluster;
use crate::proto::envoy::config::core::v3::{Http2ProtocolOptions, Metadata};
use crate::proto::envoy::config::endpoint::v3 as endpoint;
use crate::proto::envoy::extensions::upstreams::http::v3 as upstream;
use crate::proto::envoy::r#type::v3::Percent;
use crate::xds::names::{self, ClusterName, ServiceName};

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const LOOPBACK: &str = "127.0.0.1";

/// The clusters of a service.
pub(super) fn of_service(site: &mut Site<'_>, key: &UnitKey) -> Vec<Draft> {
    let Some(service) = site.service(&key.name) else { return Vec::new() };
    let is_http2 = key.dialect == Dialect::Envoy && speaks_http2(&site.instances(&service));
    let all = (ClusterName { service: service.clone(), set: None, place: None }, None);
    let of_sets = site
        .sets(&service)
        .into_iter()
        .map(|(digits, set)| (ClusterName { service: service.clone(), set: Some(digits), place: None }, Some(set)));
    let made = |(name, set): (ClusterName, Option<Arc<LabelSet>>)| {
        let mut message = by_endpoints(site, &name, &name);
        message.metadata = set.map(|set| shown(&set));
        if key.dialect == Dialect::Envoy {
            for_proxies(&mut message, is_http2);
        }
        Draft::of(ResourceType::Cluster, &message.name, &message)
    };
    std::iter::once(all).chain(of_sets).map(made).collect()
}

/// The conditions of a set, for people who look at a proxy.
fn shown(set: &LabelSet) -> Metadata {
    let text = Value { kind: Some(Kind::StringValue(set.shown())) };
    let fields = Struct { fields: [("labels".to_owned(), text)].into() };
    Metadata { filter_metadata: [("thuban".to_owned(), fields)].into() }
}

/// Name under which the endpoints of a cluster are asked for; none for one that has its own.
pub(crate) fn endpoints_name(cluster: &Resource) -> Option<String> {
    let message = cluster::Cluster::decode(cluster.bytes.clone()).ok()?;
    message.eds_cluster_config.map(|eds| eds.service_name)
}

/// A cluster whose endpoints come under a name of their own.
fn by_endpoints(site: &Site<'_>, name: &ClusterName, endpoints: &ClusterName) -> cluster::Cluster {
    let eds = cluster::cluster::EdsClusterConfig {
        eds_config: Some(over_the_stream()),
        service_name: site.name(ResourceType::Endpoints, &endpoints.to_string()),
    };
    cluster::Cluster {
        name: site.name(ResourceType::Cluster, &name.to_string()),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::Type(
            cluster::cluster::DiscoveryType::Eds.into(),
        )),
        eds_cluster_config: Some(eds),
        lb_policy: cluster::cluster::LbPolicy::RoundRobin.into(),
        ..Default::default()
    }
}

fn for_proxies(message: &mut cluster::Cluster, is_http2: bool) {
    // Without it, half of the instances being unhealthy sends traffic to all of them.
    let never = cluster::cluster::CommonLbConfig {
        healthy_panic_threshold: Some(Percent { value: 0.0 }),
        ..Default::default()
    };
    message.common_lb_config = Some(never);
    message.ignore_health_on_host_removal = true;
    if is_http2 {
        message.typed_extension_protocol_options.insert(HTTP_OPTIONS.to_owned(), http2_options());
    }
}

fn http2_options() -> Any {
    use upstream::http_protocol_options::explicit_http_config::ProtocolConfig;
    use upstream::http_protocol_options::{ExplicitHttpConfig, UpstreamProtocolOptions};
    let protocol_config = Some(ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions {}));
    let explicit = UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig { protocol_config });
    Any::pack(&upstream::HttpProtocolOptions { upstream_protocol_options: Some(explicit) })
}

/// True if most instances speak HTTP/2.
fn speaks_http2(instances: &[&Arc<Instance>]) -> bool {
    let is_http2 = |protocol: &str| ["grpc", "http2"].iter().any(|known| protocol.eq_ignore_ascii_case(known));
    let speaking = instances.iter().filter(|instance| is_http2(&instance.protocol)).count();
    2 * speaking > instances.len()
}

/// The cluster of the service beside a proxy, at a port of its own machine.
pub(crate) fn inbound(service: &ServiceName, port: u16, instances: &[&Arc<Instance>]) -> Draft {
    let name = names::inbound(service);
    let endpoint = endpoint::Endpoint { address: Some(address_of(LOOPBACK, port)), ..Default::default() };
    let host_identifier = Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(endpoint));
    let lb_endpoints = vec![endpoint::LbEndpoint { host_identifier, ..Default::default() }];
    let locality = endpoint::LocalityLbEndpoints { lb_endpoints, ..Default::default() };
    let mut message = cluster::Cluster {
        name: name.clone(),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::Type(
            cluster::cluster::DiscoveryType::Static.into(),
        )),
        load_assignment: Some(endpoint::ClusterLoadAssignment {
            cluster_name: name.clone(),
            endpoints: vec![locality],
            ..Default::default()
        }),
        typed_extension_protocol_options: BTreeMap::new(),
        ..Default::default()
    };
    for_proxies(&mut message, speaks_http2(instances));
    Draft::of(ResourceType::Cluster, &name, &message)
}
