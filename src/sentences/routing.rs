//! Routing in sentences: each sub-rule with the destinations that share its calls, or the single setting of a policy.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{
    ITEMS_MAX, all_of, argument, bounded, calls, calls_with, joined, label, named, percent, quoted,
};
use super::language::Language;
use super::story::Story;
use crate::model::explain::{Group, GroupState, Share, Weights, is_parameter, rank};
use crate::model::rule::matching::{ALL, ValueType};
use crate::model::rule::routing::{
    CustomRouteRule, DestinationGroup, FailoverRange, LocationLevel, RoutePolicy, Routing, RoutingConfig,
    TrafficMatchMode,
};
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, End, Rule};

pub(super) fn tell(story: &mut Story, rule: &Rule) {
    let Body::Routing(body) = &rule.body else { return };
    let (language, config) = (story.language, &body.routing_config);
    if body.route_policy == RoutePolicy::Rule {
        return tell_custom(story, rule, config);
    }
    let (service, namespace) = (config.service.as_deref(), config.namespace.as_deref());
    let callee = End::of(namespace.unwrap_or_default(), service.unwrap_or_default(), &rule.namespace);
    let Some(callee) = callee else { return story.say(|| language.for_nothing()) };
    let calls = calls(language, None, &[callee]);
    story.say(|| language.go_to_instances(calls, preferred(language, body)));
    story.say(|| language.priority_policy(rule.priority));
}

/// Describes the instances that a policy prefers.
pub(super) fn preferred(language: Language, body: &Routing) -> String {
    match body.route_policy {
        RoutePolicy::Metadata => by_metadata(language, &body.routing_config),
        RoutePolicy::Nearby | RoutePolicy::Rule => nearby(language, &body.routing_config),
    }
}

fn by_metadata(language: Language, config: &RoutingConfig) -> String {
    let pairs = |labels: &BTreeMap<String, String>| {
        all_of(language, labels.iter().map(|(key, value)| language.label(quoted(key), quoted(value))))
    };
    let labels = config.labels.as_ref().map(pairs).unwrap_or_default();
    if labels.is_empty() {
        return language.by_any_label();
    }
    let Some(failover) = &config.failover else { return language.by_labels(labels) };
    let others = match failover.failover_range {
        FailoverRange::All | FailoverRange::Others => language.all_others(),
        FailoverRange::OtherKeys => language.others_without(),
    };
    let of_failover = pairs(&failover.labels);
    let others = if of_failover.is_empty() { others } else { language.others_with(others, of_failover) };
    language.by_labels_or(labels, others)
}

/// Describes the levels as clients interpret them: by default from the zone to everywhere.
fn nearby(language: Language, config: &RoutingConfig) -> String {
    let levels = [LocationLevel::Campus, LocationLevel::Zone, LocationLevel::Region];
    let first = match config.match_level.unwrap_or_default() {
        LocationLevel::Unknown => LocationLevel::Zone,
        level => level,
    };
    let last = match config.max_match_level.unwrap_or_default() {
        LocationLevel::Unknown => LocationLevel::All,
        level => level.max(first),
    };
    let word = |level: &LocationLevel| match level {
        LocationLevel::Campus => language.campus(),
        LocationLevel::Region => language.region(),
        LocationLevel::Zone | LocationLevel::Unknown | LocationLevel::All => language.zone(),
    };
    let mut between = levels.iter().filter(|level| (first..=last).contains(*level));
    let Some(nearest) = between.next() else { return language.near_alike() };
    let nearest = language.near(word(nearest));
    let near = between.fold(nearest, |nearer, level| language.near_next(nearer, word(level)));
    let is_strict = config.strict_nearby.unwrap_or_default() && last != LocationLevel::All;
    if is_strict { language.near_strict(near) } else { language.near_all(near) }
}

fn tell_custom(story: &mut Story, rule: &Rule, config: &RoutingConfig) {
    let language = story.language;
    let route_of = RouteDescription::new(language, rule, config);
    let routes = config.custom_rules();
    if routes.is_empty() {
        return story.say(|| language.nothing());
    }
    if routes.len() > 1 {
        story.say(|| language.first_wins());
    }
    story.say_each(routes, |route| route_of.sentence(route));
    story.say(|| language.rest());
    story.say(|| language.priority_custom(rule.priority));
}

