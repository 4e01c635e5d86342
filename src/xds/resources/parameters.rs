//! Labels whose value is taken from the request: one route for each value that occurs among the instances, and one for
//! all other values, in which groups with such labels have no instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::instance::Instance;
use crate::model::mesh::conditions::{AskedCondition, Condition, carried, excluded};
use crate::model::mesh::plan::{Abilities, PARAMETER_VALUES_MAX, PlannedGroup, PlannedRoute, RequestPart};
use crate::model::rule::matching::{ALL, MatchString, MatchType, ValueType};
use crate::model::rule::traffic::ArgumentType;
use crate::xds::client_inputs::InputRecorder;
use crate::xds::names::ServiceName;

/// Value for each part of the request that labels refer to; none means all values that no instance has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Assignment<'a> {
    values: Vec<(RequestPart<'a>, Option<String>)>,
}

impl<'a> Assignment<'a> {
    fn value(&self, part: RequestPart<'_>) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == part).and_then(|(_, value)| value.as_deref())
    }

    /// Reports whether some part covers all values that no instance has.
    pub(crate) fn is_of_others(&self) -> bool {
        self.values.iter().any(|(_, value)| value.is_none())
    }

    /// Reports whether every label of a group that refers to the request has a value.
    pub(crate) fn serves(&self, group: &PlannedGroup<'_>) -> bool {
        group.parameters.iter().all(|parameter| self.value(parameter.part).is_some())
    }

    /// Returns the condition on a label of a group, or `None` if the label does not refer to the request.
    pub(crate) fn condition(&self, group: &PlannedGroup<'_>, label: &str) -> Option<MatchString> {
        let parameter = group.parameters.iter().find(|parameter| parameter.label == label)?;
        Some(equal(self.value(parameter.part)?))
    }

    /// Reports whether the known properties of the caller match. `all` are the existing assignments.
    pub(crate) fn fits(&self, all: &[Assignment<'a>], inputs: &mut InputRecorder<'_>) -> bool {
        self.values.iter().all(|(part, value)| {
            let known = match part {
                RequestPart::CallerIp => inputs.address(),
                RequestPart::CallerMetadata(key) => inputs.label(key),
                RequestPart::CallerService => inputs.caller(),
                RequestPart::Header(_)
                | RequestPart::Query(_)
                | RequestPart::Cookie(_)
                | RequestPart::Method
                | RequestPart::Path => return true,
            };
            match value {
                Some(value) => known.as_deref() == Some(value),
                None => known.is_none_or(|known| all.iter().all(|one| one.value(*part) != Some(&*known))),
            }
        })
    }

    /// Restricts a route to requests with these values. Returns false if a client cannot express that.
    pub(crate) fn narrow(&self, route: &mut PlannedRoute<'a>, to: Abilities) -> bool {
        self.values.iter().all(|(part, value)| {
            let (Some((kind, key)), Some(value)) = (argument(*part), value) else { return true };
            let condition = equal(value);
            let asked = AskedCondition { kind, key, value: Some(&condition) };
            let Ok(ways) = carried(asked, "", route.path.is_some(), to) else { return false };
            let Some(way) = ways.any_of.into_iter().next() else { return false };
            way.into_iter().for_each(|condition| add(condition, route));
            true
        })
    }
}

/// Restricts a route to requests that match none of the assignments, because a client that chooses anew for each route
/// may try this one with their values. Only assignments of a single part of the request can be excluded.
pub(crate) fn exclude<'a>(all: &[Assignment<'a>], route: &mut PlannedRoute<'a>, to: Abilities) {
    let mut by_part: Vec<(RequestPart<'a>, Vec<&str>)> = Vec::new();
    for values in all {
        let mut given = values.values.iter().filter_map(|(part, value)| {
            argument(*part)?;
            Some((*part, value.as_deref()?))
        });
        let (Some((part, value)), None) = (given.next(), given.next()) else { continue };
        match by_part.iter_mut().find(|(known, _)| *known == part) {
            Some((_, values)) => values.push(value),
            None => by_part.push((part, vec![value])),
        }
    }
    for (part, values) in by_part {
        excluded(part, values, route.path.is_some(), to)
            .into_iter()
            .flatten()
            .for_each(|condition| add(condition, route));
    }
}

fn add(condition: Condition<'_>, route: &mut PlannedRoute<'_>) {
    match condition {
        Condition::Path(path) => route.path = Some(path),
        Condition::Header(header) => route.headers.push(header),
        Condition::Query(query) => route.query.push(query),
        Condition::Caller(_) => {}
    }
}

fn equal(value: &str) -> MatchString {
    MatchString { kind: MatchType::Exact, value: value.to_owned(), value_type: ValueType::Text }
}

