//! Building of missing units, maps and routes. It happens without the lock that all streams share, and as blocking
//! work, so that the threads of the runtime can serve others.

use std::sync::Arc;

use super::ResourceCache;
use super::gathering::Seen;
use super::snapshot::ChangeMask;
use super::touched::Touched;
use super::units::{Kept, Stand};
use super::wildcard::{RoutesKind, WildcardKey, WildcardSet};
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::Resource;
use crate::model::rule::matching::ALL;
use crate::raft::at_length;
use crate::xds::client::{Client, Place};
use crate::xds::client_inputs::{ClientContext, InputRecorder};
use crate::xds::names::{ClusterName, ServiceName};
use crate::xds::resources::{self, BuildContext, Dependencies, Unit, UnitKey, UnitKind};

impl ResourceCache {
    /// Returns the unit for a client and builds it if necessary.
    pub(in crate::xds) fn unit_for(&self, client: &Client, key: &UnitKey) -> Arc<Unit> {
        let mut cells = self.cells.lock();
        let context = ClientContext::new(cells.stand.snapshot.clone(), client);
        if let Some(found) = cells.find(key, &context) {
            return found;
        }
        let stand = cells.stand.clone();
        drop(cells);
        self.make(&stand, key, &mut InputRecorder::new(&context)).0
    }

    /// Returns the unit for a client if it is cached.
    pub(in crate::xds) fn unit_known(&self, client: &Client, key: &UnitKey) -> Option<Arc<Unit>> {
        let mut cells = self.cells.lock();
        let context = ClientContext::new(cells.stand.snapshot.clone(), client);
        cells.find(key, &context)
    }

    /// Returns the unit for the client of `questions` and records the inputs that it depends on.
    pub(super) fn unit(&self, stand: &Stand, key: &UnitKey, questions: &mut InputRecorder<'_>) -> Arc<Unit> {
        if let Some(found) = self.cells.lock().find_noting(key, questions) {
            return found;
        }
        self.make(stand, key, questions).0
    }

    /// Does the same as [`Self::unit`], and also returns the subjects that the unit was built from.
    fn unit_and_reads(
        &self,
        stand: &Stand,
        key: &UnitKey,
        questions: &mut InputRecorder<'_>,
    ) -> (Arc<Unit>, Dependencies) {
        let mut cells = self.cells.lock();
        if let Some(found) = cells.find_noting(key, questions) {
            return (found, cells.reads(key));
        }
        drop(cells);
        self.make(stand, key, questions)
    }

    fn make(&self, stand: &Stand, key: &UnitKey, questions: &mut InputRecorder<'_>) -> (Arc<Unit>, Dependencies) {
        let (unit, asked, reads) = at_length(|| {
            let own = InputRecorder::new(questions.context());
            let mut ctx = BuildContext::new(&stand.snapshot, &stand.newest, &stand.retired, own, key.authority.clone());
            if key.kind == UnitKind::OwnEndpoints {
                let place = resources::place_of_client(&mut ctx, &key.name);
                let (own, reads) = ctx.finish();
                return self.at_place(stand, key, place, own, reads);
            }
            let unit = Arc::new(resources::unit(&mut ctx, key));
            let (own, reads) = ctx.finish();
            (unit, own, reads)
        });
        asked.asked().iter().for_each(|(question, answer)| questions.note(question, answer));
        let kept = self.cells.lock().keep(stand.number, key, (asked.asked(), &reads), unit);
        let Kept { unit, is_outdated, garbage } = kept;
        drop(garbage);
        if is_outdated {
            self.tell(Touched::of_name(&key.name).ready().into());
        }
        (unit, reads)
    }

