//! Destination groups that may receive traffic, as in the explanation of a request.

use std::collections::BTreeSet;

use crate::model::explain::{Weights, is_parameter, rank};
use crate::model::mesh::plan::{Parameter, PlannedGroup, RequestPart};
use crate::model::rule::End;
use crate::model::rule::matching::{ALL, MatchString, ValueType};
use crate::model::rule::routing::{CustomRouteRule, DestinationGroup, TrafficMatchMode, TrafficMatchRule};
use crate::model::rule::traffic::{Argument, ArgumentType, ServiceKey};

/// Groups of a sub-rule that can receive traffic of some request.
pub(super) struct Groups<'a> {
    conditions: &'a TrafficMatchRule,
    able: Vec<Able<'a>>,
}

struct Able<'a> {
    group: &'a DestinationGroup,
    service: ServiceKey,
    weight: u32,
}

impl<'a> Groups<'a> {
    pub(super) fn of(
        route: &'a CustomRouteRule,
        namespace: &str,
        called: &ServiceKey,
        reaches: &dyn Fn(Option<End>) -> bool,
    ) -> Self {
        let weights = Weights::of(&route.destinations);
        let able = |group: &'a DestinationGroup| {
            let is_reached = reaches(End::of(&group.namespace, &group.service, namespace));
            let weight = u32::try_from(weights.weight(group)).unwrap_or(u32::MAX);
            (is_reached && !group.isolate && weight > 0).then(|| Able {
                group,
                service: service_of(group, namespace, called),
                weight,
            })
        };
        Groups { conditions: &route.arguments, able: route.destinations.iter().filter_map(able).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.able.is_empty()
    }

    /// Returns the groups for one route of this sub-rule; an error if they depend on a part of the request that the
    /// route does not compare. `dead` lists the conditions that never hold.
    pub(super) fn of_way(&self, argument: Option<usize>, dead: &[usize]) -> Result<Vec<PlannedGroup<'a>>, ()> {
        let mut found: Vec<PlannedGroup<'a>> = Vec::new();
        for able in &self.able {
            let Some(parameters) = self.parameters(able.group, argument, dead)? else { continue };
            found.push(PlannedGroup {
                group: able.group,
                service: able.service.clone(),
                rank: 0,
                weight: able.weight,
                parameters,
            });
        }
        let ranks: BTreeSet<_> = found.iter().map(|planned| rank(planned.group)).collect();
        for planned in &mut found {
            let before = ranks.range(..rank(planned.group)).count();
            planned.rank = u32::try_from(before).unwrap_or(u32::MAX);
        }
        found.sort_by_key(|planned| planned.rank);
        bound_sums(&mut found);
        Ok(found)
    }

    /// Returns the labels that take a value of the request; `None` if one of these values is never present.
    fn parameters(
        &self,
        group: &'a DestinationGroup,
        argument: Option<usize>,
        dead: &[usize],
    ) -> Result<Option<Vec<Parameter<'a>>>, ()> {
        let mut parameters = Vec::new();
        for (label, condition) in &group.labels {
            if condition.value_type != ValueType::Parameter {
                continue;
            }
            match self.part(condition, argument, dead)? {
                Some(part) => parameters.push(Parameter { label, part }),
                None => return Ok(None),
            }
        }
        Ok(Some(parameters))
    }

    /// Returns the first part of the request with this name. Under OR the conditions before that of the route do not
    /// hold when it is tried, so their values are absent.
    fn part(
        &self,
        condition: &MatchString,
        argument: Option<usize>,
        dead: &[usize],
    ) -> Result<Option<RequestPart<'a>>, ()> {
        let is_named = |argument: &Argument<ArgumentType>| {
            is_parameter(argument.kind, &argument.key, argument.value.as_ref(), &condition.value)
        };
        let arguments = self.conditions.arguments.iter().enumerate();
        let mut named = arguments.filter(|(index, argument)| is_named(argument) && !dead.contains(index));
        let found = match (self.conditions.match_mode, argument) {
            (TrafficMatchMode::Or, Some(own)) => match named.find(|(index, _)| *index >= own) {
                Some((index, _)) if index > own => return Err(()),
                found => found,
            },
            _ => named.next(),
        };
        Ok(found.and_then(|(_, argument)| part_of(argument)))
    }
}

fn part_of(argument: &Argument<ArgumentType>) -> Option<RequestPart<'_>> {
    match argument.kind {
        ArgumentType::Header => Some(RequestPart::Header(&argument.key)),
        ArgumentType::Query => Some(RequestPart::Query(&argument.key)),
        ArgumentType::Cookie => Some(RequestPart::Cookie(&argument.key)),
        ArgumentType::Method => Some(RequestPart::Method),
        ArgumentType::Path => Some(RequestPart::Path),
        ArgumentType::CallerIp => Some(RequestPart::CallerIp),
        ArgumentType::CallerMetadata => Some(RequestPart::CallerMetadata(&argument.key)),
        ArgumentType::CallerService => Some(RequestPart::CallerService),
        ArgumentType::Custom => None,
    }
}

/// Returns the service whose instances a group contains.
fn service_of(group: &DestinationGroup, namespace: &str, called: &ServiceKey) -> ServiceKey {
    let name = if group.transfer.is_empty() { &group.service } else { &group.transfer };
    if name.is_empty() {
        return called.clone();
    }
    let named = |name: &str, called: &str| if name == ALL { called.to_owned() } else { name.to_owned() };
    let namespace = if group.namespace.is_empty() { namespace } else { &group.namespace };
    ServiceKey { service: named(name, &called.service), namespace: named(namespace, &called.namespace) }
}

/// Scales weights so that the sum of a rank fits into the clients' integer, with room for adjusted shares.
fn bound_sums(groups: &mut [PlannedGroup<'_>]) {
    const SUM_MAX: u64 = (u32::MAX / 2) as u64;
    for ranked in groups.chunk_by_mut(|left, right| left.rank == right.rank) {
        let sum: u64 = ranked.iter().map(|group| u64::from(group.weight)).sum();
        let divisor = u32::try_from(sum.div_ceil(SUM_MAX)).unwrap_or(u32::MAX).max(1);
        ranked.iter_mut().for_each(|group| group.weight = (group.weight / divisor).max(1));
    }
}
