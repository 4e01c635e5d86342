//! Delta variant: requests change the subscription, and responses contain changed and removed resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::View;
use super::protocol::ProtocolVariant;
use super::stream_state::{Event, ReadyBatch, StreamFault, StreamState, not_found, packed, size_of};
use super::subscription::Changed;
use super::type_state::{NamedResource, Now, OutgoingResponse};
use crate::model::limits;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{ResourceType, Version};
use crate::proto::envoy::config::core::v3::Node;
use crate::proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};

/// A delta stream.
pub(super) struct Delta {
    state: StreamState,
    /// Clusters sent before the first request for endpoints. A reconnecting client has these endpoints already and must
    /// be sent them again after the clusters.
    pending_endpoints: Vec<NamedResource>,
}

impl ProtocolVariant for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;
    const IS_DELTA: bool = true;

    fn new(dialect: Dialect, control_plane: Arc<str>) -> Delta {
        Delta { state: StreamState::new(dialect, control_plane), pending_endpoints: Vec::new() }
    }

    fn state(&self) -> &StreamState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut StreamState {
        &mut self.state
    }

    fn node(request: &DeltaDiscoveryRequest) -> Option<&Node> {
        request.node.as_ref()
    }

    fn named_index(&self, request: &DeltaDiscoveryRequest) -> Option<u64> {
        let kind = ResourceType::of_url(&request.type_url)?;
        if self.state.type_state(kind).is_begun {
            return None;
        }
        let versions = request.initial_resource_versions.values();
        versions.filter_map(|text| text.parse::<Version>().ok()).map(|version| version.index).max()
    }

    fn forget_node(request: &mut DeltaDiscoveryRequest) {
        request.node = None;
    }

    /// Keeps the names, so that missing resources are reported as removed.
    fn forget_versions(request: &mut DeltaDiscoveryRequest) {
        request.initial_resource_versions.values_mut().for_each(String::clear);
    }

    fn take(&mut self, request: DeltaDiscoveryRequest, view: &dyn View, now: Now) -> Result<(), StreamFault> {
        let Some(kind) = self.state.kind_of(&request.type_url)? else { return Ok(()) };
        let type_state = self.state.type_state(kind);
        // Any other nonce belongs to a response that was answered before. Its lists are applied nevertheless.
        if type_state.is_in_flight() && request.response_nonce == type_state.last_nonce.to_string() {
            self.state.answer(kind, request.error_detail.as_ref(), now);
        }
        let is_first = !self.state.type_state(kind).is_begun;
        let changed = self.change(kind, is_first, &request, view);
        if !changed.is_nothing() {
            self.state.check_names(view)?;
        }
        self.force(kind, changed);
        if is_first {
            self.state.type_state_mut(kind).is_begun = true;
            self.resume(kind, request.initial_resource_versions, view);
        }
        if is_first && kind == ResourceType::Endpoints {
            let pending_endpoints = std::mem::take(&mut self.pending_endpoints);
            self.force_endpoints(&pending_endpoints);
        }
        Ok(())
    }

    fn next(&mut self, view: &dyn View, now: Now) -> Option<DeltaDiscoveryResponse> {
        if let Some(type_url) = self.state.next_unknown() {
            let nonce = self.state.next_nonce().to_string();
            let control_plane = self.state.control_plane();
            return Some(DeltaDiscoveryResponse { type_url, nonce, control_plane, ..Default::default() });
        }
        ResourceType::ALL.into_iter().find_map(|kind| {
            let ready_batch = self.state.ready_batch(kind, true, view, now)?;
            Some(self.send(kind, ready_batch, view, now))
        })
    }
}

impl Delta {
    fn change(
        &mut self,
        kind: ResourceType,
        is_first: bool,
        request: &DeltaDiscoveryRequest,
        view: &dyn View,
    ) -> Changed {
        let type_state = self.state.type_state_mut(kind);
        let shared = |name: &str| view.shared_name(kind, name).filter(|found| **found == *name);
        let (subscribe, unsubscribe) = (&request.resource_names_subscribe, &request.resource_names_unsubscribe);
        let changed = type_state.subscription.change(kind, is_first, subscribe, unsubscribe, shared);
        type_state.apply_subscription(&changed);
        changed
    }

