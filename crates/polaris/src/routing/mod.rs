//! Custom routes, in the form that every version of the SDKs reads: inbound routes of a callee, outbound routes of a
//! caller.
//!
//! | in a rule | in an answer |
//! |---|---|
//! | callee, or a destination, is the service of the question | an inbound route, under the name in the question |
//! | caller is the service of the question | an outbound route |
//! | no caller | a source `*`/`*`; a source with an empty name matches no caller |
//! | AND | one source for each caller, with all conditions |
//! | OR | a source for each condition |
//! | sub-rule that cannot be carried, or has no group with traffic | left out: the next one is tried |

use std::collections::BTreeMap;

use crate::AskedService;
use crate::conditions::{condition_or_any, label_key};
use crate::destinations::Destinations;
use crate::loss::Loss;
use crate::model::rule::matching::{ALL, MatchString, MatchType, ValueType};
use crate::model::rule::routing::{CustomRouteRule, RoutePolicy, Routing, RoutingConfig, TrafficMatchMode};
use crate::model::rule::traffic::{Argument, ArgumentType, ServiceKey};
use crate::model::rule::{Body, End, Rule};
use crate::model::wire::Words;
use crate::v1;

const PERCENT_ALL: u32 = 100;
/// Keys by which the SDKs know the rule that a route comes from.
const RULE_ID: &str = "__routing_v2_id__";
const RULE_PRIORITY: &str = "__routing_v2_priority__";

/// Routes of a service.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Routes {
    pub(crate) inbounds: Vec<v1::Route>,
    pub(crate) outbounds: Vec<v1::Route>,
}

/// Returns the custom routes among the rules, which are in order of priority.
pub(crate) fn routes(rules: &[&Rule], asked: AskedService<'_>) -> Routes {
    let mut routes = Routes::default();
    for rule in rules.iter().filter(|rule| rule.enable) {
        if let Some(routing) = custom(rule) {
            RuleRoutes { rule, config: &routing.routing_config }.add(asked, &mut routes);
        }
    }
    routes
}

/// Returns the body of a custom route.
fn custom(rule: &Rule) -> Option<&Routing> {
    match &rule.body {
        Body::Routing(routing) if routing.route_policy == RoutePolicy::Rule => Some(routing),
        _ => None,
    }
}

/// Returns the losses of a custom route, and whether any part of it is carried; `None` for other rules.
pub(crate) fn losses(rule: &Rule) -> Option<(Vec<Loss>, bool)> {
    let config = &custom(rule)?.routing_config;
    let (of_rule, mut losses, mut carries_any) = (RuleRoutes { rule, config }, Vec::new(), false);
    for (index, route) in config.custom_rules().iter().enumerate() {
        let destinations = of_rule.destinations(index, route);
        let sources = of_rule.sources(index, route, &mut losses);
        let mut has_any = false;
        for target in of_rule.targets(route) {
            let to = |end: &End| end.covers(&target.namespace, &target.service).then(|| target.clone());
            has_any |= !destinations.to(&to, &mut losses).is_empty();
        }
        destinations.elsewhere(of_rule.callee().as_ref(), &mut losses);
        carries_any |= has_any && sources.is_some();
    }
    Some((losses, carries_any))
}

/// A rule of custom routes.
struct RuleRoutes<'a> {
    rule: &'a Rule,
    config: &'a RoutingConfig,
}

impl RuleRoutes<'_> {
    fn end(&self, key: Option<&ServiceKey>) -> Option<End> {
        key.and_then(|key| End::of(&key.namespace, &key.service, &self.rule.namespace))
    }

    fn callee(&self) -> Option<End> {
        self.end(self.config.callee.as_ref())
    }

    /// Returns the services that may ask for the sub-rule as a callee.
    fn targets(&self, route: &CustomRouteRule) -> Vec<End> {
        let own = |namespace: &str, service: &str| End::of(namespace, service, &self.rule.namespace);
        match self.callee() {
            Some(callee) => vec![callee],
            None => route.destinations.iter().filter_map(|group| own(&group.namespace, &group.service)).collect(),
        }
    }

    fn destinations<'r>(&'r self, index: usize, route: &'r CustomRouteRule) -> Destinations<'r> {
        Destinations { rule: self.rule, index, route }
    }

    fn add(&self, asked: AskedService<'_>, routes: &mut Routes) {
        let callee = self.callee();
        let is_called = callee.as_ref().is_none_or(|callee| asked.is_covered_by(Some(callee)));
        for (index, route) in self.config.custom_rules().iter().enumerate() {
            let losses = &mut Vec::new();
            let Some(sources) = self.sources(index, route, losses) else { continue };
            let (namespace, service) = (asked.namespace.to_owned(), asked.service.to_owned());
            let name = End { namespace, service };
            let of_asked = |end: &End| (is_called && asked.is_covered_by(Some(end))).then(|| name.clone());
            let destinations = self.destinations(index, route).to(&of_asked, losses);
            if !destinations.is_empty() {
                routes.inbounds.push(self.route(sources, destinations));
                continue;
            }
            let is_caller = |source: &&v1::Source| is_named(source, asked);
            let own: Vec<v1::Source> = sources.iter().filter(is_caller).cloned().collect();
            let to_callee = |end: &End| callee.as_ref().is_none_or(|callee| callee == end).then(|| end.clone());
            let destinations = self.destinations(index, route).to(&to_callee, losses);
            if !own.is_empty() && !destinations.is_empty() {
                routes.outbounds.push(self.route(own, destinations));
            }
        }
    }

    fn route(&self, sources: Vec<v1::Source>, destinations: Vec<v1::Destination>) -> v1::Route {
        let priority = format!("{:04}", self.rule.priority);
        let extend_info = [(RULE_ID, self.rule.id.clone()), (RULE_PRIORITY, priority)];
        let extend_info = extend_info.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        v1::Route { sources, destinations, extend_info }
    }

    /// Returns the sources of a sub-rule; `None` if it cannot be carried, or matches no request.
    fn sources(&self, index: usize, route: &CustomRouteRule, losses: &mut Vec<Loss>) -> Option<Vec<v1::Source>> {
        let place = format!("rules[{index}]");
        let percent = route.arguments.random_percent.0;
        if percent < PERCENT_ALL {
            losses.push(Loss::left_out(1, format!("{place}: SDKs take no share of the requests, {percent} % is set")));
            return None;
        }
        let caller = Callers::of(self.end(self.config.caller.as_ref()));
        let arguments = &route.arguments.arguments;
        let mut alternatives = Vec::new();
        match route.arguments.match_mode {
            TrafficMatchMode::Or if !arguments.is_empty() => {
                for argument in arguments {
                    alternatives.extend(one_source(&place, caller.clone(), [argument], losses)?);
                }
            }
            TrafficMatchMode::Or | TrafficMatchMode::And => {
                alternatives = one_source(&place, caller, arguments, losses)?;
            }
        }
        (!alternatives.is_empty()).then_some(alternatives)
    }
}

