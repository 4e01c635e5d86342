//! Two-step updates of routes. Some clients use new routes before they have load balancers for the new clusters, so
//! calls fail in between. The first step contains the client's current routes and names the new clusters in routes at
//! the end that no request matches. The second step contains the new routes.
//!
//! A reconnecting client has routes that this stream did not send. It subscribes to its clusters and endpoints at once.
//! Its routes are therefore the newest ones that name no other clusters, and the first step starts from those.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::View;
use super::client::Client;
use super::names::bare;
use super::returning::Returning;
use super::stream_state::StreamState;
use super::type_state::PendingDiff;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, ResourceType, Version};
use crate::model::number_of;
use crate::proto::envoy::config::route::v3 as route;

impl StreamState {
    /// Records that the client has routes from another stream.
    pub(super) fn come_back(&mut self) {
        if self.has_steps {
            self.returning = Returning::Begun;
        }
    }

    /// Reports whether routes have to wait until a reconnecting client has subscribed to its clusters. After that, its
    /// presumed routes count as sent.
    pub(super) fn awaits_names(&mut self, kind: ResourceType, view: &dyn View, now: Instant) -> bool {
        if kind != ResourceType::Route || self.returning == Returning::No {
            return false;
        }
        let has_named = [ResourceType::Cluster, ResourceType::Endpoints].map(|kind| self.type_state(kind).is_begun);
        if has_named.contains(&false) && self.returning.deadline().is_none_or(|deadline| now < deadline) {
            if self.returning == Returning::Begun {
                self.returning = Returning::Since(now);
            }
            return true;
        }
        self.returning = Returning::No;
        let names: Vec<_> = self.type_state(kind).subscription.names().iter().cloned().collect();
        for name in names {
            let lacks_none = |routes: &Resource| routes.clusters.iter().all(|cluster| self.asks_for(cluster));
            let is_new = view.get(kind, &name).is_some_and(|routes| !lacks_none(&routes));
            if is_new && let Some(had) = view.routes_before(&name, &lacks_none) {
                self.type_state_mut(kind).recall(name, had);
            }
        }
        false
    }

    /// Reports whether the client subscribes to a cluster and to its endpoints.
    fn asks_for(&self, cluster: &str) -> bool {
        let has_endpoints = self.endpoints_asked(cluster).next().is_some();
        self.type_state(ResourceType::Cluster).subscription.has(cluster) && has_endpoints
    }

    /// Returns the subscribed names of a cluster's endpoints.
    fn endpoints_asked(&self, cluster: &str) -> impl Iterator<Item = &Arc<str>> {
        let names = self.type_state(ResourceType::Endpoints).subscription.names().iter();
        names.filter(move |one| bare(one).split('@').next() == Some(bare(cluster)))
    }

    /// Configures the steps for a client.
    pub(super) fn configure_steps(&mut self, client: &Client) {
        self.has_steps = client.dialect == Dialect::Grpc && client.library.traits().needs_two_steps;
    }

    /// Replaces changed routes by their first step where one is needed.
    pub(super) fn step(&self, kind: ResourceType, diff: &mut PendingDiff) {
        if !self.has_steps || kind != ResourceType::Route {
            return;
        }
        for (name, resource) in &mut diff.changed {
            if let Some(step) = self.type_state(kind).sent_as(name).and_then(|sent| first_step(sent, resource)) {
                *resource = Arc::new(step);
            }
        }
    }

    /// Reports whether the client was sent the names of all clusters in these routes, but has not answered for one of
    /// them or for its endpoints.
    pub(super) fn is_between_steps(&self, name: &str, routes: &Resource) -> bool {
        let sent = self.type_state(ResourceType::Route).sent_as(name).filter(|_| self.has_steps);
        let Some(sent) = sent.filter(|_| routes.kind == ResourceType::Route) else { return false };
        routes.clusters.iter().all(|name| sent.clusters.binary_search(name).is_ok())
            && !routes.clusters.iter().all(|cluster| self.has_cluster(cluster))
    }

    /// Reports whether the client has answered for a cluster and for all its endpoints.
    fn has_cluster(&self, name: &str) -> bool {
        let endpoints = self.type_state(ResourceType::Endpoints);
        let mut own = self.endpoints_asked(name).peekable();
        let has_endpoints = own.peek().is_some() && own.all(|name| endpoints.is_answered(name));
        self.type_state(ResourceType::Cluster).is_answered(name) && has_endpoints
    }
}

/// Returns the first step between two versions of routes, or `None` if the client knows all clusters of the next one.
pub(super) fn first_step(has: &Resource, next: &Resource) -> Option<Resource> {
    let is_new = |name: &&Arc<str>| has.clusters.binary_search(name).is_err();
    let new: Vec<_> = next.clusters.iter().filter(is_new).cloned().collect();
    // The content of routes that another node sent is unknown.
    let mut message = route::RouteConfiguration::decode(has.bytes()).ok().filter(|_| !has.body.is_empty())?;
    let host = message.virtual_hosts.first_mut().filter(|_| !new.is_empty())?;
    host.routes.extend(new.iter().map(|name| named_alone(name)));
    let bytes = message.encode_to_vec();
    let version = Version { index: next.version.index, hash: number_of(&Sha256::digest(&bytes)) };
    let mut clusters = [&has.clusters[..], &new].concat();
    clusters.sort_unstable();
    Some(Resource { version, head: Bytes::new(), body: bytes.into(), clusters, ..has.clone() })
}

/// Returns a route that matches no request: it follows the catch-all route, and no path is empty.
fn named_alone(cluster: &str) -> route::Route {
    let path_specifier = Some(route::route_match::PathSpecifier::Path(String::new()));
    let cluster_specifier = Some(route::route_action::ClusterSpecifier::Cluster(cluster.to_owned()));
    let action = route::RouteAction { cluster_specifier, ..Default::default() };
    route::Route {
        r#match: Some(route::RouteMatch { path_specifier, ..Default::default() }),
        action: Some(route::route::Action::Route(action)),
        ..Default::default()
    }
}
