//! Endpoints: instances by locality and weight, with priorities.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::cluster::rules_of;
use super::policies::RANKS;
use super::{BuildContext, Draft, UnitKey, probes};
use crate::model::instance::{Instance, Location};
use crate::model::mesh::probes as probe;
use crate::model::mesh::resource::ResourceType;
use crate::model::rule::Family;
use crate::proto::envoy::config::core::v3 as core;
use crate::proto::envoy::config::endpoint::v3 as endpoint;
use crate::proto::envoy::config::endpoint::v3::endpoint::HealthCheckConfig;
use crate::xds::locality::Locality;
use crate::xds::names::{ClusterName, ServiceName};
use crate::xds::resources::listener::address_of;

/// Overprovisioning factor in percent. It is so high that a priority gets all traffic while any of its endpoints is
/// healthy.
const OVERPROVISIONING: u32 = 10_000;

/// Largest sum of weights that all clients accept: some refuse more than 32 bits, and Java reads 32 bits as negative.
const WEIGHT_MAX: u64 = i32::MAX as u64;

/// An instance with its rank. The ranks need not be consecutive.
#[derive(Clone, Copy)]
struct Ranked<'a> {
    rank: u32,
    instance: &'a Arc<Instance>,
}

/// Returns the locality for which a client requests the endpoints of a service.
pub(crate) fn locality_of_client(ctx: &mut BuildContext<'_>, service: &ServiceName) -> Option<Locality> {
    let service = ctx.service(service)?;
    ctx.policies(&service).locality_of_client(&mut ctx.inputs)
}

/// Builds the endpoints of all clusters of a service.
pub(super) fn of_service<'a>(ctx: &mut BuildContext<'a>, key: &UnitKey, locality: Option<&Locality>) -> Vec<Draft> {
    let Some(service) = ctx.service(&key.name) else { return Vec::new() };
    let policies = ctx.policies(&service);
    let probing = ctx.all_releases(Family::FaultDetect, &service);
    let probed = probes::endpoint_config(&probe::plan(&rules_of(&probing)));
    let ranked = |rank: u32, instances: Vec<&'a Arc<Instance>>| {
        let with_rank = |instance: &'a Arc<Instance>| {
            let rank = rank.saturating_mul(RANKS).saturating_add(policies.rank(instance, locality)?);
            Some(Ranked { rank, instance })
        };
        instances.into_iter().filter_map(with_rank).collect::<Vec<_>>()
    };
    let name = ClusterName { service: service.clone(), subset: None, locality: locality.cloned() };
    let all = ranked(0, ctx.instances(&service));
    let mut made = vec![draft(ctx, &ClusterName { subset: None, ..name.clone() }, all, probed)];
    for (hash, subset) in ctx.subsets(&service) {
        let mut of_subset = Vec::new();
        for choice in &subset.choices {
            // Instances of an invisible service are left out.
            let Some(service) = ctx.service(&choice.service()) else { continue };
            of_subset.extend(ranked(choice.rank, choice.among(ctx.instances(&service))));
        }
        made.push(draft(ctx, &ClusterName { subset: Some(hash), ..name.clone() }, of_subset, probed));
    }
    let probing = probing.into_iter().filter(|_| probed.is_some()).cloned();
    let releases: Vec<_> = policies.releases.iter().cloned().chain(probing).collect();
    made.iter_mut().for_each(|draft| draft.releases.clone_from(&releases));
    made
}

fn draft(
    ctx: &BuildContext<'_>,
    name: &ClusterName,
    ranked: Vec<Ranked<'_>>,
    probed: Option<HealthCheckConfig>,
) -> Draft {
    let name = ctx.name(ResourceType::Endpoints, &name.to_string());
    Draft::of(ResourceType::Endpoints, &name, &assignment(&name, ranked, probed))
}

/// Properties that distinguish localities.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Class<'a> {
    rank: u32,
    region: &'a str,
    zone: &'a str,
    campus: &'a str,
    weight: u32,
}

