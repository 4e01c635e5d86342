//! Explanation of routing: which rule takes the request, and which destinations share it.
//!
//! | question | answer |
//! |---|---|
//! | several that match | the first takes the request |
//! | route without a group that receives traffic | ignored, the search continues |
//! | policies | each decides separately; clients narrow the instances by one after another |
//! | destination of another service | receives traffic only if the rule's `callee` is the called service |
//! | destination priority | the lowest number that can receive traffic is used; none is last; others are on standby |
//! | destination weight | unset is 0 if others of the same priority have one, otherwise equal; 0 receives nothing |
//! | destination label PARAMETER | the value of the condition named by its value, its key, or as `$header.key` |
//! | such a label for an absent value | the group has no instance |

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{CustomRouteRule, LocationLevel, MetadataFailover, RoutePolicy, Routing, RoutingConfig, TrafficMatchMode};
use crate::model::explain::{
    Applied, Explained, Finding, Group, GroupState, Part, Share, Sketch, Taken, Verdict, groups, objection, refusal,
};
use crate::model::rule::{End, Rule, SubRuleEffect};
use crate::model::wire::{Uint32, Words};

/// A custom route.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Route<'a> {
    pub match_mode: TrafficMatchMode,
    pub random_percent: Uint32,
    pub destinations: Vec<Group<'a>>,
}

/// A route by metadata: the labels that instances must have.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Labels<'a> {
    pub labels: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<&'a MetadataFailover>,
}

/// A route to the nearest instances.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Nearness {
    pub match_level: LocationLevel,
    pub max_match_level: LocationLevel,
    pub strict_nearby: bool,
}

impl Explained for Routing {
    /// Reports whether a rule concerns the called service: custom routes by their callee, or without one by their
    /// destinations.
    fn is_about(&self, rule: &Rule, sketch: &Sketch) -> bool {
        if self.route_policy != RoutePolicy::Rule {
            return sketch.calls_any(rule.ends());
        }
        let mut groups = self.routing_config.custom_rules().iter().flat_map(|route| &route.destinations);
        match callee(rule, &self.routing_config) {
            Some(callee) => sketch.calls_any([callee]),
            None => groups.any(|group| sketch.calls_any(End::of(&group.namespace, &group.service, &rule.namespace))),
        }
    }

    fn parts<'a>(&'a self, rule: &'a Rule, sketch: &'a Sketch, taken: &mut Taken) -> Vec<Part<'a>> {
        let config = &self.routing_config;
        let effect = match self.route_policy {
            RoutePolicy::Rule => return custom(rule, config, sketch, taken),
            RoutePolicy::Metadata => {
                SubRuleEffect::Metadata(Labels { labels: config.labels.as_ref(), failover: config.failover.as_ref() })
            }
            RoutePolicy::Nearby => SubRuleEffect::Nearby(Nearness {
                match_level: config.match_level.unwrap_or_default(),
                max_match_level: config.max_match_level.unwrap_or_default(),
                strict_nearby: config.strict_nearby.unwrap_or_default(),
            }),
        };
        vec![whole(rule, self.route_policy, effect, taken)]
    }

    fn route_policy(&self) -> Option<RoutePolicy> {
        Some(self.route_policy)
    }

    fn summary(applies: &[Applied<'_>], taken: &Taken) -> String {
        let told = applies.iter().map(|part| match part.name {
            "" => format!("rule {}, sub-rule {}: {}", part.rule_name, part.index + 1, part.share),
            name => format!("rule {}, sub-rule {} ({name}): {}", part.rule_name, part.index + 1, part.share),
        });
        let mut sentences: Vec<String> = told.collect();
        let left = taken.left(RoutePolicy::Rule.word());
        if !left.is_none() {
            sentences.push(format!("{left} of the requests like this are taken by no custom route"));
        }
        sentences.join("; ")
    }
}

fn callee(rule: &Rule, config: &RoutingConfig) -> Option<End> {
    config.callee.as_ref().and_then(|key| End::of(&key.namespace, &key.service, &rule.namespace))
}

