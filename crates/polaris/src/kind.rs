//! Kinds of resources that clients discover, by the numbers of Polaris.

use crate::model::rule::Family;

/// Kind of resource with content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveredKind {
    Instances,
    Services,
    /// Rules of a family; for routing the custom routes.
    Rules(Family),
    /// Routing rules of the policy for near instances.
    Nearby,
}

/// Reading of the number of a kind in a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Known(DiscoveredKind),
    /// Kind of Polaris without content here.
    Empty,
    /// Number that is no kind.
    Unknown,
}

const INSTANCES: i32 = 1;
const SERVICES: i32 = 6;
const NEARBY: i32 = 102;
/// Kinds without content: clusters, namespaces, lanes, custom route rules, lossless, access lists, mirrors, faults.
const EMPTY: [i32; 8] = [2, 12, 100, 101, 103, 104, 105, 106];
/// Kinds without content that SDKs probe. A refusal of the probe spares later questions.
const PROBED: [i32; 6] = [2, 100, 103, 104, 105, 106];

impl Wanted {
    pub fn of(number: i32) -> Wanted {
        let family = |family: &&Family| i32::try_from(family.discovery().1) == Ok(number);
        match number {
            INSTANCES => Wanted::Known(DiscoveredKind::Instances),
            SERVICES => Wanted::Known(DiscoveredKind::Services),
            NEARBY => Wanted::Known(DiscoveredKind::Nearby),
            _ if EMPTY.contains(&number) => Wanted::Empty,
            _ => Family::ALL
                .iter()
                .find(family)
                .map_or(Wanted::Unknown, |family| Wanted::Known(DiscoveredKind::Rules(*family))),
        }
    }
}

/// Reports whether a question without a service, by which Java asks whether a kind is served, is refused.
pub fn is_refused_to_probes(number: i32) -> bool {
    PROBED.contains(&number) || Wanted::of(number) == Wanted::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_polaris_numbers() {
        let known = [
            (1, DiscoveredKind::Instances),
            (3, DiscoveredKind::Rules(Family::Routing)),
            (4, DiscoveredKind::Rules(Family::RateLimit)),
            (5, DiscoveredKind::Rules(Family::CircuitBreaker)),
            (6, DiscoveredKind::Services),
            (13, DiscoveredKind::Rules(Family::FaultDetect)),
            (102, DiscoveredKind::Nearby),
        ];
        for (number, kind) in known {
            assert_eq!(Wanted::of(number), Wanted::Known(kind), "{number}");
            assert!(!is_refused_to_probes(number), "{number}");
        }
        for number in EMPTY {
            assert_eq!(Wanted::of(number), Wanted::Empty, "{number}");
        }
        for number in [-1, 0, 7, 107, i32::MAX] {
            assert_eq!(Wanted::of(number), Wanted::Unknown, "{number}");
            assert!(is_refused_to_probes(number), "{number}");
        }
        assert!(is_refused_to_probes(100) && !is_refused_to_probes(12));
    }
}
