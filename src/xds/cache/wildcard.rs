//! Wildcard subscriptions: all resources of one kind in some namespaces.
//!
//! Each scope has one map for a client without properties, to which changes are applied. For other clients only the
//! services whose units read client inputs are evaluated, and clients with equal inputs share a map. Maps share their
//! common parts.
//!
//! A scope consists of those of the client's namespaces that exist, so invented names occupy no memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use super::gathering::Gathering;
use super::touched::Stale;
use super::wildcard_set::PendingServices;
use crate::model::mesh::resource::Resource;
use crate::xds::client_inputs::{ClientContext, ClientInput, InputValue};
use crate::xds::keys::WildcardKey;
use crate::xds::names::ServiceName;
use crate::xds::variants::VariantTree;

/// Bytes of a scope, and of routes, in addition to their content.
const SCOPE_BYTES: usize = 1024;
const ROUTES_BYTES: usize = 512;

/// Variant of the routes for proxies in a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RoutesKind {
    /// Set for routes named after the namespace, unset for those of the whole scope.
    pub(super) is_of_namespace: bool,
    /// Namespace whose services have short names.
    pub(super) own_namespace: Option<Arc<str>>,
}

/// Cached scopes.
#[derive(Default)]
pub(super) struct WildcardCache {
    entries: HashMap<WildcardKey, WildcardEntry>, // bound: xds-made
    uses: u64,
    bytes: usize,
}

/// A scope. Its map has a lock of its own, which is held while new parts are built.
pub(super) struct WildcardEntry {
    gathering: Arc<Mutex<Gathering>>,
    /// Services to evaluate again.
    pending: BTreeSet<ServiceName>, // bound: xds-made
    /// Number of changes of the scope.
    touches: u64,
    /// Set while nothing was evaluated yet.
    is_new: bool,
    /// Combined virtual hosts; dropped when something is pending.
    routes: HashMap<RoutesKind, VariantTree<Arc<Resource>>>, // bound: xds-made
    /// Referenced by the streams that use the scope.
    holder: Arc<()>,
    used: u64,
    was_used: bool,
    /// Bytes of the map, and of the routes.
    map_bytes: usize,
    routes_bytes: usize,
}

impl WildcardCache {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the map of a scope, and the reference that marks the scope as used.
    pub(super) fn open(&mut self, key: &WildcardKey) -> (Arc<Mutex<Gathering>>, Arc<()>) {
        self.uses += 1;
        let uses = self.uses;
        let is_there = self.entries.contains_key(key);
        let entry = self.entries.entry(key.clone()).or_insert_with(WildcardEntry::new);
        (entry.used, entry.was_used) = (uses, true);
        if !is_there {
            self.bytes += SCOPE_BYTES;
        }
        (entry.gathering.clone(), entry.holder.clone())
    }

    /// Takes the pending services of a scope. Returns `None` if the scope was replaced.
    pub(super) fn take(&mut self, key: &WildcardKey, gathering: &Arc<Mutex<Gathering>>) -> Option<PendingServices> {
        let entry = self.entries.get_mut(key).filter(|entry| Arc::ptr_eq(&entry.gathering, gathering))?;
        let names = std::mem::take(&mut entry.pending);
        Some(PendingServices { names, is_new: std::mem::take(&mut entry.is_new), touches: entry.touches })
    }

    /// Records the size of a scope's map.
    pub(super) fn weigh(&mut self, key: &WildcardKey, bytes: usize) {
        if let Some(entry) = self.entries.get_mut(key) {
            self.bytes = self.bytes + bytes - entry.map_bytes;
            entry.map_bytes = bytes;
        }
    }

    /// Marks names as pending and drops the routes that depend on them.
    pub(super) fn touch(&mut self, stale: &Stale) {
        for (key, entry) in &mut self.entries {
            let names = stale.within(&key.kind, key.namespaces.as_deref());
            if !names.is_empty() {
                entry.touches += 1;
                entry.routes.clear();
                self.bytes -= std::mem::take(&mut entry.routes_bytes);
                entry.pending.extend(names.into_iter().cloned());
            }
        }
    }

