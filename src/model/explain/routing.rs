//! Routing: who takes the request, and which destinations share it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{Finding, objection};
use super::groups::{Group, GroupState, groups};
use super::sketch::Sketch;
use super::{Effect, Judged, Part, Share, Verdict, refusal};
use crate::model::rule::routing::{
    CustomRouteRule, LocationLevel, MetadataFailover, RoutePolicy, Routing, RoutingConfig, TrafficMatchMode,
};
use crate::model::rule::{End, Rule};
use crate::model::wire::{Uint32, Words};

/// Share of the traffic that each policy has given away.
#[derive(Debug, Default)]
pub(super) struct Traffic(BTreeMap<RoutePolicy, Share>);

impl Traffic {
    fn left(&self, policy: RoutePolicy) -> Share {
        self.0.get(&policy).copied().unwrap_or(Share::ALL)
    }

    /// Takes `wanted` of the rest, and returns the share that it comes to.
    fn take(&mut self, policy: RoutePolicy, wanted: Share) -> Share {
        let left = self.left(policy);
        let taken = wanted.within(left);
        self.0.insert(policy, left.without(taken));
        taken
    }
}

/// A custom route.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Route<'a> {
    pub match_mode: TrafficMatchMode,
    pub random_percent: Uint32,
    pub destinations: Vec<Group<'a>>,
}

/// A route by metadata: the labels that instances are asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Labels<'a> {
    pub labels: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<&'a MetadataFailover>,
}

/// A route to the nearest.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Nearness {
    pub match_level: LocationLevel,
    pub max_match_level: LocationLevel,
    pub strict_nearby: bool,
}

pub(super) fn parts<'a>(rule: &'a Rule, body: &'a Routing, sketch: &'a Sketch, traffic: &mut Traffic) -> Vec<Part<'a>> {
    let config = &body.routing_config;
    let effect = match body.route_policy {
        RoutePolicy::Rule => return custom(rule, config, sketch, traffic),
        RoutePolicy::Metadata => {
            Effect::Metadata(Labels { labels: config.labels.as_ref(), failover: config.failover.as_ref() })
        }
        RoutePolicy::Nearby => Effect::Nearby(Nearness {
            match_level: config.match_level.unwrap_or_default(),
            max_match_level: config.max_match_level.unwrap_or_default(),
            strict_nearby: config.strict_nearby.unwrap_or_default(),
        }),
    };
    vec![whole(rule, body.route_policy, effect, traffic)]
}

/// A custom route is about its callee, or without one about its destinations.
pub(super) fn is_about(rule: &Rule, body: &Routing, sketch: &Sketch) -> bool {
    if body.route_policy != RoutePolicy::Rule {
        return sketch.calls_any(rule.ends());
    }
    let mut groups = body.routing_config.custom_rules().iter().flat_map(|route| &route.destinations);
    match callee(rule, &body.routing_config) {
        Some(callee) => sketch.calls_any([callee]),
        None => groups.any(|group| sketch.calls_any(End::of(&group.namespace, &group.service, &rule.namespace))),
    }
}

fn callee(rule: &Rule, config: &RoutingConfig) -> Option<End> {
    config.callee.as_ref().and_then(|key| End::of(&key.namespace, &key.service, &rule.namespace))
}

/// The one part of a rule that is for every request.
fn whole<'a>(rule: &Rule, policy: RoutePolicy, effect: Effect<'a>, traffic: &mut Traffic) -> Part<'a> {
    let (verdict, share) = settle(Verdict::of(rule.enable, true, true), policy, Share::ALL, traffic);
    let info = refusal(verdict, None).unwrap_or_else(|| match (verdict, &effect) {
        (Verdict::Shadowed, _) => format!("a rule of {} before it decides", policy.word()),
        (_, Effect::Nearby(nearness)) => nearness.shown(),
        (_, Effect::Metadata(labels)) => labels.shown(),
        _ => String::new(),
    });
    Part { index: 0, name: "", verdict, share, info, apis: Vec::new(), arguments: Vec::new(), effect }
}

/// Takes what there is to take, if the verdict so far is that the part applies.
fn settle(verdict: Verdict, policy: RoutePolicy, wanted: Share, traffic: &mut Traffic) -> (Verdict, Share) {
    match verdict {
        Verdict::Applies if traffic.left(policy).is_none() => (Verdict::Shadowed, Share::NONE),
        Verdict::Applies => (verdict, traffic.take(policy, wanted)),
        _ => (verdict, Share::NONE),
    }
}

