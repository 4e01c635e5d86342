//! One type of a stream: what its client was sent, what it has, and what is due.
//!
//! `given` is what was sent last under each name, also where it was refused, so nothing refused is sent again by itself.
//! What the client has is told to who asks for it ([`Delivered`]). Both are clones of what the view shows wherever they
//! are equal to it: then they take no memory of their own, and to look for changes costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use tokio::time::Instant;

use super::View;
use super::client::first_bytes;
use super::subscription::{Changed, Subscription};
use crate::model::limits;
use crate::model::mesh::resource::{Resource, ResourceType, Resources, Version};
use crate::model::time::Timestamp;
use crate::subscribers::streams::{Delivered, REFUSALS_KEPT, Refusal, Refused};

/// The present, as a step of a stream sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// Time of the cluster.
    pub(super) time: Timestamp,
}

/// One type of a stream.
pub(super) struct Ledger {
    pub(super) kind: ResourceType,
    /// There was a request of this type.
    pub(super) is_begun: bool,
    pub(super) subscription: Subscription,
    /// An answer is due, also an empty one.
    pub(super) is_answer_owed: bool,
    /// Time since which something waits for clusters.
    pub(super) held_since: Option<Instant>,
    /// Highest index that was sent, or that the client named.
    pub(super) index: u64,
    /// Nonce of the last response; 0 before the first.
    pub(super) last_nonce: u64,
    given: Resources,
    /// Names of which the client does not have what was given: refused, or too large.
    lacks: BTreeSet<Arc<str>>,
    /// Names asked for that the client was told are not there.
    absent: BTreeSet<Arc<str>>,
    /// Names that are sent though nothing changed.
    owed: BTreeSet<Arc<str>>,
    under_way: Option<UnderWay>,
    delivered: Delivered,
    is_news: bool,
}

/// Content of a response that is not answered yet.
struct UnderWay {
    changed: Vec<Named>,
    removed: Vec<Arc<str>>,
    /// It has all that the client is to have.
    is_whole: bool,
}

/// A resource under the name that the client knows it by.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: Arc<str>,
    pub(super) resource: Arc<Resource>,
}

/// Differences between what was given and what there is.
#[derive(Default)]
pub(super) struct Look {
    pub(super) changed: BTreeMap<Arc<str>, Arc<Resource>>,
    /// Names that are not there, and that the client was not told about.
    pub(super) gone: BTreeSet<Arc<str>>,
    /// Equal bytes, made of other releases.
    equal: Vec<Named>,
    /// All that a wildcard shows.
    shown: Option<Resources>,
}

/// Content of a response that is sent now.
pub(super) struct Sending {
    pub(super) nonce: u64,
    pub(super) changed: Vec<Named>,
    pub(super) gone: Vec<Arc<str>>,
    /// All that the client is given, if the response leaves nothing due.
    pub(super) given: Option<Resources>,
    /// It has all that the client is to have: what is absent from it is deleted.
    pub(super) is_whole: bool,
}

