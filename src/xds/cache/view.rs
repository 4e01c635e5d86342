//! View of the resource cache for one client.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::{ResourceCache, Touched};
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, ResourceType, Resources};
use crate::reads::catch_up::{CATCH_UP_LIMIT, Reached, reach};
use crate::tasks::in_place;
use crate::xds::client::Client;
use crate::xds::keys::{UnitKey, UnitKind};
use crate::xds::names::{self, ClusterName, Federated, ProxyRoutes, ServiceName};
use crate::xds::resources::{self, Draft};
use crate::xds::{Source, View};

/// Dialect in which endpoints are built; they are equal in both.
const OF_EVERYBODY: Dialect = Dialect::Grpc;

/// Resources for one client. Changes between two calls are visible in the second one.
pub struct CacheView<'a> {
    cache: &'a ResourceCache,
    client: &'a Client,
    applied_index: u64,
}

impl<'a> CacheView<'a> {
    fn new(cache: &'a ResourceCache, client: &'a Client) -> Self {
        let applied_index = cache.known_index();
        CacheView { cache, client, applied_index }
    }

    fn of_unit(
        &self,
        kind: UnitKind,
        name: ServiceName,
        authority: Option<&Arc<str>>,
        requested: &str,
    ) -> Option<Arc<Resource>> {
        let key = UnitKey { kind, dialect: self.client.dialect, name, authority: authority.cloned() };
        self.cache.unit_for(self.client, &key).named(requested).cloned()
    }

    /// Returns all resources of a kind, of the services that the client's wildcard covers.
    fn gathered(&self, kind: UnitKind, dialect: Dialect) -> Resources {
        self.cache.all(self.client, kind, dialect).resources
    }

    fn cluster(&self, requested: &str, plain: &str, authority: Option<&Arc<str>>) -> Option<Arc<Resource>> {
        if let Some(inbound) = self.inbound_cluster().filter(|inbound| *inbound.name == *requested) {
            return Some(inbound);
        }
        let ClusterName { service, locality, .. } = ClusterName::parse(plain)?;
        locality.is_none().then(|| self.of_unit(UnitKind::Clusters, service, authority, requested))?
    }

    fn endpoints(&self, requested: &str, plain: &str, authority: Option<&Arc<str>>) -> Option<Arc<Resource>> {
        let mut name = ClusterName::parse(plain)?;
        let unit = |kind| {
            let key =
                UnitKey { kind, dialect: OF_EVERYBODY, name: name.service.clone(), authority: authority.cloned() };
            self.cache.unit_for(self.client, &key)
        };
        let Some(locality) = &name.locality else { return unit(UnitKind::Endpoints(None)).named(requested).cloned() };
        // Any locality is mapped to one of the few that make a difference.
        let nearest = unit(UnitKind::Localities).localities.as_ref().map(|localities| localities.nearest(locality));
        let unit = unit(UnitKind::Endpoints(nearest.clone()));
        name.locality = nearest;
        let name = name.to_string();
        let name = authority.map_or(name.clone(), |one| names::federated(one, ResourceType::Endpoints, &name));
        unit.named(&name).map(|found| under(found, requested))
    }

    /// Returns a resource that exists for proxies only.
    fn of_proxy(&self, kind: ResourceType, requested: &str) -> Option<Arc<Resource>> {
        if kind == ResourceType::Listener {
            return self.proxy_listeners().remove(requested);
        }
        match ProxyRoutes::parse(requested)? {
            ProxyRoutes::Outbound(None) => Some(self.outbound(None)),
            ProxyRoutes::Outbound(Some(namespace)) => {
                self.client.read_scope.sees_namespace(&namespace).then(|| self.outbound(Some(&namespace)))
            }
            ProxyRoutes::Inbound(service) => self.inbound_routes(service, requested),
        }
    }

    fn outbound(&self, namespace: Option<&str>) -> Arc<Resource> {
        self.cache.outbound(self.client, namespace)
    }

    /// Returns the service next to this proxy, if it has one and may see it.
    fn own_service(&self) -> Option<ServiceName> {
        let caller = self.client.caller.as_ref()?;
        self.client.read_scope.sees(&caller.namespace, &caller.service).then(|| ServiceName::from(caller))
    }

