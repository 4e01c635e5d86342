//! State-of-the-world variant: each request contains the whole subscription of a type, and each response with listeners
//! or clusters contains all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::View;
use super::protocol::ProtocolVariant;
use super::stream_state::{Event, ReadyBatch, StreamFault, StreamState, hash_of, in_order, not_found, packed, size_of};
use super::subscription::{Changed, WILDCARD};
use super::type_state::{Moment, OutgoingResponse};
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{ResourceType, Resources, Version};
use crate::proto::envoy::config::core::v3::Node;
use crate::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

/// A SotW stream.
pub(super) struct Sotw {
    books: StreamState,
    /// Endpoints of changed clusters. A proxy requests them by repeating its last request.
    behind: Vec<Arc<str>>,
}

impl ProtocolVariant for Sotw {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;
    const IS_DELTA: bool = false;

    fn new(dialect: Dialect, control_plane: Arc<str>) -> Sotw {
        Sotw { books: StreamState::new(dialect, control_plane), behind: Vec::new() }
    }

    fn books(&self) -> &StreamState {
        &self.books
    }

    fn books_mut(&mut self) -> &mut StreamState {
        &mut self.books
    }

    fn node(request: &DiscoveryRequest) -> Option<&Node> {
        request.node.as_ref()
    }

    fn named_index(&self, request: &DiscoveryRequest) -> Option<u64> {
        let kind = ResourceType::of_url(&request.type_url)?;
        if self.books.ledger(kind).is_begun {
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

    fn take(&mut self, request: DiscoveryRequest, view: &dyn View, moment: Moment) -> Result<(), StreamFault> {
        let Some(kind) = self.books.kind_of(&request.type_url)? else { return Ok(()) };
        let ledger = self.books.ledger(kind);
        if !ledger.is_begun {
            return self.begin(kind, &request, view);
        }
        if request.response_nonce != nonce_text(ledger.last_nonce) {
            self.pass_over(kind, &request.resource_names);
            return Ok(());
        }
        let was_under_way = ledger.is_under_way();
        self.books.answer(kind, request.error_detail.as_ref(), moment);
        let changed = self.replace(kind, &request.resource_names, view);
        if !changed.is_nothing() {
            self.books.check_names(view)?;
        }
        let is_question = !was_under_way && request.error_detail.is_none() && changed.is_nothing();
        if changed.is_wider() || is_question {
            self.owe(kind, changed);
        }
        Ok(())
    }

    fn next(&mut self, view: &dyn View, moment: Moment) -> Option<DiscoveryResponse> {
        if let Some(type_url) = self.books.next_unknown() {
            let nonce = self.books.next_nonce();
            let control_plane = self.books.control_plane();
            return Some(DiscoveryResponse { type_url, nonce: nonce_text(nonce), control_plane, ..Default::default() });
        }
        ResourceType::ALL.into_iter().find_map(|kind| {
            let portion = self.books.portion(kind, !kind.is_whole(), view, moment)?;
            if kind.is_whole() {
                self.send_whole(kind, portion, view, moment)
            } else {
                self.send(kind, portion, moment)
            }
        })
    }
}

impl Sotw {
    fn begin(&mut self, kind: ResourceType, request: &DiscoveryRequest, view: &dyn View) -> Result<(), StreamFault> {
        self.replace(kind, &request.resource_names, view);
        let named = request.version_info.parse::<Version>().ok();
        let ledger = self.books.ledger_mut(kind);
        ledger.is_begun = true;
        ledger.index = named.map_or(0, |version| version.index);
        ledger.is_answer_owed = kind.is_whole() && !ledger.subscription.is_empty();
        if named.is_some() && kind == ResourceType::Route {
            self.books.come_back();
        }
        self.books.check_names(view)
    }

    fn replace(&mut self, kind: ResourceType, names: &[String], view: &dyn View) -> Changed {
        let ledger = self.books.ledger_mut(kind);
        let shared = |name: &str| view.shared_name(kind, name).filter(|found| **found == *name);
        let changed = ledger.subscription.replace(kind, names, shared);
        ledger.follow(&changed);
        changed
    }

    /// Ignores a request that was sent before the client saw the last response; the client repeats its subscription.
    /// Two effects would be lost and are applied here: the request for endpoints of changed clusters, and names that
    /// were dropped for a moment, whose resources the client has deleted.
    fn pass_over(&mut self, kind: ResourceType, names: &[String]) {
        let listed: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let subscription = &self.books.ledger(kind).subscription;
        let dropped = subscription.names().iter().filter(|name| !listed.contains(&***name));
        let mut dropped: Vec<_> = dropped.cloned().collect();
        let is_all_dropped = subscription.is_wildcard() && !listed.is_empty() && !listed.contains(WILDCARD);
        match kind {
            ResourceType::Endpoints => dropped.append(&mut self.behind),
            // The client treats dropped clusters as new when it subscribes to them again.
            ResourceType::Cluster if is_all_dropped || !dropped.is_empty() => self.all_behind(),
            _ => {}
        }
        if !kind.is_whole() {
            self.books.ledger_mut(kind).owe(dropped);
        }
    }

    fn all_behind(&mut self) {
        self.behind = self.books.ledger(ResourceType::Endpoints).subscription.names().iter().cloned().collect();
    }

    fn owe(&mut self, kind: ResourceType, changed: Changed) {
        let behind = if kind == ResourceType::Endpoints { std::mem::take(&mut self.behind) } else { Vec::new() };
        let ledger = self.books.ledger_mut(kind);
        if kind.is_whole() {
            ledger.is_answer_owed = !ledger.subscription.is_empty();
        } else if changed.added.is_empty() && behind.is_empty() {
            ledger.owe_all();
        } else {
            ledger.owe(changed.added.into_iter().chain(behind));
        }
    }

    /// Builds a response with the whole subscription, for types in which a missing resource is deleted.
    fn send_whole(
        &mut self,
        kind: ResourceType,
        mut portion: ReadyBatch,
        view: &dyn View,
        moment: Moment,
    ) -> Option<DiscoveryResponse> {
        let ledger = self.books.ledger(kind);
        let shown = ledger.resulting_set(&mut portion.look, view);
        let absent = ledger.subscription.names().iter().filter(|name| !shown.contains_key(*name));
        let newest = shown.values().map(|resource| resource.version.index).max().unwrap_or_default();
        let version = Version { index: ledger.index.max(newest), hash: hash_of(shown.values()) };
        let response = DiscoveryResponse {
            version_info: version.to_string(),
            resources: in_order(&shown),
            type_url: kind.type_url().to_owned(),
            resource_errors: not_found(kind, absent),
            ..Default::default()
        };
        let response = self.finish(kind, response, portion, Some(shown), moment)?;
        self.books.ledger_mut(kind).index = version.index;
        Some(response)
    }

    fn send(&mut self, kind: ResourceType, portion: ReadyBatch, moment: Moment) -> Option<DiscoveryResponse> {
        let newest = portion.changed.iter().map(|named| named.resource.version.index).max().unwrap_or_default();
        let index = self.books.ledger(kind).index.max(newest);
        let version = Version { index, hash: hash_of(portion.changed.iter().map(|named| &named.resource)) };
        let response = DiscoveryResponse {
            version_info: version.to_string(),
            resources: portion.changed.iter().map(|named| packed(&named.resource)).collect(),
            type_url: kind.type_url().to_owned(),
            resource_errors: not_found(kind, portion.gone.iter()),
            ..Default::default()
        };
        self.finish(kind, response, portion, None, moment)
    }

    /// Completes a response and records it. Returns `None` if it is too large for its client.
    fn finish(
        &mut self,
        kind: ResourceType,
        mut response: DiscoveryResponse,
        portion: ReadyBatch,
        given: Option<Resources>,
        moment: Moment,
    ) -> Option<DiscoveryResponse> {
        let nonce = self.books.next_nonce();
        response.nonce = nonce_text(nonce);
        response.control_plane = self.books.control_plane();
        let bytes = size_of(&response);
        let ReadyBatch { changed, gone, .. } = portion;
        let sending = OutgoingResponse { nonce, changed, gone, given, is_whole: kind.is_whole() };
        if self.books.is_too_large(bytes) {
            let ledger = self.books.ledger_mut(kind);
            ledger.skip(&sending);
            ledger.is_answer_owed = false;
            self.books.note(Event::TooLarge { kind, bytes });
            return None;
        }
        if kind == ResourceType::Cluster {
            self.behind.extend(self.books.endpoints_of(&sending.changed));
            self.behind.sort_unstable();
            self.behind.dedup();
        }
        self.books.ledger_mut(kind).sent(sending, moment.now);
        self.books.note(Event::Sent { kind, bytes });
        Some(response)
    }
}

/// Formats the nonce of a response; empty if there is none.
fn nonce_text(nonce: u64) -> String {
    if nonce == 0 { String::new() } else { nonce.to_string() }
}