/// Describes the destinations of the calls that a sub-rule of a custom route takes, each with its share of all calls
/// like these; a destination that gets all of them has none.
pub(super) fn destinations(
    language: Language,
    rule: &Rule,
    (config, route): (&RoutingConfig, &CustomRouteRule),
    called: &End,
    found: &[Group<'_>],
) -> String {
    let description = RouteDescription::new(language, rule, config);
    let (mut ranks, mut idle) = (BTreeMap::<_, Vec<String>>::new(), Vec::new());
    for (group, found) in route.destinations.iter().zip(found) {
        let resolved = |key: &str| found.labels.get(key).and_then(|label| label.resolved);
        let text = description.group(group, called, &resolved);
        match found.state {
            GroupState::InUse if found.share == Share::ALL => ranks.entry(rank(group)).or_default().push(text),
            GroupState::InUse => {
                let share = percent(language, found.share.percent());
                ranks.entry(rank(group)).or_default().push(language.group_share(text, share));
            }
            GroupState::Standby => ranks.entry(rank(group)).or_default().push(text),
            GroupState::Isolated => idle.push(language.is_isolated(text)),
            GroupState::Unresolved => idle.push(language.has_no_value(text)),
            GroupState::WithoutWeight => idle.push(language.has_no_weight(text)),
            GroupState::OtherService => {}
        }
    }
    let ranks = ranks.into_values().map(|groups| joined(language, groups, |first, second| language.and(first, second)));
    let groups = joined(language, ranks, |first, next| language.or_while_none(first, next));
    let idle = bounded(idle, |more| language.more_items(more));
    language.clauses([groups].into_iter().chain(idle))
}

/// Description of the sub-rules of a custom route.
struct RouteDescription<'a> {
    language: Language,
    rule: &'a Rule,
    caller: Option<End>,
    callee: Option<End>,
}

impl<'a> RouteDescription<'a> {
    fn new(language: Language, rule: &'a Rule, config: &RoutingConfig) -> Self {
        let end = |key: &Option<ServiceKey>| {
            key.as_ref().and_then(|key| End::of(&key.namespace, &key.service, &rule.namespace))
        };
        RouteDescription { language, rule, caller: end(&config.caller), callee: end(&config.callee) }
    }

    /// Describes a sub-rule. Without a callee the rule applies to calls of each service that a destination names.
    fn sentence(&self, route: &CustomRouteRule) -> String {
        let language = self.language;
        let mut callees: Vec<End> = match &self.callee {
            Some(callee) => vec![callee.clone()],
            None => route.destinations.iter().filter_map(|group| self.end_of(group)).collect(),
        };
        callees.sort_by_key(|end| (end.service == ALL, end.namespace == ALL));
        let mut seen = BTreeSet::new();
        callees.retain(|end| seen.insert(end.clone()));
        if callees.is_empty() {
            return language.no_destination();
        }
        let more = callees.len().saturating_sub(ITEMS_MAX);
        let sentences = callees.iter().enumerate().take(ITEMS_MAX).map(|(index, callee)| {
            let told = self.told_to(callee, route);
            let is_rest = callees[..index].iter().any(|before| callee.covers(&before.namespace, &before.service));
            if is_rest { language.otherwise(told) } else { told }
        });
        language.paragraph(sentences.chain((more > 0).then(|| language.and_more(more))))
    }

    fn end_of(&self, group: &DestinationGroup) -> Option<End> {
        End::of(&group.namespace, &group.service, &self.rule.namespace)
    }

    /// Describes a sub-rule for the calls of one callee: active groups, then inactive ones.
    fn told_to(&self, callee: &End, route: &CustomRouteRule) -> String {
        let language = self.language;
        let weights = Weights::of(&route.destinations);
        let mut ranks = BTreeMap::<_, Vec<&DestinationGroup>>::new();
        let mut idle = Vec::new();
        for group in route.destinations.iter().filter(|group| self.reaches(group, callee)) {
            let mut takes_over = group.labels.values().filter(|label| label.value_type == ValueType::Parameter);
            let values = || self.group(group, callee, &|_| None);
            if group.isolate {
                idle.push(language.sentence(language.is_isolated(values())));
            } else if takes_over.any(|label| !is_carried(route, &label.value)) {
                idle.push(language.sentence(language.has_no_value(values())));
            } else if weights.weight(group) == 0 {
                idle.push(language.sentence(language.has_no_weight(values())));
            } else {
                ranks.entry(rank(group)).or_default().push(group);
            }
        }
        let is_lacking = is_alternative(route) && ranks.values().flatten().any(|group| has_parameter(group));
        let calls = self.calls(callee, route);
        let taken = match ranks.is_empty() {
            true => language.takes_nothing(calls),
            false => {
                let ranks = ranks.values().map(|groups| self.shared(groups, &weights, callee));
                let groups = joined(language, ranks, |first, next| language.or_while_none(first, next));
                match route.arguments.random_percent.0 {
                    100.. => language.go_to(calls, groups),
                    part => language.share_goes_to(calls, language.percent(part), groups),
                }
            }
        };
        let lacking = if is_lacking { language.passed_over() } else { String::new() };
        let idle = bounded(idle, |more| language.and_more(more));
        language.paragraph([taken].into_iter().chain(idle).chain([lacking]))
    }