    fn inbound_routes(&self, service: ServiceName, requested: &str) -> Option<Arc<Resource>> {
        let is_own = self.own_service().is_some_and(|own| own == service);
        let is_there = is_own || self.cache.has_service(&service);
        is_there.then(|| self.of_unit(UnitKind::Inbound, service, None, requested))?
    }

    fn inbound_cluster(&self) -> Option<Arc<Resource>> {
        let port = self.port("application_port").filter(|_| self.client.dialect == Dialect::Envoy)?;
        let service = self.own_service()?;
        let name = names::inbound(&service);
        self.of_unit(UnitKind::InboundCluster(port), service, None, &name)
    }

    fn proxy_listeners(&self) -> Resources {
        let is_gateway = self.client.labels.get("role").is_some_and(|role| role == "gateway");
        let outbound = self.port("outbound_port").map(|port| resources::outbound_listener(port, is_gateway));
        let inbound =
            self.port("inbound_port").zip(self.own_service()).filter(|_| self.port("application_port").is_some());
        let inbound = inbound.map(|(port, service)| resources::inbound_listener(port, names::inbound(&service)));
        let made = |draft: Draft| {
            let resource = draft.finish(0);
            (resource.name.clone(), Arc::new(resource))
        };
        [outbound, inbound].into_iter().flatten().map(made).collect()
    }

    fn port(&self, label: &str) -> Option<u16> {
        self.client.labels.get(label)?.trim().parse().ok().filter(|port| *port > 0)
    }

    fn all_clusters(&self) -> Resources {
        let mut all = self.gathered(UnitKind::Clusters, self.client.dialect);
        if let Some(inbound) = self.inbound_cluster() {
            all.insert(inbound.name.clone(), inbound);
        }
        all
    }

    fn all_proxy_routes(&self) -> Resources {
        let own =
            self.own_service().and_then(|service| self.inbound_routes(service.clone(), &names::inbound(&service)));
        [Some(self.outbound(None)), own].into_iter().flatten().map(|routes| (routes.name.clone(), routes)).collect()
    }

    /// Returns a resource by its full name; `plain` is the name without authority and type.
    fn named(
        &self,
        kind: ResourceType,
        name: &str,
        plain: &str,
        authority: Option<&Arc<str>>,
    ) -> Option<Arc<Resource>> {
        let of_service = |unit| self.of_unit(unit, ServiceName::parse(plain)?, authority, name);
        match (self.client.dialect, kind) {
            (_, ResourceType::Cluster) => self.cluster(name, plain, authority),
            (_, ResourceType::Endpoints) => self.endpoints(name, plain, authority),
            (Dialect::Grpc, ResourceType::Listener) => {
                of_service(UnitKind::Listener).or_else(|| server_listener(name, plain))
            }
            (Dialect::Grpc, ResourceType::Route) => of_service(UnitKind::Routes),
            (Dialect::Envoy, ResourceType::Listener | ResourceType::Route) => self.of_proxy(kind, name),
        }
    }
}

