//! Context in which one unit is built. It gives access to the snapshot, and records dependencies and client inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::policies::{Policies, is_of_instances};
use super::subsets::subsets_of;
use crate::model::instance::Instance;
use crate::model::mesh::resource::ResourceType;
use crate::model::rule::Family;
use crate::model::rule::release::RuleRelease;
use crate::model::time::Timestamp;
use crate::xds::cache::{CatalogSnapshot, ChangeMask, LastModified, RetiredSubsets, is_about};
use crate::xds::client_inputs::InputRecorder;
use crate::xds::names::{ServiceName, SubsetHash, federated};
use crate::xds::subset::Subset;

/// Subjects that an item was built from.
pub(crate) type Dependencies = BTreeMap<ServiceName, ChangeMask>;

/// Context in which one unit is built.
pub(crate) struct BuildContext<'a> {
    pub(crate) snapshot: &'a CatalogSnapshot,
    pub(crate) inputs: InputRecorder<'a>,
    last_modified: &'a LastModified,
    retired: &'a RetiredSubsets,
    authority: Option<Arc<str>>,
    reads: Dependencies,
    index: u64,
}

impl<'a> BuildContext<'a> {
    pub(crate) fn new(
        snapshot: &'a CatalogSnapshot,
        last_modified: &'a LastModified,
        retired: &'a RetiredSubsets,
        inputs: InputRecorder<'a>,
        authority: Option<Arc<str>>,
    ) -> Self {
        BuildContext { snapshot, inputs, last_modified, retired, authority, reads: Dependencies::new(), index: 0 }
    }

    /// Returns the newest log index of the subjects read so far.
    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    /// Returns the recorded client inputs and dependencies.
    pub(crate) fn finish(self) -> (InputRecorder<'a>, Dependencies) {
        (self.inputs, self.reads)
    }

    /// Returns the name of a resource in the form used by the clients of this unit.
    pub(crate) fn name(&self, kind: ResourceType, name: &str) -> String {
        match &self.authority {
            Some(authority) => federated(authority, kind, name),
            None => name.to_owned(),
        }
    }

    /// Returns the service with this name or alias, if it exists and is visible.
    pub(crate) fn resolve(&mut self, name: &ServiceName) -> Option<ServiceName> {
        self.read(name, ChangeMask::SERVICE);
        let service = match self.snapshot.alias(name) {
            Some(alias) => ServiceName::new(&alias.namespace, &alias.service),
            None => name.clone(),
        };
        self.service(&service)
    }

    /// Returns the creation time of the service or alias with this name.
    pub(crate) fn since(&mut self, name: &ServiceName) -> Timestamp {
        self.read(name, ChangeMask::SERVICE);
        let of_service = || self.snapshot.services.get(&name.namespace, &name.service).map(|service| service.ctime);
        self.snapshot.alias(name).map(|alias| alias.ctime).or_else(of_service).unwrap_or_default()
    }

    /// Returns the service with this name, if it exists and is visible.
    pub(crate) fn service(&mut self, name: &ServiceName) -> Option<ServiceName> {
        self.read(name, ChangeMask::SERVICE);
        (self.snapshot.has_service(name) && self.inputs.sees(name)).then(|| name.clone())
    }

    /// Returns the instances of a service in the order of their ids.
    pub(crate) fn instances(&mut self, name: &ServiceName) -> Vec<&'a Arc<Instance>> {
        self.read(name, ChangeMask::INSTANCES);
        self.snapshot.instances.all_of(&name.namespace, &name.service).collect()
    }

    /// Returns the releases of rules about a service that are in force for the client, by priority, then by id of the
    /// rule. Client inputs are read only where they decide between wanted releases.
    pub(crate) fn releases(
        &mut self,
        family: Family,
        name: &ServiceName,
        is_wanted: impl Fn(&RuleRelease) -> bool,
    ) -> Vec<&'a Arc<RuleRelease>> {
        self.read(name, ChangeMask::rules(family));
        let mut chosen = Vec::new();
        for rule in self.snapshot.rules.of(family).active().rules_about(&name.namespace, &name.service) {
            if !rule.all().any(|release| is_wanted(release)) {
                continue;
            }
            chosen.extend(match rule.is_gray() {
                false => rule.normal(),
                true => {
                    let id = self.inputs.release(family, rule.id);
                    rule.all().find(|release| Some(release.id.as_str()) == id.as_deref())
                }
            });
        }
        chosen.retain(|release| is_wanted(release) && is_about(release, name));
        chosen.sort_by(|one, other| (one.rule.priority, &one.rule.id).cmp(&(other.rule.priority, &other.rule.id)));
        chosen
    }

    /// Returns all releases of a family about a service that are in force for the client.
    pub(super) fn all_releases(&mut self, family: Family, name: &ServiceName) -> Vec<&'a Arc<RuleRelease>> {
        self.releases(family, name, |_| true)
    }

    /// Returns the rules that change which instances of a service a client calls.
    pub(super) fn policies(&mut self, name: &ServiceName) -> Policies<'a> {
        Policies::of(&self.releases(Family::Routing, name, is_of_instances))
    }

    /// Returns the subsets that rules about a service name for any client, and the retired ones.
    pub(crate) fn subsets(&mut self, name: &ServiceName) -> BTreeMap<SubsetHash, Arc<Subset>> {
        self.read(name, ChangeMask::rules(Family::Routing));
        let known = subsets_of(self.snapshot, name);
        for service in &known.of_values {
            self.read(service, ChangeMask::INSTANCES);
        }
        let mut subsets = known.by_hash.clone();
        for (hash, subset) in self.retired.of(name) {
            subsets.entry(*hash).or_insert_with(|| subset.clone());
        }
        subsets
    }

    fn read(&mut self, name: &ServiceName, mask: ChangeMask) {
        self.index = self.index.max(self.last_modified.of(name, mask));
        match self.reads.get_mut(name) {
            Some(known) => *known = known.with(mask),
            None => drop(self.reads.insert(name.clone(), mask)),
        }
    }
}
