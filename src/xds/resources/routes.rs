//! Routes of services: a configuration per service for gRPC clients, combined virtual hosts for proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;

use super::cluster::{Limited, rules_of};
use super::inbound;
use super::parameters::{Assignment, assignments, exclude};
use super::planned::{Weighted, to_cluster, to_clusters};
use super::policies::is_of_instances;
use super::{BuildContext, Draft, UnitKey, push_field};
use crate::model::mesh::Dialect;
use crate::model::mesh::callee::{differs_by_library, routes_by_method, speaks_grpc};
use crate::model::mesh::domains::{self, CalledName};
use crate::model::mesh::plan::{CALLER_HEADER, PlannedRoute};
use crate::model::mesh::resource::ResourceType;
use crate::model::mesh::routing::{plan, settle_shares};
use crate::model::rule::Family;
use crate::model::rule::release::RuleRelease;
use crate::model::time::Timestamp;
use crate::proto::envoy::config::route::v3 as route;
use crate::xds::names::{self, ClusterName, ServiceName};
use crate::xds::subset::Subset;

/// Field numbers: virtual hosts in a configuration, domains in a virtual host.
const VIRTUAL_HOSTS: u32 = 2;
const DOMAINS: u32 = 2;

/// Routes of one service with their sources.
#[derive(Default)]
struct Routed {
    routes: Vec<route::Route>,
    releases: Vec<Arc<RuleRelease>>,
    clusters: BTreeSet<String>, // bound: request
}

/// Builds the routes to a service: those of the rules in force, then one to all instances.
fn routed(ctx: &mut BuildContext<'_>, service: &ServiceName, dialect: Dialect) -> Routed {
    let mut routed = Routed::default();
    let releases = ctx.releases(Family::Routing, service, |release| !is_of_instances(release));
    if !releases.is_empty() {
        routed.releases = releases.iter().map(|release| Arc::clone(release)).collect();
        add_planned(ctx, service, &releases, dialect, &mut routed);
    }
    let all = ClusterName { service: service.clone(), subset: None, locality: None };
    let cluster = ctx.name(ResourceType::Cluster, &all.to_string());
    routed.clusters.insert(cluster.clone());
    routed.routes.push(to_cluster(cluster, dialect));
    routed
}

fn add_planned(
    ctx: &mut BuildContext<'_>,
    service: &ServiceName,
    releases: &[&Arc<RuleRelease>],
    dialect: Dialect,
    routed: &mut Routed,
) {
    let rules = rules_of(releases);
    let mut abilities = ctx.inputs.abilities(dialect);
    if dialect == Dialect::Grpc && rules.iter().any(|rule| differs_by_library(rule)) {
        abilities.library = ctx.inputs.library();
    }
    if dialect == Dialect::Envoy && rules.iter().any(|rule| routes_by_method(rule)) {
        abilities.is_callee_grpc = speaks_grpc(ctx.instances(service).into_iter().map(Arc::as_ref));
    }
    let mut planned = plan(&rules, &service.key(), abilities).routes;
    if abilities.has_caller_header
        && let Some(header) = ctx.inputs.caller_header()
    {
        let parts = planned.iter_mut().flat_map(|route| &mut route.headers);
        parts.filter(|part| part.name == CALLER_HEADER).for_each(|part| header.as_ref().clone_into(&mut part.name));
    }
    planned.retain(|route| route.caller.iter().all(|condition| ctx.inputs.meets(condition)));
    settle_shares(&mut planned, dialect);
    for route in &planned {
        let name = format!("{}/{}", rules[route.rule].name, route.sub_rule);
        let all = assignments(&route.groups, &mut |name| ctx.instances(name));
        for (at, values) in all.iter().enumerate() {
            let mut narrowed = route.clone();
            if !values.fits(&all, &mut ctx.inputs) || !values.narrow(&mut narrowed, abilities) {
                continue;
            }
            if dialect == Dialect::Grpc && route.fraction.is_some() && values.is_of_others() {
                exclude(&all[..at], &mut narrowed, abilities);
            }
            let clusters = clusters_of(ctx, service, route, values);
            routed.clusters.extend(clusters.iter().map(|weighted| weighted.cluster.clone()));
            routed.routes.push(to_clusters(&narrowed, name.clone(), clusters, abilities));
        }
    }
}

