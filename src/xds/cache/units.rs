//! Cache of built units by key, with their dependencies.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::generation::Generation;
use super::snapshot::{ChangeMask, is_pattern};
use super::touched::{Stale, Touched};
use super::wildcard::{WildcardCache, WildcardEntry};
use crate::model::limits;
use crate::xds::client_inputs::{ClientContext, ClientInput, InputRecorder, InputValue};
use crate::xds::keys::{UnitKey, UnitKind};
use crate::xds::names::ServiceName;
use crate::xds::resources::{Dependencies, Unit};
use crate::xds::variants::VariantTree;

/// Number of changes remembered to validate units that were built from an earlier state.
const RECENT_MAX: usize = 64;

/// All cached items. Nothing is built under its lock; a caller that misses an item builds it without the lock.
pub(crate) struct UnitCache {
    pub(super) generation: Generation,
    pub(super) wildcards: WildcardCache,
    entries: HashMap<UnitKey, CacheEntry>, // bound: xds-made
    /// Units that depend on each service.
    readers: HashMap<ServiceName, HashSet<UnitKey>>, // bound: xds-made
    /// Recent changes with the number of the state that resulted.
    recent: VecDeque<(u64, Arc<Touched>)>, // bound: state
    bytes: usize,
    /// Size in bytes at which the next sweep is due.
    sweep_at: usize,
    uses: u64,
    /// Value of `uses` at the last sweep.
    swept: u64,
    /// Number of units built.
    #[cfg(test)]
    pub(crate) made: usize,
}

/// Variants of a unit by the inputs of clients.
#[derive(Default)]
struct CacheEntry {
    units: VariantTree<Arc<Unit>>,
    reads: Dependencies,
}

/// Result of storing a unit.
pub(super) struct Stored {
    pub(super) unit: Arc<Unit>,
    /// Set if a dependency has changed since the unit was built.
    pub(super) is_outdated: bool,
    pub(super) garbage: Vec<WildcardEntry>,
}

impl UnitCache {
    pub(super) fn new(generation: Generation) -> UnitCache {
        UnitCache {
            generation,
            wildcards: WildcardCache::default(),
            entries: HashMap::new(),
            readers: HashMap::new(),
            recent: VecDeque::new(),
            bytes: 0,
            sweep_at: limits::XDS_KEPT_BYTES_MAX,
            uses: 0,
            swept: 0,
            #[cfg(test)]
            made: 0,
        }
    }

    /// Returns the unit for a client if it is cached.
    pub(super) fn find(&mut self, key: &UnitKey, context: &ClientContext<'_>) -> Option<Arc<Unit>> {
        self.uses += 1;
        self.entries.get_mut(key)?.units.find(context, self.uses).cloned()
    }

    /// Does the same and records the inputs that the unit depends on.
    pub(super) fn find_recording(&mut self, key: &UnitKey, inputs: &mut InputRecorder<'_>) -> Option<Arc<Unit>> {
        self.uses += 1;
        self.entries.get_mut(key)?.units.find_recording(inputs, self.uses).cloned()
    }

    /// Returns the subjects that the units of a key were built from.
    pub(super) fn reads(&self, key: &UnitKey) -> Dependencies {
        self.entries.get(key).map(|entry| entry.reads.clone()).unwrap_or_default()
    }

    /// Stores a unit that was built from the state with this number, unless a dependency has changed since.
    pub(super) fn store(
        &mut self,
        number: u64,
        key: &UnitKey,
        (recorded, reads): (&[(ClientInput, InputValue)], &Dependencies),
        unit: Arc<Unit>,
    ) -> Stored {
        #[cfg(test)]
        {
            self.made += usize::from(key.kind != UnitKind::OwnEndpoints);
        }
        let mut stored = Stored { unit, is_outdated: !self.is_current(number, reads), garbage: Vec::new() };
        if stored.is_outdated {
            let mut stale = Stale::default();
            stale.add(&key.kind, &key.name);
            self.wildcards.touch(&stale);
            return stored;
        }
        if !self.is_cacheable(key) {
            return stored;
        }
        self.uses += 1;
        for name in reads.keys() {
            self.readers.entry(name.clone()).or_default().insert(key.clone());
        }
        let entry = self.entries.entry(key.clone()).or_default();
        for (name, mask) in reads {
            let known = entry.reads.entry(name.clone()).or_default();
            *known = known.with(*mask);
        }
        if let Some(quicker) = entry.units.find_recorded(recorded, self.uses) {
            // Another stream stored the unit first; that one is shared.
            stored.unit = quicker.clone();
            return stored;
        }
        let had = entry.units.bytes();
        entry.units.insert(recorded, stored.unit.clone(), stored.unit.bytes(), self.uses);
        self.bytes = self.bytes + entry.units.bytes() - had;
        stored.garbage = self.make_room();
        stored
    }

