//! Snapshot of the catalog that resources are built from, and the log index at which each part of it last changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::aliases::Aliases;
use crate::catalog::instances::Instances;
use crate::catalog::rules::Rules;
use crate::catalog::services::Services;
use crate::catalog::{Catalog, Change};
use crate::model::alias::ServiceAlias;
use crate::model::rule::Family;
use crate::model::rule::matchers::Matchers;
use crate::model::rule::matching::ALL;
use crate::model::rule::release::RuleRelease;
use crate::xds::names::ServiceName;
use crate::xds::subset::Subsets;

/// Parts of the catalog that resources are built from, at one moment.
#[derive(Default)]
pub(crate) struct CatalogSnapshot {
    pub(crate) services: Services,
    pub(crate) aliases: Aliases,
    pub(crate) instances: Instances,
    pub(crate) rules: Rules,
    /// Compiled expressions of conditions on callers, passed on from snapshot to snapshot.
    pub(crate) matchers: Arc<Matchers>,
    /// Subsets of the services, computed on first use.
    subsets: Mutex<HashMap<ServiceName, Arc<Subsets>>>, // bound: state
}

impl CatalogSnapshot {
    pub(crate) fn of(catalog: &Catalog) -> CatalogSnapshot {
        CatalogSnapshot {
            services: catalog.services.clone(),
            aliases: catalog.aliases.clone(),
            instances: catalog.instances.clone(),
            rules: catalog.rules.clone(),
            ..CatalogSnapshot::default()
        }
    }

    /// Returns a copy of an earlier snapshot without derived data.
    pub(super) fn gone_by(snapshot: &CatalogSnapshot) -> CatalogSnapshot {
        CatalogSnapshot {
            services: snapshot.services.clone(),
            aliases: snapshot.aliases.clone(),
            instances: snapshot.instances.clone(),
            rules: snapshot.rules.clone(),
            matchers: snapshot.matchers.clone(),
            ..CatalogSnapshot::default()
        }
    }

    /// Inherits derived data that is still valid from the previous snapshot. Returns the services for which it is not.
    pub(super) fn inherit(
        &mut self,
        before: &CatalogSnapshot,
        touched: &BTreeMap<ServiceName, ChangeMask>,
    ) -> BTreeSet<ServiceName> {
        self.matchers = before.matchers.clone();
        let is_touched = |name: &ServiceName, mask| touched.get(name).is_some_and(|known| known.has_any(mask));
        let by_rules = ChangeMask::rules(Family::Routing);
        let patterns = touched.iter().filter(|(name, mask)| is_pattern(name) && mask.has_any(by_rules));
        let patterns: Vec<_> = patterns.map(|(name, _)| name).collect();
        let mut gone = BTreeSet::new();
        let mut valid = before.subsets.lock().clone();
        valid.retain(|service, subsets| {
            let holds = !is_touched(service, by_rules.with(ChangeMask::SERVICE))
                && !patterns.iter().any(|pattern| pattern.covers(service))
                && !subsets.of_values.iter().any(|name| is_touched(name, ChangeMask::INSTANCES));
            if !holds {
                gone.insert(service.clone());
            }
            holds
        });
        *self.subsets.get_mut() = valid;
        gone
    }

    /// Returns the subsets of a service, computed once per snapshot.
    pub(crate) fn subsets(&self, service: &ServiceName, make: impl FnOnce() -> Subsets) -> Arc<Subsets> {
        if let Some(known) = self.subsets.lock().get(service) {
            return known.clone();
        }
        let made = Arc::new(make());
        if !made.is_nothing() && self.has_service(service) {
            self.subsets.lock().insert(service.clone(), made.clone());
        }
        made
    }

    /// Returns all releases of rules about a service that are in force for any client.
    pub(crate) fn all_releases(&self, family: Family, name: &ServiceName) -> Vec<&Arc<RuleRelease>> {
        let rules = self.rules.of(family).active().rules_about(&name.namespace, &name.service);
        rules.flat_map(|rule| rule.all()).filter(|release| is_about(release, name)).collect()
    }

    /// Reports whether the namespace contains a service or an alias.
    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        self.services.count_in(namespace) > 0 || self.aliases.all_in(Some(namespace)).next().is_some()
    }

    pub(crate) fn has_service(&self, name: &ServiceName) -> bool {
        self.services.get(&name.namespace, &name.service).is_some()
    }

    pub(crate) fn alias(&self, name: &ServiceName) -> Option<&Arc<ServiceAlias>> {
        self.aliases.get(&name.namespace, &name.service)
    }

    /// Returns the services of a namespace, or of all namespaces.
    pub(crate) fn services_in(&self, namespace: Option<&str>) -> impl Iterator<Item = ServiceName> {
        self.services.all_in(namespace).map(|service| ServiceName::new(&service.namespace, &service.name))
    }

    /// Returns the aliases of a namespace, or of all namespaces.
    pub(crate) fn aliases_in(&self, namespace: Option<&str>) -> impl Iterator<Item = ServiceName> {
        self.aliases.all_in(namespace).map(|alias| ServiceName::new(&alias.alias_namespace, &alias.alias))
    }
}

