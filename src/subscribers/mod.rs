//! Clients and their releases: which client was last given which release of a config file, or of which rules, as far as
//! this node has served it.
//!
//! A client is one address with one program. What it is given is written down when it is given; that it polls says
//! that it still has it. Who waits for changes is forgotten [`GRACE`] after its wait, who only pulls after
//! [`FORGET_AFTER`]. There are never more than [`limits::SUBSCRIPTIONS_MAX`], nor more bytes of them than
//! [`limits::SUBSCRIPTIONS_BYTES_MAX`], and one [`Origin`] has at most a quarter of either, whatever addresses its
//! clients say they have; what comes beyond is counted and not kept. Whether a client has what it should have is found
//! out when somebody asks: nothing is done while nobody does.
//!
//! Knows nothing of HTTP and of other nodes, see `controllers::subscribers` for those.

mod asked;
mod callers;
mod entry;
pub mod fleet;
mod hold_state;
pub mod holders;
mod kept;
pub mod lists;
pub mod refusals;
mod reports;
mod rule_sets;
mod streaming;
pub mod streams;
mod subscribed;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::model::config_file::canonical_file;
use crate::model::config_lookup::Released;
use crate::model::limits;
use crate::model::rule::Family;
use crate::model::rule::release::RuleRelease;
use crate::model::time::Timestamp;
use crate::origin::{Origin, OriginQuota};
use entry::{DeliveredVersion, Subscriber, Topic};
use holders::{client_mark, host_mark};
use kept::{cut, kept};
use refusals::Refusals;
use rule_sets::RuleSets;
use streams::Streams;

pub use hold_state::{Applied, HoldState};
pub use reports::{FileReport, RuleWord, Word};
pub use subscribed::{ClientMark, Subscribed};

/// Clients that only pull come every five minutes, and may miss once.
pub const FORGET_AFTER: Duration = Duration::from_secs(660);
/// Between two looks at who is to be forgotten, which new clients set off.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Time within which a client that waits for changes comes back once its wait has ended; a client that has not is gone,
/// or went to another node.
pub const GRACE: Duration = Duration::from_secs(60);
/// Between two counts of who is current.
const COUNT_EVERY: Duration = Duration::from_secs(5);
const SHARDS: usize = 16;
/// The part of all places, and of all bytes, that one origin may have.
const SHARE_OF_ORIGIN: usize = 4;
/// The kind of what config clients have.
const FILES: &str = "configfile";
/// The kind of lists of instances.
const LISTS: &str = "instances";

/// Client that makes a request.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// As gray releases see it.
    pub address: &'a str,
    /// Its user agent, cut to [`limits::AGENT_BYTES_MAX`] where it is kept.
    pub agent: &'a str,
    /// Origin of its requests, whatever it says of itself: it pays for what is remembered.
    pub origin: Origin,
    /// Maximum time that it waits for changes; zero where it asks for what is there now.
    pub hold: Duration,
}

impl Client<'_> {
    /// Time that it is kept after it was heard of; a client that does not wait now stays for as long as `before`.
    fn stays(&self, before: Duration) -> Duration {
        if self.hold.is_zero() { before } else { self.hold + GRACE }
    }
}

/// A client that has something, as nodes tell each other and callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    pub address: String,
    pub agent: String,
    pub labels: Vec<(String, String)>,
    /// Version that it was given last; 0 for none.
    pub version: u64,
    /// Time at which it was first given that.
    pub since: Timestamp,
    /// Time since it was heard of last, in milliseconds before the answer.
    pub heard_ms_ago: u64,
    /// It has what it should have by now.
    pub is_current: bool,
    /// It is a client of xDS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_xds: bool,
    /// Identity that it gives itself; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// Its own word on the release; none while it has said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// Its reason for a refusal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time of that word; of a client of xDS that of its refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<Timestamp>,
    /// The node knows by its report alone what it has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reported: bool,
}

impl Subscription {
    pub fn hold_state(&self) -> HoldState {
        HoldState::of(self.applied, self.is_current)
    }
}

/// Number of clients of a kind of thing, and number of those that have what they should have by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub present: usize,
    pub current: usize,
}

/// Source of a node's knowledge of what a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The node gave it that.
    Given,
    /// The client said so, and was given it elsewhere or before the node began.
    Reported,
}

/// Every client that this node has heard of.
pub struct Subscribers {
    began: Instant,
    hashing: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    places: OriginQuota,
    bytes: OriginQuota,
    rule_sets: RuleSets,
    streams: Streams,
    refusals: Refusals,
    turned_away: AtomicUsize,
    counted: Mutex<Option<Instant>>,
}