    /// Schedules every name of the request to be sent, even if it was subscribed before. A new wildcard subscription is
    /// answered even if it matches nothing. A name removed from a wildcard subscription is sent once more, because the
    /// client deletes it from its cache.
    fn force(&mut self, kind: ResourceType, changed: Changed) {
        let type_state = self.state.type_state_mut(kind);
        type_state.must_reply |= changed.is_all_added;
        type_state.force(changed.added);
        if type_state.subscription.is_wildcard() {
            type_state.force(changed.dropped);
        }
    }

    /// Schedules the endpoints of changed clusters: proxies wait for them without a request.
    fn force_endpoints(&mut self, clusters: &[NamedResource]) {
        if self.state.type_state(ResourceType::Endpoints).is_begun {
            let pending_endpoints = self.state.endpoints_of(clusters);
            self.state.type_state_mut(ResourceType::Endpoints).force(pending_endpoints);
        } else {
            self.pending_endpoints.extend_from_slice(clusters);
        }
    }

    /// Resumes from the versions that a client has from another stream. Equal resources are not sent, missing ones are
    /// removed.
    fn resume(&mut self, kind: ResourceType, versions: BTreeMap<String, String>, view: &dyn View) {
        let type_state = self.state.type_state_mut(kind);
        let all = type_state.subscription.is_wildcard().then(|| view.all(kind));
        let (mut strange, mut strange_bytes) = (0, 0);
        for (name, version) in versions {
            let of_all = all.as_ref().and_then(|all| all.get_key_value(name.as_str()));
            let own = type_state.subscription.names().get(name.as_str()).cloned();
            let now = match of_all {
                Some((_, resource)) => Some(resource.clone()),
                None => own.as_ref().and_then(|name| view.get(kind, name)),
            };
            let Some(key) = own.or_else(|| of_all.map(|(name, _)| name.clone())) else {
                strange += 1;
                strange_bytes += name.len();
                // No legitimate client has this many resources that no longer exist.
                let is_bearable = strange <= limits::XDS_NAMES_MAX && strange_bytes <= limits::XDS_NAMES_BYTES_MAX;
                if all.is_some() && is_bearable {
                    type_state.resume(&name.as_str().into(), version.parse().ok(), None);
                }
                continue;
            };
            type_state.resume(&key, version.parse().ok(), now);
        }
    }

    fn send(
        &mut self,
        kind: ResourceType,
        mut ready_batch: ReadyBatch,
        view: &dyn View,
        now: Now,
    ) -> DeltaDiscoveryResponse {
        let nonce = self.state.next_nonce();
        let type_state = self.state.type_state(kind);
        let absent = ready_batch.gone.iter().filter(|name| type_state.subscription.has(name));
        let response = DeltaDiscoveryResponse {
            system_version_info: view.applied_index().to_string(),
            resources: ready_batch.changed.iter().map(to_resource).collect(),
            type_url: kind.type_url().to_owned(),
            nonce: nonce.to_string(),
            removed_resources: ready_batch.gone.iter().map(|name| name.to_string()).collect(),
            control_plane: self.state.control_plane(),
            resource_errors: not_found(kind, absent),
        };
        let sent = if ready_batch.is_complete { ready_batch.diff.take_resulting() } else { None };
        let ReadyBatch { changed, gone, .. } = ready_batch;
        if kind == ResourceType::Cluster {
            self.force_endpoints(&changed);
        }
        let sending = OutgoingResponse { nonce, changed, gone, sent, is_whole: false };
        self.state.type_state_mut(kind).record_sent(sending, now.instant);
        self.state.note(Event::Sent { kind, bytes: size_of(&response) });
        response
    }
}

fn to_resource(named: &NamedResource) -> Resource {
    Resource {
        version: named.resource.version.to_string(),
        resource: Some(packed(&named.resource)),
        name: named.name.to_string(),
    }
}
