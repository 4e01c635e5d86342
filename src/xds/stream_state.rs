//! State of a stream, with one [`TypeState`] per resource type. It has the rules that both protocol variants share: the
//! order of types, and limits on sizes and numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;
use tokio::time::{Duration, Instant};

use super::absent::REPORTED_NAME_BYTES;
pub(super) use super::absent::not_found;
use super::client::Client;
use super::names::bare;
use super::returning::Returning;
use super::type_state::{NamedResource, Now, OutgoingResponse, PendingDiff, TypeState};
use super::{Touched, View};
use crate::model::limits;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, ResourceType, Resources};
use crate::proto::Any;
use crate::proto::envoy::config::core::v3::ControlPlane;
use crate::proto::google::rpc::Status;

const ORDER_WAIT: Duration = Duration::from_millis(limits::XDS_ORDER_WAIT_MS);
/// Bytes of a resource in a response in addition to its name and its content.
const RESOURCE_OVERHEAD: usize = 128;
/// Number of names of one type above which processing a stream counts as blocking work.
const NAMES_MANY: usize = 256;

/// Reason for ending a stream because of its client's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamFault {
    TooMany(String),
    Invalid(String),
}

/// Event of a stream for metrics and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Sent {
        kind: ResourceType,
        bytes: usize,
    },
    Refused(ResourceType),
    /// The number of subscribed names is close to the limit.
    ManyNames(usize),
    /// A response was not sent, or a resource was omitted from it.
    TooLarge {
        kind: ResourceType,
        bytes: usize,
    },
}

/// State of one stream.
pub(super) struct StreamState {
    dialect: Dialect,
    /// Set if routes with clusters new to the client are sent in two steps.
    pub(super) has_steps: bool,
    /// State of routes that the client may have from another stream.
    pub(super) returning: Returning,
    control_plane: Arc<str>,
    type_states: [TypeState; 4],
    nonce: u64,
    /// Requested types that are not served. `unanswered` has those without a response so far.
    unknown: BTreeSet<String>, // bound: xds-names
    unanswered: Vec<String>,
    events: Vec<Event>,
    has_many_names: bool,
}

/// Content of a response that may be sent now.
pub(super) struct ReadyBatch {
    pub(super) changed: Vec<NamedResource>,
    pub(super) gone: Vec<Arc<str>>,
    /// Set if nothing remains due after it.
    pub(super) is_complete: bool,
    pub(super) diff: PendingDiff,
}

impl StreamState {
    pub(super) fn new(dialect: Dialect, control_plane: Arc<str>) -> StreamState {
        StreamState {
            dialect,
            has_steps: false,
            returning: Returning::default(),
            control_plane,
            type_states: ResourceType::ALL.map(TypeState::new),
            nonce: 0,
            unknown: BTreeSet::new(),
            unanswered: Vec::new(),
            events: Vec::new(),
            has_many_names: false,
        }
    }

    pub(super) fn type_state(&self, kind: ResourceType) -> &TypeState {
        &self.type_states[kind.index()]
    }

    pub(super) fn type_state_mut(&mut self, kind: ResourceType) -> &mut TypeState {
        &mut self.type_states[kind.index()]
    }

