//! Names affected by a change, for invalidating units and for waking streams.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::snapshot::{ChangeMask, is_pattern, subjects};
use crate::catalog::Change;
use crate::xds::keys::UnitKind;
use crate::xds::names::ServiceName;
use crate::xds::resources::Dependencies;

/// Subjects of a batch of changes, and the names whose resources may differ since.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    pub(super) subjects: BTreeMap<ServiceName, ChangeMask>, // bound: state
    /// Names of units that read one of the subjects.
    pub(super) names: BTreeSet<ServiceName>, // bound: state
    /// Set if anything may differ.
    is_everything: bool,
    /// All names, as they occur in resource names.
    texts: BTreeSet<String>, // bound: state
}

impl Touched {
    /// Collects the subjects of changes, except for the sets of services.
    pub(super) fn of(changes: &[(u64, Change)]) -> Touched {
        let mut touched = Touched::default();
        for (aspect, name) in changes.iter().flat_map(|(_, change)| subjects(change)) {
            if aspect != ChangeMask::MEMBERS {
                touched.add(name, aspect);
            }
        }
        touched
    }

    /// Returns a change with unknown effects.
    pub(super) fn everything() -> Touched {
        Touched { is_everything: true, ..Touched::default() }
    }

    /// Returns a change of the unit with this name.
    pub(super) fn of_name(name: &ServiceName) -> Touched {
        Touched { names: [name.clone()].into(), ..Touched::default() }
    }

    pub(super) fn add(&mut self, name: ServiceName, mask: ChangeMask) {
        let known = self.subjects.entry(name).or_default();
        *known = known.with(mask);
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.subjects.is_empty() && self.names.is_empty() && !self.is_everything
    }

    /// Prepares the change for comparisons with resource names.
    pub(super) fn ready(mut self) -> Touched {
        let names = self.names.iter().chain(self.subjects.keys()).filter(|name| !is_pattern(name));
        self.texts = names.map(ServiceName::to_string).collect();
        self
    }

    /// Reports whether one of these dependencies has changed.
    pub(super) fn is_read_by(&self, reads: &Dependencies) -> bool {
        let is_read = |(name, mask): (&ServiceName, &ChangeMask)| match is_pattern(name) {
            true => reads.iter().any(|(read, of)| of.has_any(*mask) && name.covers(read)),
            false => reads.get(name).is_some_and(|of| of.has_any(*mask)),
        };
        self.is_everything || self.subjects.iter().any(is_read)
    }

    /// Reports whether the resources of a service or an alias may differ. `name` has the form used in resource names.
    pub(in crate::xds) fn has(&self, name: &str) -> bool {
        let patterns = || self.subjects.keys().filter(|subject| is_pattern(subject));
        let is_covered = |name: ServiceName| patterns().any(|pattern| pattern.covers(&name));
        self.is_everything
            || self.texts.contains(name)
            || (patterns().next().is_some() && ServiceName::parse(name).is_none_or(is_covered))
    }

    /// Returns the services with possibly changed resources, in the form used in resource names. Returns `None` if they
    /// cannot be enumerated.
    pub(in crate::xds) fn services(&self) -> Option<&BTreeSet<String>> {
        let is_listed = !self.is_everything && !self.subjects.keys().any(is_pattern);
        is_listed.then_some(&self.texts)
    }

    /// Reports whether any resource in one of these namespaces may differ.
    pub(in crate::xds) fn has_within(&self, namespaces: Option<&[String]>) -> bool {
        let Some(namespaces) = namespaces else { return true };
        let is_within =
            |name: &ServiceName| is_pattern(name) || namespaces.iter().any(|namespace| **namespace == *name.namespace);
        self.is_everything || self.names.iter().chain(self.subjects.keys()).any(is_within)
    }
}

/// Names of units to rebuild, by kind and namespace.
#[derive(Default)]
pub(super) struct Stale {
    of_kind: HashMap<UnitKind, ByNamespace>, // bound: state
    /// Services and aliases that were added or removed; they affect every kind.
    services: ByNamespace,
}

type ByNamespace = BTreeMap<Arc<str>, BTreeSet<ServiceName>>;

impl Stale {
    pub(super) fn add(&mut self, kind: &UnitKind, name: &ServiceName) {
        let of_kind = self.of_kind.entry(kind.clone()).or_default();
        of_kind.entry(name.namespace.clone()).or_default().insert(name.clone());
    }

    pub(super) fn add_service(&mut self, name: &ServiceName) {
        self.services.entry(name.namespace.clone()).or_default().insert(name.clone());
    }

    /// Returns the names of a kind in these namespaces, or in all.
    pub(super) fn within(&self, kind: &UnitKind, namespaces: Option<&[String]>) -> Vec<&ServiceName> {
        let mut names = Vec::new();
        for by_namespace in self.of_kind.get(kind).into_iter().chain([&self.services]) {
            match namespaces {
                None => names.extend(by_namespace.values().flatten()),
                Some(list) => names.extend(list.iter().filter_map(|one| by_namespace.get(&**one)).flatten()),
            }
        }
        names
    }
}
