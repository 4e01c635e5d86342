//! Rules of a service, as an answer has them.

use super::kind::DiscoveredKind;
use super::{AskedService, breakers, limits, nearby, probes, routing};
use crate::model::rule::{Family, Rule};
use crate::v1;

/// Adds the rules of a kind, which are in order of priority, to an answer. `revision` is that of the answer. SDKs keep
/// that of the rules and compare it with that of the service, so they are equal.
pub fn add(
    answer: &mut v1::DiscoverResponse,
    kind: DiscoveredKind,
    rules: &[&Rule],
    asked: AskedService<'_>,
    revision: &str,
) {
    let own = || Some(revision.to_owned());
    match kind {
        DiscoveredKind::Instances | DiscoveredKind::Services => {}
        DiscoveredKind::Nearby => answer.nearby_route_rules = nearby::rules(rules, asked),
        DiscoveredKind::Rules(Family::Routing) => {
            let routing::Routes { inbounds, outbounds } = routing::routes(rules, asked);
            let (service, namespace) = (Some(asked.service.to_owned()), Some(asked.namespace.to_owned()));
            answer.routing = Some(v1::Routing { service, namespace, inbounds, outbounds, revision: own() });
        }
        // Routing has its message even without rules; others are absent.
        DiscoveredKind::Rules(_) if rules.is_empty() => {}
        DiscoveredKind::Rules(Family::RateLimit) => {
            answer.rate_limit = Some(v1::RateLimit { rules: limits::rules(rules, asked), revision: own() });
        }
        DiscoveredKind::Rules(Family::CircuitBreaker) => {
            answer.circuit_breaker = Some(v1::CircuitBreaker { rules: breakers::rules(rules, asked), revision: own() });
        }
        DiscoveredKind::Rules(Family::FaultDetect) => {
            let revision = revision.to_owned();
            answer.fault_detector = Some(v1::FaultDetector { rules: probes::rules(rules, asked), revision });
        }
    }
}
