//! Register of clients: the release of each config file and rule that a client was last sent, as far as this node
//! served it.
//!
//! A client is one program at one address. The register is updated when the client is sent a release; later polls
//! confirm that the client still has it. A client that waits for changes is removed [`GRACE`] after its wait has ended,
//! one that only pulls after [`FORGET_AFTER`]. The register has at most [`limits::SUBSCRIPTIONS_MAX`] entries of
//! [`limits::SUBSCRIPTIONS_BYTES_MAX`] bytes in total. One [`Origin`] may use a quarter of each, whatever addresses its
//! clients claim; clients above the limits are counted and not registered. Registered clients are compared with the
//! catalog only when a query runs.
//!
//! This module knows nothing of HTTP and of other nodes; see `controllers::subscribers` for those.

mod asked;
mod callers;
mod client;
pub mod client_list;
mod entry;
pub mod fleet;
mod hold_state;
pub mod holders;
mod kept;
pub mod lists;
mod polls;
mod present;
pub mod refusals;
mod reports;
mod rule_sets;
mod streaming;
pub mod streams;
mod subscribed;

use std::collections::{BTreeMap, HashMap};
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
use crate::model::text::first_bytes;
use crate::model::time::Timestamp;
use crate::origin::{Origin, OriginQuota};
use entry::{DeliveredVersion, Subscriber, Topic};
use holders::{client_mark, host_mark};
use kept::{are_kept, kept, pairs};
use refusals::Refusals;
use rule_sets::RuleSets;
use streams::Streams;

pub use client::Client;
pub use hold_state::{Applied, HoldState};
pub use reports::{FileReport, RuleWord, Word};
pub use subscribed::{ClientMark, Subscribed};

/// Time after which a client that only pulls is removed. Such clients pull every five minutes, so one pull may be
/// missed.
pub const FORGET_AFTER: Duration = Duration::from_secs(660);
/// Minimum time between two sweeps of a shard. A sweep runs when a client is added or a query reads the shard.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Time after the end of its wait within which a client repeats its long poll. One that does not has ended or uses
/// another node.
pub const GRACE: Duration = Duration::from_secs(60);
/// Minimum time between two counts of current clients.
const COUNT_EVERY: Duration = Duration::from_secs(5);
const SHARDS: usize = 16;
/// Divisor of the limits on entries and bytes: one origin may use this part of each.
const SHARE_OF_ORIGIN: usize = 4;
/// Kind of clients of config files.
const FILES: &str = "configfile";
/// Kind of clients of lists of instances.
const LISTS: &str = "instances";

/// A client that has something, as exchanged between nodes and returned to callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    pub address: String,
    pub agent: String,
    pub labels: Vec<(String, String)>,
    /// Version that was sent last; 0 for none.
    pub version: u64,
    /// Time at which this version was first sent.
    pub since: Timestamp,
    /// Milliseconds between the last contact that confirmed this version and the answer.
    #[serde(rename = "heard_ms_ago")]
    pub confirmed_ms_ago: u64,
    /// Set if the client has the release that it should have.
    pub is_current: bool,
    /// Set for clients of xDS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_xds: bool,
    /// Set for SDKs of Polaris.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_polaris: bool,
    /// Identity that the client claims; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// The client's report on the release; none if it has not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// The client's reason for a refusal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time of the report; for clients of xDS the time of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<Timestamp>,
    /// Set if the node knows the version from the client's report alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reported: bool,
    /// Set if the client was seen only by polls that name no address, and may have another one in its pulls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_assumed: bool,
    /// Address of its connection, if that is another one than the client names in its pulls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub connection: String,
}

impl Subscription {
    pub fn hold_state(&self) -> HoldState {
        HoldState::of(self.applied, self.is_current)
    }
}

/// Number of present clients of a kind, and number of those that have the release that they should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub present: usize,
    pub current: usize,
}

/// Source of the node's knowledge about a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The node sent it to the client.
    Given,
    /// The client reported it, and got it from another node or before this one started.
    Reported,
}

/// Register of the clients that this node knows.
pub struct Subscribers {
    began: Instant,
    hashing: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    places: OriginQuota,
    bytes: OriginQuota,
    /// Limit on the entries of [`Shard::by_connection`].
    connections: OriginQuota,
    rule_sets: RuleSets,
    streams: Streams,
    refusals: Refusals,
    turned_away: AtomicUsize,
    counted: Mutex<Option<Instant>>,
}

struct Shard {
    swept: Instant,
    /// Clients by the hash of their topic, then by the hash of their identity.
    topics: HashMap<u64, HashMap<u64, Subscriber>>, // bound: clients
    by_connection: polls::ByConnection,
}

impl Shard {
    fn new() -> Shard {
        Shard { swept: Instant::now(), topics: HashMap::new(), by_connection: polls::ByConnection::default() }
    }
}