impl View for CacheView<'_> {
    fn applied_index(&self) -> u64 {
        self.applied_index
    }

    fn all(&self, kind: ResourceType) -> Resources {
        let of_grpc = |kind| self.gathered(kind, Dialect::Grpc);
        match (self.client.dialect, kind) {
            (_, ResourceType::Cluster) => self.all_clusters(),
            (_, ResourceType::Endpoints) => self.gathered(UnitKind::OwnEndpoints, OF_EVERYBODY),
            (Dialect::Grpc, ResourceType::Listener) => of_grpc(UnitKind::Listener),
            (Dialect::Grpc, ResourceType::Route) => of_grpc(UnitKind::Routes),
            (Dialect::Envoy, ResourceType::Listener) => self.proxy_listeners(),
            (Dialect::Envoy, ResourceType::Route) => self.all_proxy_routes(),
        }
    }

    fn get(&self, kind: ResourceType, name: &str) -> Option<Arc<Resource>> {
        let Some(federated) = Federated::parse(name) else { return self.named(kind, name, name, None) };
        let authority = self.cache.authority().filter(|known| ***known == *federated.authority)?;
        let plain = (federated.kind == kind).then(|| federated.name())?;
        let canonical = names::federated(authority, kind, &plain);
        let found = self.named(kind, &canonical, &plain, Some(authority))?;
        Some(under(&found, name))
    }

    fn routes_before(&self, name: &str, is_it: &dyn Fn(&Resource) -> bool) -> Option<Arc<Resource>> {
        if self.client.dialect == Dialect::Envoy {
            return None;
        }
        let (plain, authority) = match Federated::parse(name) {
            None => (name.to_owned(), None),
            Some(federated) => {
                let authority = self.cache.authority().filter(|known| ***known == *federated.authority)?;
                ((federated.kind == ResourceType::Route).then(|| federated.name())?, Some(authority.clone()))
            }
        };
        let service = ServiceName::parse(&plain)?;
        let key = UnitKey { kind: UnitKind::Routes, dialect: self.client.dialect, name: service, authority };
        let unit = self.cache.unit_before(self.client, &key, |unit| unit.resources.iter().any(|one| is_it(one)))?;
        unit.resources.iter().find(|one| is_it(one)).map(|found| under(found, name))
    }

    fn shared_name(&self, kind: ResourceType, name: &str) -> Option<Arc<str>> {
        let (dialect, unit) = match (self.client.dialect, kind) {
            (_, ResourceType::Cluster) => (self.client.dialect, UnitKind::Clusters),
            (_, ResourceType::Endpoints) => (OF_EVERYBODY, UnitKind::Endpoints(None)),
            (Dialect::Grpc, ResourceType::Listener) => (Dialect::Grpc, UnitKind::Listener),
            (Dialect::Grpc, ResourceType::Route) => (Dialect::Grpc, UnitKind::Routes),
            (Dialect::Envoy, ResourceType::Listener | ResourceType::Route) => return None,
        };
        let service = ClusterName::parse(name).filter(|name| name.locality.is_none())?.service;
        let key = UnitKey { kind: unit, dialect, name: service, authority: None };
        let unit = self.cache.unit_known(self.client, &key)?;
        unit.named(name).map(|found| found.name.clone())
    }
}

impl Source for ResourceCache {
    type View<'a> = CacheView<'a>;

    fn is_ready(&self) -> bool {
        if !self.was_ready.load(Ordering::Relaxed) && self.state.was_ready() {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        self.was_ready.load(Ordering::Relaxed)
    }

    fn view<'a>(&'a self, client: &'a Client) -> CacheView<'a> {
        CacheView::new(self, client)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn touched_since(&self, number: u64) -> Option<Vec<Arc<Touched>>> {
        let recent = self.recent.lock();
        let is_remembered = recent.front().is_none_or(|(first, _)| *first <= number + 1);
        let since = recent.iter().filter(|(number_of_change, _)| *number_of_change > number);
        is_remembered.then(|| since.map(|(_, touched)| touched.clone()).collect())
    }

    fn catch_up(&self) {
        let applied = self.state.index();
        let known = self.units.lock().generation.applied_index;
        if known < applied {
            in_place(|| self.apply_changes());
        }
    }

    async fn reach(&self, index: u64) -> Reached {
        let is_here = || self.state.index() >= index;
        let arrival = self.state.wait_for(index, CATCH_UP_LIMIT);
        let reached = reach(is_here, arrival, self.state.await_read_barrier(CATCH_UP_LIMIT)).await;
        self.catch_up();
        reached
    }
}

/// Returns the listener of any gRPC server. No service needs to be registered for it.
fn server_listener(requested: &str, plain: &str) -> Option<Arc<Resource>> {
    let server = names::listening_server(plain)?;
    Some(Arc::new(resources::server_listener(requested, &server.ip().to_string(), server.port()).finish(0)))
}

/// Returns the resource under the name that was requested.
fn under(found: &Arc<Resource>, name: &str) -> Arc<Resource> {
    if *found.name == *name { found.clone() } else { Arc::new(resources::renamed(found, name)) }
}