    pub(super) fn type_states_mut(&mut self) -> &mut [TypeState; 4] {
        &mut self.type_states
    }

    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn note(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(super) fn next_nonce(&mut self) -> u64 {
        self.nonce += 1;
        self.nonce
    }

    pub(super) fn control_plane(&self) -> Option<ControlPlane> {
        Some(ControlPlane { identifier: self.control_plane.to_string() })
    }

    /// Returns the type of a request, or `None` if the type is not served.
    pub(super) fn kind_of(&mut self, type_url: &str) -> Result<Option<ResourceType>, StreamFault> {
        if type_url.is_empty() {
            return Err(StreamFault::Invalid("a request names no type_url".to_owned()));
        }
        let kind = ResourceType::of_url(type_url);
        let is_new = kind.is_none()
            && self.unknown.len() < limits::XDS_UNKNOWN_TYPES_MAX
            && type_url.len() <= REPORTED_NAME_BYTES
            && self.unknown.insert(type_url.to_owned());
        if is_new {
            self.unanswered.push(type_url.to_owned());
        }
        Ok(kind)
    }

    /// Returns the next unserved type without a response. Each gets one empty response.
    pub(super) fn next_unknown(&mut self) -> Option<String> {
        self.unanswered.pop()
    }

    /// Processes the client's answer to the response in flight.
    pub(super) fn answer(&mut self, kind: ResourceType, refusal: Option<&Status>, now: Now) {
        let type_state = self.type_state_mut(kind);
        if !type_state.is_in_flight() {
            return;
        }
        match refusal {
            None => type_state.acknowledge(),
            Some(status) => {
                type_state.refuse(&status.message, now.time);
                self.note(Event::Refused(kind));
            }
        }
    }

    /// Returns the bytes of the subscriptions and their state.
    pub(super) fn retained_bytes(&self) -> usize {
        self.type_states.iter().map(TypeState::retained_bytes).sum()
    }

    /// Returns an error if the stream subscribes to too many names. Endpoints of clusters from a wildcard do not count:
    /// a proxy must request them, and they are limited by what it was sent.
    pub(super) fn check_names(&mut self, view: &dyn View) -> Result<(), StreamFault> {
        self.check_localities()?;
        let names: usize = self.type_states.iter().map(|type_state| type_state.subscription.names().len()).sum();
        let bytes: usize = self.type_states.iter().map(|type_state| type_state.subscription.bytes()).sum();
        if names < limits::XDS_NAMES_MANY && bytes <= limits::XDS_NAMES_BYTES_MAX {
            return Ok(());
        }
        let own = self.own_endpoints(view);
        let (names, bytes) = (names - own.0, bytes - own.1);
        if names >= limits::XDS_NAMES_MANY && !std::mem::replace(&mut self.has_many_names, true) {
            self.note(Event::ManyNames(names));
        }
        if names > limits::XDS_NAMES_MAX {
            return Err(StreamFault::TooMany(format!("{names} names, a stream has at most {}", limits::XDS_NAMES_MAX)));
        }
        if bytes > limits::XDS_NAMES_BYTES_MAX {
            let max = limits::XDS_NAMES_BYTES_MAX;
            return Err(StreamFault::TooMany(format!("{bytes} bytes of names, a stream has at most {max}")));
        }
        Ok(())
    }

    /// Returns the number and bytes of the endpoint names that belong to clusters from a wildcard, one name per
    /// cluster.
    fn own_endpoints(&self, view: &dyn View) -> (usize, usize) {
        if !self.type_state(ResourceType::Cluster).subscription.is_wildcard() {
            return (0, 0);
        }
        let clusters = view.all(ResourceType::Cluster);
        let is_of_cluster = |name: &str| {
            let ends = name.match_indices('@').map(|(at, _)| &name[..at]);
            clusters.contains_key(name) || ends.into_iter().any(|cluster| clusters.contains_key(cluster))
        };
        let names = self.type_state(ResourceType::Endpoints).subscription.names().iter();
        let own = names.filter(|name| is_of_cluster(bare(name))).take(clusters.len());
        own.fold((0, 0), |(names, bytes), name| (names + 1, bytes + name.len()))
    }

    /// Returns the content of one type to send now. If there is none, the type is marked as up to date.
    pub(super) fn ready_batch(
        &mut self,
        kind: ResourceType,
        is_divisible: bool,
        view: &dyn View,
        now: Now,
    ) -> Option<ReadyBatch> {
        if !self.type_state(kind).is_open() || self.awaits_names(kind, view, now.instant) {
            return None;
        }
        let mut diff = self.type_state(kind).diff(view);
        let must_reply = self.type_state(kind).must_reply;
        self.retain_named(kind, &mut diff, now.instant);
        if diff.is_nothing() && !must_reply && !diff.retained.is_empty() {
            return None;
        }
        if diff.is_nothing() && !must_reply {
            self.type_state_mut(kind).held_since = None;
            self.type_state_mut(kind).mark_synced(diff);
            return None;
        }
        let equal = diff.take_equal();
        self.step(kind, &mut diff);
        let waiting = self.waiting(kind, &diff, view, now.instant);
        // A first answer without them would mean that they do not exist.
        if !waiting.is_empty() && (!is_divisible || must_reply) {
            return None;
        }
        self.type_state_mut(kind).refresh(equal);
        let mut changed = std::mem::take(&mut diff.changed);
        waiting.iter().for_each(|name| drop(changed.remove(name)));
        let due = changed.len();
        let gone: Vec<_> = std::mem::take(&mut diff.gone).into_iter().collect();
        let changed = if is_divisible { self.up_to_size(kind, changed, &gone) } else { all_named(changed) };
        let is_all_sent = changed.len() == due;
        let is_complete = waiting.is_empty()
            && is_all_sent
            && diff.cut_at.is_none()
            && diff.retained.is_empty()
            && !diff.lacks_forced;
        let last_sent = || changed.last().map(|named| named.name.clone());
        let compared_to = if is_all_sent { diff.cut_at.take() } else { last_sent().filter(|_| diff.is_of_many()) };
        self.type_state_mut(kind).note_compared(compared_to);
        let is_something = !changed.is_empty() || !gone.is_empty() || must_reply;
        is_something.then_some(ReadyBatch { changed, gone, is_complete, diff })
    }

    /// Postpones removals of clusters and endpoints that a proxy's routes still name, for [`ORDER_WAIT`] at most: the
    /// new routes are sent first.
    fn retain_named(&mut self, kind: ResourceType, diff: &mut PendingDiff, now: Instant) {
        let is_ordered = matches!(kind, ResourceType::Cluster | ResourceType::Endpoints);
        let (routes, type_state) = (self.type_state(ResourceType::Route), self.type_state(kind));
        let is_named = |name: &str| bare(name).split('@').next().is_some_and(|cluster| routes.names_cluster(cluster));
        let mut retained = Vec::new();
        if is_ordered && self.dialect == Dialect::Envoy && routes.is_begun {
            let named = diff.gone.iter().filter(|name| is_named(name));
            retained.extend(named.filter_map(|name| Some((name.clone(), type_state.sent_as(name)?.clone()))));
        }
        let type_state = self.type_state_mut(kind);
        if retained.is_empty() {
            type_state.retained_since = None;
            return;
        }
        if now >= *type_state.retained_since.get_or_insert(now) + ORDER_WAIT {
            return;
        }
        diff.gone.retain(|name| !retained.iter().any(|(known, _)| known == name));
        diff.retained = all_named(retained);
    }

    /// Reports whether a change may affect the resources of the client.
    pub(super) fn is_affected(&self, touched: &Touched, client: &Client) -> bool {
        let namespaces = client.namespaces.as_deref();
        self.type_states.iter().any(|type_state| type_state.is_affected(touched, namespaces))
    }

    /// Reports whether the stream has so many names that comparing them takes long.
    pub(super) fn is_large(&self) -> bool {
        self.type_states.iter().any(|type_state| type_state.subscription.names().len() > NAMES_MANY)
    }

    /// Records that any resource may have changed.
    pub(super) fn invalidate(&mut self) {
        self.type_states.iter_mut().for_each(TypeState::invalidate);
    }

    /// Returns an error if the stream subscribes to endpoints for too many localities.
    fn check_localities(&self) -> Result<(), StreamFault> {
        let names = self.type_state(ResourceType::Endpoints).subscription.names().iter();
        let localities: BTreeSet<&str> = names.filter_map(|name| Some(bare(name).split_once('@')?.1)).collect();
        if localities.len() > limits::XDS_PLACES_MAX {
            let text =
                format!("endpoints of {} places, a stream has at most {}", localities.len(), limits::XDS_PLACES_MAX);
            return Err(StreamFault::TooMany(text));
        }
        Ok(())
    }

    /// Returns the names of resources that wait until the client has the clusters named in them, for [`ORDER_WAIT`] at
    /// most.
    fn waiting(&mut self, kind: ResourceType, diff: &PendingDiff, view: &dyn View, now: Instant) -> Vec<Arc<str>> {
        let is_ordered = matches!(kind, ResourceType::Listener | ResourceType::Route);
        if !is_ordered || !self.type_state(ResourceType::Cluster).is_begun {
            return Vec::new();
        }
        let waits = |(name, resource): &(&Arc<str>, &Arc<Resource>)| match self.dialect {
            Dialect::Envoy => resource.clusters.iter().any(|name| self.is_coming(name, view)),
            Dialect::Grpc => self.is_between_steps(name, resource),
        };
        let held = diff.changed.iter().filter(waits);
        let held: Vec<_> = held.map(|(name, _)| name.clone()).collect();
        let type_state = self.type_state_mut(kind);
        if held.is_empty() {
            type_state.held_since = None;
            return held;
        }
        let since = *type_state.held_since.get_or_insert(now);
        if now < since + ORDER_WAIT {
            return held;
        }
        type_state.held_since = None;
        Vec::new()
    }

    /// Reports whether a cluster exists that the client has not answered for yet.
    fn is_coming(&self, name: &str, view: &dyn View) -> bool {
        let clusters = self.type_state(ResourceType::Cluster);
        let is_named = || clusters.subscription.has(name) && view.get(ResourceType::Cluster, name).is_some();
        let is_of_all = || clusters.subscription.is_wildcard() && view.all(ResourceType::Cluster).contains_key(name);
        !clusters.is_answered(name) && (is_named() || is_of_all())
    }

    /// Returns the time of the next timeout.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let open = self.type_states.iter().filter(|type_state| type_state.is_open());
        let since = open.flat_map(|type_state| [type_state.held_since, type_state.retained_since]).flatten();
        let waits = since.map(|since| since + ORDER_WAIT).chain(self.returning.deadline());
        waits.min()
    }

