//! Routing by metadata and by nearness. These policies change the instances of a cluster and their priorities, not the
//! routes.
//!
//! The first rule of each policy applies, and both policies combine. An instance with other metadata or farther away is
//! a fallback that gets traffic once no better instance is healthy.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::instance::{Instance, Location};
use crate::model::rule::Body;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::routing::{
    FailoverRange, LocationLevel, MetadataFailover, RoutePolicy, Routing, RoutingConfig,
};
use crate::xds::client_inputs::InputRecorder;
use crate::xds::locality::Locality;

/// Number of ranks per selection: by metadata, then by locality.
pub(super) const RANKS: u32 = 2 * LEVELS;
/// Number of levels: campus, zone, region, everywhere, and beyond the last level.
const LEVELS: u32 = 5;

/// Rules by metadata and by nearness that are in force.
#[derive(Default)]
pub(super) struct Policies<'a> {
    metadata: Option<&'a RoutingConfig>,
    nearness: Option<Nearness>,
    pub(super) releases: Vec<Arc<RuleRelease>>,
}

/// Levels by which instances are ranked, the nearest first.
struct Nearness {
    first: u32,
    last: u32,
    is_strict: bool,
}

/// Reports whether a release changes clusters instead of routes.
pub(super) fn is_of_instances(release: &RuleRelease) -> bool {
    matches!(&release.rule.body, Body::Routing(Routing { route_policy, .. }) if *route_policy != RoutePolicy::Rule)
}

impl<'a> Policies<'a> {
    /// Selects the applicable rules. `releases` are ordered by the priority of their rules.
    pub(super) fn of(releases: &[&'a Arc<RuleRelease>]) -> Self {
        let mut policies = Policies::default();
        for release in releases {
            let Body::Routing(body) = &release.rule.body else { continue };
            let is_first = match body.route_policy {
                RoutePolicy::Rule => false,
                RoutePolicy::Metadata => policies.metadata.is_none(),
                RoutePolicy::Nearby => policies.nearness.is_none(),
            };
            if !is_first {
                continue;
            }
            policies.releases.push(Arc::clone(release));
            match body.route_policy {
                RoutePolicy::Metadata => policies.metadata = Some(&body.routing_config),
                RoutePolicy::Nearby => policies.nearness = Some(Nearness::of(&body.routing_config)),
                RoutePolicy::Rule => {}
            }
        }
        policies
    }

    /// Returns the part of the client's locality that makes a difference, or `None` if nearness does not count for it.
    pub(super) fn locality_of_client(&self, inputs: &mut InputRecorder<'_>) -> Option<Locality> {
        let locality = inputs.locality(self.first_level()?);
        (locality != Locality::default()).then_some(locality)
    }

    /// Returns the narrowest level of a caller's locality that counts, or `None` if nearness does not count.
    pub(super) fn first_level(&self) -> Option<u32> {
        self.nearness.as_ref().map(|nearness| nearness.first)
    }

    /// Returns the rank of an instance for callers in a locality, or `None` if the instance is excluded.
    pub(super) fn rank(&self, instance: &Instance, locality: Option<&Locality>) -> Option<u32> {
        let by_metadata = match self.metadata {
            Some(config) => metadata_rank(config, instance)?,
            None => 0,
        };
        let by_locality = match (&self.nearness, locality) {
            (Some(nearness), Some(locality)) => nearness.rank(&instance.location, locality)?,
            _ => 0,
        };
        Some(by_metadata * LEVELS + by_locality)
    }
}

fn metadata_rank(config: &RoutingConfig, instance: &Instance) -> Option<u32> {
    let nothing = BTreeMap::new();
    let wanted = config.labels.as_ref().unwrap_or(&nothing);
    let has = |(key, value): (&String, &String)| instance.metadata.get(key) == Some(value);
    if wanted.iter().all(has) {
        return Some(0);
    }
    let MetadataFailover { failover_range, labels } = config.failover.as_ref()?;
    let is_in_range = match failover_range {
        FailoverRange::All | FailoverRange::Others => true,
        FailoverRange::OtherKeys => wanted.keys().all(|key| !instance.metadata.contains_key(key)),
    };
    (is_in_range && labels.iter().all(has)).then_some(1)
}

/// Returns the number of a level; the narrowest is 0.
fn level_of(level: LocationLevel) -> u32 {
    match level {
        LocationLevel::Campus => 0,
        LocationLevel::Unknown | LocationLevel::Zone => 1,
        LocationLevel::Region => 2,
        LocationLevel::All => 3,
    }
}

impl Nearness {
    /// Reads the levels of a policy. By default the first is the zone and the last is everywhere.
    fn of(config: &RoutingConfig) -> Nearness {
        let first = level_of(config.match_level.unwrap_or_default());
        let last = match config.max_match_level.unwrap_or_default() {
            LocationLevel::Unknown => level_of(LocationLevel::All),
            level => level_of(level).max(first),
        };
        Nearness { first, last, is_strict: config.strict_nearby.unwrap_or_default() }
    }

