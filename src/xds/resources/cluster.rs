//! Clusters of all instances of a service, and of its subsets.

use std::sync::Arc;

use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::listener::{address_of, over_the_stream};
use super::{BuildContext, Draft, UnitKey, inbound, outlier, probes};
use crate::model::instance::Instance;
use crate::model::mesh::Dialect;
use crate::model::mesh::breakers::{self, Breaker};
use crate::model::mesh::callee::{is_http2, speaks_grpc};
use crate::model::mesh::resource::ResourceType;
use crate::model::mesh::{limits, probes as probe};
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Family, Rule};
use crate::proto::Any;
use crate::proto::envoy::config::cluster::v3 as cluster;
use crate::proto::envoy::config::core::v3::{Http2ProtocolOptions, Metadata};
use crate::proto::envoy::config::endpoint::v3 as endpoint;
use crate::proto::envoy::extensions::upstreams::http::v3 as upstream;
use crate::proto::envoy::r#type::v3::Percent;
use crate::xds::locality::Locality;
use crate::xds::names::{self, ClusterName, ServiceName};
use crate::xds::subset::Subset;

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const LOOPBACK: &str = "127.0.0.1";

/// Parts common to all clusters of a service.
struct Common {
    is_http2: bool,
    /// Locality for which endpoints are requested, if nearness counts.
    locality: Option<Locality>,
    breakers: Vec<Breaker>,
    probes: probe::ProbePlan,
    /// Host name for probes.
    host: String,
    releases: Vec<Arc<RuleRelease>>,
}

impl Common {
    fn of(ctx: &mut BuildContext<'_>, service: &ServiceName, dialect: Dialect) -> Common {
        let policies = ctx.policies(service);
        let locality = policies.locality_of_client(&mut ctx.inputs);
        let breaking = ctx.all_releases(Family::CircuitBreaker, service);
        let mut common = Common {
            is_http2: false,
            locality,
            breakers: breakers::plan(&rules_of(&breaking), &service.key(), dialect),
            probes: probe::ProbePlan::default(),
            host: format!("{}.{}", service.service, service.namespace),
            releases: policies.releases,
        };
        common.releases.extend(breaking.into_iter().cloned());
        if dialect == Dialect::Envoy {
            let probing = ctx.all_releases(Family::FaultDetect, service);
            common.is_http2 = speaks_http2(&ctx.instances(service));
            common.probes = probe::plan(&rules_of(&probing));
            common.releases.extend(probing.into_iter().cloned());
        }
        common
    }

    fn cluster(
        &self,
        ctx: &mut BuildContext<'_>,
        name: &ClusterName,
        subset: Option<&Subset>,
        dialect: Dialect,
    ) -> Draft {
        let mut message = by_endpoints(ctx, name, &ClusterName { locality: self.locality.clone(), ..name.clone() });
        message.metadata = subset.map(subset_metadata);
        message.circuit_breakers = Some(inbound::unlimited());
        let detected = breakers::detection(&self.breakers, subset.is_some(), |caller| ctx.inputs.meets(caller));
        message.outlier_detection = detected.and_then(|detected| outlier::detection(&detected, dialect));
        if dialect == Dialect::Envoy {
            for_proxies(&mut message, self.is_http2);
            probes::apply(&self.probes, &self.host, self.is_http2, &mut message);
        }
        let releases = self.releases.clone();
        Draft { releases, ..Draft::of(ResourceType::Cluster, &message.name, &message) }
    }
}

pub(super) fn rules_of<'a>(releases: &[&'a Arc<RuleRelease>]) -> Vec<&'a Rule> {
    releases.iter().map(|release| &*release.rule).collect()
}

/// Builds the clusters of a service.
pub(super) fn of_service(ctx: &mut BuildContext<'_>, key: &UnitKey) -> Vec<Draft> {
    let Some(service) = ctx.service(&key.name) else { return Vec::new() };
    let common = Common::of(ctx, &service, key.dialect);
    let all = ClusterName { service: service.clone(), subset: None, locality: None };
    let mut made = vec![common.cluster(ctx, &all, None, key.dialect)];
    for (hash, subset) in ctx.subsets(&service) {
        let name = ClusterName { subset: Some(hash), ..all.clone() };
        made.push(common.cluster(ctx, &name, Some(&subset), key.dialect));
    }
    made
}

