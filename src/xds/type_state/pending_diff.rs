//! Differences between the resources that were sent and the current ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use super::super::View;
use super::{NamedResource, TypeState};
use crate::model::limits;
use crate::model::mesh::resource::{Resource, ResourceType, Resources};

/// Maximum number of names that are looked up individually after every change.
const NAMES_LOOKED_UP_MAX: usize = 64;

/// Differences between the resources that were sent and the current ones.
#[derive(Default)]
pub(in crate::xds) struct PendingDiff {
    pub(in crate::xds) changed: BTreeMap<Arc<str>, Arc<Resource>>, // bound: request
    /// Names that do not exist and were not reported as missing.
    pub(in crate::xds) gone: BTreeSet<Arc<str>>, // bound: request
    /// Resources that no longer exist and that the client should retain for a while.
    pub(in crate::xds) retained: Vec<NamedResource>,
    /// Name at which the comparison stopped, because a response has no room for more.
    pub(in crate::xds) cut_at: Option<Arc<str>>,
    /// Set if some of the scheduled names were not looked up.
    pub(in crate::xds) lacks_forced: bool,
    /// Bytes of the changed resources.
    bytes: usize,
    /// Resources with unchanged bytes that were built from other releases.
    equal: Vec<NamedResource>,
    /// Resources of a wildcard subscription.
    resulting: Option<Resources>,
    /// All resources of the type, for subscriptions to many names.
    all: Option<Resources>,
}

/// Resources at the last comparison without differences, for subscriptions to many names.
pub(super) struct Seen {
    all: Resources,
    /// Subscribed names that did not exist in `all`.
    outside: BTreeSet<Arc<str>>, // bound: request
}

impl TypeState {
    /// Computes the differences.
    pub(in crate::xds) fn diff(&self, view: &dyn View) -> PendingDiff {
        let mut diff = PendingDiff::default();
        let all = self.subscription.is_wildcard().then(|| view.all(self.kind));
        if let Some(all) = &all {
            self.compare_all(all, &mut diff);
        }
        if all.is_none() && self.has_many_names() {
            self.compare_many(view, &mut diff);
            self.add_forced(None, view, &mut diff);
            return diff;
        }
        let mut resulting = all.clone();
        for name in self.subscription.names() {
            if all.as_ref().is_some_and(|all| all.contains_key(name)) {
                continue;
            }
            let found = view.get(self.kind, name);
            if let (Some(resulting), Some(resource)) = (&mut resulting, &found) {
                resulting.insert(name.clone(), resource.clone());
            }
            self.compare_any(name, found, &mut diff);
        }
        self.add_forced(all.as_ref(), view, &mut diff);
        diff.resulting = resulting;
        diff
    }

    /// Reports whether there are too many names for individual lookups.
    fn has_many_names(&self) -> bool {
        self.kind == ResourceType::Endpoints && self.subscription.names().len() > NAMES_LOOKED_UP_MAX
    }

    /// Compares the subscribed names with all resources. After the first time, only changed names and those outside of
    /// `all` are compared. Stops when a response is full.
    fn compare_many(&self, view: &dyn View, diff: &mut PendingDiff) {
        let all = view.all(self.kind);
        let find = |name: &Arc<str>| all.get(name).cloned().or_else(|| view.get(self.kind, name));
        let is_left = |name: &&Arc<str>| self.compared_to.as_ref().is_none_or(|to| *name > to);
        match &self.seen {
            None => self.compare_each(self.subscription.names().iter().filter(is_left), &find, diff),
            Some(seen) => {
                let changed = seen.all.diff(&all).map(|item| name_of(&item).clone());
                let changed = changed.filter(|name| self.subscription.has(name));
                let due: BTreeSet<_> = changed.chain(seen.outside.iter().cloned()).collect();
                self.compare_each(due.iter().filter(is_left), &find, diff);
            }
        }
        diff.all = Some(all);
    }

