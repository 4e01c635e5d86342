//! Resource map of a scope: one for a client without properties, and variants for other clients by their inputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::ResourceCache;
use super::units::Stand;
use super::wildcard::{ENTRY_BYTES, PendingServices, WildcardKey, WildcardSet};
use crate::xds::client::MapShare;
use crate::xds::client_inputs::{ClientContext, ClientInput, InputRecorder, InputValue};
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

#[derive(Default)]
pub(super) struct Gathering {
    /// Resources of a client without properties.
    plain: WildcardSet,
    /// Services whose units read client inputs, with their units for a client without properties.
    asking: BTreeMap<ServiceName, Arc<Unit>>, // bound: xds-made
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
    pub(super) asked: Vec<(ClientInput, InputValue)>,
}

impl Gathering {
    /// Applies pending changes.
    pub(super) fn refresh(
        &mut self,
        cache: &ResourceCache,
        stand: &Stand,
        key: &WildcardKey,
        pending: PendingServices,
    ) {
        self.touches = pending.touches;
        let mut names = pending.names;
        if pending.is_new {
            names.extend(names_in(stand, key));
        }
        if names.is_empty() {
            return;
        }
        self.round += 1;
        let client = key.plain_client();
        let context = ClientContext::new(stand.snapshot.clone(), &client);
        for name in &names {
            let mut questions = InputRecorder::of_scope(&context);
            let unit = cache.unit(stand, &key.unit(name), &mut questions);
            self.plain.put(name, &unit);
            if !questions.asked().is_empty() {
                self.asking.insert(name.clone(), unit);
            } else if self.asking.remove(name).is_some() {
                self.stopped += 1;
            }
        }
        if self.asking.is_empty() || self.stopped > STOPPED_MAX {
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

    /// Returns everything that is visible to the client of `questions`.
    pub(super) fn seen(
        &mut self,
        cache: &ResourceCache,
        stand: &Stand,
        key: &WildcardKey,
        mut questions: InputRecorder<'_>,
    ) -> Seen {
        let touches = self.touches;
        if self.asking.is_empty() {
            return Seen { gathered: self.plain.clone(), holder: None, touches, asked: Vec::new() };
        }
        let questions = &mut questions;
        let found = self.maps.find_noting(questions, self.round);
        let known = found.map(|map| (map.gathered.clone(), map.round, map.holder.clone()));
        let number_asked = questions.asked().len();
        let mut map = match known {
            Some((gathered, round, holder)) if self.remembers(round) => {
                if round == self.round {
                    let asked = questions.asked().to_vec();
                    return Seen { gathered, holder: Some(holder), touches, asked };
                }
                let mut map = Map { gathered, round: self.round, holder };
                for name in self.rounds.iter().filter(|(one, _)| *one > round).flat_map(|(_, names)| names) {
                    map.gathered.put(name, &cache.unit(stand, &key.unit(name), questions));
                }
                map
            }
            known => {
                let mut gathered = self.plain.clone();
                let mut bytes = 2 * ENTRY_BYTES * self.asking.len();
                for (name, plain) in &self.asking {
                    let unit = cache.unit(stand, &key.unit(name), questions);
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
        let seen = Seen { gathered, holder, touches, asked: questions.asked().to_vec() };
        if questions.asked().len() == number_asked
            && let Some(known) = self.maps.find_asked(questions.asked(), self.round)
        {
            std::mem::swap(known, &mut map);
        } else {
            self.keep(questions, map);
        }
        seen
    }

    /// Reports whether all changes after `round` are remembered.
    fn remembers(&self, round: u64) -> bool {
        round == self.round || self.rounds.front().is_some_and(|(first, _)| *first <= round + 1)
    }

    fn keep(&mut self, questions: &InputRecorder<'_>, map: Map) {
        if self.maps.len() >= (2 * self.maps_swept).max(SPARE_MAPS) {
            self.maps.retain(|map, _| Arc::strong_count(&map.holder) > 1);
            self.maps_swept = self.maps.len();
        }
        let bytes = 2 * ENTRY_BYTES * self.asking.len();
        self.maps.insert(questions.asked(), map, bytes, self.round);
    }

    pub(super) fn bytes(&self) -> usize {
        self.plain.bytes() + self.maps.bytes()
    }
}

/// Returns the services of a scope, and the aliases if units of its kind have them.
fn names_in(stand: &Stand, key: &WildcardKey) -> BTreeSet<ServiceName> {
    let mut names = BTreeSet::new();
    let mut add = |namespace: Option<&str>| {
        names.extend(stand.snapshot.services_in(namespace));
        if key.has_aliases() {
            names.extend(stand.snapshot.aliases_in(namespace));
        }
    };
    match &key.namespaces {
        None => add(None),
        Some(namespaces) => namespaces.iter().for_each(|namespace| add(Some(namespace))),
    }
    names
}
