//! Keys of cached items: units, and scopes of wildcard subscriptions.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::locality::Locality;
use super::names::ServiceName;
use crate::model::grant::ReadScope;
use crate::model::mesh::Dialect;

/// Kind of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UnitKind {
    /// Listener for gRPC clients.
    Listener,
    /// Routes for gRPC clients.
    Routes,
    /// Virtual host for proxies, a part of the routes to a namespace.
    Host,
    Clusters,
    /// Endpoints for callers in a locality of [`Localities`](super::resources::Localities), or for all.
    Endpoints(Option<Locality>),
    /// Endpoints for the locality of the client, under the names in its clusters.
    OwnEndpoints,
    /// Caller localities that make a difference for the endpoints.
    Localities,
    /// Routes of the proxy next to the service.
    Inbound,
    /// Cluster of that proxy, with the port of the service on its machine.
    InboundCluster(u16),
}

/// Key of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnitKey {
    pub(crate) kind: UnitKind,
    pub(crate) dialect: Dialect,
    /// Name of a service or an alias.
    pub(crate) name: ServiceName,
    /// Authority of all names in the unit.
    pub(crate) authority: Option<Arc<str>>,
}

/// A scope, and the kind of its resources.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WildcardKey {
    pub(crate) kind: UnitKind,
    pub(crate) dialect: Dialect,
    /// None for all namespaces.
    pub(crate) namespaces: Option<Arc<[String]>>,
    pub(crate) read_scope: ReadScope,
}

impl Eq for WildcardKey {}

/// Hashes without the read scope, in which few keys differ.
impl Hash for WildcardKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.kind, self.dialect, &self.namespaces).hash(state);
    }
}

impl WildcardKey {
    pub(crate) fn unit(&self, name: &ServiceName) -> UnitKey {
        UnitKey { kind: self.kind.clone(), dialect: self.dialect, name: name.clone(), authority: None }
    }

    /// Reports whether aliases have units of this kind.
    pub(crate) fn has_aliases(&self) -> bool {
        matches!(self.kind, UnitKind::Host | UnitKind::Listener)
    }
}