struct Shard {
    swept: Instant,
    /// By what they want, then by who they are.
    topics: HashMap<u64, HashMap<u64, Subscriber>>, // bound: clients
}

impl Default for Subscribers {
    fn default() -> Self {
        let shard = || Mutex::new(Shard { swept: Instant::now(), topics: HashMap::new() });
        let shares = |total: usize| OriginQuota::new(total, total / SHARE_OF_ORIGIN);
        Subscribers {
            began: Instant::now(),
            hashing: RandomState::new(),
            shards: std::array::from_fn(|_| shard()),
            places: shares(limits::SUBSCRIPTIONS_MAX),
            bytes: shares(limits::SUBSCRIPTIONS_BYTES_MAX),
            rule_sets: RuleSets::default(),
            streams: Streams::default(),
            refusals: Refusals::default(),
            turned_away: AtomicUsize::new(0),
            counted: Mutex::new(None),
        }
    }
}

impl Subscribers {
    /// Number of clients, with what they have, that are kept.
    pub fn len(&self) -> usize {
        self.places.taken()
    }

    /// Bytes that they take in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.taken()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of clients that were not kept, as there are too many, in all or of their origin.
    pub fn turned_away(&self) -> usize {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Number of those that an origin pays for.
    #[cfg(test)]
    pub fn places_of(&self, origin: Origin) -> usize {
        self.places.taken_by(origin)
    }

    /// Streams of xDS that are open.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Refusals of clients that webhooks are to be told of.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// A client was given a released file, or has it already.
    pub fn pulled(
        &self,
        client: Client<'_>,
        labels: &[(String, String)],
        namespaces: &[String],
        file: &str,
        released: &Released,
        now: impl FnOnce() -> Timestamp,
    ) {
        self.note_file(Source::Given, client, labels, namespaces, (file, released), now);
    }

    fn note_file(
        &self,
        source: Source,
        client: Client<'_>,
        labels: &[(String, String)],
        namespaces: &[String],
        (file, released): (&str, &Released),
        now: impl FnOnce() -> Timestamp,
    ) {
        let (topic, labels) = (self.topic_of_file(&released.group, file), kept(labels));
        let key = self.mark_of_key(&released.release_key);
        let is_known = |entry: &mut Subscriber| {
            let DeliveredVersion::File { namespace, version, key: known, .. } = &entry.given else { return false };
            let is_given = *version == released.version && *known == key && **namespace == *released.namespace;
            is_given && entry.labels == labels
        };
        self.note(source, topic, client, is_known, now, || {
            let (group, file) = (released.group.as_str().into(), canonical_file(file).into());
            // Nothing is in a namespace that is longer than any.
            let can_be = |namespace: &&String| namespace.len() <= limits::NAMESPACE_CHARS_MAX;
            let namespaces = namespaces.iter().filter(can_be).cloned().collect();
            let wants = Topic::File { group, file, namespaces };
            let namespace = released.namespace.as_str().into();
            let stored = released.file.as_str().into();
            let given = DeliveredVersion::File { namespace, file: stored, version: released.version, key };
            (wants, labels.clone(), given)
        });
    }

    /// A client waits for changes of a file. False for one of which it is not known here what it was given.
    pub fn polled(&self, client: Client<'_>, group: &str, file: &str) -> bool {
        let topic = self.topic_of_file(group, file);
        let who = self.who(client);
        let mut shard = self.shard(who).lock();
        let known = shard.topics.get_mut(&topic).and_then(|clients| clients.get_mut(&who));
        let Some(entry) = known.filter(|entry| entry.is_there(Instant::now())) else { return false };
        (entry.heard, entry.stays) = (Instant::now(), client.stays(entry.stays));
        self.pass(entry, client.origin);
        true
    }

    /// A client was told which rules of a family a service has, or knows already.
    pub fn discovered(
        &self,
        client: Client<'_>,
        labels: impl FnOnce() -> Vec<(String, String)>,
        family: Family,
        (namespace, service): (&str, &str),
        releases: &[Arc<RuleRelease>],
        now: impl FnOnce() -> Timestamp,
    ) {
        let topic = self.topic_of_service(family, namespace, service);
        let is_known =
            |entry: &mut Subscriber| matches!(&entry.given, DeliveredVersion::Rules(given) if given.is_of(releases));
        self.note(Source::Given, topic, client, is_known, now, || {
            let wants = Topic::Rules { family, namespace: namespace.into(), service: service.into() };
            (wants, kept(&labels()), DeliveredVersion::Rules(self.rule_sets.of(releases)))
        });
    }

    fn note(
        &self,
        source: Source,
        topic: u64,
        client: Client<'_>,
        is_known: impl Fn(&mut Subscriber) -> bool,
        now: impl FnOnce() -> Timestamp,
        make: impl FnOnce() -> (Topic, Box<[(String, String)]>, DeliveredVersion),
    ) {
        let (who, heard) = (self.who(client), Instant::now());
        let mut shard = self.shard(who).lock();
        let known = shard.topics.get_mut(&topic).and_then(|clients| clients.get_mut(&who));
        if let Some(entry) = known {
            (entry.heard, entry.stays) = (heard, client.stays(entry.stays));
            let is_paid = self.pass(entry, client.origin);
            if is_known(entry) {
                entry.is_reported &= source == Source::Reported;
                return;
            }
            let (before, (wants, labels, given)) = (entry.bytes, make());
            (entry.wants, entry.labels, entry.given, entry.since) = (wants, labels, given, now());
            entry.is_reported = source == Source::Reported;
            entry.forget_reports();
            entry.bytes = entry.size();
            self.bytes.give_back(entry.origin, before);
            let may_stay = is_paid || entry.bytes <= before;
            if !may_stay || self.bytes.take(entry.origin, entry.bytes).is_err() {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
                self.places.give_back(entry.origin, 1);
                shard.topics.get_mut(&topic).map(|clients| clients.remove(&who));
            }
            return;
        }
        self.sweep_if_due(&mut shard, heard);
        if self.places.take(client.origin, 1).is_err() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (wants, labels, given) = make();
        let address = cut(client.address, limits::SUBSCRIPTION_ADDRESS_BYTES_MAX);
        let agent = cut(client.agent, limits::AGENT_BYTES_MAX);
        let (origin, stays) = (client.origin, client.stays(FORGET_AFTER));
        let entry = Subscriber {
            wants,
            marks: [client_mark([address, agent, ""]), host_mark(address)],
            address: address.into(),
            agent: agent.into(),
            labels,
            given,
            reports: Vec::new(),
            since: now(),
            heard,
            is_reported: source == Source::Reported,
            stays,
            origin,
            bytes: 0,
        };
        let entry = Subscriber { bytes: entry.size(), ..entry };
        if self.bytes.take(origin, entry.bytes).is_err() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            self.places.give_back(origin, 1);
            return;
        }
        shard.topics.entry(topic).or_default().insert(who, entry);
    }