    /// Returns as many resources as fit into a response, and at least one. Resources that are too large for the client
    /// are skipped permanently.
    fn up_to_size(
        &mut self,
        kind: ResourceType,
        changed: BTreeMap<Arc<str>, Arc<Resource>>,
        gone: &[Arc<str>],
    ) -> Vec<NamedResource> {
        let mut taken = Vec::new();
        let mut bytes: usize = gone.iter().map(|name| 2 * name.len() + RESOURCE_OVERHEAD).sum();
        for (name, resource) in changed {
            let size = resource.size() + name.len() + RESOURCE_OVERHEAD;
            if self.is_too_large(size) {
                let named = NamedResource { name, resource };
                self.type_state_mut(kind).skip(&OutgoingResponse::of_changed(vec![named]));
                self.note(Event::TooLarge { kind, bytes: size });
                continue;
            }
            if bytes + size > limits::XDS_RESPONSE_BYTES_TARGET && !taken.is_empty() {
                break;
            }
            bytes += size;
            taken.push(NamedResource { name, resource });
        }
        taken
    }

    /// Reports whether a message is too large for a client of this dialect.
    pub(super) fn is_too_large(&self, bytes: usize) -> bool {
        self.dialect == Dialect::Grpc && bytes > limits::XDS_RESPONSE_BYTES_MAX
    }