impl Nearness {
    fn shown(&self) -> String {
        let strict = if self.strict_nearby { ", never further" } else { "" };
        let (from, to) = (self.match_level.word(), self.max_match_level.word());
        format!("prefers instances of the caller's {from}, then as far as {to}{strict}")
    }
}

impl Labels<'_> {
    fn shown(&self) -> String {
        let pairs = |labels: &BTreeMap<String, String>| {
            let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            if pairs.is_empty() { "any labels".into() } else { pairs.join(", ") }
        };
        let wanted = self.labels.map(pairs).unwrap_or_default();
        match self.failover {
            None => format!("asks for instances with {wanted}"),
            Some(failover) => {
                let (range, labels) = (failover.failover_range.word(), pairs(&failover.labels));
                format!("asks for instances with {wanted}; where there are none, for {range} by {labels}")
            }
        }
    }
}

fn custom<'a>(rule: &'a Rule, config: &'a RoutingConfig, sketch: &'a Sketch, traffic: &mut Traffic) -> Vec<Part<'a>> {
    let end = |namespace: &str, service: &str| End::of(namespace, service, &rule.namespace);
    let has_callee = callee(rule, config).is_some();
    let caller = config.caller.as_ref().and_then(|key| end(&key.namespace, &key.service));
    let stranger =
        caller.filter(|caller| !sketch.is_from(caller)).map(|caller| format!("for calls of {caller:?} only"));
    let reaches = |namespace: &str, service: &str| has_callee || sketch.calls_any(end(namespace, service));
    let rules = config.custom_rules().iter().enumerate();
    rules.map(|(index, route)| part(rule, index, route, &stranger, &reaches, sketch, traffic)).collect()
}

fn part<'a>(
    rule: &Rule,
    index: usize,
    route: &'a CustomRouteRule,
    stranger: &Option<String>,
    reaches: &dyn Fn(&str, &str) -> bool,
    sketch: &'a Sketch,
    traffic: &mut Traffic,
) -> Part<'a> {
    let (mode, percent) = (route.arguments.match_mode, route.arguments.random_percent);
    let arguments: Vec<Finding> =
        route.arguments.arguments.iter().map(|argument| Finding::of(argument, sketch)).collect();
    let mut destinations = groups(&route.destinations, &arguments, reaches);
    let has_effect = destinations.iter().any(|group| group.state == GroupState::InUse);
    let objection = stranger.clone().or_else(|| objection(mode, &arguments));
    let verdict = Verdict::of(rule.enable, objection.is_none(), has_effect);
    let wanted = Share::of(percent.0.into(), 100);
    let (verdict, share) = settle(verdict, RoutePolicy::Rule, wanted, traffic);
    for group in &mut destinations {
        group.share = group.share.within(share);
    }
    let info = refusal(verdict, objection).unwrap_or_else(|| match verdict {
        Verdict::Shadowed => "matches, but rules before it take all requests like this".into(),
        Verdict::Empty => "matches, but none of its destinations takes traffic: the search goes on".into(),
        _ => format!("matches {wanted} of the traffic: takes {share} of the requests like this"),
    });
    let effect = Effect::Route(Route { match_mode: mode, random_percent: percent, destinations });
    Part { index, name: &route.name, verdict, share, info, apis: Vec::new(), arguments, effect }
}

pub(super) fn summary(candidates: &[Judged<'_>], traffic: &Traffic) -> String {
    let parts = candidates.iter().flat_map(|judged| judged.rules.iter().map(move |part| (judged, part)));
    let applying = parts.filter(|(_, part)| part.verdict == Verdict::Applies);
    let mut said: Vec<String> = applying
        .map(|(judged, part)| match part.name {
            "" => format!("rule {}, sub-rule {}: {}", judged.rule_name, part.index, part.share),
            name => format!("rule {}, sub-rule {} ({name}): {}", judged.rule_name, part.index, part.share),
        })
        .collect();
    let left = traffic.left(RoutePolicy::Rule);
    if !left.is_none() {
        said.push(format!("{left} of the requests like this are taken by no custom route"));
    }
    said.join("; ")
}