    fn rank(&self, location: &Location, locality: &Locality) -> Option<u32> {
        let shared = shared_level(location, locality);
        let level = shared.max(self.first);
        match level <= self.last {
            true => Some(level - self.first),
            false => (!self.is_strict).then(|| self.last - self.first + 1),
        }
    }
}

/// Returns the narrowest level that an instance and the caller have in common.
fn shared_level(location: &Location, locality: &Locality) -> u32 {
    let is = |of_instance: &str, of_caller: &str| !of_caller.is_empty() && of_instance == of_caller;
    let region = is(&location.region, &locality.region);
    let zone = is(&location.zone, &locality.zone) && location.region == locality.region;
    let campus = is(&location.campus, &locality.campus) && zone;
    level_of(match (campus, zone, region) {
        (true, _, _) => LocationLevel::Campus,
        (_, true, _) => LocationLevel::Zone,
        (_, _, true) => LocationLevel::Region,
        _ => LocationLevel::All,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(parts: [&str; 3]) -> Location {
        let [region, zone, campus] = parts.map(str::to_owned);
        Location { region, zone, campus }
    }

    fn locality(parts: [&str; 3]) -> Locality {
        let [region, zone, campus] = parts.map(str::to_owned);
        Locality { region, zone, campus }
    }

    #[test]
    fn instances_are_ranked_level_by_level() {
        use LocationLevel::{All, Campus, Region, Unknown, Zone};
        let caller = locality(["eu", "eu-1", "c1"]);
        let localities = [["eu", "eu-1", "c1"], ["eu", "eu-1", "c2"], ["eu", "eu-2", "c1"], ["us", "eu-1", "c1"]];
        let rows = [
            (Campus, All, false, [Some(0), Some(1), Some(2), Some(3)]),
            (Campus, Zone, false, [Some(0), Some(1), Some(2), Some(2)]),
            (Campus, Zone, true, [Some(0), Some(1), None, None]),
            (Zone, Region, true, [Some(0), Some(0), Some(1), None]),
            (Unknown, Unknown, true, [Some(0), Some(0), Some(1), Some(2)]),
            (Region, Campus, true, [Some(0), Some(0), Some(0), None]),
        ];
        for (first, last, is_strict, expected) in rows {
            let config = RoutingConfig {
                match_level: Some(first),
                max_match_level: Some(last),
                strict_nearby: Some(is_strict),
                ..RoutingConfig::default()
            };
            let nearness = Nearness::of(&config);
            let ranks = localities.map(|parts| nearness.rank(&location(parts), &caller));
            assert_eq!(ranks, expected, "{first:?} {last:?} {is_strict}");
        }
    }

    #[test]
    fn a_place_is_cut_to_what_counts() {
        let caller = locality(["eu", "eu-1", "c1"]);
        let rows = [
            (LocationLevel::Campus, Some(["eu", "eu-1", "c1"])),
            (LocationLevel::Zone, Some(["eu", "eu-1", ""])),
            (LocationLevel::Region, Some(["eu", "", ""])),
            (LocationLevel::All, None),
        ];
        for (level, expected) in rows {
            let config = RoutingConfig { match_level: Some(level), ..RoutingConfig::default() };
            let policies = Policies { nearness: Some(Nearness::of(&config)), ..Policies::default() };
            let cut = caller.cut_below(policies.first_level().expect("a level"));
            assert_eq!((cut != Locality::default()).then_some(cut), expected.map(locality), "{level:?}");
        }
    }

    #[test]
    fn other_metadata_stands_by() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let instances = [map(&[("env", "a")]), map(&[("env", "b")]), map(&[("zone", "1")])];
        let failover = |failover_range, labels| Some(MetadataFailover { failover_range, labels: map(labels) });
        let rows = [
            (None, [Some(0), None, None]),
            (failover(FailoverRange::All, &[]), [Some(0), Some(1), Some(1)]),
            (failover(FailoverRange::Others, &[]), [Some(0), Some(1), Some(1)]),
            (failover(FailoverRange::OtherKeys, &[]), [Some(0), None, Some(1)]),
            (failover(FailoverRange::All, &[("env", "b")]), [Some(0), Some(1), None]),
        ];
        for (failover, expected) in rows {
            let config = RoutingConfig { labels: Some(map(&[("env", "a")])), failover, ..RoutingConfig::default() };
            let rank = |metadata: &BTreeMap<String, String>| {
                metadata_rank(&config, &Instance { metadata: metadata.clone(), ..Instance::default() })
            };
            assert_eq!(instances.each_ref().map(rank), expected, "{:?}", config.failover);
        }
    }
}
