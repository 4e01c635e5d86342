//! Wildcard subscriptions: all resources of one kind in some namespaces.
//!
//! Each scope has one map for a client without properties, to which changes are applied. For other clients only the
//! services whose units read client inputs are evaluated, and clients with equal inputs share a map. Maps share their
//! common parts.
//!
//! A scope consists of those of the client's namespaces that exist, so invented names occupy no memory.

use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use parking_lot::Mutex;

use super::gathering::Gathering;
use super::touched::Stale;
use crate::model::grant::ReadScope;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, Resources};
use crate::xds::client::Client;
use crate::xds::client_inputs::{ClientContext, ClientInput, InputValue};
use crate::xds::names::ServiceName;
use crate::xds::resources::{Unit, UnitKey, UnitKind};
use crate::xds::variants::VariantTree;

/// Bytes of a scope, and of routes, in addition to their content.
const SCOPE_BYTES: usize = 1024;
const ROUTES_BYTES: usize = 512;
/// Bytes of a map entry.
pub(super) const ENTRY_BYTES: usize = 96;

/// A scope, and the kind of its resources.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WildcardKey {
    pub(crate) kind: UnitKind,
    pub(crate) dialect: Dialect,
    /// None for all namespaces.
    pub(crate) namespaces: Option<Arc<[String]>>,
    pub(crate) read_scope: ReadScope,
}

impl Eq for WildcardKey {}

/// Hashes without the read scope, in which few keys differ.
impl Hash for WildcardKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.kind, self.dialect, &self.namespaces).hash(state);
    }
}

/// All resources of the units of one kind.
#[derive(Clone, Default)]
pub(crate) struct WildcardSet {
    pub(crate) resources: Resources,
    /// Units with a virtual host.
    pub(crate) hosts: OrdMap<ServiceName, Arc<Unit>>, // bound: xds-made
}

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
    kept: HashMap<WildcardKey, WildcardEntry>, // bound: xds-made
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

/// Services to evaluate, removed from a scope.
pub(super) struct PendingServices {
    pub(super) names: BTreeSet<ServiceName>, // bound: xds-made
    pub(super) is_new: bool,
    pub(super) touches: u64,
}

impl WildcardKey {
    pub(super) fn unit(&self, name: &ServiceName) -> UnitKey {
        UnitKey { kind: self.kind.clone(), dialect: self.dialect, name: name.clone(), authority: None }
    }

    /// Reports whether aliases have units of this kind.
    pub(super) fn has_aliases(&self) -> bool {
        matches!(self.kind, UnitKind::Host | UnitKind::Listener)
    }

    /// Returns a client without properties.
    pub(super) fn plain_client(&self) -> Client {
        Client::unknown(self.dialect, self.namespaces.clone(), self.read_scope.clone())
    }
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

impl WildcardCache {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the map of a scope, and the reference that marks the scope as used.
    pub(super) fn open(&mut self, key: &WildcardKey) -> (Arc<Mutex<Gathering>>, Arc<()>) {
        self.uses += 1;
        let uses = self.uses;
        let is_there = self.kept.contains_key(key);
        let wild = self.kept.entry(key.clone()).or_insert_with(WildcardEntry::new);
        (wild.used, wild.was_used) = (uses, true);
        if !is_there {
            self.bytes += SCOPE_BYTES;
        }
        (wild.gathering.clone(), wild.holder.clone())
    }

    /// Takes the pending services of a scope. Returns `None` if the scope was replaced.
    pub(super) fn take(&mut self, key: &WildcardKey, gathering: &Arc<Mutex<Gathering>>) -> Option<PendingServices> {
        let wild = self.kept.get_mut(key).filter(|wild| Arc::ptr_eq(&wild.gathering, gathering))?;
        let names = std::mem::take(&mut wild.pending);
        Some(PendingServices { names, is_new: std::mem::take(&mut wild.is_new), touches: wild.touches })
    }

    /// Records the size of a scope's map.
    pub(super) fn weigh(&mut self, key: &WildcardKey, bytes: usize) {
        if let Some(wild) = self.kept.get_mut(key) {
            self.bytes = self.bytes + bytes - wild.map_bytes;
            wild.map_bytes = bytes;
        }
    }

    /// Marks names as pending and drops the routes that depend on them.
    pub(super) fn touch(&mut self, stale: &Stale) {
        for (key, wild) in &mut self.kept {
            let names = stale.within(&key.kind, key.namespaces.as_deref());
            if !names.is_empty() {
                wild.touches += 1;
                wild.routes.clear();
                self.bytes -= std::mem::take(&mut wild.routes_bytes);
                wild.pending.extend(names.into_iter().cloned());
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
        let wild = self.kept.get_mut(key)?;
        let found = wild.routes.get_mut(kind)?.find(context, self.uses)?.clone();
        (wild.used, wild.was_used) = (self.uses, true);
        Some((found, wild.holder.clone()))
    }

    /// Stores routes that were built when the scope had `touches` changes, unless it has changed since.
    pub(super) fn keep_routes(
        &mut self,
        key: &WildcardKey,
        kind: RoutesKind,
        (asked, touches): (&[(ClientInput, InputValue)], u64),
        routes: &Arc<Resource>,
    ) -> Arc<Resource> {
        let Some(wild) = self.kept.get_mut(key).filter(|wild| wild.touches == touches) else { return routes.clone() };
        self.uses += 1;
        let known = wild.routes.entry(kind).or_default();
        if let Some(quicker) = known.find_asked(asked, self.uses) {
            return quicker.clone();
        }
        let had = known.bytes();
        known.insert(asked, routes.clone(), ROUTES_BYTES + routes.size(), self.uses);
        let more = known.bytes() - had;
        wild.routes_bytes += more;
        self.bytes += more;
        routes.clone()
    }

    /// Drops unused routes, and unused scopes in the order of their last use until at most `bytes` remain. Returns the
    /// scopes, so that the caller drops them without the lock.
    pub(super) fn sweep(&mut self, bytes: usize) -> Vec<WildcardEntry> {
        self.drop_routes();
        let unused = self.kept.iter().filter(|(_, wild)| !wild.is_held());
        let mut unused: Vec<_> = unused.map(|(key, wild)| (wild.used, key.clone())).collect();
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
        let idle = self.kept.iter_mut().filter_map(|(key, wild)| {
            let was_used = std::mem::take(&mut wild.was_used);
            (!was_used && !wild.is_held()).then(|| key.clone())
        });
        let idle: Vec<_> = idle.collect();
        idle.iter().filter_map(|key| self.remove(key)).collect()
    }

    fn drop_routes(&mut self) {
        for wild in self.kept.values_mut() {
            for routes in wild.routes.values_mut() {
                routes.retain(|routes, _| Arc::strong_count(routes) > 1);
            }
            wild.routes.retain(|_, routes| routes.len() > 0);
            let left = wild.routes.values().map(VariantTree::bytes).sum();
            self.bytes = self.bytes + left - wild.routes_bytes;
            wild.routes_bytes = left;
        }
    }

    fn remove(&mut self, key: &WildcardKey) -> Option<WildcardEntry> {
        let wild = self.kept.remove(key)?;
        self.bytes -= SCOPE_BYTES + wild.map_bytes + wild.routes_bytes;
        Some(wild)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
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
