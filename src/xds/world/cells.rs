//! Units that were made, by what they are of, and who reads what.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::lingering::Lingering;
use super::scene::{Facets, Newest, Scene, is_pattern, subjects};
use super::wild::Wilds;
use crate::catalog::Change;
use crate::model::rule::Family;
use crate::model::rule::matching::ALL;
use crate::xds::build::{self, Reads, Site, Unit, UnitKey, UnitKind};
use crate::xds::client::Place;
use crate::xds::names::ServiceName;
use crate::xds::questions::{Answered, ClientAnswer, Question, Questions};

/// Units that are kept for each service and alias, and beside them: places of callers are for the clients to say.
const UNITS_PER_NAME: usize = 12;
const UNITS_BESIDE: usize = 20_000;
/// Places of callers for which the endpoints of one service are kept.
const PLACES_MAX: usize = 256;

/// All that is made of one scene.
pub(crate) struct Cells {
    pub(super) scene: Arc<Scene>,
    pub(super) newest: Arc<Newest>,
    pub(super) lingering: Arc<Lingering>,
    pub(super) wilds: Wilds,
    applied_index: u64,
    cells: HashMap<UnitKey, Cell>,
    /// Units that read something of a service.
    readers: HashMap<ServiceName, HashSet<UnitKey>>,
    /// Number of units made.
    #[cfg(test)]
    pub(crate) made: usize,
}

/// A unit for each of the answers that clients give.
#[derive(Default)]
struct Cell {
    units: Answered<Arc<Unit>>,
    reads: Reads,
}

impl Cells {
    pub(crate) fn new(scene: Scene, index: u64) -> Cells {
        Cells {
            scene: Arc::new(scene),
            newest: Arc::new(Newest::since(index)),
            lingering: Arc::default(),
            wilds: Wilds::default(),
            applied_index: index,
            cells: HashMap::new(),
            readers: HashMap::new(),
            #[cfg(test)]
            made: 0,
        }
    }

    pub(crate) fn scene(&self) -> &Arc<Scene> {
        &self.scene
    }

    pub(crate) fn applied_index(&self) -> u64 {
        self.applied_index
    }

    /// Time at which something that lingers has to go.
    pub(crate) fn forgets_at(&self) -> Option<Instant> {
        self.lingering.next_end()
    }

    /// The unit for who is asked; the questions that it depends on are noted.
    pub(crate) fn unit(&mut self, key: &UnitKey, questions: &mut Questions<'_>) -> Arc<Unit> {
        if let Some(found) = self.cells.get(key).and_then(|cell| cell.units.find(questions)) {
            return found.clone();
        }
        let (scene, newest, lingering) = (self.scene.clone(), self.newest.clone(), self.lingering.clone());
        let own = Questions::new(questions.witness());
        let mut site = Site::new(&scene, &newest, &lingering, own, key.authority.clone());
        let (unit, own, reads) = match key.kind {
            UnitKind::OwnEndpoints => {
                let place = build::place_of_client(&mut site, &key.name);
                let (own, reads) = site.finish();
                self.at_place(key, place, own, reads)
            }
            _ => {
                let unit = Arc::new(build::unit(&mut site, key));
                let (own, reads) = site.finish();
                self.count_made();
                (unit, own, reads)
            }
        };
        let asked = own.asked();
        asked.iter().for_each(|(question, answer)| questions.note(question, answer));
        if self.is_kept(key) {
            self.keep(key, &asked, reads, &unit);
        }
        unit
    }

