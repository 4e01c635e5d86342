//! Routes of services: for gRPC clients one configuration each, for proxies virtual hosts put together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::Duration;

use super::{Draft, Site, UnitKey};
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::ResourceType;
use crate::model::rule::release::RuleRelease;
use crate::proto::envoy::config::route::v3 as route;
use crate::xds::names::{self, ClusterName, ServiceName};

/// Numbers of the fields that are written here: virtual hosts of a configuration, domains of a virtual host.
const VIRTUAL_HOSTS: u32 = 2;
const DOMAINS: u32 = 2;

/// The routes of one service with what they were made from.
struct Routed {
    routes: Vec<route::Route>,
    releases: Vec<Arc<RuleRelease>>,
    clusters: Vec<Arc<str>>,
}

/// The routes to a service: those of the rules in force, and the one to all instances.
fn routed(site: &mut Site<'_>, service: &ServiceName, dialect: Dialect) -> Routed {
    let all = ClusterName { service: service.clone(), set: None, place: None };
    let cluster = site.name(ResourceType::Cluster, &all.to_string());
    let clusters = vec![cluster.as_str().into()];
    Routed { routes: vec![to_cluster(cluster, dialect)], releases: Vec::new(), clusters }
}

/// A route of every request to a cluster.
fn to_cluster(cluster: String, dialect: Dialect) -> route::Route {
    let action = route::RouteAction {
        cluster_specifier: Some(route::route_action::ClusterSpecifier::Cluster(cluster)),
        timeout: unlimited(dialect),
        ..Default::default()
    };
    route::Route { r#match: Some(every_path(dialect)), action: Some(route::route::Action::Route(action)), ..Default::default() }
}

/// Proxies would end every request after 15 s.
fn unlimited(dialect: Dialect) -> Option<Duration> {
    (dialect == Dialect::Envoy).then(Duration::default)
}

fn every_path(dialect: Dialect) -> route::RouteMatch {
    let prefix = if dialect == Dialect::Envoy { "/" } else { "" };
    let path_specifier = Some(route::route_match::PathSpecifier::Prefix(prefix.to_owned()));
    route::RouteMatch { path_specifier, ..Default::default() }
}

/// The configuration of a service for gRPC.
pub(super) fn of_service(site: &mut Site<'_>, key: &UnitKey) -> Vec<Draft> {
    let Some(service) = site.service(&key.name) else { return Vec::new() };
    let Routed { routes, releases, clusters } = routed(site, &service, key.dialect);
    let name = site.name(ResourceType::Route, &service.to_string());
    let host = route::VirtualHost {
        name: service.to_string(),
        domains: vec!["*".to_owned()],
        routes,
        ..Default::default()
    };
    let message = route::RouteConfiguration { name: name.clone(), virtual_hosts: vec![host] };
    vec![Draft { releases, clusters, ..Draft::of(ResourceType::Route, &name, &message) }]
}

/// The configuration of the proxy beside a service: all that comes goes there.
pub(super) fn inbound(site: &mut Site<'_>, key: &UnitKey) -> Vec<Draft> {
    let Some(service) = site.service(&key.name) else { return Vec::new() };
    let name = names::inbound(&service);
    let host = route::VirtualHost {
        name: name.clone(),
        domains: vec!["*".to_owned()],
        routes: vec![to_cluster(name.clone(), Dialect::Envoy)],
        ..Default::default()
    };
    let message = route::RouteConfiguration { name: name.clone(), virtual_hosts: vec![host] };
    let clusters = vec![name.as_str().into()];
    vec![Draft { clusters, ..Draft::of(ResourceType::Route, &name, &message) }]
}

/// A virtual host for proxies, without its domains: they depend on the hosts beside it.
#[derive(Debug, PartialEq)]
pub struct Host {
    /// The service, or the alias, by which it is called.
    pub name: ServiceName,
    pub index: u64,
    message: Vec<u8>,
    releases: Vec<Arc<RuleRelease>>,
    clusters: Vec<Arc<str>>,
}

/// The virtual host of a service, or of an alias of one.
pub(super) fn host(site: &mut Site<'_>, name: &ServiceName) -> Option<Host> {
    let service = site.resolve(name)?;
    let Routed { routes, releases, clusters } = routed(site, &service, Dialect::Envoy);
    let message = route::VirtualHost { name: name.to_string(), routes, ..Default::default() }.encode_to_vec();
    Some(Host { name: name.clone(), index: site.index(), message, releases, clusters })
}

/// A configuration for proxies, of virtual hosts by name. A domain belongs to the first that has it, as a proxy refuses
/// a configuration that names one twice.
pub fn outbound<'a>(
    namespace: Option<&str>,
    hosts: impl Iterator<Item = &'a Host>,
    own_namespace: Option<&str>,
) -> Draft {
    let name = names::outbound(namespace);
    let mut bytes = route::RouteConfiguration { name: name.clone(), ..Default::default() }.encode_to_vec();
    let mut taken = BTreeSet::new();
    let mut releases: BTreeMap<&str, &Arc<RuleRelease>> = BTreeMap::new();
    let mut clusters: BTreeSet<&Arc<str>> = BTreeSet::new();
    for host in hosts {
        let domains = domains(&host.name, own_namespace);
        let free: Vec<_> = domains.filter(|domain| taken.insert(domain.to_ascii_lowercase())).collect();
        if free.is_empty() {
            continue;
        }
        let mut message = host.message.clone();
        for domain in free {
            push_field(&mut message, DOMAINS, domain.as_bytes());
        }
        push_field(&mut bytes, VIRTUAL_HOSTS, &message);
        releases.extend(host.releases.iter().map(|release| (release.id.as_str(), release)));
        clusters.extend(&host.clusters);
    }
    Draft {
        kind: ResourceType::Route,
        name: name.into(),
        bytes: bytes.into(),
        releases: releases.into_values().cloned().collect(),
        clusters: clusters.into_iter().cloned().collect(),
    }
}

/// Authorities by which a proxy's clients call a service.
fn domains(name: &ServiceName, own_namespace: Option<&str>) -> impl Iterator<Item = String> {
    let ServiceName { namespace, service } = name;
    let full = format!("{service}.{namespace}");
    let with_port = format!("{full}:*");
    let short = (own_namespace == Some(namespace)).then(|| service.to_string());
    [full, with_port].into_iter().chain(short)
}

fn push_field(to: &mut Vec<u8>, number: u32, value: &[u8]) {
    encode_key(number, WireType::LengthDelimited, to);
    encode_varint(value.len() as u64, to);
    to.extend_from_slice(value);
}