/// Returns the argument that names a part of the request, or `None` for properties of the caller known to the server.
fn argument(part: RequestPart<'_>) -> Option<(ArgumentType, &str)> {
    match part {
        RequestPart::Header(key) => Some((ArgumentType::Header, key)),
        RequestPart::Query(key) => Some((ArgumentType::Query, key)),
        RequestPart::Cookie(key) => Some((ArgumentType::Cookie, key)),
        RequestPart::Method => Some((ArgumentType::Method, "")),
        RequestPart::Path => Some((ArgumentType::Path, "")),
        RequestPart::CallerIp | RequestPart::CallerMetadata(_) | RequestPart::CallerService => None,
    }
}

/// Returns the assignments that get routes, the most specific first. Without labels that refer to the request there is
/// one empty assignment. All are found in a single pass over the instances.
pub(crate) fn assignments<'a, 'i>(
    groups: &[PlannedGroup<'a>],
    instances: &mut dyn FnMut(&ServiceName) -> Vec<&'i Arc<Instance>>,
) -> Vec<Assignment<'a>> {
    let mut parts: Vec<RequestPart<'a>> = Vec::new();
    for parameter in groups.iter().flat_map(|group| &group.parameters) {
        if !parts.contains(&parameter.part) {
            parts.push(parameter.part);
        }
    }
    if parts.is_empty() {
        return vec![Assignment::default()];
    }
    let taken = TakenValues::of(&parts, groups, instances);
    let mut found = Vec::new();
    for others in 0..parts.len() {
        taken.complete(&taken.values.iter().collect::<Vec<_>>(), &mut Vec::new(), others, &mut found);
    }
    // All other requests have values that no instance with such a label has.
    found.push(vec![None; parts.len()]);
    let assignment = |values: Vec<Option<&str>>| Assignment {
        values: parts.iter().zip(values).map(|(part, value)| (*part, value.map(str::to_owned))).collect(),
    };
    found.into_iter().map(assignment).collect()
}

/// Value per part; none for all values that no instance has, or for a part that does not matter.
type Values<'i> = Vec<Option<&'i str>>;

/// Label values of the instances, for labels that refer to the request.
struct TakenValues<'i> {
    /// Combinations of one instance each, without the parts that its group does not refer to.
    values: BTreeSet<Values<'i>>, // bound: request
    of_part: Vec<BTreeSet<&'i str>>, // bound: request
}

