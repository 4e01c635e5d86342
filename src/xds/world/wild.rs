//! Wildcards: all resources of one kind of some namespaces.
//!
//! For each scope there is one map, of a client that says nothing about itself, which changes by what has changed. Of
//! other clients only the services are looked at whose units asked something, and whoever gives the same answers shares
//! the map. All maps share what they have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::cells::Cells;
use super::scene::Facets;
use crate::model::grant::ReadScope;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, Resources};
use crate::model::rule::matching::ALL;
use crate::xds::build::{self, Unit, UnitKey, UnitKind};
use crate::xds::client::Client;
use crate::xds::names::ServiceName;
use crate::xds::questions::{Answered, Question, Questions, Witness};

/// Scopes that are kept; the one that was not used for longest goes first.
const WILDS_MAX: usize = 256;

/// A scope, and the kind of what is in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WildKey {
    pub(crate) kind: UnitKind,
    pub(crate) dialect: Dialect,
    /// None for all.
    pub(crate) namespaces: Option<Arc<[String]>>,
    pub(crate) read_scope: ReadScope,
}

/// All that units of one kind consist of.
#[derive(Clone, Default)]
pub(crate) struct Gathered {
    pub(crate) resources: Resources,
    /// Units that have a virtual host.
    pub(crate) hosts: OrdMap<ServiceName, Arc<Unit>>,
}

#[derive(Default)]
pub(super) struct Wilds {
    kept: Vec<Wild>,
    uses: u64,
    /// Number of times that all units went.
    epoch: u64,
}

struct Wild {
    key: WildKey,
    epoch: u64,
    used: u64,
    /// Of a client that says nothing about itself.
    plain: Gathered,
    /// Services whose units asked something, with those of that client.
    asking: BTreeMap<ServiceName, Arc<Unit>>,
    /// Services that are to be looked at again.
    pending: BTreeSet<ServiceName>,
    variants: Answered<Gathered>,
    /// The virtual hosts put together, as routes of the scope and under the name of its namespace.
    outbound: Answered<Arc<Resource>>,
    outbound_of_namespace: Answered<Arc<Resource>>,
}

impl Wild {
    /// Routes under the name of the namespace, or of the scope as a whole.
    fn outbound(&mut self, is_of_namespace: bool) -> &mut Answered<Arc<Resource>> {
        if is_of_namespace { &mut self.outbound_of_namespace } else { &mut self.outbound }
    }
}

impl WildKey {
    fn has(&self, kind: Option<&UnitKind>, name: &ServiceName) -> bool {
        let has_namespace = || match &self.namespaces {
            None => true,
            Some(namespaces) => namespaces.iter().any(|namespace| **namespace == *name.namespace),
        };
        kind.is_none_or(|kind| *kind == self.kind) && has_namespace()
    }

    fn unit(&self, name: &ServiceName) -> UnitKey {
        UnitKey { kind: self.kind.clone(), dialect: self.dialect, name: name.clone(), authority: None }
    }

    /// True for units that aliases have as well.
    fn has_aliases(&self) -> bool {
        matches!(self.kind, UnitKind::Host | UnitKind::Listener)
    }

    /// A client that says nothing about itself.
    fn plain_client(&self) -> Client {
        Client {
            dialect: self.dialect,
            node_id: String::new(),
            agent: String::new(),
            address: None,
            labels: Arc::default(),
            caller: None,
            place: Default::default(),
            namespaces: self.namespaces.clone(),
            read_scope: self.read_scope.clone(),
        }
    }
}

impl Gathered {
    /// Puts a unit in the place of the one of that name.
    fn put(&mut self, name: &ServiceName, unit: &Arc<Unit>) {
        self.remove_resources(&name.to_string());
        for resource in &unit.resources {
            self.resources.insert(resource.name.clone(), resource.clone());
        }
        match &unit.host {
            Some(_) => drop(self.hosts.insert(name.clone(), unit.clone())),
            None => drop(self.hosts.remove(name)),
        }
    }

    /// Those of this name, and those of sets of labels.
    fn remove_resources(&mut self, name: &str) {
        self.resources.remove(name);
        let of_sets = format!("{name}|");
        let behind = self.resources.range::<_, str>((Bound::Included(&*of_sets), Bound::Unbounded));
        let names: Vec<_> =
            behind.map(|(name, _)| name).take_while(|name| name.starts_with(&of_sets)).cloned().collect();
        for name in names {
            self.resources.remove(&name);
        }
    }
}

impl Wilds {
    /// A unit is stale, or a service came or went.
    pub(super) fn touch(&mut self, kind: Option<&UnitKind>, name: &ServiceName) {
        for wild in self.kept.iter_mut().filter(|wild| wild.key.has(kind, name)) {
            wild.pending.insert(name.clone());
        }
    }

    /// Takes out the one of a scope.
    fn take(&mut self, key: &WildKey) -> Option<Wild> {
        self.uses += 1;
        let at = self.kept.iter().position(|wild| wild.key == *key)?;
        Some(Wild { used: self.uses, ..self.kept.swap_remove(at) })
    }

