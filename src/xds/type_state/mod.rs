//! One type of a stream: what its client was sent, what it has, and what is due.
//!
//! `given` is what was sent last under each name, also where it was refused, so nothing refused is sent again by
//! itself. What the client has is told to who asks for it ([`Delivered`]). Both are clones of what the view shows
//! wherever they are equal to it: then they take no memory of their own, and to look for changes costs nothing.

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

/// Bytes that a name takes beside its own: its allocation, its place in what is asked for, and that in what is given or
/// in what is not there.
const OF_NAME: usize = 144;

/// The present, as a step of a stream sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// Time of the cluster.
    pub(super) time: Timestamp,
}

/// One type of a stream.
pub(super) struct TypeState {
    pub(super) kind: ResourceType,
    /// There was a request of this type.
    pub(super) is_begun: bool,
    pub(super) subscription: Subscription,
    /// An answer is due, also an empty one.
    pub(super) is_answer_owed: bool,
    /// Time since which something waits for clusters.
    pub(super) held_since: Option<Instant>,
    /// Time since which removals wait for routes that name them no more.
    pub(super) kept_since: Option<Instant>,
    /// Highest index that was sent, or that the client named.
    pub(super) index: u64,
    /// Nonce of the last response; 0 before the first.
    pub(super) last_nonce: u64,
    given: Resources,
    /// Names of which the client does not have what was given: refused, or too large.
    lacks: BTreeSet<Arc<str>>, // bound: xds-names
    /// Names asked for that the client was told are not there.
    absent: BTreeSet<Arc<str>>, // bound: xds-names
    /// Names that are sent though nothing changed.
    owed: BTreeSet<Arc<str>>, // bound: xds-names
    under_way: Option<InFlightResponse>,
    delivered: Delivered,
    is_news: bool,
    seen: Option<Seen>,
    /// Name up to which all is compared, where what is due is more than one response has room for.
    compared_to: Option<Arc<str>>,
}

/// Content of a response that is not answered yet.
struct InFlightResponse {
    changed: Vec<NamedResource>,
    removed: Vec<Arc<str>>,
    /// It has all that the client is to have.
    is_whole: bool,
    /// The client may have passed over a part of it: that was not asked for in between.
    is_doubtful: bool,
}

/// A resource under the name that the client knows it by.
#[derive(Clone, Debug)]
pub(super) struct NamedResource {
    pub(super) name: Arc<str>,
    pub(super) resource: Arc<Resource>,
}

/// Content of a response that is sent now.
pub(super) struct OutgoingResponse {
    pub(super) nonce: u64,
    pub(super) changed: Vec<NamedResource>,
    pub(super) gone: Vec<Arc<str>>,
    /// All that the client is given, if the response leaves nothing due.
    pub(super) given: Option<Resources>,
    /// It has all that the client is to have: what is absent from it is deleted.
    pub(super) is_whole: bool,
}