    fn reaches(&self, group: &DestinationGroup, callee: &End) -> bool {
        let covers = |end: End| end.covers(&callee.namespace, &callee.service);
        self.callee.is_some() || self.end_of(group).is_some_and(covers)
    }

    fn calls(&self, callee: &End, route: &CustomRouteRule) -> String {
        let language = self.language;
        let conditions = route.arguments.arguments.iter().map(|one| argument(language, one));
        let conditions = match route.arguments.match_mode {
            TrafficMatchMode::And => all_of(language, conditions),
            TrafficMatchMode::Or => joined(language, conditions, |first, second| language.either(first, second)),
        };
        calls_with(language, calls(language, self.caller.as_ref(), std::slice::from_ref(callee)), &conditions)
    }

    /// Describes groups of one priority, with their shares if there are several.
    fn shared(&self, groups: &[&DestinationGroup], weights: &Weights, callee: &End) -> String {
        let language = self.language;
        let total: u64 = groups.iter().map(|group| weights.weight(group)).sum();
        let shown = groups.iter().map(|group| match groups.len() {
            1 => self.group(group, callee, &|_| None),
            _ => {
                let share = Share::of(weights.weight(group), total).percent();
                language.group_share(self.group(group, callee, &|_| None), percent(language, share))
            }
        });
        joined(language, shown, |first, second| language.and(first, second))
    }

    /// Describes the instances of a group, and their service if it differs from the callee. `resolved` returns the
    /// value that a label takes over, where one call is described.
    fn group<'v>(&self, group: &DestinationGroup, callee: &End, resolved: &dyn Fn(&str) -> Option<&'v str>) -> String {
        let language = self.language;
        let labels: Vec<_> = group.labels.iter().filter(|(_, label)| !label.is_open()).collect();
        let count = labels.len();
        let labels = labels.into_iter().map(|(key, wanted)| match resolved(key) {
            Some(value) => language.label(quoted(key), quoted(value)),
            None => label(language, key, wanted),
        });
        let labels = joined(language, labels, |first, second| language.comma(first, second));
        let labels = if count > 1 { language.bracketed(labels) } else { labels };
        let name = if group.transfer.is_empty() { &group.service } else { &group.transfer };
        let target = End::of(&group.namespace, name, &self.rule.namespace).map(|target| filled(target, callee));
        let other = target.filter(|target| target != callee).map(|target| named(language, &target));
        match (labels.is_empty(), other) {
            (true, None) => language.any_instance(),
            (true, Some(service)) => language.any_instance_of(service),
            (false, None) => labels,
            (false, Some(service)) => language.labelled_of(labels, service),
        }
    }
}

/// Fills the open names of a destination with those of the callee.
fn filled(target: End, callee: &End) -> End {
    let of = |name: String, called: &String| if name == ALL { called.clone() } else { name };
    End { namespace: of(target.namespace, &callee.namespace), service: of(target.service, &callee.service) }
}

fn has_parameter(group: &DestinationGroup) -> bool {
    group.labels.values().any(|label| label.value_type == ValueType::Parameter)
}

/// Reports whether a condition provides the value of the name.
fn is_carried(route: &CustomRouteRule, name: &str) -> bool {
    let mut conditions = route.arguments.arguments.iter();
    conditions.any(|condition| is_parameter(condition.kind, &condition.key, condition.value.as_ref(), name))
}

/// Reports whether a call may match without meeting all conditions.
fn is_alternative(route: &CustomRouteRule) -> bool {
    route.arguments.match_mode == TrafficMatchMode::Or && route.arguments.arguments.len() > 1
}
