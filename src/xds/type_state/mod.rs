//! State of one resource type of a stream: resources sent, resources acknowledged, and what is due.
//!
//! `sent` has the last version sent per name, including versions that the client refused: those are not sent again
//! until the resource changes. The register of clients gets a copy ([`Delivered`]). Both maps are clones of the view's
//! map as long as they are equal to it; they then need no memory of their own, and comparing them costs nothing.

mod answers;
mod pending_diff;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::Touched;
use super::names::{INBOUND, OUTBOUND};
use super::subscription::{Changed, Subscription};
use crate::model::mesh::resource::{Resource, ResourceType, Resources, Version};
use crate::model::time::Timestamp;
use crate::subscribers::streams::{Delivered, ResourceRefusal};

pub(super) use pending_diff::PendingDiff;
use pending_diff::Seen;

/// Bytes of a subscribed name in addition to its text: its allocation, and its entries in the subscription and in
/// `sent` or `reported_missing`.
const OF_NAME: usize = 144;

/// Current time for a step of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    /// Time of the cluster.
    pub(super) time: Timestamp,
}

/// State of one type.
pub(super) struct TypeState {
    pub(super) kind: ResourceType,
    /// Set by the first request of this type.
    pub(super) is_begun: bool,
    pub(super) subscription: Subscription,
    /// Set if a response is due even if it is empty.
    pub(super) must_reply: bool,
    /// Time since which resources wait for clusters.
    pub(super) held_since: Option<Instant>,
    /// Time since which removals wait for routes without these names.
    pub(super) retained_since: Option<Instant>,
    /// Highest log index that was sent, or that the client named.
    pub(super) index: u64,
    /// Nonce of the last response; 0 before the first.
    pub(super) last_nonce: u64,
    sent: Resources,
    /// Names for which the client lacks the version in `sent`, because it refused it or because it is too large.
    nacked: BTreeSet<Arc<str>>, // bound: xds-names
    /// Subscribed names that were reported as missing.
    reported_missing: BTreeSet<Arc<str>>, // bound: xds-names
    /// Names to send even if nothing has changed.
    forced: BTreeSet<Arc<str>>, // bound: xds-names
    in_flight: Option<InFlightResponse>,
    delivered: Delivered,
    has_update: bool,
    seen: Option<Seen>,
    /// Name up to which everything was compared, if more is due than fits into one response.
    compared_to: Option<Arc<str>>,
}

/// Content of a response without an answer so far.
struct InFlightResponse {
    changed: Vec<NamedResource>,
    removed: Vec<Arc<str>>,
    /// Set if the response contains the whole subscription.
    is_whole: bool,
    /// Set if names were unsubscribed since, so that the client may have ignored a part of the response.
    may_be_ignored: bool,
}

/// A resource under the name that the client uses.
#[derive(Clone, Debug)]
pub(super) struct NamedResource {
    pub(super) name: Arc<str>,
    pub(super) resource: Arc<Resource>,
}

/// Content of a response to send.
pub(super) struct OutgoingResponse {
    pub(super) nonce: u64,
    pub(super) changed: Vec<NamedResource>,
    pub(super) gone: Vec<Arc<str>>,
    /// Resources that the client has been sent after it, if nothing remains due.
    pub(super) sent: Option<Resources>,
    /// Set if the response contains the whole subscription: the client deletes resources that are missing from it.
    pub(super) is_whole: bool,
}

