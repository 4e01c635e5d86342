//! Subsets that no release names any more. Their clusters remain for a while, because reconnecting clients still have
//! routes that name them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::snapshot::CatalogSnapshot;
use crate::xds::names::{ServiceName, SubsetHash};
use crate::xds::resources::subsets_of;
use crate::xds::subset::Subset;

/// Time for which a retired subset remains.
const RETENTION: Duration = Duration::from_secs(60);
/// Maximum number of retired subsets per service.
const RETIRED_MAX: usize = 1_000;

/// Retired subsets by service.
#[derive(Clone, Default)]
pub(crate) struct RetiredSubsets {
    of_service: HashMap<ServiceName, BTreeMap<SubsetHash, Retired>>, // bound: state
}

#[derive(Clone)]
struct Retired {
    subset: Arc<Subset>,
    until: Instant,
}

impl RetiredSubsets {
    /// Returns the retired subsets of a service.
    pub(crate) fn of(&self, service: &ServiceName) -> impl Iterator<Item = (&SubsetHash, &Arc<Subset>)> {
        self.of_service.get(service).into_iter().flatten().map(|(hash, retired)| (hash, &retired.subset))
    }

    /// Retires the subsets of a service that are named in `before` and not in `after`.
    pub(super) fn compare(
        &mut self,
        service: &ServiceName,
        before: &CatalogSnapshot,
        after: &CatalogSnapshot,
        now: Instant,
    ) {
        let old = subsets_of(before, service);
        let old = &old.by_hash;
        if old.is_empty() && !self.of_service.contains_key(service) {
            return;
        }
        let new = subsets_of(after, service);
        let new = &new.by_hash;
        let retired = self.of_service.entry(service.clone()).or_default();
        retired.retain(|hash, _| !new.contains_key(hash));
        for (hash, subset) in old {
            if !new.contains_key(hash) && retired.len() < RETIRED_MAX {
                retired.insert(*hash, Retired { subset: subset.clone(), until: now + RETENTION });
            }
        }
        if retired.is_empty() {
            self.of_service.remove(service);
        }
    }

    /// Removes expired subsets and returns their services.
    pub(super) fn end(&mut self, now: Instant) -> Vec<ServiceName> {
        let mut ended = Vec::new();
        self.of_service.retain(|service, retired| {
            let had = retired.len();
            retired.retain(|_, retired| retired.until > now);
            if retired.len() < had {
                ended.push(service.clone());
            }
            !retired.is_empty()
        });
        ended
    }

    /// Returns the time at which the next subset expires.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.of_service.values().flat_map(BTreeMap::values).map(|retired| retired.until).min()
    }
}
