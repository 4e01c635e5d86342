//! The map of a scope: of a client that says nothing about itself, and of the others by their answers.

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

/// Changes after which a map that nobody asked for meanwhile is made anew.
const ROUNDS_MAX: usize = 64;
/// Services of one change that are remembered so.
const ROUND_NAMES_MAX: usize = 256;
/// Maps that are kept though no stream uses them.
const SPARE_MAPS: usize = 8;
/// Services that stop asking before what they asked is forgotten.
const STOPPED_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Gathering {
    /// Resources of a client that says nothing about itself.
    plain: WildcardSet,
    /// Services whose units asked something, with those of that client.
    asking: BTreeMap<ServiceName, Arc<Unit>>, // bound: xds-made
    maps: VariantTree<Map>,
    maps_swept: usize,
    /// Services that asked something and do not any more, since the maps began.
    stopped: usize,
    /// Counts the changes.
    round: u64,
    /// The last changes, each with its services.
    rounds: VecDeque<(u64, BTreeSet<ServiceName>)>, // bound: xds-made
    /// Number of times that the scope was touched before.
    touches: u64,
}

/// The map of those clients that give the same answers.
struct Map {
    gathered: WildcardSet,
    round: u64,
    /// Held by the streams that use it.
    holder: Arc<MapShare>,
}

/// All that a client sees of a scope.
pub(super) struct Seen {
    pub(super) gathered: WildcardSet,
    /// None for the map of a client that says nothing about itself.
    pub(super) holder: Option<Arc<MapShare>>,
    pub(super) touches: u64,
    /// Questions that it depends on.
    pub(super) asked: Vec<(ClientInput, InputValue)>,
}

impl Gathering {
    /// Takes in what is pending.
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

    /// All that the client sees who is asked.
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

    /// True if all changes since one are known.
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

/// The services of a scope, and aliases if units of the kind have them.
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