/// Returns the clusters of the groups in use, each once.
fn clusters_of(
    ctx: &BuildContext<'_>,
    service: &ServiceName,
    route: &PlannedRoute<'_>,
    values: &Assignment<'_>,
) -> Vec<Weighted> {
    let mut clusters: Vec<Weighted> = Vec::new();
    for (own, group) in route.groups.iter().enumerate().filter(|(_, group)| group.rank == 0) {
        let subset = Subset::of(&route.groups, own, values);
        let cluster = ctx.name(ResourceType::Cluster, &subset.cluster(service).to_string());
        match clusters.iter_mut().find(|known| known.cluster == cluster) {
            Some(known) => known.weight = known.weight.saturating_add(group.weight),
            None => clusters.push(Weighted { cluster, weight: group.weight }),
        }
    }
    clusters
}

/// Builds the route configuration of a service for gRPC clients.
pub(super) fn of_service(ctx: &mut BuildContext<'_>, key: &UnitKey) -> Vec<Draft> {
    let Some(service) = ctx.service(&key.name) else { return Vec::new() };
    let Routed { routes, releases, clusters } = routed(ctx, &service, key.dialect);
    let name = ctx.name(ResourceType::Route, &service.to_string());
    let host =
        route::VirtualHost { name: service.to_string(), domains: vec!["*".to_owned()], routes, ..Default::default() };
    let message = route::RouteConfiguration { name: name.clone(), virtual_hosts: vec![host] };
    let clusters = clusters.iter().map(|name| name.as_str().into()).collect();
    vec![Draft { releases, clusters, ..Draft::of(ResourceType::Route, &name, &message) }]
}

/// Builds the route configuration of the proxy next to a service, which sends all requests to it, within its limits. It
/// exists even before the service does.
pub(super) fn inbound(ctx: &mut BuildContext<'_>, key: &UnitKey) -> Vec<Draft> {
    if !ctx.inputs.sees(&key.name) {
        return Vec::new();
    }
    let name = names::inbound(&key.name);
    let mut host = route::VirtualHost {
        name: name.clone(),
        domains: vec!["*".to_owned()],
        routes: vec![to_cluster(name.clone(), Dialect::Envoy)],
        ..Default::default()
    };
    let Limited { plan, sharers, releases } = Limited::of(ctx, &key.name);
    inbound::apply(&plan, sharers, &mut host);
    let message = route::RouteConfiguration { name: name.clone(), virtual_hosts: vec![host] };
    let clusters = vec![name.as_str().into()];
    vec![Draft { releases, clusters, ..Draft::of(ResourceType::Route, &name, &message) }]
}

/// Virtual host for proxies. Its domains are added later, because they depend on the other hosts.
#[derive(Debug, PartialEq)]
pub(crate) struct Host {
    /// Name of the service, or the alias, by which it is called.
    pub(crate) name: ServiceName,
    pub(crate) index: u64,
    /// Creation time of the name.
    since: Timestamp,
    message: Vec<u8>,
    releases: Vec<Arc<RuleRelease>>,
    clusters: Vec<Arc<str>>,
}

impl Host {
    fn called(&self) -> CalledName<'_> {
        CalledName { since: self.since, namespace: &self.name.namespace, name: &self.name.service }
    }

    /// Returns the bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.message.len() + self.clusters.iter().map(|name| 64 + name.len()).sum::<usize>()
    }
}

/// Builds the virtual host of a service or alias.
pub(super) fn host(ctx: &mut BuildContext<'_>, name: &ServiceName) -> Option<Host> {
    let service = ctx.resolve(name)?;
    let Routed { routes, releases, clusters } = routed(ctx, &service, Dialect::Envoy);
    let message = route::VirtualHost { name: name.to_string(), routes, ..Default::default() }.encode_to_vec();
    let clusters = clusters.iter().map(|name| name.as_str().into()).collect();
    let since = ctx.since(name);
    Some(Host { name: name.clone(), index: ctx.index(), since, message, releases, clusters })
}

/// Builds a route configuration for proxies from virtual hosts in the order of their names. A domain is assigned to one
/// host only, because a proxy refuses a configuration with a duplicate.
pub(crate) fn outbound(namespace: Option<&str>, hosts: &[&Host], own_namespace: Option<&str>) -> Draft {
    let name = names::outbound(namespace);
    let mut bytes = route::RouteConfiguration { name: name.clone(), ..Default::default() }.encode_to_vec();
    let mut releases: BTreeMap<&str, &Arc<RuleRelease>> = BTreeMap::new();
    let mut clusters: BTreeSet<&Arc<str>> = BTreeSet::new();
    let called: Vec<_> = hosts.iter().map(|host| host.called()).collect();
    for (host, domains) in hosts.iter().zip(domains::assign(&called, own_namespace)) {
        if domains.is_empty() {
            continue;
        }
        let mut message = host.message.clone();
        for domain in domains {
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
