//! State-of-the-world variant: each request contains the whole subscription of a type, and each response with listeners
//! or clusters contains all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::View;
use super::protocol::ProtocolVariant;
use super::stream_state::{Event, ReadyBatch, StreamFault, StreamState, hash_of, in_order, not_found, packed, size_of};
use super::subscription::{Changed, WILDCARD};
use super::type_state::{Now, OutgoingResponse};
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{ResourceType, Resources, Version};
use crate::proto::envoy::config::core::v3::Node;
use crate::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

/// A SotW stream.
pub(super) struct Sotw {
    state: StreamState,
    /// Endpoints of changed clusters. A proxy requests them by repeating its last request.
    pending_endpoints: Vec<Arc<str>>,
}

impl ProtocolVariant for Sotw {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;
    const IS_DELTA: bool = false;

    fn new(dialect: Dialect, control_plane: Arc<str>) -> Sotw {
        Sotw { state: StreamState::new(dialect, control_plane), pending_endpoints: Vec::new() }
    }

    fn state(&self) -> &StreamState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut StreamState {
        &mut self.state
    }

    fn node(request: &DiscoveryRequest) -> Option<&Node> {
        request.node.as_ref()
    }

    fn named_index(&self, request: &DiscoveryRequest) -> Option<u64> {
        let kind = ResourceType::of_url(&request.type_url)?;
        if self.state.type_state(kind).is_begun {
            return None;
        }
        request.version_info.parse::<Version>().ok().map(|version| version.index)
    }

    fn forget_node(request: &mut DiscoveryRequest) {
        request.node = None;
    }

    fn forget_versions(request: &mut DiscoveryRequest) {
        request.version_info.clear();
    }

    fn take(&mut self, request: DiscoveryRequest, view: &dyn View, now: Now) -> Result<(), StreamFault> {
        let Some(kind) = self.state.kind_of(&request.type_url)? else { return Ok(()) };
        let type_state = self.state.type_state(kind);
        if !type_state.is_begun {
            return self.begin(kind, &request, view);
        }
        if request.response_nonce != nonce_text(type_state.last_nonce) {
            self.pass_over(kind, &request.resource_names);
            return Ok(());
        }
        let was_in_flight = type_state.is_in_flight();
        self.state.answer(kind, request.error_detail.as_ref(), now);
        let changed = self.replace(kind, &request.resource_names, view);
        if !changed.is_nothing() {
            self.state.check_names(view)?;
        }
        let is_question = !was_in_flight && request.error_detail.is_none() && changed.is_nothing();
        if changed.is_wider() || is_question {
            self.force(kind, changed);
        }
        Ok(())
    }

    fn next(&mut self, view: &dyn View, now: Now) -> Option<DiscoveryResponse> {
        if let Some(type_url) = self.state.next_unknown() {
            let nonce = self.state.next_nonce();
            let control_plane = self.state.control_plane();
            return Some(DiscoveryResponse { type_url, nonce: nonce_text(nonce), control_plane, ..Default::default() });
        }
        ResourceType::ALL.into_iter().find_map(|kind| {
            let ready_batch = self.state.ready_batch(kind, !kind.is_whole(), view, now)?;
            if kind.is_whole() {
                self.send_whole(kind, ready_batch, view, now)
            } else {
                self.send(kind, ready_batch, now)
            }
        })
    }
}

impl Sotw {
    fn begin(&mut self, kind: ResourceType, request: &DiscoveryRequest, view: &dyn View) -> Result<(), StreamFault> {
        self.replace(kind, &request.resource_names, view);
        let named = request.version_info.parse::<Version>().ok();
        let type_state = self.state.type_state_mut(kind);
        type_state.is_begun = true;
        type_state.index = named.map_or(0, |version| version.index);
        type_state.must_reply = kind.is_whole() && !type_state.subscription.is_empty();
        if named.is_some() && kind == ResourceType::Route {
            self.state.come_back();
        }
        self.state.check_names(view)
    }

    fn replace(&mut self, kind: ResourceType, names: &[String], view: &dyn View) -> Changed {
        let type_state = self.state.type_state_mut(kind);
        let shared = |name: &str| view.shared_name(kind, name).filter(|found| **found == *name);
        let changed = type_state.subscription.replace(kind, names, shared);
        type_state.apply_subscription(&changed);
        changed
    }

