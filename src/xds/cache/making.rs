//! Building of missing units, maps and routes. It happens without the lock that all streams share, and as blocking
//! work, so that the threads of the runtime can serve others.

use std::sync::Arc;

use super::ResourceCache;
use super::gathering::Seen;
use super::generation::Generation;
use super::snapshot::ChangeMask;
use super::touched::Touched;
use super::units::Stored;
use super::wildcard::RoutesKind;
use super::wildcard_set::WildcardSet;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::Resource;
use crate::tasks::in_place;
use crate::xds::client::Client;
use crate::xds::client_inputs::{ClientContext, InputRecorder};
use crate::xds::keys::{UnitKey, UnitKind, WildcardKey};
use crate::xds::locality::Locality;
use crate::xds::names::{ClusterName, ServiceName};
use crate::xds::resources::{self, BuildContext, Dependencies, Unit};

impl ResourceCache {
    /// Returns the unit for a client and builds it if necessary.
    pub(in crate::xds) fn unit_for(&self, client: &Client, key: &UnitKey) -> Arc<Unit> {
        let mut units = self.units.lock();
        let context = ClientContext::new(units.generation.snapshot.clone(), client);
        if let Some(found) = units.find(key, &context) {
            return found;
        }
        let generation = units.generation.clone();
        drop(units);
        self.make(&generation, key, &mut InputRecorder::new(&context)).0
    }

    /// Returns the unit for a client if it is cached.
    pub(in crate::xds) fn unit_known(&self, client: &Client, key: &UnitKey) -> Option<Arc<Unit>> {
        let mut units = self.units.lock();
        let context = ClientContext::new(units.generation.snapshot.clone(), client);
        units.find(key, &context)
    }

    /// Returns the unit for the client of `inputs` and records the inputs that it depends on.
    pub(super) fn unit(&self, generation: &Generation, key: &UnitKey, inputs: &mut InputRecorder<'_>) -> Arc<Unit> {
        if let Some(found) = self.units.lock().find_recording(key, inputs) {
            return found;
        }
        self.make(generation, key, inputs).0
    }

    /// Does the same as [`Self::unit`], and also returns the subjects that the unit was built from.
    fn unit_and_reads(
        &self,
        generation: &Generation,
        key: &UnitKey,
        inputs: &mut InputRecorder<'_>,
    ) -> (Arc<Unit>, Dependencies) {
        let mut units = self.units.lock();
        if let Some(found) = units.find_recording(key, inputs) {
            return (found, units.reads(key));
        }
        drop(units);
        self.make(generation, key, inputs)
    }

    fn make(
        &self,
        generation: &Generation,
        key: &UnitKey,
        inputs: &mut InputRecorder<'_>,
    ) -> (Arc<Unit>, Dependencies) {
        let (unit, used, reads) = in_place(|| {
            let own = InputRecorder::new(inputs.context());
            let mut ctx = BuildContext::new(
                &generation.snapshot,
                &generation.last_modified,
                &generation.retired,
                own,
                key.authority.clone(),
            );
            if key.kind == UnitKind::OwnEndpoints {
                let locality = resources::locality_of_client(&mut ctx, &key.name);
                let (own, reads) = ctx.finish();
                return self.at_locality(generation, key, locality, own, reads);
            }
            let unit = Arc::new(resources::unit(&mut ctx, key));
            let (own, reads) = ctx.finish();
            (unit, own, reads)
        });
        used.recorded().iter().for_each(|(input, value)| inputs.record(input, value));
        let stored = self.units.lock().store(generation.number, key, (used.recorded(), &reads), unit);
        let Stored { unit, is_outdated, garbage } = stored;
        drop(garbage);
        if is_outdated {
            self.publish(Touched::of_name(&key.name).ready().into());
        }
        (unit, reads)
    }