/// Reports whether a release is of an enabled rule about a service.
pub(crate) fn is_about(release: &RuleRelease, name: &ServiceName) -> bool {
    let covers = || release.rule.called_ends().iter().any(|end| end.covers(&name.namespace, &name.service));
    release.rule.enable && covers()
}

/// Set of the aspects of a service that change independently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ChangeMask(u8);

impl ChangeMask {
    /// The existence of the service, or the target of the alias.
    pub(crate) const SERVICE: ChangeMask = ChangeMask(1);
    pub(crate) const INSTANCES: ChangeMask = ChangeMask(2);
    /// The set of services in a namespace or in all. The name of such a subject ends in `*`.
    pub(crate) const MEMBERS: ChangeMask = ChangeMask(4);

    const RULES: u8 = 8;
    const ALL: [ChangeMask; 7] =
        [ChangeMask(1), ChangeMask(2), ChangeMask(4), ChangeMask(8), ChangeMask(16), ChangeMask(32), ChangeMask(64)];

    /// Returns the mask of the rules of a family about the service.
    pub(crate) fn rules(family: Family) -> ChangeMask {
        ChangeMask(ChangeMask::RULES << family as u8)
    }

    pub(crate) fn with(self, other: ChangeMask) -> ChangeMask {
        ChangeMask(self.0 | other.0)
    }

    pub(crate) fn has_any(self, other: ChangeMask) -> bool {
        self.0 & other.0 != 0
    }

    fn each(self) -> impl Iterator<Item = ChangeMask> {
        ChangeMask::ALL.into_iter().filter(move |aspect| self.has_any(*aspect))
    }

    fn is_of_rules(self) -> bool {
        self.0 >= ChangeMask::RULES
    }
}

/// Reports whether a name matches several services.
pub(super) fn is_pattern(name: &ServiceName) -> bool {
    *name.namespace == *ALL || *name.service == *ALL
}

/// Maximum number of subjects with an index of their own.
const SUBJECTS_MAX: usize = 1_000_000;

/// Log index of the last change per subject, an aspect of a service. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LastModified {
    /// Index of all subjects without an entry.
    base: u64,
    by_subject: imbl::HashMap<(ChangeMask, ServiceName), u64>, // bound: state
    all: Arc<str>,
}

impl LastModified {
    pub(crate) fn since(base: u64) -> LastModified {
        LastModified { base, by_subject: imbl::HashMap::new(), all: ALL.into() }
    }

    /// Records a change of a subject.
    pub(crate) fn record(&mut self, index: u64, aspect: ChangeMask, name: ServiceName) {
        if self.by_subject.len() >= SUBJECTS_MAX {
            *self = LastModified::since(self.by_subject.values().copied().fold(self.base, u64::max));
        }
        let last_modified = self.by_subject.entry((aspect, name)).or_default();
        *last_modified = index.max(*last_modified);
    }

    /// Reports whether an aspect has changed since the base.
    pub(crate) fn has(&self, aspect: ChangeMask, name: &ServiceName) -> bool {
        self.by_subject.contains_key(&(aspect, name.clone()))
    }

    /// Returns the index of the last change of any of these aspects.
    pub(crate) fn of(&self, name: &ServiceName, mask: ChangeMask) -> u64 {
        let one =
            |aspect: ChangeMask, name: ServiceName| self.by_subject.get(&(aspect, name)).copied().unwrap_or_default();
        let of_facet = |aspect: ChangeMask| {
            if !aspect.is_of_rules() {
                return one(aspect, name.clone());
            }
            let ServiceName { namespace, service } = name;
            let end = |namespace: &Arc<str>, service: &Arc<str>| {
                one(aspect, ServiceName { namespace: namespace.clone(), service: service.clone() })
            };
            let all = &self.all;
            let ends = [end(namespace, service), end(namespace, all), end(all, service), end(all, all)];
            ends.into_iter().max().unwrap_or_default()
        };
        mask.each().map(of_facet).fold(self.base, u64::max)
    }
}

/// Returns the subjects of a change.
pub(crate) fn subjects(change: &Change) -> Vec<(ChangeMask, ServiceName)> {
    match change {
        Change::Service { namespace, name } => vec![
            (ChangeMask::SERVICE, ServiceName::new(namespace, name)),
            (ChangeMask::MEMBERS, ServiceName::new(namespace, ALL)),
            (ChangeMask::MEMBERS, ServiceName::new(ALL, ALL)),
        ],
        Change::Instances { namespace, service } => vec![(ChangeMask::INSTANCES, ServiceName::new(namespace, service))],
        Change::Rules { family, called, .. } => {
            let aspect = ChangeMask::rules(*family);
            called.iter().map(|end| (aspect, ServiceName::new(&end.namespace, &end.service))).collect()
        }
        Change::Config(_) | Change::Namespaces | Change::Webhooks => Vec::new(),
    }
}
