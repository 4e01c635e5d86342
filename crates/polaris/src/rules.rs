//! Rules of a service, as an answer has them.

use super::kind::DiscoveredKind;
use super::{AskedService, breakers, limits, nearby, probes, routing};
use crate::model::rule::{Family, Rule};
use crate::v1;

/// Adds the rules of a family to an answer.
type AddRules = fn(&mut v1::DiscoverResponse, &[&Rule], AskedService<'_>, &str);

/// Families that have a message of Polaris. Rules of another one are not in any answer.
const MESSAGES: [(Family, AddRules); 4] = [
    (Family::Routing, add_routes),
    (Family::RateLimit, |answer, rules, asked, revision| {
        answer.rate_limit =
            Some(v1::RateLimit { rules: limits::rules(rules, asked), revision: Some(revision.to_owned()) });
    }),
    (Family::CircuitBreaker, |answer, rules, asked, revision| {
        let (rules, revision) = (breakers::rules(rules, asked), Some(revision.to_owned()));
        answer.circuit_breaker = Some(v1::CircuitBreaker { rules, revision });
    }),
    (Family::FaultDetect, |answer, rules, asked, revision| {
        let (rules, revision) = (probes::rules(rules, asked), revision.to_owned());
        answer.fault_detector = Some(v1::FaultDetector { rules, revision });
    }),
];

/// Adds the rules of a kind, which are in order of priority, to an answer. `revision` is that of the answer. SDKs keep
/// that of the rules and compare it with that of the service, so they are equal.
pub fn add(
    answer: &mut v1::DiscoverResponse,
    kind: DiscoveredKind,
    rules: &[&Rule],
    asked: AskedService<'_>,
    revision: &str,
) {
    match kind {
        DiscoveredKind::Instances | DiscoveredKind::Services => {}
        DiscoveredKind::Nearby => answer.nearby_route_rules = nearby::rules(rules, asked),
        // Routing has its message even without rules; others are absent.
        DiscoveredKind::Rules(family) if rules.is_empty() && family != Family::Routing => {}
        DiscoveredKind::Rules(family) => {
            if let Some((_, add)) = MESSAGES.iter().find(|(of, _)| *of == family) {
                add(answer, rules, asked, revision);
            }
        }
    }
}

fn add_routes(answer: &mut v1::DiscoverResponse, rules: &[&Rule], asked: AskedService<'_>, revision: &str) {
    let routing::Routes { inbounds, outbounds } = routing::routes(rules, asked);
    let (service, namespace) = (Some(asked.service.to_owned()), Some(asked.namespace.to_owned()));
    answer.routing = Some(v1::Routing { service, namespace, inbounds, outbounds, revision: Some(revision.to_owned()) });
}