impl<'i> TakenValues<'i> {
    fn of(
        parts: &[RequestPart<'_>],
        groups: &[PlannedGroup<'_>],
        instances: &mut dyn FnMut(&ServiceName) -> Vec<&'i Arc<Instance>>,
    ) -> TakenValues<'i> {
        let mut taken = TakenValues { values: BTreeSet::new(), of_part: vec![BTreeSet::new(); parts.len()] };
        for group in groups.iter().filter(|group| !group.parameters.is_empty()) {
            let is_possible = group.possible();
            for instance in instances(&ServiceName::from(&group.service)) {
                if is_possible(instance) {
                    taken.add(parts, group, instance);
                }
            }
        }
        taken
    }

    fn add(&mut self, parts: &[RequestPart<'_>], group: &PlannedGroup<'_>, instance: &'i Instance) {
        let mut values: Values<'i> = vec![None; parts.len()];
        let mut has_all = true;
        for parameter in &group.parameters {
            let value = instance.metadata.get(parameter.label).map(String::as_str);
            let value = value.filter(|value| !is_open(value));
            let at = parts.iter().position(|part| *part == parameter.part);
            let (Some(value), Some(at)) = (value, at) else {
                has_all = false;
                continue;
            };
            self.of_part[at].insert(value);
            has_all &= values[at].is_none_or(|known| known == value);
            values[at] = Some(value);
        }
        if has_all {
            self.values.insert(values);
        }
    }

    /// Adds, in order, all combinations that continue `chosen`: the values of some instance, with `others` parts left
    /// to values that no instance has. `fitting` are the instances' values that match `chosen`.
    fn complete(&self, fitting: &[&Values<'i>], chosen: &mut Values<'i>, others: usize, found: &mut Vec<Values<'i>>) {
        let at = chosen.len();
        if found.len() >= PARAMETER_VALUES_MAX || !fitting.iter().any(|values| self.can_leave(values, at, others)) {
            return;
        }
        if at == self.of_part.len() {
            found.push(chosen.clone());
            return;
        }
        let mut by_value: BTreeMap<&'i str, Vec<&Values<'i>>> = BTreeMap::new();
        let mut of_any = Vec::new();
        for values in fitting {
            match values[at] {
                Some(value) => by_value.entry(value).or_default().push(values),
                None => of_any.push(*values),
            }
        }
        if !of_any.is_empty() {
            for value in &self.of_part[at] {
                by_value.entry(value).or_default();
            }
        }
        for (value, mut fitting) in by_value {
            if found.len() >= PARAMETER_VALUES_MAX {
                return;
            }
            fitting.extend(&of_any);
            chosen.push(Some(value));
            self.complete(&fitting, chosen, others, found);
            chosen.pop();
        }
        if let Some(others) = others.checked_sub(1) {
            chosen.push(None);
            self.complete(&of_any, chosen, others, found);
            chosen.pop();
        }
    }

    /// Reports whether this many of the parts after `from` can be left to values that no instance has.
    fn can_leave(&self, values: &Values<'i>, from: usize, others: usize) -> bool {
        let left = values.iter().zip(&self.of_part).skip(from).filter(|(value, _)| value.is_none());
        let (mut least, mut most) = (0, 0);
        for (_, of_part) in left {
            least += usize::from(of_part.is_empty());
            most += 1;
        }
        (least..=most).contains(&others)
    }
}

fn is_open(value: &str) -> bool {
    value.is_empty() || value == ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::mesh::plan::Parameter;
    use crate::model::rule::routing::DestinationGroup;
    use crate::model::rule::traffic::ServiceKey;

    fn group<'a>(of: &'a DestinationGroup, parameters: &[(&'a str, &'a str)]) -> PlannedGroup<'a> {
        let part = |(label, header): &(&'a str, &'a str)| Parameter { label, part: RequestPart::Header(header) };
        PlannedGroup {
            group: of,
            service: ServiceKey { namespace: "shop".into(), service: "pay".into() },
            rank: 0,
            weight: 1,
            parameters: parameters.iter().map(part).collect(),
        }
    }

    /// Returns the values of each assignment, with a dash for all other values.
    fn assignment_texts(groups: &[PlannedGroup<'_>], instances: &[Arc<Instance>]) -> Vec<String> {
        let found = assignments(groups, &mut |_| instances.iter().collect());
        let text = |one: &Assignment<'_>| {
            let values: Vec<_> = one.values.iter().map(|(_, value)| value.as_deref().unwrap_or("-")).collect();
            values.join(" ")
        };
        found.iter().map(text).collect()
    }

    fn instances(labels: impl IntoIterator<Item = Vec<(&'static str, String)>>) -> Vec<Arc<Instance>> {
        let instance = |labels: Vec<(&str, String)>| {
            let metadata = labels.into_iter().map(|(label, value)| (label.to_owned(), value)).collect();
            Arc::new(Instance { metadata, ..Instance::default() })
        };
        labels.into_iter().map(instance).collect()
    }

    #[test]
    fn values_are_those_that_instances_have_together() {
        let of = DestinationGroup::default();
        let all = instances([
            vec![("a", "2".into()), ("b", "x".into())],
            vec![("a", "1".into()), ("b", "y".into())],
            vec![("a", "3".into())],
            vec![("a", "*".into()), ("b", String::new())],
            vec![("b", "x".into())],
        ]);
        let rows: [(Vec<PlannedGroup<'_>>, &[&str]); 5] = [
            (vec![group(&of, &[])], &[""]),
            (vec![group(&of, &[("a", "p")])], &["1", "2", "3", "-"]),
            (vec![group(&of, &[("a", "p"), ("b", "q")])], &["1 y", "2 x", "- -"]),
            (
                vec![group(&of, &[("a", "p")]), group(&of, &[("b", "q")])],
                &["1 x", "1 y", "2 x", "2 y", "3 x", "3 y", "1 -", "2 -", "3 -", "- x", "- y", "- -"],
            ),
            (vec![group(&of, &[("a", "p"), ("b", "p")])], &["-"]),
        ];
        for (groups, expected) in rows {
            assert_eq!(assignment_texts(&groups, &all), expected, "{groups:?}");
        }
    }

    #[test]
    fn a_route_for_each_value_ends_at_the_limit() {
        let of = DestinationGroup::default();
        let labels = (0..5_000).map(|number| vec![("a", format!("{number:05}")), ("b", format!("{:05}", 7 * number))]);
        let all = instances(labels);
        for parameters in [&[("a", "p")][..], &[("a", "p"), ("b", "q")]] {
            let found = assignment_texts(&[group(&of, parameters)], &all);
            assert_eq!(found.len(), PARAMETER_VALUES_MAX + 1);
            assert!(found[63].starts_with("00063") && found[64].starts_with('-'), "{found:?}");
        }
        let of_two = [group(&of, &[("a", "p")]), group(&of, &[("b", "q")])];
        assert_eq!(assignment_texts(&of_two, &all)[1], "00000 00007");
    }
}