/// Returns the conditions of a subset as metadata, for people who inspect a proxy.
fn subset_metadata(subset: &Subset) -> Metadata {
    let text = Value { kind: Some(Kind::StringValue(subset.describe())) };
    let fields = Struct { fields: [("labels".to_owned(), text)].into() };
    Metadata { filter_metadata: [("thuban".to_owned(), fields)].into() }
}

/// Returns a cluster whose endpoints are requested under `endpoints`.
fn by_endpoints(ctx: &BuildContext<'_>, name: &ClusterName, endpoints: &ClusterName) -> cluster::Cluster {
    let eds = cluster::cluster::EdsClusterConfig {
        eds_config: Some(over_the_stream()),
        service_name: ctx.name(ResourceType::Endpoints, &endpoints.to_string()),
    };
    cluster::Cluster {
        name: ctx.name(ResourceType::Cluster, &name.to_string()),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::Type(
            cluster::cluster::DiscoveryType::Eds.into(),
        )),
        eds_cluster_config: Some(eds),
        lb_policy: cluster::cluster::LbPolicy::RoundRobin.into(),
        ..Default::default()
    }
}

fn for_proxies(message: &mut cluster::Cluster, is_http2: bool) {
    // Otherwise a proxy sends traffic to all instances once half of them are unhealthy.
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

/// Reports whether most instances speak HTTP/2.
fn speaks_http2(instances: &[&Arc<Instance>]) -> bool {
    let speaking = instances.iter().filter(|instance| is_http2(&instance.protocol)).count();
    2 * speaking > instances.len()
}

/// Builds the cluster of the service next to a proxy, at a port of its machine. It exists even before the service does.
pub(super) fn inbound(ctx: &mut BuildContext<'_>, key: &UnitKey, port: u16) -> Vec<Draft> {
    let service = &key.name;
    if !ctx.inputs.sees(service) {
        return Vec::new();
    }
    let name = names::inbound(service);
    let endpoint = endpoint::Endpoint { address: Some(address_of(LOOPBACK, port)), ..Default::default() };
    let host_identifier = Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(endpoint));
    let lb_endpoints = vec![endpoint::LbEndpoint { host_identifier, ..Default::default() }];
    let locality = endpoint::LocalityLbEndpoints { lb_endpoints, ..Default::default() };
    let load_assignment = Some(endpoint::ClusterLoadAssignment {
        cluster_name: name.clone(),
        endpoints: vec![locality],
        ..Default::default()
    });
    let limited = Limited::of(ctx, service);
    let discovery = cluster::cluster::DiscoveryType::Static.into();
    let mut message = cluster::Cluster {
        name: name.clone(),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::Type(discovery)),
        load_assignment,
        circuit_breakers: Some(inbound::circuit_breakers(&limited.plan, limited.sharers)),
        ..Default::default()
    };
    for_proxies(&mut message, speaks_http2(&ctx.instances(service)));
    vec![Draft { releases: limited.releases, ..Draft::of(ResourceType::Cluster, &name, &message) }]
}

/// Limits of a service, enforced by the proxy next to each of its instances.
pub(super) struct Limited {
    pub(super) plan: limits::LimitPlan,
    pub(super) sharers: u32,
    pub(super) releases: Vec<Arc<RuleRelease>>,
}

impl Limited {
    pub(super) fn of(ctx: &mut BuildContext<'_>, service: &ServiceName) -> Limited {
        let releases = ctx.all_releases(Family::RateLimit, service);
        if releases.is_empty() {
            return Limited { plan: limits::LimitPlan::default(), sharers: 1, releases: Vec::new() };
        }
        let mut abilities = ctx.inputs.abilities(Dialect::Envoy);
        abilities.is_callee_grpc = speaks_grpc(ctx.instances(service).into_iter().map(Arc::as_ref));
        let plan = limits::plan(&rules_of(&releases), abilities);
        let sharers = inbound::sharers(ctx.instances(service).into_iter().map(|instance| &**instance));
        Limited { plan, sharers, releases: releases.into_iter().cloned().collect() }
    }
}