    fn compare_each<'a>(
        &self,
        names: impl Iterator<Item = &'a Arc<str>>,
        find: &dyn Fn(&Arc<str>) -> Option<Arc<Resource>>,
        diff: &mut PendingDiff,
    ) {
        for name in names {
            self.compare_any(name, find(name), diff);
            if diff.bytes > limits::XDS_RESPONSE_BYTES_TARGET {
                diff.cut_at = Some(name.clone());
                return;
            }
        }
    }

    fn compare_any(&self, name: &Arc<str>, found: Option<Arc<Resource>>, diff: &mut PendingDiff) {
        match found {
            Some(resource) => self.compare(name, resource, diff),
            None if self.reported_missing.contains(name) => {}
            None => drop(diff.gone.insert(name.clone())),
        }
    }

    fn compare_all(&self, all: &Resources, diff: &mut PendingDiff) {
        if all.ptr_eq(&self.sent) {
            return;
        }
        for item in self.sent.diff(all) {
            match item {
                DiffItem::Add(name, resource) => drop(diff.changed.insert(name.clone(), resource.clone())),
                DiffItem::Update { new: (name, resource), .. } => self.compare(name, resource.clone(), diff),
                // A name that is also subscribed individually is looked up separately.
                DiffItem::Remove(name, _) if self.subscription.has(name) => {}
                DiffItem::Remove(name, _) => drop(diff.gone.insert(name.clone())),
            }
        }
    }

    fn compare(&self, name: &Arc<str>, resource: Arc<Resource>, diff: &mut PendingDiff) {
        match self.sent.get(name) {
            Some(sent) if Arc::ptr_eq(sent, &resource) || *sent == resource => {}
            Some(sent) if !resource.differs(sent) => diff.equal.push(NamedResource { name: name.clone(), resource }),
            _ => {
                diff.bytes += resource.size() + name.len();
                diff.changed.insert(name.clone(), resource);
            }
        }
    }

    fn add_forced(&self, all: Option<&Resources>, view: &dyn View, diff: &mut PendingDiff) {
        for name in &self.forced {
            if diff.changed.contains_key(name) {
                continue;
            }
            if diff.bytes > limits::XDS_RESPONSE_BYTES_TARGET {
                // The remaining names stay scheduled.
                diff.lacks_forced = true;
                return;
            }
            let of_all = all.and_then(|all| all.get(name).cloned());
            let found = of_all.or_else(|| self.subscription.has(name).then(|| view.get(self.kind, name)).flatten());
            match found {
                Some(resource) => {
                    diff.bytes += resource.size() + name.len();
                    diff.changed.insert(name.clone(), resource);
                }
                None if all.is_some() || self.subscription.has(name) => drop(diff.gone.insert(name.clone())),
                None => {}
            }
        }
    }

    /// Returns all subscribed resources that exist.
    pub(in crate::xds) fn resulting_set(&self, diff: &mut PendingDiff, view: &dyn View) -> Resources {
        let mut resulting = diff.resulting.take().unwrap_or_else(|| {
            let names = self.subscription.names().iter();
            names.filter_map(|name| Some((name.clone(), view.get(self.kind, name)?))).collect()
        });
        resulting.extend(diff.retained.drain(..).map(|NamedResource { name, resource }| (name, resource)));
        resulting
    }

    /// Records that nothing is due: the resources that were sent equal the current ones, possibly built from newer
    /// releases.
    pub(in crate::xds) fn mark_synced(&mut self, diff: PendingDiff) {
        self.forced.clear();
        self.compared_to = None;
        if let Some(all) = diff.all {
            self.record_seen(all);
        }
        let resulting = diff.resulting.or_else(|| self.all_seen().cloned());
        // The map of a wildcard already contains the equal resources.
        if resulting.is_none() || !self.nacked.is_empty() {
            self.refresh(diff.equal);
        }
        let Some(resulting) = resulting else { return };
        if resulting.ptr_eq(&self.sent) {
            return;
        }
        self.sent = resulting;
        self.has_update = true;
        if self.nacked.is_empty() {
            self.delivered.acked = self.sent.clone();
        }
    }

    /// Returns all resources if the subscription consists of exactly their names, so that such streams share one map.
    fn all_seen(&self) -> Option<&Resources> {
        let seen = self.seen.as_ref()?;
        (seen.outside.is_empty() && seen.all.len() == self.subscription.names().len()).then_some(&seen.all)
    }

    /// Records the resources that the subscribed names were compared with, without differences.
    fn record_seen(&mut self, all: Resources) {
        let names = self.subscription.names();
        let Some(seen) = &mut self.seen else {
            let outside = names.iter().filter(|name| !all.contains_key(*name)).cloned().collect();
            self.seen = Some(Seen { all, outside });
            return;
        };
        for item in seen.all.diff(&all) {
            let name = name_of(&item);
            if matches!(item, DiffItem::Remove(..)) && names.contains(name) {
                seen.outside.insert(name.clone());
            } else {
                seen.outside.remove(name);
            }
        }
        seen.all = all;
    }

    /// Replaces resources by newer ones with equal bytes.
    pub(in crate::xds) fn refresh(&mut self, equal: Vec<NamedResource>) {
        for NamedResource { name, resource } in equal {
            if let Some(has) = self.delivered.acked.get_mut(&name).filter(|has| !resource.differs(has)) {
                *has = resource.clone();
            }
            self.sent.insert(name, resource);
            self.has_update = true;
        }
    }
}

impl PendingDiff {
    pub(in crate::xds) fn is_nothing(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty()
    }

    /// Reports whether the names were compared with all resources.
    pub(in crate::xds) fn is_of_many(&self) -> bool {
        self.all.is_some()
    }

    /// Takes the resources with equal bytes.
    pub(in crate::xds) fn take_equal(&mut self) -> Vec<NamedResource> {
        std::mem::take(&mut self.equal)
    }

    /// Takes the resources of a wildcard subscription.
    pub(in crate::xds) fn take_resulting(&mut self) -> Option<Resources> {
        self.resulting.take()
    }
}

fn name_of<'a>(item: &DiffItem<'a, 'a, Arc<str>, Arc<Resource>>) -> &'a Arc<str> {
    match item {
        DiffItem::Add(name, _) | DiffItem::Update { new: (name, _), .. } | DiffItem::Remove(name, _) => name,
    }
}