impl TypeState {
    pub(super) fn new(kind: ResourceType) -> TypeState {
        TypeState {
            kind,
            is_begun: false,
            subscription: Subscription::default(),
            must_reply: false,
            held_since: None,
            retained_since: None,
            index: 0,
            last_nonce: 0,
            sent: Resources::new(),
            nacked: BTreeSet::new(),
            reported_missing: BTreeSet::new(),
            forced: BTreeSet::new(),
            in_flight: None,
            delivered: Delivered::default(),
            has_update: false,
            seen: None,
            compared_to: None,
        }
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Reports whether a response may be sent: something is subscribed or due, and no response is in flight.
    pub(super) fn is_open(&self) -> bool {
        self.in_flight.is_none() && (self.must_reply || !self.subscription.is_empty() || !self.forced.is_empty())
    }

    /// Returns the state for the register of clients if it has changed since the last call.
    pub(super) fn take_update(&mut self) -> Option<&Delivered> {
        if !std::mem::take(&mut self.has_update) {
            return None;
        }
        self.delivered.is_subscribed = !self.subscription.is_empty();
        self.delivered.sent = self.sent.clone();
        let is_lacking =
            |refusal: &Arc<ResourceRefusal>| refusal.resources.keys().any(|name| self.nacked.contains(name));
        self.delivered.refusals.retain(is_lacking);
        Some(&self.delivered)
    }

    /// Returns the bytes of the subscribed names.
    pub(super) fn retained_bytes(&self) -> usize {
        self.subscription.bytes() + self.subscription.names().len() * OF_NAME
    }

    /// Schedules names to be sent, even if they have not changed.
    pub(super) fn force(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        self.forced.extend(names);
    }

    /// Schedules all subscribed names to be sent.
    pub(super) fn force_all(&mut self) {
        self.forced.extend(self.subscription.names().iter().cloned());
    }

    /// Applies a change of the subscription and drops the state of unsubscribed names.
    pub(super) fn apply_subscription(&mut self, changed: &Changed) {
        self.has_update |= !changed.is_nothing() || !self.is_begun;
        if !changed.is_nothing() {
            (self.seen, self.compared_to) = (None, None);
        }
        if let Some(response) = &mut self.in_flight {
            response.may_be_ignored |= changed.is_all_dropped || !changed.dropped.is_empty();
        }
        if changed.is_all_dropped {
            let is_retained = |name: &Arc<str>| self.subscription.has(name) || self.is_on_its_way(name);
            let retained = |map: &Resources| -> Resources {
                let retained = map.iter().filter(|(name, _)| is_retained(name));
                retained.map(|(name, resource)| (name.clone(), resource.clone())).collect()
            };
            let (sent, has) = (retained(&self.sent), retained(&self.delivered.acked));
            self.nacked = self.nacked.iter().filter(|name| is_retained(name)).cloned().collect();
            self.forced.retain(|name| self.subscription.has(name));
            (self.sent, self.delivered.acked) = (sent, has);
        }
        for name in &changed.dropped {
            self.reported_missing.remove(name);
            self.forget(name);
        }
    }

    /// Drops the state of an unsubscribed name, unless it is in a response that the client may still accept.
    fn forget(&mut self, name: &Arc<str>) {
        if self.subscription.is_wildcard() || self.subscription.has(name) {
            return;
        }
        self.forced.remove(name);
        self.delivered.acked.remove(name);
        if !self.is_on_its_way(name) {
            self.nacked.remove(name);
            self.sent.remove(name);
        }
    }

    fn is_on_its_way(&self, name: &Arc<str>) -> bool {
        self.in_flight.as_ref().is_some_and(|response| response.changed.iter().any(|named| named.name == *name))
    }

    /// Records that the client has a version of a resource, of which `now` is the current one. If they differ, the
    /// content of that version is unknown, and it will be replaced or removed.
    pub(super) fn resume(&mut self, name: &Arc<str>, version: Option<Version>, now: Option<Arc<Resource>>) {
        (self.seen, self.compared_to) = (None, None);
        self.has_update = true;
        if let Some(now) = now.filter(|now| version.is_some_and(|version| version.hash == now.version.hash)) {
            self.forced.remove(name);
            self.delivered.acked.insert(name.clone(), now.clone());
            self.sent.insert(name.clone(), now);
            return;
        }
        let version = version.unwrap_or_default();
        let (kind, name_of_it, head, body) = (self.kind, name.clone(), Bytes::new(), Bytes::new());
        let (releases, clusters) = (Vec::new(), Vec::new());
        let unknown = Resource { kind, name: name_of_it, version, head, body, releases, clusters };
        self.sent.insert(name.clone(), Arc::new(unknown));
    }

    /// Records a resource as sent that the client has from another stream.
    pub(super) fn recall(&mut self, name: Arc<str>, had: Arc<Resource>) {
        (self.seen, self.compared_to) = (None, None);
        self.has_update = true;
        self.sent.insert(name, had);
    }

    /// Records that a response was sent.
    pub(super) fn record_sent(&mut self, sending: OutgoingResponse, now: Instant) {
        self.give(&sending);
        self.last_nonce = sending.nonce;
        self.must_reply = false;
        self.delivered.in_flight = Some(now);
        let OutgoingResponse { changed, gone, is_whole, .. } = sending;
        self.in_flight = Some(InFlightResponse { changed, removed: gone, is_whole, may_be_ignored: false });
        self.has_update = true;
    }

    /// Records resources that cannot be sent to this client. They are not tried again until they change.
    pub(super) fn skip(&mut self, sending: &OutgoingResponse) {
        self.give(sending);
        self.has_update = true;
        self.nacked.extend(sending.changed.iter().map(|named| named.name.clone()));
    }

    fn give(&mut self, sending: &OutgoingResponse) {
        for NamedResource { name, resource } in &sending.changed {
            self.forced.remove(name);
            self.reported_missing.remove(name);
            self.index = self.index.max(resource.version.index);
            if sending.sent.is_none() {
                self.sent.insert(name.clone(), resource.clone());
            }
        }
        for name in &sending.gone {
            self.forced.remove(name);
            self.nacked.remove(name);
            self.sent.remove(name);
            if self.subscription.has(name) {
                self.reported_missing.insert(name.clone());
            }
        }
        if let Some(sent) = &sending.sent {
            self.sent = sent.clone();
        }
    }

    /// Records that any resource may have changed.
    pub(super) fn invalidate(&mut self) {
        self.compared_to = None;
    }

    /// Records the name up to which due resources were sent.
    pub(super) fn note_compared(&mut self, to: Option<Arc<str>>) {
        self.compared_to = to;
    }

    /// Reports whether a resource that the client has names this cluster.
    pub(super) fn names_cluster(&self, name: &str) -> bool {
        let names = |resource: &Arc<Resource>| resource.clusters.binary_search_by(|known| (**known).cmp(name)).is_ok();
        self.delivered.acked.values().any(names)
    }

    pub(super) fn sent_as(&self, name: &str) -> Option<&Arc<Resource>> {
        self.sent.get(name)
    }

    /// Reports whether a change may affect the subscription.
    pub(super) fn is_affected(&self, touched: &Touched, namespaces: Option<&[String]>) -> bool {
        let is_of = |name: &str| {
            // Escaped names are not compared; they always count as affected.
            if name.contains('%') || name.starts_with("xdstp:") {
                return true;
            }
            let of_service = |name: &str| touched.has(name.split(['@', '|']).next().unwrap_or(name));
            match name.split_once('/') {
                None => touched.has_within(namespaces),
                Some((OUTBOUND, namespace)) => of_service(name) || touched.has_within(Some(&[namespace.to_owned()])),
                Some((INBOUND, service)) => of_service(name) || of_service(service),
                Some(_) => of_service(name),
            }
        };
        let of_names = || match touched.services().filter(|_| self.subscription.is_of_services()) {
            Some(services) => services.iter().any(|service| self.subscription.has_service(service)),
            None => self.subscription.names().iter().any(|name| is_of(name)),
        };
        (self.subscription.is_wildcard() && touched.has_within(namespaces)) || of_names()
    }

    /// Reports whether the client was sent a resource and, if it was new, has answered.
    pub(super) fn is_answered(&self, name: &str) -> bool {
        let is_new = |response: &InFlightResponse| response.changed.iter().any(|named| *named.name == *name);
        self.sent.contains_key(name)
            && (self.delivered.acked.contains_key(name) || !self.in_flight.as_ref().is_some_and(is_new))
    }

    #[cfg(test)]
    pub(super) fn delivered(&self) -> &Delivered {
        &self.delivered
    }

    #[cfg(test)]
    pub(super) fn sent(&self) -> &Resources {
        &self.sent
    }
}