    /// Ignores a request that was sent before the client saw the last response; the client repeats its subscription.
    /// Two effects would be lost and are applied here: the request for endpoints of changed clusters, and names that
    /// were dropped for a moment, whose resources the client has deleted.
    fn pass_over(&mut self, kind: ResourceType, names: &[String]) {
        let listed: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let subscription = &self.state.type_state(kind).subscription;
        let dropped = subscription.names().iter().filter(|name| !listed.contains(&***name));
        let mut dropped: Vec<_> = dropped.cloned().collect();
        let is_all_dropped = subscription.is_wildcard() && !listed.is_empty() && !listed.contains(WILDCARD);
        match kind {
            ResourceType::Endpoints => dropped.append(&mut self.pending_endpoints),
            // The client treats dropped clusters as new when it subscribes to them again.
            ResourceType::Cluster if is_all_dropped || !dropped.is_empty() => self.all_behind(),
            _ => {}
        }
        if !kind.is_whole() {
            self.state.type_state_mut(kind).force(dropped);
        }
    }

    fn all_behind(&mut self) {
        self.pending_endpoints =
            self.state.type_state(ResourceType::Endpoints).subscription.names().iter().cloned().collect();
    }

    fn force(&mut self, kind: ResourceType, changed: Changed) {
        let pending_endpoints =
            if kind == ResourceType::Endpoints { std::mem::take(&mut self.pending_endpoints) } else { Vec::new() };
        let type_state = self.state.type_state_mut(kind);
        if kind.is_whole() {
            type_state.must_reply = !type_state.subscription.is_empty();
        } else if changed.added.is_empty() && pending_endpoints.is_empty() {
            type_state.force_all();
        } else {
            type_state.force(changed.added.into_iter().chain(pending_endpoints));
        }
    }

    /// Builds a response with the whole subscription, for types in which a missing resource is deleted.
    fn send_whole(
        &mut self,
        kind: ResourceType,
        mut ready_batch: ReadyBatch,
        view: &dyn View,
        now: Now,
    ) -> Option<DiscoveryResponse> {
        let type_state = self.state.type_state(kind);
        let resulting = type_state.resulting_set(&mut ready_batch.diff, view);
        let absent = type_state.subscription.names().iter().filter(|name| !resulting.contains_key(*name));
        let newest = resulting.values().map(|resource| resource.version.index).max().unwrap_or_default();
        let version = Version { index: type_state.index.max(newest), hash: hash_of(resulting.values()) };
        let response = DiscoveryResponse {
            version_info: version.to_string(),
            resources: in_order(&resulting),
            type_url: kind.type_url().to_owned(),
            resource_errors: not_found(kind, absent),
            ..Default::default()
        };
        let response = self.finish(kind, response, ready_batch, Some(resulting), now)?;
        self.state.type_state_mut(kind).index = version.index;
        Some(response)
    }

    fn send(&mut self, kind: ResourceType, ready_batch: ReadyBatch, now: Now) -> Option<DiscoveryResponse> {
        let newest = ready_batch.changed.iter().map(|named| named.resource.version.index).max().unwrap_or_default();
        let index = self.state.type_state(kind).index.max(newest);
        let version = Version { index, hash: hash_of(ready_batch.changed.iter().map(|named| &named.resource)) };
        let response = DiscoveryResponse {
            version_info: version.to_string(),
            resources: ready_batch.changed.iter().map(|named| packed(&named.resource)).collect(),
            type_url: kind.type_url().to_owned(),
            resource_errors: not_found(kind, ready_batch.gone.iter()),
            ..Default::default()
        };
        self.finish(kind, response, ready_batch, None, now)
    }

    /// Completes a response and records it. Returns `None` if it is too large for its client.
    fn finish(
        &mut self,
        kind: ResourceType,
        mut response: DiscoveryResponse,
        ready_batch: ReadyBatch,
        sent: Option<Resources>,
        now: Now,
    ) -> Option<DiscoveryResponse> {
        let nonce = self.state.next_nonce();
        response.nonce = nonce_text(nonce);
        response.control_plane = self.state.control_plane();
        let bytes = size_of(&response);
        let ReadyBatch { changed, gone, .. } = ready_batch;
        let sending = OutgoingResponse { nonce, changed, gone, sent, is_whole: kind.is_whole() };
        if self.state.is_too_large(bytes) {
            let type_state = self.state.type_state_mut(kind);
            type_state.skip(&sending);
            type_state.must_reply = false;
            self.state.note(Event::TooLarge { kind, bytes });
            return None;
        }
        if kind == ResourceType::Cluster {
            self.pending_endpoints.extend(self.state.endpoints_of(&sending.changed));
            self.pending_endpoints.sort_unstable();
            self.pending_endpoints.dedup();
        }
        self.state.type_state_mut(kind).record_sent(sending, now.instant);
        self.state.note(Event::Sent { kind, bytes });
        Some(response)
    }
}

/// Formats the nonce of a response; empty if there is none.
fn nonce_text(nonce: u64) -> String {
    if nonce == 0 { String::new() } else { nonce.to_string() }
}
