//! Labels that take over a value of the request: one route for each value that occurs among the instances, and one for
//! all others, in which groups with such a label have no instance.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::instance::Instance;
use crate::model::mesh::conditions::{AskedCondition, Condition, carried};
use crate::model::mesh::plan::{Abilities, PARAMETER_VALUES_MAX, PlannedGroup, PlannedRoute, RequestPart, TextMatch};
use crate::model::rule::matching::{MatchString, MatchType, ValueType};
use crate::model::rule::traffic::ArgumentType;
use crate::xds::names::ServiceName;
use crate::xds::questions::Questions;

/// Combinations of values that are looked at.
const COMBINATIONS_MAX: usize = 4_096;

/// A value for each part of the request that labels take over; none stands for all that no instance has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Assignment<'a> {
    values: Vec<(RequestPart<'a>, Option<String>)>,
}

impl<'a> Assignment<'a> {
    fn value(&self, part: RequestPart<'_>) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == part).and_then(|(_, value)| value.as_deref())
    }

    /// True if some part may have any value that no instance has.
    pub(crate) fn is_of_others(&self) -> bool {
        self.values.iter().any(|(_, value)| value.is_none())
    }

    /// True if every label that takes over a value has one.
    pub(crate) fn serves(&self, group: &PlannedGroup<'_>) -> bool {
        group.parameters.iter().all(|parameter| self.value(parameter.part).is_some())
    }

    /// The condition on a label of a group that takes over a value; none if the label takes over nothing.
    pub(crate) fn condition(&self, group: &PlannedGroup<'_>, label: &str) -> Option<MatchString> {
        let parameter = group.parameters.iter().find(|parameter| parameter.label == label)?;
        Some(equal(self.value(parameter.part)?))
    }

    /// True if what is known of the caller is as it has to be, where `all` are the values that there are.
    pub(crate) fn fits(&self, all: &[Assignment<'a>], questions: &mut Questions<'_>) -> bool {
        self.values.iter().all(|(part, value)| {
            let known = match part {
                RequestPart::CallerIp => questions.address(),
                RequestPart::CallerMetadata(key) => questions.label(key),
                RequestPart::CallerService => questions.caller(),
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

    /// Narrows a route to requests that have these values; false if a client cannot carry that.
    pub(crate) fn narrow(&self, route: &mut PlannedRoute<'a>, to: Abilities) -> bool {
        self.values.iter().all(|(part, value)| {
            let (Some((kind, key)), Some(value)) = (argument(*part), value) else { return true };
            let condition = equal(value);
            let asked = AskedCondition { kind, key, value: Some(&condition) };
            let Ok(ways) = carried(asked, "", route.path.is_some(), to) else { return false };
            let Some(way) = ways.any_of.into_iter().next() else { return false };
            way.into_iter().for_each(|condition| match condition {
                Condition::Path(path) => route.path = Some(path),
                Condition::Header(header) => route.headers.push(header),
                Condition::Query(query) => route.query.push(query),
                Condition::Caller(_) => {}
            });
            true
        })
    }
}

/// Narrows a route to requests that none of the assignments is for, as a client that draws anew for each route may come
/// here with their values. Texts that are compared as a whole alone can be excluded.
pub(crate) fn exclude<'a>(all: &[Assignment<'a>], route: &mut PlannedRoute<'a>, to: Abilities) {
    for values in all {
        // Conditions on the path are on its header then.
        let path = Some(TextMatch::Present);
        let mut narrowed = PlannedRoute { path, headers: Vec::new(), ..route.clone() };
        if !values.narrow(&mut narrowed, to) {
            continue;
        }
        if let [header] = &mut narrowed.headers[..]
            && let Some(inverted) = inverted(&header.value)
        {
            header.value = inverted;
            route.headers.append(&mut narrowed.headers);
        }
    }
}

fn inverted(value: &TextMatch) -> Option<TextMatch> {
    match value {
        TextMatch::Exact(text) => Some(TextMatch::Not(text.clone())),
        TextMatch::Expression(text) => Some(TextMatch::NotExpression(text.clone())),
        TextMatch::Present | TextMatch::Not(_) | TextMatch::NotExpression(_) | TextMatch::Range(..) => None,
    }
}

fn equal(value: &str) -> MatchString {
    MatchString { kind: MatchType::Exact, value: value.to_owned(), value_type: ValueType::Text }
}

/// The argument that names a part of the request; none for what the server knows of the caller.
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

/// The values for which there are routes, those of the fewest requests first; one without a value where no label takes
/// one over.
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
    let able: Vec<_> = groups
        .iter()
        .map(|group| {
            let mut possible = instances(&ServiceName::from(&group.service));
            possible.retain(|instance| group.is_possible(instance));
            (group, possible)
        })
        .collect();
    let mut found = vec![Assignment::default()];
    for part in &parts {
        let values = values_of(*part, &able);
        let with = |before: Assignment<'a>| {
            let values = values.iter().map(|value| Some((*value).to_owned())).chain([None]);
            values.map(move |value| Assignment { values: [&before.values[..], &[(*part, value)]].concat() })
        };
        found = found.into_iter().flat_map(with).take(COMBINATIONS_MAX).collect();
    }
    // What no instance with such a label has is what all others are.
    let is_taken = |values: &Assignment<'_>| {
        let mut taking = able.iter().filter(|(group, _)| !group.parameters.is_empty());
        taking.any(|(group, possible)| possible.iter().any(|one| has(values, group, one)))
    };
    found.retain(is_taken);
    found.sort_by_key(|values| values.values.iter().filter(|(_, value)| value.is_none()).count());
    found.truncate(PARAMETER_VALUES_MAX);
    found.push(Assignment { values: parts.into_iter().map(|part| (part, None)).collect() });
    found
}

/// The values of the labels that take over a part of the request.
fn values_of<'i>(part: RequestPart<'_>, able: &[(&PlannedGroup<'_>, Vec<&'i Arc<Instance>>)]) -> BTreeSet<&'i str> {
    let mut values = BTreeSet::new();
    for (group, possible) in able {
        for parameter in group.parameters.iter().filter(|parameter| parameter.part == part) {
            values.extend(possible.iter().filter_map(|instance| instance.metadata.get(parameter.label)));
        }
    }
    let values = values.into_iter().map(String::as_str);
    values.filter(|value| !equal(value).is_open()).collect()
}

fn has(values: &Assignment<'_>, group: &PlannedGroup<'_>, instance: &Instance) -> bool {
    group.parameters.iter().all(|parameter| {
        let value = instance.metadata.get(parameter.label).map(String::as_str);
        value.is_some() && value == values.value(parameter.part)
    })
}
