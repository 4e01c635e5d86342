//! Resources of a wildcard subscription.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use crate::model::mesh::resource::Resources;
use crate::xds::names::ServiceName;
use crate::xds::resources::Unit;

/// Bytes of a map entry.
pub(super) const ENTRY_BYTES: usize = 96;

/// All resources of the units of one kind.
#[derive(Clone, Default)]
pub(crate) struct WildcardSet {
    pub(crate) resources: Resources,
    /// Units with a virtual host.
    pub(crate) hosts: OrdMap<ServiceName, Arc<Unit>>, // bound: xds-made
}

/// Services to evaluate, removed from a scope.
pub(super) struct PendingServices {
    pub(super) names: BTreeSet<ServiceName>, // bound: xds-made
    pub(super) is_new: bool,
    pub(super) touches: u64,
}

impl WildcardSet {
    /// Replaces the unit of this name.
    pub(super) fn put(&mut self, name: &ServiceName, unit: &Arc<Unit>) {
        self.remove_resources(&name.to_string());
        for resource in &unit.resources {
            self.resources.insert(resource.name.clone(), resource.clone());
        }
        match &unit.host {
            Some(_) => drop(self.hosts.insert(name.clone(), unit.clone())),
            None => drop(self.hosts.remove(name)),
        }
    }

    /// Removes the resources of this name, of its subsets, and of its localities.
    fn remove_resources(&mut self, name: &str) {
        self.resources.remove(name);
        for mark in ['@', '|'] {
            let start = format!("{name}{mark}");
            let behind = self.resources.range::<_, str>((Bound::Included(&*start), Bound::Unbounded));
            let names: Vec<_> =
                behind.map(|(name, _)| name).take_while(|name| name.starts_with(&start)).cloned().collect();
            for name in names {
                self.resources.remove(&name);
            }
        }
    }

    /// Returns the bytes of the map without the shared content.
    pub(super) fn bytes(&self) -> usize {
        ENTRY_BYTES * (self.resources.len() + self.hosts.len())
    }
}