    /// Begins anew, as the units are gone by which they would be touched.
    pub(super) fn restart(&mut self) {
        self.kept.clear();
        self.epoch += 1;
    }

    fn put_back(&mut self, wild: Wild) {
        if wild.epoch != self.epoch {
            return;
        }
        if self.kept.len() >= WILDS_MAX {
            let oldest = self.kept.iter().enumerate().min_by_key(|(_, wild)| wild.used).map(|(at, _)| at);
            oldest.into_iter().for_each(|at| drop(self.kept.swap_remove(at)));
        }
        self.kept.push(wild);
    }
}

impl Cells {
    /// All that a client sees in a scope; the questions that it depends on are noted.
    pub(crate) fn all(&mut self, key: &WildKey, questions: &mut Questions<'_>) -> Gathered {
        let mut wild = self.fresh(key);
        let gathered = self.variant(&mut wild, questions);
        self.wilds.put_back(wild);
        gathered
    }

    /// The routes for proxies to all that a client sees in a scope, under the name of the namespace if one is given.
    pub(crate) fn outbound(
        &mut self,
        key: &WildKey,
        namespace: Option<&str>,
        questions: &mut Questions<'_>,
    ) -> Arc<Resource> {
        let mut wild = self.fresh(key);
        let mut own = Questions::new(questions.witness());
        let known = wild.outbound(namespace.is_some()).find(&mut own).cloned();
        let resource = known.unwrap_or_else(|| {
            let mut own = Questions::new(questions.witness());
            let gathered = self.variant(&mut wild, &mut own);
            let own_namespace = own.own_namespace();
            let hosts: Vec<_> = gathered.hosts.values().filter_map(|unit| unit.host.as_ref()).collect();
            let index = hosts.iter().map(|host| host.index).fold(self.newest_member(key), u64::max);
            let draft = build::outbound(namespace, &hosts, own_namespace.as_deref());
            let resource = Arc::new(draft.finish(index));
            wild.outbound(namespace.is_some()).insert(&own.asked(), resource.clone());
            resource
        });
        self.wilds.put_back(wild);
        resource
    }

    /// Index at which a service of the scope came or went last.
    fn newest_member(&self, key: &WildKey) -> u64 {
        let newest = |namespace: &str| self.newest.of(&ServiceName::new(namespace, ALL), Facets::MEMBERS);
        match &key.namespaces {
            None => newest(ALL),
            Some(namespaces) => namespaces.iter().map(|namespace| newest(namespace)).max().unwrap_or_default(),
        }
    }

    /// The one of a scope, with all that has changed.
    fn fresh(&mut self, key: &WildKey) -> Wild {
        let mut wild = self.wilds.take(key).unwrap_or_else(|| self.new_wild(key));
        self.refresh(&mut wild);
        wild
    }

    fn new_wild(&self, key: &WildKey) -> Wild {
        let mut pending = BTreeSet::new();
        let mut add = |namespace: Option<&str>| {
            pending.extend(self.scene.services_in(namespace));
            if key.has_aliases() {
                pending.extend(self.scene.aliases_in(namespace));
            }
        };
        match &key.namespaces {
            None => add(None),
            Some(namespaces) => namespaces.iter().for_each(|namespace| add(Some(namespace))),
        }
        Wild {
            key: key.clone(),
            epoch: self.wilds.epoch,
            used: 0,
            plain: Gathered::default(),
            asking: BTreeMap::new(),
            pending,
            variants: Answered::default(),
            outbound: Answered::default(),
            outbound_of_namespace: Answered::default(),
        }
    }

    fn refresh(&mut self, wild: &mut Wild) {
        let pending = std::mem::take(&mut wild.pending);
        if pending.is_empty() {
            return;
        }
        wild.variants.clear();
        wild.outbound.clear();
        wild.outbound_of_namespace.clear();
        let (scene, client) = (self.scene().clone(), wild.key.plain_client());
        let witness = Witness::new(&scene, &client);
        for name in pending {
            let mut questions = Questions::new(&witness);
            let unit = self.unit(&wild.key.unit(&name), &mut questions);
            wild.plain.put(&name, &unit);
            // All clients of a scope see the same.
            match questions.asked().iter().any(|(question, _)| !matches!(question, Question::Sees(_))) {
                true => drop(wild.asking.insert(name, unit)),
                false => drop(wild.asking.remove(&name)),
            }
        }
    }

    fn variant(&mut self, wild: &mut Wild, questions: &mut Questions<'_>) -> Gathered {
        if let Some(found) = wild.variants.find(questions) {
            return found.clone();
        }
        let mut gathered = wild.plain.clone();
        let mut own = Questions::new(questions.witness());
        for (name, plain) in &wild.asking {
            let unit = self.unit(&wild.key.unit(name), &mut own);
            if !Arc::ptr_eq(&unit, plain) {
                gathered.put(name, &unit);
            }
        }
        let asked = own.asked();
        asked.iter().for_each(|(question, answer)| questions.note(question, answer));
        wild.variants.insert(&asked, gathered.clone());
        gathered
    }
}