impl Default for Subscribers {
    fn default() -> Self {
        let shard = || Mutex::new(Shard::new());
        let shares = |total: usize| OriginQuota::new(total, total / SHARE_OF_ORIGIN);
        Subscribers {
            began: Instant::now(),
            hashing: RandomState::new(),
            shards: std::array::from_fn(|_| shard()),
            places: shares(limits::SUBSCRIPTIONS_MAX),
            bytes: shares(limits::SUBSCRIPTIONS_BYTES_MAX),
            connections: shares(limits::SUBSCRIPTIONS_MAX),
            rule_sets: RuleSets::default(),
            streams: Streams::default(),
            refusals: Refusals::default(),
            turned_away: AtomicUsize::new(0),
            counted: Mutex::new(None),
        }
    }
}

impl Subscribers {
    /// Returns the number of entries. A client has one entry per topic.
    pub fn len(&self) -> usize {
        self.places.taken()
    }

    /// Returns the bytes of all entries in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.taken()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how often an entry was dropped or not added for lack of room, in total or for its origin.
    pub fn turned_away(&self) -> usize {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Returns the number of entries that an origin pays for.
    #[cfg(test)]
    pub fn places_of(&self, origin: Origin) -> usize {
        self.places.taken_by(origin)
    }

    /// Returns the open streams of xDS.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Returns the refusals that await delivery to webhooks.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Records that a client was sent a released file, or already has it.
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
        if let Some(connection) = client.other_address() {
            self.name_connection(self.topic_of_file(&released.group, file), connection, client);
        }
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
        let topic = self.topic_of_file(&released.group, file);
        let key = self.mark_of_key(&released.release_key);
        let is_known = |entry: &mut Subscriber| {
            let DeliveredVersion::File { namespace, version, key: known, .. } = &entry.given else { return false };
            let is_given = *version == released.version && *known == key && **namespace == *released.namespace;
            is_given && are_kept(pairs(labels), &entry.labels)
        };
        self.note(source, topic, client, is_known, now, || {
            let (group, file) = (released.group.as_str().into(), canonical_file(file).into());
            // No namespace is longer than the limit, so longer names match nothing.
            let can_be = |namespace: &&String| namespace.len() <= limits::NAMESPACE_CHARS_MAX;
            let namespaces = namespaces.iter().filter(can_be).cloned().collect();
            let wants = Topic::File { group, file, namespaces };
            let namespace = released.namespace.as_str().into();
            let stored = released.file.as_str().into();
            let given = DeliveredVersion::File { namespace, file: stored, version: released.version, key };
            (wants, kept(pairs(labels)), given)
        });
    }

    /// Records that a client was sent the rules of a family for a service, or already has them.
    pub fn discovered(
        &self,
        client: Client<'_>,
        labels: &BTreeMap<String, String>,
        family: Family,
        (namespace, service): (&str, &str),
        releases: &[Arc<RuleRelease>],
        now: impl FnOnce() -> Timestamp,
    ) {
        let topic = self.topic_of_service(family, namespace, service);
        let is_known = |entry: &mut Subscriber| {
            let is_given = matches!(&entry.given, DeliveredVersion::Rules(given) if given.is_of(releases));
            is_given && are_kept(labels.iter(), &entry.labels)
        };
        self.note(Source::Given, topic, client, is_known, now, || {
            let wants = Topic::Rules { family, namespace: namespace.into(), service: service.into() };
            (wants, kept(labels.iter()), DeliveredVersion::Rules(self.rule_sets.of(releases)))
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
            (entry.heard, entry.confirmed, entry.stays) = (heard, heard, client.stays(entry.stays));
            let is_paid = self.pass(entry, client.origin);
            entry.connection = client.other_address().or(entry.connection);
            if is_known(entry) {
                entry.is_reported &= source == Source::Reported;
                entry.is_assumed &= client.is_assumed();
                return;
            }
            let (before, (wants, labels, given)) = (entry.bytes, make());
            (entry.wants, entry.labels, entry.given, entry.since) = (wants, labels, given, now());
            (entry.is_reported, entry.is_assumed) = (source == Source::Reported, client.is_assumed());
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
        let address = first_bytes(client.address, limits::SUBSCRIPTION_ADDRESS_BYTES_MAX);
        let agent = first_bytes(client.agent, limits::AGENT_BYTES_MAX);
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
            confirmed: heard,
            is_reported: source == Source::Reported,
            is_assumed: client.is_assumed(),
            is_polaris: client.is_polaris,
            connection: client.other_address(),
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

    /// Charges an entry to the origin of the current request. Returns false if that origin has no room; the previous
    /// origin then continues to pay, for no more bytes than before.
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
        self.sweep_connections(shard, now);
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
        self.who_at(client.address, client.agent)
    }

    fn who_at(&self, address: &str, agent: &str) -> u64 {
        self.hashing.hash_one((address, first_bytes(agent, limits::AGENT_BYTES_MAX)))
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
