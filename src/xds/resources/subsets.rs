//! Subsets: the instances that a destination group of a rule selects, and those that serve as fallback.
//!
//! The server evaluates the conditions on the instances, so all comparisons work for all clients. A subset is named by
//! its conditions, so routes of several rules with the same conditions share a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parameters::{Assignment, assignments};
use crate::model::mesh::Dialect;
use crate::model::mesh::callee::routes_by_method;
use crate::model::mesh::library::Library;
use crate::model::mesh::plan::{Abilities, PlannedGroup, PlannedRoute};
use crate::model::mesh::routing::plan;
use crate::model::rule::Family;
use crate::model::rule::matching::ValueType;
use crate::xds::cache::CatalogSnapshot;
use crate::xds::names::{ServiceName, SubsetHash};
use crate::xds::subset::{Choice, Subset, Subsets};

/// Kinds of clients whose routes name subsets. The routes of any other client name a part of these.
const GRPC: Abilities = Abilities { dialect: Dialect::Grpc, takes_large_expressions: false, ..PROXY };
const PROXY: Abilities = Abilities {
    dialect: Dialect::Envoy,
    is_gateway: false,
    has_caller_header: false,
    takes_large_expressions: true,
    is_callee_grpc: false,
    library: Library::Core,
};
const PROXY_TO_GRPC: Abilities = Abilities { is_callee_grpc: true, ..PROXY };

impl Choice {
    fn of(group: &PlannedGroup<'_>, rank: u32, values: &Assignment<'_>) -> Choice {
        let labels = group.group.labels.iter().filter_map(|(label, condition)| {
            let is_parameter = condition.value_type == ValueType::Parameter;
            let condition = if is_parameter { values.condition(group, label)? } else { condition.clone() };
            (!condition.is_open()).then(|| (label.clone(), condition))
        });
        Choice {
            rank,
            namespace: group.service.namespace.clone(),
            service: group.service.service.clone(),
            labels: labels.collect(),
        }
    }
}

impl Subset {
    /// Returns the subset of one group of a route: its own instances, then those of the other groups of its rank, then
    /// those of the further ranks. It has no selection if every group needs a value that does not exist; its cluster is
    /// then empty, and requests to it fail.
    pub(crate) fn of(groups: &[PlannedGroup<'_>], own: usize, values: &Assignment<'_>) -> Subset {
        let first = std::iter::once((own, 0));
        let others = groups.iter().enumerate().filter(|(index, _)| *index != own);
        let others = others.map(|(index, group)| (index, group.rank.saturating_add(1)));
        let mut choices: Vec<Choice> = Vec::new();
        for (index, rank) in first.chain(others).filter(|(index, _)| values.serves(&groups[*index])) {
            let choice = Choice::of(&groups[index], rank, values);
            // An earlier selection already contains everything that this one could add.
            let is_there =
                |before: &Choice| before.is_of(&choice) && (before.labels.is_empty() || before.labels == choice.labels);
            if !choices.iter().any(is_there) {
                choices.push(choice);
            }
        }
        // Without the group's own selection, the next ones become the first.
        let least = choices.first().map_or(0, |first| first.rank);
        choices.iter_mut().for_each(|choice| choice.rank -= least);
        Subset { choices }
    }
}

/// Returns the subsets that releases of rules about a service name, for any client.
pub(crate) fn subsets_of(snapshot: &CatalogSnapshot, service: &ServiceName) -> Arc<Subsets> {
    snapshot.subsets(service, || {
        let mut subsets = Subsets::default();
        let instances = |name: &ServiceName| snapshot.instances.all_of(&name.namespace, &name.service).collect();
        each_planned_route(snapshot, service, &mut |route| {
            let with_values = route.groups.iter().filter(|group| !group.parameters.is_empty());
            subsets.of_values.extend(with_values.map(|group| ServiceName::from(&group.service)));
            for values in &assignments(&route.groups, &mut |name| instances(name)) {
                add_subsets(route, values, service, &mut subsets.by_hash);
            }
        });
        subsets
    })
}

fn each_planned_route(snapshot: &CatalogSnapshot, service: &ServiceName, visit: &mut dyn FnMut(&PlannedRoute<'_>)) {
    let called = service.key();
    for release in snapshot.all_releases(Family::Routing, service) {
        let to_grpc = routes_by_method(&release.rule).then_some(PROXY_TO_GRPC);
        for abilities in [GRPC, PROXY].into_iter().chain(to_grpc) {
            plan(&[&release.rule], &called, abilities).routes.iter().for_each(&mut *visit);
        }
    }
}

fn add_subsets(
    route: &PlannedRoute<'_>,
    values: &Assignment<'_>,
    service: &ServiceName,
    subsets: &mut BTreeMap<SubsetHash, Arc<Subset>>,
) {
    for (own, _) in route.groups.iter().enumerate().filter(|(_, group)| group.rank == 0) {
        let subset = Subset::of(&route.groups, own, values);
        if let Some(hash) = subset.cluster(service).subset {
            subsets.entry(hash).or_insert_with(|| Arc::new(subset));
        }
    }
}