/// Evaluates the only part of a rule that applies to every request.
fn whole<'a>(rule: &Rule, policy: RoutePolicy, effect: SubRuleEffect<'a>, taken: &mut Taken) -> Part<'a> {
    let (verdict, share) = settle(Verdict::of(rule.enable, true, true), policy, Share::ALL, taken);
    let info = refusal(verdict, None).unwrap_or_else(|| match (verdict, &effect) {
        (Verdict::Shadowed, _) => format!("a rule of {} before it decides", policy.word()),
        (_, SubRuleEffect::Nearby(nearness)) => nearness.summary(),
        (_, SubRuleEffect::Metadata(labels)) => labels.summary(),
        _ => String::new(),
    });
    Part { index: 0, name: "", verdict, share, info, apis: Vec::new(), arguments: Vec::new(), effect }
}

/// Takes the wanted share of the remaining requests, if the part applies so far.
fn settle(verdict: Verdict, policy: RoutePolicy, wanted: Share, taken: &mut Taken) -> (Verdict, Share) {
    match verdict {
        Verdict::Applies if taken.left(policy.word()).is_none() => (Verdict::Shadowed, Share::NONE),
        Verdict::Applies => (verdict, taken.take(policy.word(), wanted)),
        _ => (verdict, Share::NONE),
    }
}

impl Nearness {
    fn summary(&self) -> String {
        let strict = if self.strict_nearby { ", never further" } else { "" };
        let (from, to) = (self.match_level.word(), self.max_match_level.word());
        format!("prefers instances of the caller's {from}, then as far as {to}{strict}")
    }
}

impl Labels<'_> {
    fn summary(&self) -> String {
        let pairs = |labels: &BTreeMap<String, String>| {
            let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            if pairs.is_empty() { "any labels".into() } else { pairs.join(", ") }
        };
        let wanted = self.labels.map(pairs).unwrap_or_default();
        match self.failover {
            None => format!("asks for instances with {wanted}"),
            Some(failover) => {
                let range = failover.failover_range.word();
                let labels = pairs(&failover.labels);
                format!("asks for instances with {wanted}; where there are none, for {range} by {labels}")
            }
        }
    }
}

fn custom<'a>(rule: &'a Rule, config: &'a RoutingConfig, sketch: &'a Sketch, taken: &mut Taken) -> Vec<Part<'a>> {
    let end = |namespace: &str, service: &str| End::of(namespace, service, &rule.namespace);
    let has_callee = callee(rule, config).is_some();
    let caller = config.caller.as_ref().and_then(|key| end(&key.namespace, &key.service));
    let stranger =
        caller.filter(|caller| !sketch.is_from(caller)).map(|caller| format!("for calls of {caller:?} only"));
    let reaches = |namespace: &str, service: &str| has_callee || sketch.calls_any(end(namespace, service));
    let rules = config.custom_rules().iter().enumerate();
    rules.map(|(index, route)| part(rule, index, route, &stranger, &reaches, sketch, taken)).collect()
}

fn part<'a>(
    rule: &Rule,
    index: usize,
    route: &'a CustomRouteRule,
    stranger: &Option<String>,
    reaches: &dyn Fn(&str, &str) -> bool,
    sketch: &'a Sketch,
    taken: &mut Taken,
) -> Part<'a> {
    let (mode, percent) = (route.arguments.match_mode, route.arguments.random_percent);
    let arguments: Vec<Finding> =
        route.arguments.arguments.iter().map(|argument| Finding::of(argument, sketch)).collect();
    let mut destinations = groups(&route.destinations, &arguments, reaches);
    let has_effect = destinations.iter().any(|group| group.state == GroupState::InUse);
    let objection = stranger.clone().or_else(|| objection(mode, &arguments));
    let verdict = Verdict::of(rule.enable, objection.is_none(), has_effect);
    let wanted = Share::of(percent.0.into(), 100);
    let (verdict, share) = settle(verdict, RoutePolicy::Rule, wanted, taken);
    for group in &mut destinations {
        group.share = group.share.within(share);
    }
    let info = refusal(verdict, objection).unwrap_or_else(|| match verdict {
        Verdict::Shadowed => "matches, but rules before it take all requests like this".into(),
        Verdict::Empty => "matches, but none of its destinations takes traffic: the search goes on".into(),
        _ => format!("matches {wanted} of the traffic: takes {share} of the requests like this"),
    });
    let effect = SubRuleEffect::Route(Route { match_mode: mode, random_percent: percent, destinations });
    Part { index, name: &route.name, verdict, share, info, apis: Vec::new(), arguments, effect }
}