/// Reports whether a source names the service itself.
fn is_named(source: &v1::Source, asked: AskedService<'_>) -> bool {
    let is = |given: &Option<String>, wanted: &str| given.as_deref().is_some_and(|given| given == wanted);
    is(&source.service, &asked.target.service)
        && (is(&source.namespace, &asked.target.namespace) || is(&source.namespace, ALL))
}

/// Callers that a sub-rule admits, as pairs of namespace and service.
#[derive(Clone)]
struct Callers(Vec<(String, String)>);

impl Callers {
    fn of(end: Option<End>) -> Callers {
        let End { namespace, service } = end.unwrap_or_else(End::every);
        Callers(vec![(namespace, service)])
    }

    /// Keeps the callers that are among `others` too.
    fn narrow(&mut self, others: &[(String, String)]) {
        let both = |one: &str, other: &str| match (one, other) {
            (ALL, named) | (named, ALL) => Some(named.to_owned()),
            (one, other) => (one == other).then(|| one.to_owned()),
        };
        let pairs = self.0.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
        let found = pairs.filter_map(|(one, other)| Some((both(&one.0, &other.0)?, both(&one.1, &other.1)?)));
        self.0 = found.collect();
    }
}

/// Returns a source for each caller, with all conditions. `None` if a condition cannot be carried.
fn one_source<'a>(
    place: &str,
    mut callers: Callers,
    arguments: impl IntoIterator<Item = &'a Argument<ArgumentType>>,
    losses: &mut Vec<Loss>,
) -> Option<Vec<v1::Source>> {
    let mut metadata: BTreeMap<String, v1::MatchString> = BTreeMap::new();
    for argument in arguments {
        let Some(key) = label_key(argument.kind, &argument.key) else {
            match named_callers(argument) {
                Ok(named) => callers.narrow(&named),
                Err(comparison) => {
                    let why = format!("{place}: SDKs compare no caller with {comparison}");
                    losses.push(Loss::left_out(2, why));
                    return None;
                }
            }
            continue;
        };
        if argument.kind == ArgumentType::CallerMetadata {
            let why =
                format!("{place}: only Java 2.1 knows the metadata of its caller, for other SDKs it never matches");
            losses.push(Loss::approximate(8, why));
        }
        let condition = condition_or_any(argument.value.as_ref());
        if metadata.get(&key).is_some_and(|known| *known != condition) {
            losses.push(Loss::left_out(3, format!("{place}: SDKs take one condition on {key}, there are two")));
            return None;
        }
        metadata.insert(key, condition);
    }
    let source = |(namespace, service): (String, String)| v1::Source {
        service: Some(service),
        namespace: Some(namespace),
        metadata: metadata.clone(),
    };
    Some(callers.0.into_iter().map(source).collect())
}

/// Returns the callers that meet a condition on the caller, or the comparison that cannot be expressed.
fn named_callers(argument: &Argument<ArgumentType>) -> Result<Vec<(String, String)>, &'static str> {
    let namespace = if argument.key.is_empty() { ALL } else { argument.key.as_str() };
    let named = |service: &str| (namespace.to_owned(), service.to_owned());
    let is_any = |value: &MatchString| value.is_open() || value.value_type == ValueType::Parameter;
    match argument.value.as_ref().filter(|value| !is_any(value)) {
        None => Ok(vec![named(ALL)]),
        Some(value) if value.kind == MatchType::Exact => Ok(vec![named(&value.value)]),
        Some(value) if value.kind == MatchType::In => {
            Ok(value.value.split(',').filter(|name| !name.is_empty()).map(named).collect())
        }
        Some(value) => Err(value.kind.word()),
    }
}

#[cfg(test)]
mod tests;