/// Returns an assignment of the instances that accept traffic. An address occurs once, at its best rank.
fn assignment(
    name: &str,
    mut ranked: Vec<Ranked<'_>>,
    probed: Option<HealthCheckConfig>,
) -> endpoint::ClusterLoadAssignment {
    ranked.sort_by(|one, other| (one.rank, &one.instance.id).cmp(&(other.rank, &other.instance.id)));
    let mut addresses = BTreeSet::new();
    let mut classes: BTreeMap<Class<'_>, Vec<endpoint::LbEndpoint>> = BTreeMap::new();
    for Ranked { rank, instance } in ranked {
        let takes_traffic = !instance.isolate && instance.weight > 0;
        let Some(address) = instance.host.parse::<IpAddr>().ok().filter(|_| takes_traffic) else { continue };
        if addresses.insert((address, instance.port)) {
            let Location { region, zone, campus } = &instance.location;
            let class = Class { rank, region, zone, campus, weight: instance.weight };
            classes.entry(class).or_default().push(endpoint_of(address, instance, probed));
        }
    }
    endpoint::ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        endpoints: localities(classes),
        policy: Some(endpoint::cluster_load_assignment::Policy { overprovisioning_factor: Some(OVERPROVISIONING) }),
    }
}

fn endpoint_of(address: IpAddr, instance: &Instance, probed: Option<HealthCheckConfig>) -> endpoint::LbEndpoint {
    let health = if instance.healthy { core::HealthStatus::Healthy } else { core::HealthStatus::Unhealthy };
    let address = Some(address_of(&address.to_string(), instance.port));
    let endpoint = endpoint::Endpoint { address, health_check_config: probed };
    endpoint::LbEndpoint {
        health_status: health.into(),
        load_balancing_weight: Some(instance.weight),
        host_identifier: Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(endpoint)),
        ..Default::default()
    }
}

/// Returns the localities with consecutive priorities. The weight of a locality counts its healthy endpoints only,
/// because clients that use this weight distribute it over these.
fn localities(classes: BTreeMap<Class<'_>, Vec<endpoint::LbEndpoint>>) -> Vec<endpoint::LocalityLbEndpoints> {
    let weight_of = |class: &Class<'_>, endpoints: &Vec<endpoint::LbEndpoint>| {
        let unhealthy = i32::from(core::HealthStatus::Unhealthy);
        let well = endpoints.iter().filter(|endpoint| endpoint.health_status != unhealthy).count();
        u64::from(class.weight).saturating_mul(well as u64)
    };
    let total = classes.iter().map(|(class, endpoints)| weight_of(class, endpoints)).fold(0, u64::saturating_add);
    // The weights of a priority must fit into the sum, including the minimum of one per locality.
    let room = WEIGHT_MAX.saturating_sub(classes.len() as u64).max(1);
    let divisor = total.div_ceil(room).max(1);
    // The weights of the instances in a locality must fit as well.
    let widest = classes.iter().map(|(class, endpoints)| u64::from(class.weight) * endpoints.len() as u64).max();
    let narrowing = u32::try_from(widest.unwrap_or_default().div_ceil(WEIGHT_MAX)).unwrap_or(u32::MAX).max(1);
    let ranks: BTreeSet<u32> = classes.keys().map(|class| class.rank).collect();
    let priorities: BTreeMap<u32, u32> = ranks.into_iter().zip(0..).collect();
    let locality = |(class, mut lb_endpoints): (Class<'_>, Vec<endpoint::LbEndpoint>)| {
        if narrowing > 1 {
            let narrowed = Some((class.weight / narrowing).max(1));
            lb_endpoints.iter_mut().for_each(|endpoint| endpoint.load_balancing_weight = narrowed);
        }
        let weight = (weight_of(&class, &lb_endpoints) / divisor).max(1);
        endpoint::LocalityLbEndpoints {
            locality: Some(core::Locality {
                region: class.region.to_owned(),
                zone: class.zone.to_owned(),
                sub_zone: sub_zone(&class, priorities[&class.rank]),
            }),
            lb_endpoints,
            load_balancing_weight: Some(u32::try_from(weight).unwrap_or(u32::MAX)),
            priority: priorities[&class.rank],
        }
    };
    classes.into_iter().map(locality).collect()
}

/// Returns a name that is unique within the assignment. Some clients identify localities by name alone, across
/// priorities.
fn sub_zone(class: &Class<'_>, priority: u32) -> String {
    let Class { campus, weight, .. } = class;
    if priority == 0 { format!("{campus};w={weight}") } else { format!("{campus};w={weight};p={priority}") }
}
