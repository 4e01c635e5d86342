//! Caller localities that make a difference: those that share a level with the location of an instance.
//!
//! A client may name any locality. All localities without instances get the same endpoints, so the number of variants
//! is bounded by the number of instance locations, whatever clients name.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::BuildContext;
use crate::model::instance::{Instance, Location};
use crate::xds::locality::Locality;
use crate::xds::names::ServiceName;

/// Bytes of a known location in addition to its texts.
const LOCALITY_BYTES: usize = 128;

/// Locations of the instances of a service, if nearness counts.
#[derive(Debug, Default)]
pub(crate) struct Localities {
    /// Narrowest level that counts.
    first: u32,
    regions: BTreeSet<String>,       // bound: state
    zones: BTreeSet<[String; 2]>,    // bound: state
    campuses: BTreeSet<[String; 3]>, // bound: state
}

impl Localities {
    /// Returns `None` if nearness does not count for the endpoints of the service.
    pub(super) fn of(ctx: &mut BuildContext<'_>, name: &ServiceName) -> Option<Localities> {
        let service = ctx.service(name)?;
        let first = ctx.policies(&service).first_level()?;
        let mut localities = Localities { first, ..Localities::default() };
        localities.add(&ctx.instances(&service));
        for subset in ctx.subsets(&service).values() {
            for choice in &subset.choices {
                if let Some(service) = ctx.service(&choice.service()) {
                    localities.add(&ctx.instances(&service));
                }
            }
        }
        Some(localities)
    }

    fn add(&mut self, instances: &[&Arc<Instance>]) {
        for instance in instances {
            let Location { region, zone, campus } = &instance.location;
            if !self.regions.contains(region) {
                self.regions.insert(region.clone());
            }
            self.zones.insert([region, zone].map(String::clone));
            self.campuses.insert([region, zone, campus].map(String::clone));
        }
    }

    /// Returns the parts of a locality that make a difference.
    pub(crate) fn nearest(&self, locality: &Locality) -> Locality {
        let Locality { region, zone, campus } = locality.cut_below(self.first);
        let has_zone = !zone.is_empty() && self.zones.contains(&[region.clone(), zone.clone()]);
        let has_campus =
            has_zone && !campus.is_empty() && self.campuses.contains(&[region.clone(), zone.clone(), campus.clone()]);
        let has_region = has_zone || (!region.is_empty() && self.regions.contains(&region));
        let kept = |has: bool, text: String| if has { text } else { String::new() };
        Locality { region: kept(has_region, region), zone: kept(has_zone, zone), campus: kept(has_campus, campus) }
    }

    pub(super) fn bytes(&self) -> usize {
        LOCALITY_BYTES * (self.regions.len() + self.zones.len() + self.campuses.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locality([region, zone, campus]: [&str; 3]) -> Locality {
        Locality { region: region.into(), zone: zone.into(), campus: campus.into() }
    }

    #[test]
    fn a_place_is_cut_to_what_instances_share_with_it() {
        let at = |[region, zone, campus]: [&str; 3]| {
            let location = Location { region: region.into(), zone: zone.into(), campus: campus.into() };
            Arc::new(Instance { location, ..Instance::default() })
        };
        let instances = [at(["eu", "eu-1", "c1"]), at(["eu", "eu-2", ""]), at(["", "lost", "c9"])];
        let rows = [
            (0, ["eu", "eu-1", "c1"], ["eu", "eu-1", "c1"]),
            (0, ["eu", "eu-1", "c2"], ["eu", "eu-1", ""]),
            (0, ["eu", "eu-3", "c1"], ["eu", "", ""]),
            (0, ["us", "eu-1", "c1"], ["", "", ""]),
            (0, ["", "lost", "c9"], ["", "lost", "c9"]),
            (1, ["eu", "eu-1", "c1"], ["eu", "eu-1", ""]),
            (2, ["eu", "eu-1", "c1"], ["eu", "", ""]),
            (3, ["eu", "eu-1", "c1"], ["", "", ""]),
        ];
        for (first, asked, expected) in rows {
            let mut localities = Localities { first, ..Localities::default() };
            localities.add(&instances.iter().collect::<Vec<_>>());
            assert_eq!(localities.nearest(&locality(asked)), locality(expected), "{first} {asked:?}");
        }
    }
}