    /// Returns the endpoints of a service for callers in a locality, under the names that the clusters refer to.
    fn at_locality<'a>(
        &self,
        generation: &Generation,
        key: &UnitKey,
        locality: Option<Locality>,
        mut inputs: InputRecorder<'a>,
        mut reads: Dependencies,
    ) -> (Arc<Unit>, InputRecorder<'a>, Dependencies) {
        let mut add = |more: Dependencies| {
            for (name, mask) in more {
                let known: &mut ChangeMask = reads.entry(name).or_default();
                *known = known.with(mask);
            }
        };
        let of_kind = |kind| UnitKey { kind, ..key.clone() };
        let Some(locality) = locality else {
            let (unit, more) = self.unit_and_reads(generation, &of_kind(UnitKind::Endpoints(None)), &mut inputs);
            add(more);
            return (unit, inputs, reads);
        };
        let (near, more) = self.unit_and_reads(generation, &of_kind(UnitKind::Localities), &mut inputs);
        add(more);
        let nearest = near.localities.as_ref().map(|localities| localities.nearest(&locality));
        let (unit, more) = self.unit_and_reads(generation, &of_kind(UnitKind::Endpoints(nearest)), &mut inputs);
        add(more);
        let named = |resource: &Arc<Resource>| {
            let name = ClusterName::parse(&resource.name)?;
            let name = ClusterName { locality: Some(locality.clone()), ..name }.to_string();
            let is_its_own = *resource.name == *name;
            Some(if is_its_own { resource.clone() } else { Arc::new(resources::renamed(resource, &name)) })
        };
        let unit = Arc::new(Unit::of(unit.resources.iter().filter_map(named).collect()));
        (unit, inputs, reads)
    }

    /// Returns all resources of a kind that are visible to a client in its scope.
    pub(in crate::xds) fn all(&self, client: &Client, kind: UnitKind, dialect: Dialect) -> WildcardSet {
        let generation = self.units.lock().generation.clone();
        let key = generation.scope(client, (kind, dialect), client.namespaces.as_ref());
        self.seen(client, &key).0.gathered
    }

    /// Returns everything in a scope that is visible to a client, with the state it was built from.
    fn seen(&self, client: &Client, key: &WildcardKey) -> (Seen, Generation) {
        loop {
            let (gathering, holder) = self.units.lock().wildcards.open(key);
            let waited = gathering.try_lock();
            let mut held = waited.unwrap_or_else(|| in_place(|| gathering.lock()));
            let mut units = self.units.lock();
            let (generation, pending) = (units.generation.clone(), units.wildcards.take(key, &gathering));
            drop(units);
            let Some(pending) = pending else { continue };
            let build =
                |name: &ServiceName, inputs: &mut InputRecorder<'_>| self.unit(&generation, &key.unit(name), inputs);
            if pending.is_new || !pending.names.is_empty() {
                in_place(|| held.refresh(&generation, key, pending, &build));
            }
            // The inputs must come from the state of the map, not from an earlier one.
            let context = ClientContext::new(generation.snapshot.clone(), client);
            let seen = held.seen(InputRecorder::of_scope(&context), &build);
            let mut units = self.units.lock();
            units.wildcards.weigh(key, held.bytes());
            let garbage = units.make_room();
            drop((units, held, garbage));
            client.holds.hold(key, holder, seen.holder.clone());
            return (seen, generation);
        }
    }

    /// Returns the routes for proxies to everything visible to a client: in one namespace if one is given, else in its
    /// scope.
    pub(in crate::xds) fn outbound(&self, client: &Client, namespace: Option<&str>) -> Arc<Resource> {
        let generation = self.units.lock().generation.clone();
        let named: Option<Arc<[String]>> = namespace.map(|namespace| [namespace.to_owned()].into());
        let namespaces = named.as_ref().or(client.namespaces.as_ref());
        let key = generation.scope(client, (UnitKind::Host, client.dialect), namespaces);
        if namespace.is_some() && key.namespaces.as_ref().is_some_and(|there| there.is_empty()) {
            return Arc::new(resources::outbound(namespace, &[], None).finish(generation.last_membership_change(&key)));
        }
        let is_there = |own: &str| {
            let is_in_scope = |there: &Arc<[String]>| there.iter().any(|namespace| namespace == own);
            generation.snapshot.has_namespace(own) && key.namespaces.as_ref().is_none_or(is_in_scope)
        };
        let own_namespace = client.own_namespace().filter(|own| is_there(own)).map(Arc::from);
        let kind = RoutesKind { is_of_namespace: namespace.is_some(), own_namespace };
        let context = ClientContext::new(generation.snapshot.clone(), client);
        if let Some((routes, holder)) = self.units.lock().wildcards.routes(&key, &kind, &context) {
            client.holds.hold(&key, holder, None);
            return routes;
        }
        let (seen, generation) = self.seen(client, &key);
        let routes = in_place(|| {
            let hosts: Vec<_> = seen.gathered.hosts.values().filter_map(|unit| unit.host.as_ref()).collect();
            let index = hosts.iter().map(|host| host.index).fold(generation.last_membership_change(&key), u64::max);
            Arc::new(resources::outbound(namespace, &hosts, kind.own_namespace.as_deref()).finish(index))
        });
        let mut units = self.units.lock();
        let routes = units.wildcards.store_routes(&key, kind, (&seen.recorded, seen.touches), &routes);
        let garbage = units.make_room();
        drop((units, garbage));
        routes
    }

    pub(in crate::xds) fn has_service(&self, name: &ServiceName) -> bool {
        self.units.lock().generation.snapshot.has_service(name)
    }
}
