//! Wildcards: all resources of one kind of some namespaces.
//!
//! For each scope there is one map, of a client that says nothing about itself, which changes by what has changed. Of
//! other clients only the services are looked at whose units asked something, and whoever gives the same answers shares
//! the map. All maps share what they have in common.
//!
//! A scope is what is there of the namespaces that a client names, so what it makes up costs nothing.

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

/// Bytes of a scope, and of routes, beside what is in them.
const SCOPE_BYTES: usize = 1024;
const ROUTES_BYTES: usize = 512;
/// Bytes of a name in a map.
pub(super) const ENTRY_BYTES: usize = 96;

/// A scope, and the kind of what is in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WildcardKey {
    pub(crate) kind: UnitKind,
    pub(crate) dialect: Dialect,
    /// None for all.
    pub(crate) namespaces: Option<Arc<[String]>>,
    pub(crate) read_scope: ReadScope,
}

impl Eq for WildcardKey {}

/// Without the rights, which few differ in.
impl Hash for WildcardKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.kind, self.dialect, &self.namespaces).hash(state);
    }
}

/// All that units of one kind consist of.
#[derive(Clone, Default)]
pub(crate) struct WildcardSet {
    pub(crate) resources: Resources,
    /// Units that have a virtual host.
    pub(crate) hosts: OrdMap<ServiceName, Arc<Unit>>, // bound: xds-made
}

/// Kind of the routes for proxies that a scope has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RoutesKind {
    /// Under the name of the namespace, and not of the scope as a whole.
    pub(super) is_of_namespace: bool,
    /// Namespace whose services have short names.
    pub(super) own_namespace: Option<Arc<str>>,
}

/// Scopes that are kept.
#[derive(Default)]
pub(super) struct WildcardCache {
    kept: HashMap<WildcardKey, WildcardEntry>, // bound: xds-made
    uses: u64,
    bytes: usize,
}

/// A scope. Its map is behind a lock of its own, as what is new in it is made under that.
pub(super) struct WildcardEntry {
    gathering: Arc<Mutex<Gathering>>,
    /// Services that are to be looked at again.
    pending: BTreeSet<ServiceName>, // bound: xds-made
    /// Number of times that something became pending.
    touches: u64,
    /// Nothing was looked at yet.
    is_new: bool,
    /// The virtual hosts put together; none that something is pending for.
    routes: HashMap<RoutesKind, VariantTree<Arc<Resource>>>, // bound: xds-made
    /// Held by the streams that use the scope.
    holder: Arc<()>,
    used: u64,
    was_used: bool,
    /// Bytes of its map, and of its routes.
    map_bytes: usize,
    routes_bytes: usize,
}

/// Services that are to be looked at, taken out of a scope.
pub(super) struct PendingServices {
    pub(super) names: BTreeSet<ServiceName>, // bound: xds-made
    pub(super) is_new: bool,
    pub(super) touches: u64,
}

impl WildcardKey {
    pub(super) fn unit(&self, name: &ServiceName) -> UnitKey {
        UnitKey { kind: self.kind.clone(), dialect: self.dialect, name: name.clone(), authority: None }
    }

    /// True for units that aliases have as well.
    pub(super) fn has_aliases(&self) -> bool {
        matches!(self.kind, UnitKind::Host | UnitKind::Listener)
    }

    /// A client that says nothing about itself.
    pub(super) fn plain_client(&self) -> Client {
        Client::unknown(self.dialect, self.namespaces.clone(), self.read_scope.clone())
    }
}

impl WildcardSet {
    /// Puts a unit in the place of the one of that name.
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

    /// Those of this name, those of sets of labels, and those for a place.
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

    /// Bytes of the map, without what is in it.
    pub(super) fn bytes(&self) -> usize {
        ENTRY_BYTES * (self.resources.len() + self.hosts.len())
    }
}

impl WildcardCache {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The map of a scope, and what says that it is used.
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

    /// Takes what is pending out of a scope; none if the scope has begun anew.
    pub(super) fn take(&mut self, key: &WildcardKey, gathering: &Arc<Mutex<Gathering>>) -> Option<PendingServices> {
        let wild = self.kept.get_mut(key).filter(|wild| Arc::ptr_eq(&wild.gathering, gathering))?;
        let names = std::mem::take(&mut wild.pending);
        Some(PendingServices { names, is_new: std::mem::take(&mut wild.is_new), touches: wild.touches })
    }

    /// Notes how much the map of a scope takes.
    pub(super) fn weigh(&mut self, key: &WildcardKey, bytes: usize) {
        if let Some(wild) = self.kept.get_mut(key) {
            self.bytes = self.bytes + bytes - wild.map_bytes;
            wild.map_bytes = bytes;
        }
    }

    /// Names become pending, and routes that are made of them go.
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

    /// The routes of a scope for a client, if they were made, and what says that the scope is used.
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

    /// Keeps routes that were made when the scope had been touched so many times, unless it was since.
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

    /// Drops scopes that no stream uses, those first that were not used for longest, until so many bytes are left, and
    /// all routes that nobody has. Returns them, to be given back without the lock.
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

    /// Drops scopes that no stream uses, and that were not used since the last time.
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