impl Ledger {
    pub(super) fn new(kind: ResourceType) -> Ledger {
        Ledger {
            kind,
            is_begun: false,
            subscription: Subscription::default(),
            is_answer_owed: false,
            held_since: None,
            index: 0,
            last_nonce: 0,
            given: Resources::new(),
            lacks: BTreeSet::new(),
            absent: BTreeSet::new(),
            owed: BTreeSet::new(),
            under_way: None,
            delivered: Delivered::default(),
            is_news: false,
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
        let is_lacking = |refusal: &Arc<Refusal>| refusal.resources.keys().any(|name| self.lacks.contains(name));
        self.delivered.refusals.retain(is_lacking);
        Some(&self.delivered)
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
        if changed.is_all_dropped {
            let is_kept = |name: &Arc<str>| self.subscription.has(name);
            let kept = |map: &Resources| -> Resources {
                let kept = self.subscription.names().iter().filter_map(|name| map.get_key_value(name));
                kept.map(|(name, resource)| (name.clone(), resource.clone())).collect()
            };
            let (given, has) = (kept(&self.given), kept(&self.delivered.has));
            self.owed.retain(is_kept);
            self.lacks.retain(is_kept);
            (self.given, self.delivered.has) = (given, has);
        }
        for name in &changed.dropped {
            self.absent.remove(name);
            if !self.subscription.is_wildcard() {
                self.owed.remove(name);
                self.lacks.remove(name);
                self.given.remove(name);
                self.delivered.has.remove(name);
            }
        }
    }

    /// Takes the word of a client that it has a version of a resource. True if it is what there is now.
    pub(super) fn adopt(&mut self, name: &Arc<str>, version: Option<Version>, now: &Arc<Resource>) -> bool {
        let is_equal = version.is_some_and(|version| version.hash == now.version.hash);
        if is_equal {
            self.given.insert(name.clone(), now.clone());
            self.delivered.has.insert(name.clone(), now.clone());
            self.owed.remove(name);
            self.is_news = true;
        }
        is_equal
    }

    /// Finds what is due.
    pub(super) fn look(&self, view: &dyn View) -> Look {
        let mut look = Look::default();
        let all = self.subscription.is_wildcard().then(|| view.all(self.kind));
        if let Some(all) = &all {
            self.compare_all(all, &mut look);
        }
        let mut shown = all.clone();
        for name in self.subscription.names() {
            if all.as_ref().is_some_and(|all| all.contains_key(name)) {
                continue;
            }
            match view.get(self.kind, name) {
                Some(resource) => {
                    if let Some(shown) = &mut shown {
                        shown.insert(name.clone(), resource.clone());
                    }
                    self.compare(name, resource, &mut look);
                }
                None if self.absent.contains(name) => {}
                None => drop(look.gone.insert(name.clone())),
            }
        }
        self.add_owed(all.as_ref(), view, &mut look);
        look.shown = shown;
        look
    }

    fn compare_all(&self, all: &Resources, look: &mut Look) {
        if all.ptr_eq(&self.given) {
            return;
        }
        for item in self.given.diff(all) {
            match item {
                DiffItem::Add(name, resource) => drop(look.changed.insert(name.clone(), resource.clone())),
                DiffItem::Update { new: (name, resource), .. } => self.compare(name, resource.clone(), look),
                // A name that is asked for besides is looked up by itself.
                DiffItem::Remove(name, _) if self.subscription.has(name) => {}
                DiffItem::Remove(name, _) => drop(look.gone.insert(name.clone())),
            }
        }
    }

    fn compare(&self, name: &Arc<str>, resource: Arc<Resource>, look: &mut Look) {
        match self.given.get(name) {
            Some(given) if Arc::ptr_eq(given, &resource) => {}
            Some(given) if !resource.differs(given) => look.equal.push(Named { name: name.clone(), resource }),
            _ => drop(look.changed.insert(name.clone(), resource)),
        }
    }

    fn add_owed(&self, all: Option<&Resources>, view: &dyn View, look: &mut Look) {
        for name in &self.owed {
            if look.changed.contains_key(name) {
                continue;
            }
            let of_all = all.and_then(|all| all.get(name).cloned());
            let found = of_all.or_else(|| self.subscription.has(name).then(|| view.get(self.kind, name)).flatten());
            match found {
                Some(resource) => drop(look.changed.insert(name.clone(), resource)),
                None if all.is_some() || self.subscription.has(name) => drop(look.gone.insert(name.clone())),
                None => {}
            }
        }
    }

    /// All resources that are asked for and there.
    pub(super) fn shown(&self, look: &mut Look, view: &dyn View) -> Resources {
        look.shown.take().unwrap_or_else(|| {
            let names = self.subscription.names().iter();
            names.filter_map(|name| Some((name.clone(), view.get(self.kind, name)?))).collect()
        })
    }

    /// Notes that nothing is due: what was given is what is shown, made of the newest releases.
    pub(super) fn settle(&mut self, look: Look) {
        self.owed.clear();
        self.refresh(look.equal);
        let Some(shown) = look.shown else { return };
        if shown.ptr_eq(&self.given) {
            return;
        }
        self.given = shown;
        self.is_news = true;
        if self.lacks.is_empty() {
            self.delivered.has = self.given.clone();
        }
    }

    /// Takes over resources whose bytes the client was given already.
    pub(super) fn refresh(&mut self, equal: Vec<Named>) {
        for Named { name, resource } in equal {
            if let Some(has) = self.delivered.has.get_mut(&name).filter(|has| !resource.differs(has)) {
                *has = resource.clone();
            }
            self.given.insert(name, resource);
            self.is_news = true;
        }
    }

    /// Notes that a response was sent.
    pub(super) fn sent(&mut self, sending: Sending, now: Instant) {
        self.give(&sending);
        self.last_nonce = sending.nonce;
        self.is_answer_owed = false;
        self.delivered.under_way = Some(now);
        let Sending { changed, gone, is_whole, .. } = sending;
        self.under_way = Some(UnderWay { changed, removed: gone, is_whole });
        self.is_news = true;
    }

    /// Notes that a client cannot be sent what is due: it is not tried again before something changes.
    pub(super) fn skip(&mut self, sending: &Sending) {
        self.give(sending);
        self.is_news = true;
        self.lacks.extend(sending.changed.iter().map(|named| named.name.clone()));
    }

    fn give(&mut self, sending: &Sending) {
        for Named { name, resource } in &sending.changed {
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

    /// The client took the response that is under way.
    pub(super) fn acknowledge(&mut self) {
        let Some(sent) = self.under_way.take() else { return };
        self.is_news = true;
        (self.delivered.under_way, self.delivered.refused) = (None, None);
        if sent.is_whole {
            self.lacks.clear();
        }
        for named in &sent.changed {
            self.lacks.remove(&named.name);
        }
        if self.lacks.is_empty() {
            self.delivered.has = self.given.clone();
        } else {
            self.take_over(sent.changed, &sent.removed);
        }
    }

    /// The client refused the response that is under way, or parts of it: those that its message names, or any. All
    /// others it has.
    pub(super) fn refuse(&mut self, message: &str, at: Timestamp) {
        let Some(sent) = self.under_way.take() else { return };
        self.is_news = true;
        self.delivered.under_way = None;
        let mut refused = self.refused_by_name(message, &sent);
        if refused.is_empty() {
            refused = sent.changed.iter().map(|named| (named.name.clone(), named.resource.version)).collect();
            self.lacks.extend(refused.iter().map(|(name, _)| name.clone()));
            self.take_over(Vec::new(), &sent.removed);
        } else {
            self.take_all_but(&refused, sent);
        }
        let message = first_bytes(message, limits::XDS_REFUSAL_BYTES_MAX).to_owned();
        self.keep_refusal(&message, at, &refused);
        self.delivered.refused = Some(Refused { message, at, resources: refused });
    }

    fn keep_refusal(&mut self, message: &str, at: Timestamp, refused: &[(Arc<str>, Version)]) {
        let refusals = &mut self.delivered.refusals;
        if refusals.len() >= REFUSALS_KEPT {
            refusals.remove(0);
        }
        let given = refused.iter().filter_map(|(name, _)| self.given.get_key_value(name));
        let resources = given.map(|(name, resource)| (name.clone(), resource.clone())).collect();
        refusals.push(Arc::new(Refusal { message: message.to_owned(), at, resources }));
    }

    fn refused_by_name(&self, message: &str, sent: &UnderWay) -> Vec<(Arc<str>, Version)> {
        let changed: BTreeMap<&str, &Named> = sent.changed.iter().map(|named| (&*named.name, named)).collect();
        let mut found: BTreeMap<Arc<str>, Version> = BTreeMap::new();
        for word in named_in(message) {
            if let Some(named) = changed.get(word) {
                found.insert(named.name.clone(), named.resource.version);
            } else if sent.is_whole
                && let Some((name, resource)) = self.given.get_key_value(word)
            {
                found.insert(name.clone(), resource.version);
            }
        }
        found.into_iter().collect()
    }

    fn take_all_but(&mut self, refused: &[(Arc<str>, Version)], sent: UnderWay) {
        let refused: BTreeSet<&Arc<str>> = refused.iter().map(|(name, _)| name).collect();
        if sent.is_whole {
            let before = std::mem::replace(&mut self.delivered.has, self.given.clone());
            for name in &refused {
                match before.get(*name) {
                    Some(resource) => drop(self.delivered.has.insert((*name).clone(), resource.clone())),
                    None => drop(self.delivered.has.remove(*name)),
                }
            }
            self.lacks.clear();
        } else {
            let taken: Vec<_> = sent.changed.into_iter().filter(|named| !refused.contains(&named.name)).collect();
            for named in &taken {
                self.lacks.remove(&named.name);
            }
            self.take_over(taken, &sent.removed);
        }
        self.lacks.extend(refused.into_iter().cloned());
    }

    fn take_over(&mut self, changed: Vec<Named>, removed: &[Arc<str>]) {
        for name in removed {
            self.delivered.has.remove(name);
        }
        for Named { name, resource } in changed {
            // One that was unsubscribed meanwhile is not there any more.
            if self.given.contains_key(&name) {
                self.delivered.has.insert(name, resource);
            }
        }
    }

    /// True if a client has been told of a resource, and has answered if it was new to it.
    pub(super) fn is_answered(&self, name: &str) -> bool {
        let is_new = |sent: &UnderWay| sent.changed.iter().any(|named| *named.name == *name);
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

impl Look {
    pub(super) fn is_nothing(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty()
    }

    /// Takes what is equal out of it.
    pub(super) fn take_equal(&mut self) -> Vec<Named> {
        std::mem::take(&mut self.equal)
    }

    /// All that a wildcard shows.
    pub(super) fn take_shown(&mut self) -> Option<Resources> {
        self.shown.take()
    }
}

/// Words of the text of a refusal that may be names: gRPC writes `resource index N: NAME: WHY`, Envoy
/// `cluster(s) NAME: WHY, NAME: WHY`.
fn named_in(message: &str) -> impl Iterator<Item = &str> {
    let message = first_bytes(message, limits::XDS_REFUSAL_BYTES_READ);
    message.match_indices(": ").filter_map(|(end, _)| message[..end].rsplit(char::is_whitespace).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_texts_of_refusals() {
        let rows = [
            (
                "xDS response validation errors: [resource index 0: shop/pay: INVALID_ARGUMENT: errors validating \
                 Cluster resource: [field:lb_policy error:LB policy is not supported]; resource index 3: shop/cart: no]",
                vec!["shop/pay", "shop/cart"],
            ),
            (
                "Error adding/updating cluster(s) shop/a: no type, shop/a|0123456789ab: bad",
                vec!["shop/a", "shop/a|0123456789ab"],
            ),
            ("Error adding/updating listener(s) outbound: bad address\ninbound: bad port", vec!["outbound", "inbound"]),
            ("Only unique values for domains are permitted. Duplicate entry of domain a:80", vec![]),
            ("", vec![]),
        ];
        let known = ["shop/pay", "shop/cart", "shop/a", "shop/a|0123456789ab", "outbound", "inbound", "a"];
        for (message, names) in rows {
            let found: Vec<_> = named_in(message).filter(|word| known.contains(word)).collect();
            assert_eq!(found, names, "{message}");
        }
    }
}