    /// Returns the cached routes of a scope for a client, and the reference that marks the scope as used.
    pub(super) fn routes(
        &mut self,
        key: &WildcardKey,
        kind: &RoutesKind,
        context: &ClientContext<'_>,
    ) -> Option<(Arc<Resource>, Arc<()>)> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        let found = entry.routes.get_mut(kind)?.find(context, self.uses)?.clone();
        (entry.used, entry.was_used) = (self.uses, true);
        Some((found, entry.holder.clone()))
    }

    /// Stores routes that were built when the scope had `touches` changes, unless it has changed since.
    pub(super) fn store_routes(
        &mut self,
        key: &WildcardKey,
        kind: RoutesKind,
        (recorded, touches): (&[(ClientInput, InputValue)], u64),
        routes: &Arc<Resource>,
    ) -> Arc<Resource> {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.touches == touches) else {
            return routes.clone();
        };
        self.uses += 1;
        let known = entry.routes.entry(kind).or_default();
        if let Some(quicker) = known.find_recorded(recorded, self.uses) {
            return quicker.clone();
        }
        let had = known.bytes();
        known.insert(recorded, routes.clone(), ROUTES_BYTES + routes.size(), self.uses);
        let more = known.bytes() - had;
        entry.routes_bytes += more;
        self.bytes += more;
        routes.clone()
    }

    /// Drops unused routes, and unused scopes in the order of their last use until at most `bytes` remain. Returns the
    /// scopes, so that the caller drops them without the lock.
    pub(super) fn sweep(&mut self, bytes: usize) -> Vec<WildcardEntry> {
        self.drop_routes();
        let unused = self.entries.iter().filter(|(_, entry)| !entry.is_held());
        let mut unused: Vec<_> = unused.map(|(key, entry)| (entry.used, key.clone())).collect();
        unused.sort_unstable_by_key(|(used, _)| *used);
        let mut gone = Vec::new();
        for (_, key) in unused {
            if self.bytes <= bytes {
                break;
            }
            gone.extend(self.remove(&key));
        }
        gone
    }

    /// Drops scopes that no stream uses and that were not used since the previous call.
    pub(super) fn forget_idle(&mut self) -> Vec<WildcardEntry> {
        self.drop_routes();
        let idle = self.entries.iter_mut().filter_map(|(key, entry)| {
            let was_used = std::mem::take(&mut entry.was_used);
            (!was_used && !entry.is_held()).then(|| key.clone())
        });
        let idle: Vec<_> = idle.collect();
        idle.iter().filter_map(|key| self.remove(key)).collect()
    }

    fn drop_routes(&mut self) {
        for entry in self.entries.values_mut() {
            for routes in entry.routes.values_mut() {
                routes.retain(|routes, _| Arc::strong_count(routes) > 1);
            }
            entry.routes.retain(|_, routes| routes.len() > 0);
            let left = entry.routes.values().map(VariantTree::bytes).sum();
            self.bytes = self.bytes + left - entry.routes_bytes;
            entry.routes_bytes = left;
        }
    }

    fn remove(&mut self, key: &WildcardKey) -> Option<WildcardEntry> {
        let entry = self.entries.remove(key)?;
        self.bytes -= SCOPE_BYTES + entry.map_bytes + entry.routes_bytes;
        Some(entry)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl WildcardEntry {
    fn new() -> WildcardEntry {
        WildcardEntry {
            gathering: Arc::default(),
            pending: BTreeSet::new(),
            touches: 0,
            is_new: true,
            routes: HashMap::new(),
            holder: Arc::new(()),
            used: 0,
            was_used: true,
            map_bytes: 0,
            routes_bytes: 0,
        }
    }

    fn is_held(&self) -> bool {
        Arc::strong_count(&self.holder) > 1
    }
}
