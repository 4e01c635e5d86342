//! Warnings that a rule alone gives rise to, for every kind of client, and how far each carries it out.

use std::collections::BTreeSet;

use super::Dialect;
use super::library::Library;
use super::plan::{Abilities, RoutePlan};
use super::warning::Warning;
use super::{breakers, limits, probes, routing};
use crate::model::rule::routing::{RoutePolicy, Routing};
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, End, Rule};

/// Warnings of a rule, by number and place; the same for a rule that is switched off.
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

/// Clients that differ in what they carry out.
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
    // A sidecar knows its caller: for Envoy as a whole the part is carried out in some.
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

/// Routes of a rule for each service whose calls it is about, as clients of the dialect that carry the most have them.
pub(super) fn route_plans(rule: &Rule, dialect: Dialect) -> Vec<RoutePlan<'_>> {
    let to = Abilities { dialect, ..WITHOUT_PROXY };
    match &rule.body {
        Body::Routing(body) if body.route_policy == RoutePolicy::Rule => {
            callees(rule, body).into_iter().map(|end| planned(rule, &called(end), to)).collect()
        }
        _ => Vec::new(),
    }
}

/// True if something of the rule reaches clients of the dialect, were it switched on; without a proxy, those of the
/// library.
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
        // Routes by metadata and to the nearest, and no family that is not planned above.
        other => matches!(other, Body::Routing(_)),
    }
}

fn called(end: End) -> ServiceKey {
    ServiceKey { service: end.service, namespace: end.namespace }
}

/// The services whose calls a custom route is about.
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
