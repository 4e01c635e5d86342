//! Delta variant: requests change the subscription, and responses contain changed and removed resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::View;
use super::protocol::ProtocolVariant;
use super::stream_state::{Event, ReadyBatch, StreamFault, StreamState, not_found, packed, size_of};
use super::subscription::Changed;
use super::type_state::{Moment, NamedResource, OutgoingResponse};
use crate::model::limits;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{ResourceType, Version};
use crate::proto::envoy::config::core::v3::Node;
use crate::proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};

/// A delta stream.
pub(super) struct Delta {
    books: StreamState,
    /// Clusters sent before the first request for endpoints. A reconnecting client has these endpoints already and must
    /// be sent them again after the clusters.
    early: Vec<NamedResource>,
}

impl ProtocolVariant for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;
    const IS_DELTA: bool = true;

    fn new(dialect: Dialect, control_plane: Arc<str>) -> Delta {
        Delta { books: StreamState::new(dialect, control_plane), early: Vec::new() }
    }

    fn books(&self) -> &StreamState {
        &self.books
    }

    fn books_mut(&mut self) -> &mut StreamState {
        &mut self.books
    }

    fn node(request: &DeltaDiscoveryRequest) -> Option<&Node> {
        request.node.as_ref()
    }

    fn named_index(&self, request: &DeltaDiscoveryRequest) -> Option<u64> {
        let kind = ResourceType::of_url(&request.type_url)?;
        if self.books.ledger(kind).is_begun {
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

    fn take(&mut self, request: DeltaDiscoveryRequest, view: &dyn View, moment: Moment) -> Result<(), StreamFault> {
        let Some(kind) = self.books.kind_of(&request.type_url)? else { return Ok(()) };
        let ledger = self.books.ledger(kind);
        // Any other nonce belongs to a response that was answered before. Its lists are applied nevertheless.
        if ledger.is_under_way() && request.response_nonce == ledger.last_nonce.to_string() {
            self.books.answer(kind, request.error_detail.as_ref(), moment);
        }
        let is_first = !self.books.ledger(kind).is_begun;
        let changed = self.change(kind, is_first, &request, view);
        if !changed.is_nothing() {
            self.books.check_names(view)?;
        }
        self.owe(kind, changed);
        if is_first {
            self.books.ledger_mut(kind).is_begun = true;
            self.adopt(kind, request.initial_resource_versions, view);
        }
        if is_first && kind == ResourceType::Endpoints {
            let early = std::mem::take(&mut self.early);
            self.owe_endpoints(&early);
        }
        Ok(())
    }

    fn next(&mut self, view: &dyn View, moment: Moment) -> Option<DeltaDiscoveryResponse> {
        if let Some(type_url) = self.books.next_unknown() {
            let nonce = self.books.next_nonce().to_string();
            let control_plane = self.books.control_plane();
            return Some(DeltaDiscoveryResponse { type_url, nonce, control_plane, ..Default::default() });
        }
        ResourceType::ALL.into_iter().find_map(|kind| {
            let portion = self.books.portion(kind, true, view, moment)?;
            Some(self.send(kind, portion, view, moment))
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
        let ledger = self.books.ledger_mut(kind);
        let shared = |name: &str| view.shared_name(kind, name).filter(|found| **found == *name);
        let (subscribe, unsubscribe) = (&request.resource_names_subscribe, &request.resource_names_unsubscribe);
        let changed = ledger.subscription.change(kind, is_first, subscribe, unsubscribe, shared);
        ledger.follow(&changed);
        changed
    }

    /// Schedules every name of the request to be sent, even if it was subscribed before. A new wildcard subscription is
    /// answered even if it matches nothing. A name removed from a wildcard subscription is sent once more, because the
    /// client deletes it from its cache.
    fn owe(&mut self, kind: ResourceType, changed: Changed) {
        let ledger = self.books.ledger_mut(kind);
        ledger.is_answer_owed |= changed.is_all_added;
        ledger.owe(changed.added);
        if ledger.subscription.is_wildcard() {
            ledger.owe(changed.dropped);
        }
    }

    /// Schedules the endpoints of changed clusters: proxies wait for them without a request.
    fn owe_endpoints(&mut self, clusters: &[NamedResource]) {
        if self.books.ledger(ResourceType::Endpoints).is_begun {
            let behind = self.books.endpoints_of(clusters);
            self.books.ledger_mut(ResourceType::Endpoints).owe(behind);
        } else {
            self.early.extend_from_slice(clusters);
        }
    }

    /// Resumes from the versions that a client has from another stream. Equal resources are not sent, missing ones are
    /// removed.
    fn adopt(&mut self, kind: ResourceType, versions: BTreeMap<String, String>, view: &dyn View) {
        let ledger = self.books.ledger_mut(kind);
        let all = ledger.subscription.is_wildcard().then(|| view.all(kind));
        let (mut strange, mut strange_bytes) = (0, 0);
        for (name, version) in versions {
            let of_all = all.as_ref().and_then(|all| all.get_key_value(name.as_str()));
            let own = ledger.subscription.names().get(name.as_str()).cloned();
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
                    ledger.adopt(&name.as_str().into(), version.parse().ok(), None);
                }
                continue;
            };
            ledger.adopt(&key, version.parse().ok(), now);
        }
    }

    fn send(
        &mut self,
        kind: ResourceType,
        mut portion: ReadyBatch,
        view: &dyn View,
        moment: Moment,
    ) -> DeltaDiscoveryResponse {
        let nonce = self.books.next_nonce();
        let ledger = self.books.ledger(kind);
        let absent = portion.gone.iter().filter(|name| ledger.subscription.has(name));
        let response = DeltaDiscoveryResponse {
            system_version_info: view.applied_index().to_string(),
            resources: portion.changed.iter().map(to_resource).collect(),
            type_url: kind.type_url().to_owned(),
            nonce: nonce.to_string(),
            removed_resources: portion.gone.iter().map(|name| name.to_string()).collect(),
            control_plane: self.books.control_plane(),
            resource_errors: not_found(kind, absent),
        };
        let given = if portion.is_complete { portion.look.take_shown() } else { None };
        let ReadyBatch { changed, gone, .. } = portion;
        if kind == ResourceType::Cluster {
            self.owe_endpoints(&changed);
        }
        let sending = OutgoingResponse { nonce, changed, gone, given, is_whole: false };
        self.books.ledger_mut(kind).sent(sending, moment.now);
        self.books.note(Event::Sent { kind, bytes: size_of(&response) });
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
