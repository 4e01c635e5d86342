//! Resource map of a scope: one for a client without properties, and variants for other clients by their inputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::generation::Generation;
use super::wildcard_set::{ENTRY_BYTES, PendingServices, WildcardSet};
use crate::xds::client::{Client, MapShare};
use crate::xds::client_inputs::{ClientContext, ClientInput, InputRecorder, InputValue};
use crate::xds::keys::WildcardKey;
use crate::xds::names::ServiceName;
use crate::xds::resources::Unit;
use crate::xds::variants::VariantTree;

/// Number of changes after which a map that was not requested in between is rebuilt.
const ROUNDS_MAX: usize = 64;
/// Maximum number of services in a change that is remembered.
const ROUND_NAMES_MAX: usize = 256;
/// Number of unused maps that are retained.
const SPARE_MAPS: usize = 8;
/// Number of services whose units stop reading inputs before the inputs of the maps are dropped.
const STOPPED_MAX: usize = 64;

/// Function that returns the unit of a service for the client of the inputs, and records the inputs that it depends on.
type BuildUnit<'a> = dyn Fn(&ServiceName, &mut InputRecorder<'_>) -> Arc<Unit> + 'a;

#[derive(Default)]
pub(super) struct Gathering {
    /// Resources of a client without properties.
    plain: WildcardSet,
    /// Services whose units read client inputs, with their units for a client without properties.
    client_dependent: BTreeMap<ServiceName, Arc<Unit>>, // bound: xds-made
    maps: VariantTree<Map>,
    maps_swept: usize,
    /// Number of services that stopped reading inputs since the maps were created.
    stopped: usize,
    /// Number of the current change.
    round: u64,
    /// Recent changes with the affected services.
    rounds: VecDeque<(u64, BTreeSet<ServiceName>)>, // bound: xds-made
    /// Number of earlier changes of the scope.
    touches: u64,
}

/// Map of the clients with equal inputs.
struct Map {
    gathered: WildcardSet,
    round: u64,
    /// Referenced by the streams that use the map.
    holder: Arc<MapShare>,
}

/// Everything in a scope that is visible to a client.
pub(super) struct Seen {
    pub(super) gathered: WildcardSet,
    /// None for the map of a client without properties.
    pub(super) holder: Option<Arc<MapShare>>,
    pub(super) touches: u64,
    /// Inputs that the map depends on.
    pub(super) recorded: Vec<(ClientInput, InputValue)>,
}

impl Gathering {
    /// Applies pending changes.
    pub(super) fn refresh(
        &mut self,
        generation: &Generation,
        key: &WildcardKey,
        pending: PendingServices,
        build: &BuildUnit<'_>,
    ) {
        self.touches = pending.touches;
        let mut names = pending.names;
        if pending.is_new {
            names.extend(names_in(generation, key));
        }
        if names.is_empty() {
            return;
        }
        self.round += 1;
        let client = Client::unknown(key.dialect, key.namespaces.clone(), key.read_scope.clone());
        let context = ClientContext::new(generation.snapshot.clone(), &client);
        for name in &names {
            let mut inputs = InputRecorder::of_scope(&context);
            let unit = build(name, &mut inputs);
            self.plain.put(name, &unit);
            if !inputs.recorded().is_empty() {
                self.client_dependent.insert(name.clone(), unit);
            } else if self.client_dependent.remove(name).is_some() {
                self.stopped += 1;
            }
        }
        if self.client_dependent.is_empty() || self.stopped > STOPPED_MAX {
            self.maps.clear();
            self.stopped = 0;
        }
        if self.rounds.len() >= ROUNDS_MAX {
            self.rounds.pop_front();
        }
        match names.len() <= ROUND_NAMES_MAX {
            true => self.rounds.push_back((self.round, names)),
            false => self.rounds.clear(),
        }
    }

    /// Returns everything that is visible to the client of `inputs`.
    pub(super) fn seen(&mut self, mut inputs: InputRecorder<'_>, build: &BuildUnit<'_>) -> Seen {
        let touches = self.touches;
        if self.client_dependent.is_empty() {
            return Seen { gathered: self.plain.clone(), holder: None, touches, recorded: Vec::new() };
        }
        let inputs = &mut inputs;
        let found = self.maps.find_recording(inputs, self.round);
        let known = found.map(|map| (map.gathered.clone(), map.round, map.holder.clone()));
        let number_recorded = inputs.recorded().len();
        let mut map = match known {
            Some((gathered, round, holder)) if self.remembers(round) => {
                if round == self.round {
                    let recorded = inputs.recorded().to_vec();
                    return Seen { gathered, holder: Some(holder), touches, recorded };
                }
                let mut map = Map { gathered, round: self.round, holder };
                for name in self.rounds.iter().filter(|(one, _)| *one > round).flat_map(|(_, names)| names) {
                    map.gathered.put(name, &build(name, inputs));
                }
                map
            }
            known => {
                let mut gathered = self.plain.clone();
                let mut bytes = 2 * ENTRY_BYTES * self.client_dependent.len();
                for (name, plain) in &self.client_dependent {
                    let unit = build(name, inputs);
                    if !Arc::ptr_eq(&unit, plain) {
                        gathered.put(name, &unit);
                        bytes += unit.bytes();
                    }
                }
                let holder = known.map_or_else(|| Arc::new(MapShare(bytes)), |(_, _, holder)| holder);
                Map { gathered, round: self.round, holder }
            }
        };
        let (gathered, holder) = (map.gathered.clone(), Some(map.holder.clone()));
        let seen = Seen { gathered, holder, touches, recorded: inputs.recorded().to_vec() };
        if inputs.recorded().len() == number_recorded
            && let Some(known) = self.maps.find_recorded(inputs.recorded(), self.round)
        {
            std::mem::swap(known, &mut map);
        } else {
            self.store(inputs, map);
        }
        seen
    }

    /// Reports whether all changes after `round` are remembered.
    fn remembers(&self, round: u64) -> bool {
        round == self.round || self.rounds.front().is_some_and(|(first, _)| *first <= round + 1)
    }

    fn store(&mut self, inputs: &InputRecorder<'_>, map: Map) {
        if self.maps.len() >= (2 * self.maps_swept).max(SPARE_MAPS) {
            self.maps.retain(|map, _| Arc::strong_count(&map.holder) > 1);
            self.maps_swept = self.maps.len();
        }
        let bytes = 2 * ENTRY_BYTES * self.client_dependent.len();
        self.maps.insert(inputs.recorded(), map, bytes, self.round);
    }

    pub(super) fn bytes(&self) -> usize {
        self.plain.bytes() + self.maps.bytes()
    }
}

/// Returns the services of a scope, and the aliases if units of its kind have them.
fn names_in(generation: &Generation, key: &WildcardKey) -> BTreeSet<ServiceName> {
    let mut names = BTreeSet::new();
    let mut add = |namespace: Option<&str>| {
        names.extend(generation.snapshot.services_in(namespace));
        if key.has_aliases() {
            names.extend(generation.snapshot.aliases_in(namespace));
        }
    };
    match &key.namespaces {
        None => add(None),
        Some(namespaces) => namespaces.iter().for_each(|namespace| add(Some(namespace))),
    }
    names
}