    /// The endpoints of a service for callers of a place: the same unit as for who asks by their names.
    fn at_place<'a>(
        &mut self,
        key: &UnitKey,
        place: Option<Place>,
        mut questions: Questions<'a>,
        mut reads: Reads,
    ) -> (Arc<Unit>, Questions<'a>, Reads) {
        let named = UnitKey { kind: UnitKind::Endpoints(place), ..key.clone() };
        let unit = self.unit(&named, &mut questions);
        let read_by_it = self.cells.get(&named).into_iter().flat_map(|cell| &cell.reads);
        for (name, facets) in read_by_it {
            let known = reads.entry(name.clone()).or_default();
            *known = known.with(*facets);
        }
        (unit, questions, reads)
    }

    fn count_made(&mut self) {
        #[cfg(test)]
        {
            self.made += 1;
        }
    }

    /// A name that a client makes up is made anew each time.
    fn is_kept(&self, key: &UnitKey) -> bool {
        let is_inbound = matches!(key.kind, UnitKind::Inbound | UnitKind::InboundCluster(_));
        let is_there = is_inbound || self.scene.has_service(&key.name) || self.scene.alias(&key.name).is_some();
        let has_place = |key: &UnitKey| matches!(key.kind, UnitKind::Endpoints(Some(_)));
        let places = || self.readers.get(&key.name).into_iter().flatten().filter(|known| has_place(known)).count();
        is_there && (!has_place(key) || self.cells.contains_key(key) || places() < PLACES_MAX)
    }

    fn keep(&mut self, key: &UnitKey, asked: &[(Question, ClientAnswer)], reads: Reads, unit: &Arc<Unit>) {
        self.make_room();
        for name in reads.keys() {
            self.readers.entry(name.clone()).or_default().insert(key.clone());
        }
        let cell = self.cells.entry(key.clone()).or_default();
        cell.units.insert(asked, unit.clone());
        for (name, facets) in reads {
            let known = cell.reads.entry(name).or_default();
            *known = known.with(facets);
        }
    }

    /// Nothing that a client says makes more units than a limit.
    fn make_room(&mut self) {
        let names = self.scene.services.len() + self.scene.aliases.len();
        if self.cells.len() >= UNITS_PER_NAME * names + UNITS_BESIDE {
            self.cells = HashMap::new();
            self.readers = HashMap::new();
            self.wilds.restart();
        }
    }

    /// Goes on to another scene, which differs from this one by these changes; false if none of them is of anything
    /// here, and nothing that lingers has gone.
    pub(crate) fn advance(&mut self, mut scene: Scene, index: u64, changes: &[(u64, Change)], now: Instant) -> bool {
        self.applied_index = index;
        let mut touched: BTreeMap<ServiceName, Facets> = BTreeMap::new();
        let mut newest = Vec::new();
        for (index, change) in changes {
            for (facet, name) in subjects(change) {
                newest.push((*index, facet, name.clone()));
                if facet != Facets::MEMBERS {
                    let known = touched.entry(name).or_default();
                    *known = known.with(facet);
                }
            }
        }
        let other_sets = scene.inherit(&self.scene, &touched);
        let before = std::mem::replace(&mut self.scene, Arc::new(scene));
        let gone = Arc::make_mut(&mut self.lingering).end(now);
        if touched.is_empty() && gone.is_empty() {
            return false;
        }
        let notes = Arc::make_mut(&mut self.newest);
        newest.into_iter().for_each(|(index, facet, name)| notes.note(index, facet, name));
        self.let_linger(&before, &touched, other_sets, now);
        for name in gone {
            let known = touched.entry(name).or_default();
            *known = known.with(Facets::rules(Family::Routing));
        }
        self.forget(&touched);
        true
    }

    /// Sets of labels that nothing names any more stay for a while.
    fn let_linger(
        &mut self,
        before: &Scene,
        touched: &BTreeMap<ServiceName, Facets>,
        mut services: BTreeSet<ServiceName>,
        now: Instant,
    ) {
        let by_rules = Facets::rules(Family::Routing);
        for (name, facets) in touched.iter().filter(|(_, facets)| facets.has_any(by_rules.with(Facets::INSTANCES))) {
            if !is_pattern(name) {
                services.insert(name.clone());
                // Values of labels may be those of instances of another service.
                let readers = self.readers.get(name).into_iter().flatten();
                services.extend(readers.filter(|key| key.kind == UnitKind::Clusters).map(|key| key.name.clone()));
            } else if facets.has_any(by_rules) {
                let namespace = (*name.namespace != *ALL).then_some(&*name.namespace);
                services.extend(before.services_in(namespace).filter(|service| name.covers(service)));
            }
        }
        let lingering = Arc::make_mut(&mut self.lingering);
        for service in services {
            lingering.compare(&service, before, &self.scene, now);
        }
    }

    /// Drops what was made from something that has changed.
    fn forget(&mut self, touched: &BTreeMap<ServiceName, Facets>) {
        for (name, _) in touched.iter().filter(|(_, facets)| facets.has_any(Facets::SERVICE)) {
            self.wilds.touch(None, name);
        }
        for key in self.stale(touched) {
            self.wilds.touch(Some(&key.kind), &key.name);
            self.drop_cell(&key);
        }
    }

    fn stale(&self, touched: &BTreeMap<ServiceName, Facets>) -> HashSet<UnitKey> {
        let mut stale = HashSet::new();
        for (name, facets) in touched {
            let is_stale = |key: &&UnitKey, of: &ServiceName| {
                let reads = self.cells.get(*key).and_then(|cell| cell.reads.get(of));
                reads.is_some_and(|reads| reads.has_any(*facets))
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

    fn drop_cell(&mut self, key: &UnitKey) {
        let Some(cell) = self.cells.remove(key) else { return };
        for name in cell.reads.keys() {
            if let Some(keys) = self.readers.get_mut(name) {
                keys.remove(key);
                if keys.is_empty() {
                    self.readers.remove(name);
                }
            }
        }
    }
}
