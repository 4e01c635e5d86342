//! Warnings that follow from a rule alone, for every kind of client, and the extent to which each carries it out.

use std::collections::BTreeSet;

use super::Dialect;
use super::library::Library;
use super::plan::{Abilities, RoutePlan};
use super::warning::Warning;
use super::{breakers, limits, probes, routing};
use crate::model::rule::routing::{RoutePolicy, Routing};
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, End, Rule};

/// Returns the warnings of a rule by number and place, as if it were enabled.
pub fn warnings(rule: &Rule) -> Vec<Warning> {
    let mut found: BTreeSet<Warning> = BTreeSet::new();
    match &rule.body {
        Body::Routing(body) if body.route_policy == RoutePolicy::Rule => {
            for end in callees(rule, body) {
                found.extend(of_routing(rule, &called(end)));
            }
        }
        Body::RateLimit(_) => found.extend(limits::warnings(rule, SIDECAR)),
        Body::CircuitBreaker(body) => found.extend(breakers::warnings(body)),
        Body::FaultDetect(_) => found.extend(probes::warnings(rule)),
        _ => {}
    }
    found.into_iter().collect()
}

/// Clients with different abilities.
const SIDECAR: Abilities = Abilities {
    dialect: Dialect::Envoy,
    is_gateway: false,
    has_caller_header: false,
    takes_large_expressions: false,
    is_callee_grpc: false,
    library: Library::Core,
};
const GATEWAY: Abilities = Abilities { is_gateway: true, ..SIDECAR };
const WITHOUT_PROXY: Abilities = Abilities {
    dialect: Dialect::Grpc,
    is_gateway: false,
    has_caller_header: false,
    takes_large_expressions: true,
    is_callee_grpc: false,
    library: Library::Core,
};

fn of_routing(rule: &Rule, called: &ServiceKey) -> Vec<Warning> {
    let warnings = |to: Abilities| {
        let mut plan = planned(rule, called, to);
        plan.warnings.extend(routing::settle_shares(&mut plan.routes, to.dialect));
        plan.warnings.into_iter().filter(move |warning| warning.is_about(to.dialect))
    };
    // A sidecar knows its caller, so for Envoy in general the part counts as approximated.
    let of_gateway = warnings(GATEWAY).filter(|warning| warning.number == 6);
    let of_gateway = of_gateway.map(|warning| Warning { is_left_out: false, ..warning });
    let of_library = |library| warnings(Abilities { library, ..WITHOUT_PROXY });
    warnings(SIDECAR).chain(Library::ALL.into_iter().flat_map(of_library)).chain(of_gateway).collect()
}

fn planned<'a>(rule: &'a Rule, called: &ServiceKey, to: Abilities) -> RoutePlan<'a> {
    let mut plan = RoutePlan::default();
    routing::add(&mut plan, 0, rule, called, to);
    plan
}

/// Returns the routes of a rule for each called service, for the clients of the dialect that carry out the most.
pub(super) fn route_plans(rule: &Rule, dialect: Dialect) -> Vec<RoutePlan<'_>> {
    let to = Abilities { dialect, ..WITHOUT_PROXY };
    match &rule.body {
        Body::Routing(body) if body.route_policy == RoutePolicy::Rule => {
            callees(rule, body).into_iter().map(|end| planned(rule, &called(end), to)).collect()
        }
        _ => Vec::new(),
    }
}

/// Reports whether clients of the dialect, or of the library if they have no proxy, would carry out any part of the
/// rule if it were enabled.
pub(super) fn carries(rule: &Rule, dialect: Dialect, library: Library) -> bool {
    let to = if dialect == Dialect::Grpc { Abilities { library, ..WITHOUT_PROXY } } else { SIDECAR };
    let on = Rule { enable: true, ..rule.clone() };
    match &rule.body {
        Body::Routing(body) if body.route_policy == RoutePolicy::Rule => {
            callees(rule, body).into_iter().any(|end| !planned(rule, &called(end), to).routes.is_empty())
        }
        Body::RateLimit(_) => {
            let plan = limits::plan(&[&on], to);
            dialect == Dialect::Envoy && (!plan.limits.is_empty() || !plan.concurrency.is_empty())
        }
        Body::FaultDetect(_) => dialect == Dialect::Envoy && probes::plan(&[&on]).probe.is_some(),
        Body::CircuitBreaker(body) => {
            let callee = &body.rule_matcher.destination;
            let callee = End::of(&callee.namespace, &callee.service, &rule.namespace);
            let breakers = callee.map(|callee| breakers::plan(&[&on], &called(callee), dialect));
            breakers.iter().flatten().any(|breaker| breaker.detection.is_some())
        }
        // Routes by metadata and to the nearest instances are carried; other families are not.
        other => matches!(other, Body::Routing(_)),
    }
}

/// Reports whether gateways would carry out any part of the rule if it were enabled. Limits are carried out by proxies
/// next to instances alone.
pub(super) fn gateway_carries(rule: &Rule) -> bool {
    match &rule.body {
        Body::Routing(body) if body.route_policy == RoutePolicy::Rule => {
            callees(rule, body).into_iter().any(|end| !planned(rule, &called(end), GATEWAY).routes.is_empty())
        }
        Body::RateLimit(_) => false,
        _ => carries(rule, Dialect::Envoy, Library::Core),
    }
}

fn called(end: End) -> ServiceKey {
    ServiceKey { service: end.service, namespace: end.namespace }
}

/// Returns the services whose calls a custom route affects.
fn callees(rule: &Rule, body: &Routing) -> BTreeSet<End> {
    let config = &body.routing_config;
    let end = |key: &ServiceKey| End::of(&key.namespace, &key.service, &rule.namespace);
    match config.callee.as_ref().and_then(end) {
        Some(callee) => BTreeSet::from([callee]),
        None => {
            let groups = config.custom_rules().iter().flat_map(|route| &route.destinations);
            groups.filter_map(|group| End::of(&group.namespace, &group.service, &rule.namespace)).collect()
        }
    }
}

#[cfg(test)]
mod tests;
