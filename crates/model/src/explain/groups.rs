//! Destination groups: which of them receive traffic, and how much.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::Share;
use super::finding::Finding;
use crate::model::rule::matching::{MatchString, ValueType};
use crate::model::rule::routing::DestinationGroup;
use crate::model::rule::traffic::ArgumentType;
use crate::model::wire::Uint32;

/// State of a destination group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    InUse,
    /// Waits while a group before it is available.
    Standby,
    Isolated,
    WithoutWeight,
    /// A label requires a value that the request does not have.
    Unresolved,
    OtherService,
}

/// A destination group with its share of the requests.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Group<'a> {
    pub name: &'a str,
    pub service: &'a str,
    pub namespace: &'a str,
    pub labels: BTreeMap<&'a str, Label<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Uint32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Uint32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub transfer: &'a str,
    pub state: GroupState,
    pub share: Share,
}

/// A condition on a label of the instances.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Label<'a> {
    #[serde(flatten)]
    pub condition: &'a MatchString,
    /// Value of a PARAMETER condition in this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<&'a str>,
}

/// Returns the groups of a route with their shares of its traffic.
pub(crate) fn groups<'a>(
    configured: &'a [DestinationGroup],
    arguments: &[Finding<'a>],
    reaches: &dyn Fn(&str, &str) -> bool,
) -> Vec<Group<'a>> {
    let weights = Weights::of(configured);
    let mut groups: Vec<Group> = configured
        .iter()
        .map(|group| {
            let labels = labels(group, arguments);
            let state = state(group, &labels, &weights, reaches(&group.namespace, &group.service));
            group_of(group, labels, state)
        })
        .collect();
    let able = || groups.iter().zip(configured).filter(|(group, _)| group.state == GroupState::InUse);
    let first = able().map(|(_, configured)| rank(configured)).min();
    let in_use = |group: &DestinationGroup| Some(rank(group)) == first;
    let total = able().filter(|(_, group)| in_use(group)).map(|(_, group)| weights.weight(group)).sum();
    for (group, of) in groups.iter_mut().zip(configured).filter(|(group, _)| group.state == GroupState::InUse) {
        if in_use(of) {
            group.share = Share::of(weights.weight(of), total);
        } else {
            group.state = GroupState::Standby;
        }
    }
    groups
}

/// Returns the sort key of a group by priority; a group without one is last.
pub fn rank(group: &DestinationGroup) -> (bool, Option<Uint32>) {
    (group.priority.is_none(), group.priority)
}

/// Priorities at which a group has a weight.
pub struct Weights(BTreeSet<Option<Uint32>>);

impl Weights {
    pub fn of(groups: &[DestinationGroup]) -> Self {
        Weights(groups.iter().filter(|group| group.weight.is_some()).map(|group| group.priority).collect())
    }

    /// Returns the effective weight among the groups of the same priority.
    pub fn weight(&self, group: &DestinationGroup) -> u64 {
        match group.weight {
            Some(weight) => weight.0.into(),
            None if self.0.contains(&group.priority) => 0,
            None => 1,
        }
    }
}

/// Returns the state of a group by itself. All usable groups count as in use; the priorities are applied later.
fn state(
    group: &DestinationGroup,
    labels: &BTreeMap<&str, Label<'_>>,
    weights: &Weights,
    is_reached: bool,
) -> GroupState {
    let is_lost = |label: &Label<'_>| label.condition.value_type == ValueType::Parameter && label.resolved.is_none();
    if !is_reached {
        GroupState::OtherService
    } else if group.isolate {
        GroupState::Isolated
    } else if labels.values().any(is_lost) {
        GroupState::Unresolved
    } else if weights.weight(group) == 0 {
        GroupState::WithoutWeight
    } else {
        GroupState::InUse
    }
}

fn labels<'a>(group: &'a DestinationGroup, arguments: &[Finding<'a>]) -> BTreeMap<&'a str, Label<'a>> {
    let resolve = |condition: &MatchString| match condition.value_type {
        ValueType::Text => None,
        ValueType::Parameter => {
            let is_named =
                |found: &&Finding<'a>| is_parameter(found.kind, found.key, found.condition, &condition.value);
            arguments.iter().filter(is_named).find_map(|found| found.value)
        }
    };
    group
        .labels
        .iter()
        .map(|(key, condition)| (key.as_str(), Label { condition, resolved: resolve(condition) }))
        .collect()
}

/// Reports whether a PARAMETER condition has this name: its value, its key, or its qualified name such as
/// `$header.key`.
pub fn is_parameter(kind: ArgumentType, key: &str, condition: Option<&MatchString>, name: &str) -> bool {
    let Some(condition) = condition.filter(|condition| condition.value_type == ValueType::Parameter) else {
        return false;
    };
    let part = match kind {
        ArgumentType::Header => "$header.",
        ArgumentType::Query => "$query.",
        ArgumentType::Cookie => "$cookie.",
        ArgumentType::CallerMetadata => "$caller_metadata.",
        ArgumentType::Method => "$method",
        ArgumentType::Path => "$path",
        ArgumentType::CallerIp => "$caller_ip",
        ArgumentType::Custom | ArgumentType::CallerService => "",
    };
    let is_given = [condition.value.as_str(), key].iter().any(|known| !known.is_empty() && *known == name);
    is_given || (!part.is_empty() && name.strip_prefix(part) == Some(key))
}

fn group_of<'a>(group: &'a DestinationGroup, labels: BTreeMap<&'a str, Label<'a>>, state: GroupState) -> Group<'a> {
    Group {
        name: &group.name,
        service: &group.service,
        namespace: &group.namespace,
        labels,
        priority: group.priority,
        weight: group.weight,
        transfer: &group.transfer,
        state,
        share: Share::NONE,
    }
}