    /// Reports whether a unit may be cached. Names invented by clients are not, so each request builds them again.
    fn is_cacheable(&self, key: &UnitKey) -> bool {
        let is_inbound = matches!(key.kind, UnitKind::Inbound | UnitKind::InboundCluster(_));
        let snapshot = &self.generation.snapshot;
        is_inbound || snapshot.has_service(&key.name) || snapshot.alias(&key.name).is_some()
    }

    /// Reports whether none of these dependencies has changed since the state with this number.
    fn is_current(&self, number: u64, reads: &Dependencies) -> bool {
        if number == self.generation.number {
            return true;
        }
        let is_remembered = self.recent.front().is_some_and(|(first, _)| *first <= number + 1);
        let since = self.recent.iter().filter(|(led_to, _)| *led_to > number);
        is_remembered && !since.into_iter().any(|(_, touched)| touched.is_read_by(reads))
    }

    /// Evicts unused items if the cache is too large. Returns large items, so that the caller drops them without the
    /// lock.
    pub(super) fn make_room(&mut self) -> Vec<WildcardEntry> {
        if self.bytes + self.wildcards.bytes() <= self.sweep_at {
            return Vec::new();
        }
        let garbage = self.wildcards.sweep(limits::XDS_KEPT_BYTES_MAX / 2);
        // Units that were not used since the last sweep are evicted first.
        for since in [self.swept, u64::MAX] {
            if self.bytes > limits::XDS_KEPT_BYTES_MAX / 2 {
                self.sweep(since);
            }
        }
        self.swept = self.uses;
        self.sweep_at = limits::XDS_KEPT_BYTES_MAX.max(2 * (self.bytes + self.wildcards.bytes()));
        garbage
    }

    fn sweep(&mut self, since: u64) {
        let mut gone = Vec::new();
        let mut bytes = 0;
        for (key, entry) in &mut self.entries {
            entry.units.retain(|unit, used| used > since || unit.is_held());
            bytes += entry.units.bytes();
            // Entries of existing services remain, because their dependencies are needed to notify streams.
            if entry.units.len() == 0 && !self.generation.snapshot.has_service(&key.name) {
                gone.push(key.clone());
            }
        }
        self.bytes = bytes;
        gone.iter().for_each(|key| self.drop_entry(key));
    }

    /// Returns the services whose clusters depend on a service.
    pub(super) fn read_for_clusters(&self, name: &ServiceName) -> impl Iterator<Item = &ServiceName> {
        let readers = self.readers.get(name).into_iter().flatten();
        readers.filter(|key| key.kind == UnitKind::Clusters).map(|key| &key.name)
    }

    /// Advances to another state and drops the units with changed dependencies.
    pub(super) fn advance(&mut self, generation: Generation, mut touched: Touched) -> Arc<Touched> {
        self.generation = generation;
        let mut stale = Stale::default();
        for (name, mask) in &touched.subjects {
            if mask.has_any(ChangeMask::SERVICE) {
                stale.add_service(name);
            }
        }
        for key in self.stale(&touched.subjects) {
            stale.add(&key.kind, &key.name);
            touched.names.insert(key.name.clone());
            self.drop_entry(&key);
        }
        self.wildcards.touch(&stale);
        let touched = Arc::new(touched.ready());
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((self.generation.number, touched.clone()));
        touched
    }

    fn stale(&self, touched: &BTreeMap<ServiceName, ChangeMask>) -> HashSet<UnitKey> {
        let mut stale = HashSet::new();
        for (name, mask) in touched {
            let is_stale = |key: &&UnitKey, of: &ServiceName| {
                let reads = self.entries.get(*key).and_then(|entry| entry.reads.get(of));
                reads.is_some_and(|reads| reads.has_any(*mask))
            };
            if is_pattern(name) {
                let covered = self.readers.iter().filter(|(service, _)| name.covers(service));
                stale.extend(covered.flat_map(|(of, keys)| keys.iter().filter(|key| is_stale(key, of))).cloned());
            } else if let Some(keys) = self.readers.get(name) {
                stale.extend(keys.iter().filter(|key| is_stale(key, name)).cloned());
            }
        }
        stale
    }

    fn drop_entry(&mut self, key: &UnitKey) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.bytes -= entry.units.bytes();
        for name in entry.reads.keys() {
            if let Some(keys) = self.readers.get_mut(name) {
                keys.remove(key);
                if keys.is_empty() {
                    self.readers.remove(name);
                }
            }
        }
    }

    /// Returns the bytes of the cache.
    #[cfg(test)]
    pub(super) fn retained_bytes(&self) -> usize {
        self.bytes + self.wildcards.bytes()
    }
}
