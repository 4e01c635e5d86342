//! Subsets: the instances that a destination group of a rule selects, and those that serve as fallback.
//!
//! The server evaluates the conditions on the instances, so all comparisons work for all clients. A subset is named by
//! its conditions, so routes of several rules with the same conditions share a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::context::all_releases;
use super::parameters::{Assignment, assignments};
use crate::model::instance::Instance;
use crate::model::mesh::Dialect;
use crate::model::mesh::callee::routes_by_method;
use crate::model::mesh::library::Library;
use crate::model::mesh::plan::{Abilities, PlannedGroup, PlannedRoute};
use crate::model::mesh::routing::plan;
use crate::model::rule::Family;
use crate::model::rule::matching::{MatchString, ValueType};
use crate::xds::cache::CatalogSnapshot;
use crate::xds::names::{ClusterName, ServiceName, SubsetHash};

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

/// Selections of instances: the first is preferred, the others are fallbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subset {
    pub(crate) choices: Vec<Choice>,
}

/// Instances of a service that meet all conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Choice {
    pub(crate) rank: u32,
    namespace: String,
    service: String,
    labels: BTreeMap<String, MatchString>, // bound: state
}

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

    pub(crate) fn service(&self) -> ServiceName {
        ServiceName::new(&self.namespace, &self.service)
    }

    fn is_of(&self, other: &Choice) -> bool {
        (&self.namespace, &self.service) == (&other.namespace, &other.service)
    }

    /// Returns the selected instances.
    pub(crate) fn among<'a>(&self, instances: Vec<&'a Arc<Instance>>) -> Vec<&'a Arc<Instance>> {
        let conditions: Vec<_> = self.labels.iter().map(|(label, condition)| (label, condition.matcher())).collect();
        let meets = |instance: &&Arc<Instance>| {
            let mut conditions = conditions.iter();
            conditions.all(|(label, matcher)| instance.metadata.get(*label).is_some_and(|value| matcher.matches(value)))
        };
        instances.into_iter().filter(meets).collect()
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

    pub(crate) fn digits(&self) -> SubsetHash {
        let text = serde_json::to_vec(&self.choices).expect("our own types always serialize");
        let digest = Sha256::digest(text);
        let mut digits = [0; 6];
        digits.copy_from_slice(&digest[..6]);
        SubsetHash(digits)
    }

    /// Returns the cluster of the subset in the routes of a service. If it selects all instances of a service in the
    /// same namespace, it is that service's own cluster, which every wildcard subscription with the one includes.
    pub(crate) fn cluster(&self, called: &ServiceName) -> ClusterName {
        if let [choice] = &self.choices[..]
            && choice.labels.is_empty()
            && *choice.namespace == *called.namespace
        {
            return ClusterName { service: choice.service(), set: None, place: None };
        }
        ClusterName { service: called.clone(), set: Some(self.digits()), place: None }
    }

    /// Returns the conditions in readable form.
    pub(crate) fn describe(&self) -> String {
        let shown = |choice: &Choice| {
            let labels: Vec<_> = choice.labels.iter().map(|(label, is)| format!("{label} {}", is.summary())).collect();
            let labels = if labels.is_empty() { "all".to_owned() } else { labels.join(" and ") };
            format!("{}: {labels}", choice.service())
        };
        let shown: Vec<_> = self.choices.iter().map(shown).collect();
        if shown.is_empty() { "no instance".to_owned() } else { shown.join("; ") }
    }
}

/// Subsets with clusters of their own that rules about a service name.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) by_digits: BTreeMap<SubsetHash, Arc<Subset>>, // bound: state
    /// Services whose instances determine the subsets.
    pub(crate) of_values: BTreeSet<ServiceName>, // bound: state
}

impl Sets {
    pub(crate) fn is_nothing(&self) -> bool {
        self.by_digits.is_empty() && self.of_values.is_empty()
    }
}

/// Returns the subsets that releases of rules about a service name, for any client.
pub(crate) fn sets_of(snapshot: &CatalogSnapshot, service: &ServiceName) -> Arc<Sets> {
    snapshot.sets(service, || {
        let mut sets = Sets::default();
        let instances = |name: &ServiceName| snapshot.instances.all_of(&name.namespace, &name.service).collect();
        each_route(snapshot, service, &mut |route| {
            let with_values = route.groups.iter().filter(|group| !group.parameters.is_empty());
            sets.of_values.extend(with_values.map(|group| ServiceName::from(&group.service)));
            for values in &assignments(&route.groups, &mut |name| instances(name)) {
                add_sets(route, values, service, &mut sets.by_digits);
            }
        });
        sets
    })
}

fn each_route(snapshot: &CatalogSnapshot, service: &ServiceName, visit: &mut dyn FnMut(&PlannedRoute<'_>)) {
    let called = service.key();
    for release in all_releases(snapshot, Family::Routing, service) {
        let to_grpc = routes_by_method(&release.rule).then_some(PROXY_TO_GRPC);
        for abilities in [GRPC, PROXY].into_iter().chain(to_grpc) {
            plan(&[&release.rule], &called, abilities).routes.iter().for_each(&mut *visit);
        }
    }
}

fn add_sets(
    route: &PlannedRoute<'_>,
    values: &Assignment<'_>,
    service: &ServiceName,
    sets: &mut BTreeMap<SubsetHash, Arc<Subset>>,
) {
    for (own, _) in route.groups.iter().enumerate().filter(|(_, group)| group.rank == 0) {
        let set = Subset::of(&route.groups, own, values);
        if let Some(digits) = set.cluster(service).set {
            sets.entry(digits).or_insert_with(|| Arc::new(set));
        }
    }
}