    /// Returns the endpoints of changed clusters. A proxy waits for them even if they did not change.
    pub(super) fn endpoints_of(&self, clusters: &[NamedResource]) -> Vec<Arc<str>> {
        let changed: BTreeSet<&str> = clusters.iter().map(|named| bare(&named.name)).collect();
        let names = self.type_state(ResourceType::Endpoints).subscription.names().iter();
        let is_of_changed = |name: &str| {
            // A cluster has endpoints for each locality of callers, NAME@PLACE.
            let ends = bare(name).match_indices('@').map(|(at, _)| &bare(name)[..at]);
            changed.contains(bare(name)) || ends.into_iter().any(|cluster| changed.contains(cluster))
        };
        names.filter(|name| is_of_changed(name)).cloned().collect()
    }
}

impl OutgoingResponse {
    /// Creates a partial response without a nonce.
    fn of_changed(changed: Vec<NamedResource>) -> OutgoingResponse {
        OutgoingResponse { nonce: 0, changed, gone: Vec::new(), sent: None, is_whole: false }
    }
}

fn all_named(changed: impl IntoIterator<Item = (Arc<str>, Arc<Resource>)>) -> Vec<NamedResource> {
    changed.into_iter().map(|(name, resource)| NamedResource { name, resource }).collect()
}

/// Returns a resource in the form used in responses.
pub(super) fn packed(resource: &Resource) -> Any {
    Any { type_url: resource.kind.type_url().to_owned(), value: resource.bytes() }
}

/// Returns the bytes of a response.
pub(super) fn size_of(response: &impl Message) -> usize {
    response.encoded_len()
}

/// Returns a hash of the resources of a response in their order.
pub(super) fn hash_of<'a>(resources: impl Iterator<Item = &'a Arc<Resource>>) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let start = 0xcbf2_9ce4_8422_2325;
    resources.fold(start, |hash: u64, resource| (hash ^ resource.version.hash).rotate_left(29).wrapping_mul(PRIME))
}

/// Returns all resources of a map in their order.
pub(super) fn in_order(resources: &Resources) -> Vec<Any> {
    resources.values().map(|resource| packed(resource)).collect()
}