impl TypeState {
    pub(super) fn new(kind: ResourceType) -> TypeState {
        TypeState {
            kind,
            is_begun: false,
            subscription: Subscription::default(),
            is_answer_owed: false,
            held_since: None,
            kept_since: None,
            index: 0,
            last_nonce: 0,
            given: Resources::new(),
            lacks: BTreeSet::new(),
            absent: BTreeSet::new(),
            owed: BTreeSet::new(),
            under_way: None,
            delivered: Delivered::default(),
            is_news: false,
            seen: None,
            compared_to: None,
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// True if something may be sent: asked for, and nothing is under way.
    pub(super) fn is_open(&self) -> bool {
        self.under_way.is_none() && (self.is_answer_owed || !self.subscription.is_empty() || !self.owed.is_empty())
    }

    /// State for who asks which client has what, if it changed since the last call.
    pub(super) fn news(&mut self) -> Option<&Delivered> {
        if !std::mem::take(&mut self.is_news) {
            return None;
        }
        self.delivered.is_subscribed = !self.subscription.is_empty();
        self.delivered.given = self.given.clone();
        let is_lacking =
            |refusal: &Arc<ResourceRefusal>| refusal.resources.keys().any(|name| self.lacks.contains(name));
        self.delivered.refusals.retain(is_lacking);
        Some(&self.delivered)
    }

    /// Bytes that it keeps for the names asked for.
    pub(super) fn kept_bytes(&self) -> usize {
        self.subscription.bytes() + self.subscription.names().len() * OF_NAME
    }

    /// Notes that names are sent next, whether or not they changed.
    pub(super) fn owe(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        self.owed.extend(names);
    }

    /// Notes that all names asked for are sent next.
    pub(super) fn owe_all(&mut self) {
        self.owed.extend(self.subscription.names().iter().cloned());
    }

    /// Follows a change of the subscription: what is asked for no more is forgotten.
    pub(super) fn follow(&mut self, changed: &Changed) {
        self.is_news |= !changed.is_nothing() || !self.is_begun;
        if !changed.is_nothing() {
            (self.seen, self.compared_to) = (None, None);
        }
        if let Some(sent) = &mut self.under_way {
            sent.is_doubtful |= changed.is_all_dropped || !changed.dropped.is_empty();
        }
        if changed.is_all_dropped {
            let is_kept = |name: &Arc<str>| self.subscription.has(name) || self.is_on_its_way(name);
            let kept = |map: &Resources| -> Resources {
                let kept = map.iter().filter(|(name, _)| is_kept(name));
                kept.map(|(name, resource)| (name.clone(), resource.clone())).collect()
            };
            let (given, has) = (kept(&self.given), kept(&self.delivered.has));
            self.lacks = self.lacks.iter().filter(|name| is_kept(name)).cloned().collect();
            self.owed.retain(|name| self.subscription.has(name));
            (self.given, self.delivered.has) = (given, has);
        }
        for name in &changed.dropped {
            self.absent.remove(name);
            self.forget(name);
        }
    }

    /// Forgets a name that is not asked for, unless it is in a response that the client may still take.
    fn forget(&mut self, name: &Arc<str>) {
        if self.subscription.is_wildcard() || self.subscription.has(name) {
            return;
        }
        self.owed.remove(name);
        self.delivered.has.remove(name);
        if !self.is_on_its_way(name) {
            self.lacks.remove(name);
            self.given.remove(name);
        }
    }

    fn is_on_its_way(&self, name: &Arc<str>) -> bool {
        self.under_way.as_ref().is_some_and(|sent| sent.changed.iter().any(|named| named.name == *name))
    }

    /// Takes the word of a client that it has a version of a resource, of which there is another one now, or none. What
    /// it has otherwise is not known, but that it is to be replaced or removed.
    pub(super) fn adopt(&mut self, name: &Arc<str>, version: Option<Version>, now: Option<Arc<Resource>>) {
        (self.seen, self.compared_to) = (None, None);
        self.is_news = true;
        if let Some(now) = now.filter(|now| version.is_some_and(|version| version.hash == now.version.hash)) {
            self.owed.remove(name);
            self.delivered.has.insert(name.clone(), now.clone());
            self.given.insert(name.clone(), now);
            return;
        }
        let version = version.unwrap_or_default();
        let (kind, name_of_it, head, body) = (self.kind, name.clone(), Bytes::new(), Bytes::new());
        let (releases, clusters) = (Vec::new(), Vec::new());
        let unknown = Resource { kind, name: name_of_it, version, head, body, releases, clusters };
        self.given.insert(name.clone(), Arc::new(unknown));
    }

    /// Takes a resource for given that the client has from another stream.
    pub(super) fn recall(&mut self, name: Arc<str>, had: Arc<Resource>) {
        (self.seen, self.compared_to) = (None, None);
        self.is_news = true;
        self.given.insert(name, had);
    }

    /// Notes that a response was sent.
    pub(super) fn sent(&mut self, sending: OutgoingResponse, now: Instant) {
        self.give(&sending);
        self.last_nonce = sending.nonce;
        self.is_answer_owed = false;
        self.delivered.under_way = Some(now);
        let OutgoingResponse { changed, gone, is_whole, .. } = sending;
        self.under_way = Some(InFlightResponse { changed, removed: gone, is_whole, is_doubtful: false });
        self.is_news = true;
    }

    /// Notes that a client cannot be sent what is due: it is not tried again before something changes.
    pub(super) fn skip(&mut self, sending: &OutgoingResponse) {
        self.give(sending);
        self.is_news = true;
        self.lacks.extend(sending.changed.iter().map(|named| named.name.clone()));
    }

    fn give(&mut self, sending: &OutgoingResponse) {
        for NamedResource { name, resource } in &sending.changed {
            self.owed.remove(name);
            self.absent.remove(name);
            self.index = self.index.max(resource.version.index);
            if sending.given.is_none() {
                self.given.insert(name.clone(), resource.clone());
            }
        }
        for name in &sending.gone {
            self.owed.remove(name);
            self.lacks.remove(name);
            self.given.remove(name);
            if self.subscription.has(name) {
                self.absent.insert(name.clone());
            }
        }
        if let Some(given) = &sending.given {
            self.given = given.clone();
        }
    }

    /// Notes that what there is may have changed.
    pub(super) fn begin_anew(&mut self) {
        self.compared_to = None;
    }

    /// Notes how far what was due is sent.
    pub(super) fn note_compared(&mut self, to: Option<Arc<str>>) {
        self.compared_to = to;
    }

    /// Clusters that are named by what the client has.
    pub(super) fn names_cluster(&self, name: &str) -> bool {
        let names = |resource: &Arc<Resource>| resource.clusters.binary_search_by(|known| (**known).cmp(name)).is_ok();
        self.delivered.has.values().any(names)
    }

    pub(super) fn given_as(&self, name: &str) -> Option<&Arc<Resource>> {
        self.given.get(name)
    }

    /// True if something that was touched may be among what is asked for.
    pub(super) fn is_concerned(&self, touched: &Touched, namespaces: Option<&[String]>) -> bool {
        let is_of = |name: &str| {
            // A name that is not written in its shortest way is looked up.
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

    /// True if a client has been told of a resource, and has answered if it was new to it.
    pub(super) fn is_answered(&self, name: &str) -> bool {
        let is_new = |sent: &InFlightResponse| sent.changed.iter().any(|named| *named.name == *name);
        self.given.contains_key(name)
            && (self.delivered.has.contains_key(name) || !self.under_way.as_ref().is_some_and(is_new))
    }

    #[cfg(test)]
    pub(super) fn delivered(&self) -> &Delivered {
        &self.delivered
    }

    #[cfg(test)]
    pub(super) fn given(&self) -> &Resources {
        &self.given
    }
}