    /// Charges an entry to the origin of who speaks of it now. False where that has no room for it: then the one before
    /// goes on paying, for no more bytes than it did.
    fn pass(&self, entry: &mut Subscriber, to: Origin) -> bool {
        if self.places.pass(entry.origin, to, 1).is_err() {
            return false;
        }
        if self.bytes.pass(entry.origin, to, entry.bytes).is_err() {
            self.places.give_back(to, 1);
            self.places.charge(entry.origin, 1);
            return false;
        }
        entry.origin = to;
        true
    }

    fn sweep_if_due(&self, shard: &mut Shard, now: Instant) {
        if now - shard.swept < SWEEP_EVERY {
            return;
        }
        shard.swept = now;
        shard.topics.retain(|_, clients| {
            clients.retain(|_, entry| {
                let is_there = entry.is_there(now);
                if !is_there {
                    self.places.give_back(entry.origin, 1);
                    self.bytes.give_back(entry.origin, entry.bytes);
                }
                is_there
            });
            !clients.is_empty()
        });
        self.rule_sets.sweep();
    }

    fn shard(&self, who: u64) -> &Mutex<Shard> {
        &self.shards[who as usize % SHARDS]
    }

    fn who(&self, client: Client<'_>) -> u64 {
        self.hashing.hash_one((client.address, cut(client.agent, limits::AGENT_BYTES_MAX)))
    }

    fn mark_of_key(&self, release_key: &str) -> u64 {
        self.hashing.hash_one(release_key)
    }

    fn topic_of_file(&self, group: &str, file: &str) -> u64 {
        self.topic("file", &(group, canonical_file(file)))
    }

    fn topic_of_service(&self, family: Family, namespace: &str, service: &str) -> u64 {
        self.topic(family.kind(), &(namespace, service))
    }

    fn topic_of_reported(&self, family: Family, id: &str) -> u64 {
        self.topic("reported", &(family.kind(), id))
    }

    fn topic_of_list(&self, namespace: &str, service: &str) -> u64 {
        self.topic(LISTS, &(namespace, service))
    }

    fn topic(&self, kind: &str, name: &impl Hash) -> u64 {
        self.hashing.hash_one((kind, name))
    }
}

#[cfg(test)]
mod tests;