    /// Returns the endpoints of a service for callers in a locality, under the names that the clusters refer to.
    fn at_place<'a>(
        &self,
        stand: &Stand,
        key: &UnitKey,
        place: Option<Place>,
        mut questions: InputRecorder<'a>,
        mut reads: Dependencies,
    ) -> (Arc<Unit>, InputRecorder<'a>, Dependencies) {
        let mut add = |more: Dependencies| {
            for (name, facets) in more {
                let known: &mut ChangeMask = reads.entry(name).or_default();
                *known = known.with(facets);
            }
        };
        let of_kind = |kind| UnitKey { kind, ..key.clone() };
        let Some(place) = place else {
            let (unit, more) = self.unit_and_reads(stand, &of_kind(UnitKind::Endpoints(None)), &mut questions);
            add(more);
            return (unit, questions, reads);
        };
        let (near, more) = self.unit_and_reads(stand, &of_kind(UnitKind::Places), &mut questions);
        add(more);
        let nearest = near.places.as_ref().map(|places| places.nearest(&place));
        let (unit, more) = self.unit_and_reads(stand, &of_kind(UnitKind::Endpoints(nearest)), &mut questions);
        add(more);
        let named = |resource: &Arc<Resource>| {
            let name = ClusterName::parse(&resource.name)?;
            let name = ClusterName { place: Some(place.clone()), ..name }.to_string();
            let is_its_own = *resource.name == *name;
            Some(if is_its_own { resource.clone() } else { Arc::new(resources::renamed(resource, &name)) })
        };
        let unit = Arc::new(Unit::of(unit.resources.iter().filter_map(named).collect()));
        (unit, questions, reads)
    }

    /// Returns all resources of a kind that are visible to a client in its scope.
    pub(in crate::xds) fn all(&self, client: &Client, kind: UnitKind, dialect: Dialect) -> WildcardSet {
        let stand = self.cells.lock().stand.clone();
        let key = stand.scope(client, (kind, dialect), client.namespaces.as_ref());
        self.seen(client, &key).0.gathered
    }

    /// Returns everything in a scope that is visible to a client, with the state it was built from.
    fn seen(&self, client: &Client, key: &WildcardKey) -> (Seen, Stand) {
        loop {
            let (gathering, holder) = self.cells.lock().wilds.open(key);
            let waited = gathering.try_lock();
            let mut held = waited.unwrap_or_else(|| at_length(|| gathering.lock()));
            let mut cells = self.cells.lock();
            let (stand, pending) = (cells.stand.clone(), cells.wilds.take(key, &gathering));
            drop(cells);
            let Some(pending) = pending else { continue };
            if pending.is_new || !pending.names.is_empty() {
                at_length(|| held.refresh(self, &stand, key, pending));
            }
            // The inputs must come from the state of the map, not from an earlier one.
            let context = ClientContext::new(stand.snapshot.clone(), client);
            let seen = held.seen(self, &stand, key, InputRecorder::of_scope(&context));
            let mut cells = self.cells.lock();
            cells.wilds.weigh(key, held.bytes());
            let garbage = cells.make_room();
            drop((cells, held, garbage));
            client.holds.hold(key, holder, seen.holder.clone());
            return (seen, stand);
        }
    }

    /// Returns the routes for proxies to everything visible to a client: in one namespace if one is given, else in its
    /// scope.
    pub(in crate::xds) fn outbound(&self, client: &Client, namespace: Option<&str>) -> Arc<Resource> {
        let stand = self.cells.lock().stand.clone();
        let named: Option<Arc<[String]>> = namespace.map(|namespace| [namespace.to_owned()].into());
        let asked = named.as_ref().or(client.namespaces.as_ref());
        let key = stand.scope(client, (UnitKind::Host, client.dialect), asked);
        if namespace.is_some() && key.namespaces.as_ref().is_some_and(|there| there.is_empty()) {
            return Arc::new(resources::outbound(namespace, &[], None).finish(stand.newest_member(&key)));
        }
        let is_there = |own: &str| {
            let is_in_scope = |there: &Arc<[String]>| there.iter().any(|namespace| namespace == own);
            stand.snapshot.has_namespace(own) && key.namespaces.as_ref().is_none_or(is_in_scope)
        };
        let own_namespace = client.own_namespace().filter(|own| is_there(own)).map(Arc::from);
        let kind = RoutesKind { is_of_namespace: namespace.is_some(), own_namespace };
        let context = ClientContext::new(stand.snapshot.clone(), client);
        if let Some((routes, holder)) = self.cells.lock().wilds.routes(&key, &kind, &context) {
            client.holds.hold(&key, holder, None);
            return routes;
        }
        let (seen, stand) = self.seen(client, &key);
        let routes = at_length(|| {
            let hosts: Vec<_> = seen.gathered.hosts.values().filter_map(|unit| unit.host.as_ref()).collect();
            let index = hosts.iter().map(|host| host.index).fold(stand.newest_member(&key), u64::max);
            Arc::new(resources::outbound(namespace, &hosts, kind.own_namespace.as_deref()).finish(index))
        });
        let mut cells = self.cells.lock();
        let routes = cells.wilds.keep_routes(&key, kind, (&seen.asked, seen.touches), &routes);
        let garbage = cells.make_room();
        drop((cells, garbage));
        routes
    }

    pub(in crate::xds) fn has_service(&self, name: &ServiceName) -> bool {
        self.cells.lock().stand.snapshot.has_service(name)
    }
}

impl Stand {
    /// Returns the scope of a client: those of its namespaces that exist.
    fn scope(
        &self,
        client: &Client,
        (kind, dialect): (UnitKind, Dialect),
        namespaces: Option<&Arc<[String]>>,
    ) -> WildcardKey {
        let is_there = |namespace: &String| {
            // An emptied namespace counts, because its emptiness is a change.
            self.snapshot.has_namespace(namespace)
                || self.newest.has(ChangeMask::MEMBERS, &ServiceName::new(namespace, ALL))
        };
        let namespaces = namespaces.map(|named| match named.iter().all(is_there) {
            true => named.clone(),
            false => named.iter().filter(|namespace| is_there(namespace)).cloned().collect(),
        });
        WildcardKey { kind, dialect, namespaces, read_scope: client.read_scope.clone() }
    }

    /// Returns the log index at which a service was last added to or removed from the scope.
    fn newest_member(&self, key: &WildcardKey) -> u64 {
        let newest = |namespace: &str| self.newest.of(&ServiceName::new(namespace, ALL), ChangeMask::MEMBERS);
        match &key.namespaces {
            None => newest(ALL),
            Some(namespaces) => namespaces.iter().map(|namespace| newest(namespace)).max().unwrap_or_default(),
        }
    }
}
