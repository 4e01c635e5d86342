//! Destination groups of a custom route.
//!
//! | in a group | in an answer |
//! |---|---|
//! | label EXACT, REGEX, NOT_EQUALS | the same |
//! | label IN | a destination for each value, which share the weight of the group |
//! | label NOT_IN, RANGE | the group is left out: SDKs compare as with EXACT |
//! | label PARAMETER | the key under which SDKs have the value |
//! | no priority | 10, after 0 to 9 |
//! | no weight | 100 where no group of its priority has one; otherwise left out |
//! | isolated | isolated, with weight 0: Go reads the weight alone |

use std::collections::{BTreeMap, BTreeSet};

use crate::conditions::{condition, exact, label_key};
use crate::loss::Loss;
use crate::model::explain::{Weights, is_parameter};
use crate::model::rule::matching::{MatchString, MatchType, ValueType};
use crate::model::rule::routing::{CustomRouteRule, DestinationGroup};
use crate::model::rule::{End, Rule};
use crate::model::wire::Words;
use crate::v1;
use crate::v1::match_string;

/// Priority of groups without one.
const LAST: u32 = 10;
const WEIGHT_DEFAULT: u64 = 100;
/// Highest number of destinations that one group is split into.
const SPLIT_MAX: usize = 64;

/// Groups of a sub-rule.
pub(crate) struct Destinations<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) index: usize,
    pub(crate) route: &'a CustomRouteRule,
}

/// A group that can be carried: the labels of each of its destinations.
struct Able<'a> {
    group: &'a DestinationGroup,
    name: End,
    weight: u64,
    labels: Vec<LabelConditions>,
}

type LabelConditions = BTreeMap<String, v1::MatchString>;

impl Destinations<'_> {
    /// Returns the groups whose service `to` names, under that name. Empty if none of them receives traffic.
    pub(crate) fn to(&self, to: &dyn Fn(&End) -> Option<End>, losses: &mut Vec<Loss>) -> Vec<v1::Destination> {
        let weights = Weights::of(&self.route.destinations);
        let has_weight = |group: &DestinationGroup| group.weight.is_some();
        let mut able = Vec::new();
        for (position, group) in self.route.destinations.iter().enumerate() {
            let Some(name) = self.end(group).and_then(|end| to(&end)) else { continue };
            let Some(labels) = self.labels(position, group, losses) else { continue };
            if !group.transfer.is_empty() {
                losses.push(Loss::approximate(7, format!("{}: no SDK forwards requests", self.place(position))));
            }
            let weight = match (group.isolate, has_weight(group)) {
                (true, _) => 0,
                (false, true) => weights.weight(group),
                (false, false) => weights.weight(group) * WEIGHT_DEFAULT,
            };
            // A group without a weight is skipped; an isolated one says so to SDKs that read it.
            if weight > 0 || group.isolate {
                able.push(Able { group, name, weight, labels });
            }
        }
        if able.iter().all(|one| one.weight == 0) {
            return Vec::new();
        }
        // Weights are multiplied, so that the destinations of a split group share its weight without a remainder.
        let parts = able.iter().map(|one| one.labels.len() as u64).fold(1, common_multiple);
        able.into_iter().flat_map(|one| self.split(one, parts)).collect()
    }

    fn split(&self, able: Able<'_>, parts: u64) -> Vec<v1::Destination> {
        let Able { group, name: End { namespace, service }, weight, labels } = able;
        let weight = weight * parts / labels.len() as u64;
        let name = format!("{}.{}.{}", self.rule.name, self.route.name, group.name);
        let destination = |metadata| v1::Destination {
            service: Some(service.clone()),
            namespace: Some(namespace.clone()),
            metadata,
            priority: Some(group.priority.map_or(LAST, |priority| priority.0)),
            weight: Some(u32::try_from(weight).unwrap_or(u32::MAX)),
            transfer: Some(group.transfer.clone()),
            isolate: Some(group.isolate),
            name: Some(name.clone()),
        };
        labels.into_iter().map(destination).collect()
    }

    /// Adds the losses of groups of other services than the callee, which SDKs cannot reach.
    pub(crate) fn elsewhere(&self, callee: Option<&End>, losses: &mut Vec<Loss>) {
        let Some(callee) = callee else { return };
        for (position, group) in self.route.destinations.iter().enumerate() {
            let reached = |end: &End| {
                end.covers(&callee.namespace, &callee.service) || callee.covers(&end.namespace, &end.service)
            };
            if let Some(end) = self.end(group).filter(|end| !reached(end)) {
                let why =
                    format!("{}: SDKs choose among the instances of {callee:?}, not of {end:?}", self.place(position));
                losses.push(Loss::left_out(6, why));
            }
        }
    }

    fn end(&self, group: &DestinationGroup) -> Option<End> {
        End::of(&group.namespace, &group.service, &self.rule.namespace)
    }

    fn place(&self, position: usize) -> String {
        format!("rules[{}].destinations[{position}]", self.index)
    }

    /// Returns the labels of each destination of a group; `None` if SDKs cannot compare them.
    fn labels(
        &self,
        position: usize,
        group: &DestinationGroup,
        losses: &mut Vec<Loss>,
    ) -> Option<Vec<LabelConditions>> {
        let mut split = vec![LabelConditions::new()];
        for (key, label) in &group.labels {
            let values = match (label.value_type, label.kind) {
                (ValueType::Parameter, _) => vec![self.parameter(&label.value)?],
                (ValueType::Text, MatchType::NotIn | MatchType::Range) => {
                    let (place, kind) = (self.place(position), label.kind.word());
                    losses.push(Loss::left_out(4, format!("{place}: SDKs compare no label with {kind}: {key}")));
                    return None;
                }
                (ValueType::Text, MatchType::In) => each_value(label),
                (ValueType::Text, _) => vec![condition(label)],
            };
            if values.len() > 1 {
                let why = format!("{}: values of {key} share the group equally", self.place(position));
                losses.push(Loss::approximate(5, why));
            }
            if split.len() * values.len() > SPLIT_MAX {
                let why = format!("{}: labels have more than {SPLIT_MAX} values together", self.place(position));
                losses.push(Loss::left_out(4, why));
                return None;
            }
            let with = |labels: &LabelConditions, value: &v1::MatchString| {
                let mut labels = labels.clone();
                labels.insert(key.clone(), value.clone());
                labels
            };
            split = split.iter().flat_map(|labels| values.iter().map(|value| with(labels, value))).collect();
        }
        Some(split)
    }

    /// Returns the label whose value SDKs take from the request; `None` if no condition has that name.
    fn parameter(&self, name: &str) -> Option<v1::MatchString> {
        let mut arguments = self.route.arguments.arguments.iter();
        let argument =
            arguments.find(|argument| is_parameter(argument.kind, &argument.key, argument.value.as_ref(), name))?;
        let key = label_key(argument.kind, &argument.key)?;
        Some(v1::MatchString { value_type: match_string::ValueType::Parameter.into(), ..exact(&key) })
    }
}

fn each_value(label: &MatchString) -> Vec<v1::MatchString> {
    let values: BTreeSet<&str> = label.value.split(',').collect();
    values.into_iter().map(exact).collect()
}

fn common_multiple(one: u64, other: u64) -> u64 {
    let (mut divisor, mut rest) = (one, other);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    one / divisor.max(1) * other
}

#[cfg(test)]
mod tests;
