//! Who has what: which client was last given which release of a config file, or of which rules, as far as this node
//! has served it.
//!
//! A client is one address with one program. What it is given is written down when it is given; that it polls says
//! that it still has it. Who is not heard of for [`FORGET_AFTER`] is forgotten; there are never more than
//! [`limits::SUBSCRIPTIONS_MAX`], and what comes beyond is counted and not kept. Whether a client has what it should
//! have is found out when somebody asks: nothing is done while nobody does.
//!
//! Knows nothing of HTTP and of other nodes, see `raft::subscribers` for those.

mod kept;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::catalog::Catalog;
use crate::catalog::active::ends_of;
use crate::catalog::history::Thing;
use crate::model::config_file::{ConfigKey, canonical_file};
use crate::model::config_lookup::{CLIENT_ADDRESS_LABEL, ClientLabels, Released};
use crate::model::limits;
use crate::model::rule::Family;
use crate::model::rule::release::RuleRelease;
use crate::model::time::Timestamp;
use kept::{cut, kept};

/// Clients that only pull come every five minutes, and may miss once.
pub const FORGET_AFTER: Duration = Duration::from_secs(660);
/// Between two looks at who is to be forgotten, which new clients set off.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Who polls, or waits for rules, comes back within this; who has not is gone, or went to another node. Longer than
/// the longest hold of a poll.
pub const PRESENT_WITHIN: Duration = Duration::from_secs(120);
/// Between two counts of who is current.
const COUNT_EVERY: Duration = Duration::from_secs(5);
const SHARDS: usize = 16;
/// The kind of what config clients have.
const FILES: &str = "config_files";

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// As gray releases see it.
    pub address: &'a str,
    /// Its user agent, cut to [`limits::AGENT_BYTES_MAX`] where it is kept.
    pub agent: &'a str,
}

/// A client that has something, as nodes tell each other and callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    pub address: String,
    pub agent: String,
    pub labels: Vec<(String, String)>,
    /// What it was given last; 0 for nothing.
    pub version: u64,
    /// When it was first given that.
    pub since: Timestamp,
    /// When it was heard of last, in milliseconds before the answer.
    pub heard_ms_ago: u64,
    /// It has what it should have by now.
    pub is_current: bool,
}

/// How many clients of a kind of thing are there, and how many of them have what they should have by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub present: usize,
    pub current: usize,
}

/// Every client that this node has heard of.
pub struct Subscribers {
    hashing: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    kept: AtomicUsize,
    turned_away: AtomicUsize,
    counted: Mutex<Option<Instant>>,
}

struct Shard {
    swept: Instant,
    /// By what they want, then by who they are.
    topics: HashMap<u64, HashMap<u64, Entry>>,
}

struct Entry {
    wants: Wants,
    address: Box<str>,
    agent: Box<str>,
    labels: Box<[(String, String)]>,
    given: Given,
    since: Timestamp,
    heard: Instant,
    /// It waits for changes, so it is heard of often.
    waits: bool,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wants {
    /// A file of a group by any of its spellings, in the first of these namespaces that has it.
    File {
        group: Box<str>,
        file: Box<str>,
        namespaces: Box<[String]>,
    },
    Rules {
        family: Family,
        namespace: Box<str>,
        service: Box<str>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    File {
        namespace: Box<str>,
        version: u64,
    },
    /// By ids of rules.
    Rules(Box<[(Arc<str>, u64)]>),
}

impl Default for Subscribers {
    fn default() -> Self {
        let shard = || Mutex::new(Shard { swept: Instant::now(), topics: HashMap::new() });
        Subscribers {
            hashing: RandomState::new(),
            shards: std::array::from_fn(|_| shard()),
            kept: AtomicUsize::new(0),
            turned_away: AtomicUsize::new(0),
            counted: Mutex::new(None),
        }
    }
}

impl Subscribers {
    /// How many clients with what they have are kept.
    pub fn len(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many were not kept, as there are too many.
    pub fn turned_away(&self) -> usize {
        self.turned_away.load(Ordering::Relaxed)
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
        let (topic, labels) = (self.topic_of_file(&released.group, file), kept(labels));
        let is_known = |entry: &Entry| {
            let Given::File { namespace, version } = &entry.given else { return false };
            *version == released.version && **namespace == *released.namespace && entry.labels == labels
        };
        self.note(topic, client, is_known, now, || {
            let (group, file) = (released.group.as_str().into(), canonical_file(file).into());
            // Nothing is in a namespace that is longer than any.
            let can_be = |namespace: &&String| namespace.len() <= limits::NAMESPACE_CHARS_MAX;
            let namespaces = namespaces.iter().filter(can_be).cloned().collect();
            let wants = Wants::File { group, file, namespaces };
            let given = Given::File { namespace: released.namespace.as_str().into(), version: released.version };
            (wants, labels.clone(), given)
        });
    }

    /// A client waits for changes of a file; what it was given is known by now, or was given by another node.
    pub fn polled(&self, client: Client<'_>, group: &str, file: &str) {
        let topic = self.topic_of_file(group, file);
        let who = self.who(client);
        let mut shard = self.shard(who).lock();
        if let Some(entry) = shard.topics.get_mut(&topic).and_then(|clients| clients.get_mut(&who)) {
            (entry.heard, entry.waits) = (Instant::now(), true);
        }
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
        let is_known = |entry: &Entry| {
            let Given::Rules(given) = &entry.given else { return false };
            given.len() == releases.len()
                && given
                    .iter()
                    .zip(releases)
                    .all(|((id, version), release)| **id == *release.rule.id && *version == release.version)
        };
        self.note(topic, client, is_known, now, || {
            let wants = Wants::Rules { family, namespace: namespace.into(), service: service.into() };
            let given = releases.iter().map(|release| (release.rule.id.as_str().into(), release.version)).collect();
            (wants, kept(&labels()), Given::Rules(given))
        });
    }

    fn note(
        &self,
        topic: u64,
        client: Client<'_>,
        is_known: impl Fn(&Entry) -> bool,
        now: impl FnOnce() -> Timestamp,
        make: impl FnOnce() -> (Wants, Box<[(String, String)]>, Given),
    ) {
        let (who, heard) = (self.who(client), Instant::now());
        let mut shard = self.shard(who).lock();
        let known = shard.topics.get_mut(&topic).and_then(|clients| clients.get_mut(&who));
        match known {
            Some(entry) if is_known(entry) => entry.heard = heard,
            Some(entry) => {
                let (wants, labels, given) = make();
                let (address, agent) = (std::mem::take(&mut entry.address), std::mem::take(&mut entry.agent));
                *entry = Entry { wants, address, agent, labels, given, since: now(), heard, waits: entry.waits };
            }
            None => {
                self.sweep_if_due(&mut shard, heard);
                if self.kept.load(Ordering::Relaxed) >= limits::SUBSCRIPTIONS_MAX {
                    self.turned_away.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                let (wants, labels, given) = make();
                let address = cut(client.address, limits::SUBSCRIPTION_ADDRESS_BYTES_MAX).into();
                let agent = cut(client.agent, limits::AGENT_BYTES_MAX).into();
                let waits = matches!(wants, Wants::Rules { .. });
                let entry = Entry { wants, address, agent, labels, given, since: now(), heard, waits };
                shard.topics.entry(topic).or_default().insert(who, entry);
                self.kept.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn sweep_if_due(&self, shard: &mut Shard, now: Instant) {
        if now - shard.swept < SWEEP_EVERY {
            return;
        }
        shard.swept = now;
        let mut forgotten = 0;
        shard.topics.retain(|_, clients| {
            let before = clients.len();
            clients.retain(|_, entry| now - entry.heard < FORGET_AFTER);
            forgotten += before - clients.len();
            !clients.is_empty()
        });
        self.kept.fetch_sub(forgotten, Ordering::Relaxed);
    }

    /// Who has, or should have, a release of this by what the catalog says now.
    pub fn of(&self, catalog: &Catalog, thing: &Thing) -> Vec<Subscription> {
        match thing {
            Thing::File(key) => self.of_file(catalog, key),
            Thing::Rule(family, id) => self.of_rule(catalog, *family, id),
        }
    }

    fn of_file(&self, catalog: &Catalog, key: &ConfigKey) -> Vec<Subscription> {
        let topic = self.topic_of_file(&key.group, &key.file);
        let canonical = canonical_file(&key.file);
        self.judged(Some(topic), |entry| {
            let Wants::File { group, file, namespaces } = &entry.wants else { return None };
            let Given::File { namespace, version } = &entry.given else { return None };
            if **group != *key.group || **file != *canonical {
                return None;
            }
            let due = entry.due_file(catalog, namespaces, group, file);
            let has = (**namespace == *key.namespace).then_some(*version);
            let should = due.filter(|due| due.namespace == key.namespace && due.file == key.file);
            let is_current = match due {
                Some(due) => *due.namespace == **namespace && due.version == *version,
                None => false,
            };
            (has.is_some() || should.is_some()).then_some((has.unwrap_or_default(), is_current))
        })
    }

    fn of_rule(&self, catalog: &Catalog, family: Family, id: &str) -> Vec<Subscription> {
        let active = catalog.rules.of(family).active();
        // Which services it is about has changed perhaps since a client was given it: all are looked at.
        self.judged(None, |entry| {
            let Wants::Rules { family: wanted, namespace, service } = &entry.wants else { return None };
            let Given::Rules(given) = &entry.given else { return None };
            if *wanted != family {
                return None;
            }
            let has = given.iter().find(|(known, _)| **known == *id).map(|(_, version)| *version);
            if has.is_none() && !active.is_about(id, &ends_of(namespace, service)) {
                return None;
            }
            let label = |key: &str| entry.label(key);
            let due = active.of_service(namespace, service, label).into_iter().find(|release| release.rule.id == id);
            let should = due.filter(|release| release.rule.enable).map(|release| release.version);
            (has.is_some() || should.is_some()).then_some((has.unwrap_or_default(), has == should))
        })
    }

    /// Whether it is time again for [`Subscribers::shares`]; true for one who asks.
    pub fn is_to_be_counted(&self) -> bool {
        let (mut counted, now) = (self.counted.lock(), Instant::now());
        let is_due = counted.is_none_or(|counted| now - counted >= COUNT_EVERY);
        if is_due {
            *counted = Some(now);
        }
        is_due
    }

    /// Of all clients that are there now, by kind of thing: `config_files`, else the kind of the rules. Each that waits
    /// for changes is counted by the node where it waits.
    pub fn shares(&self, catalog: &Catalog) -> BTreeMap<&'static str, Share> {
        let kinds = Family::ALL.iter().map(|family| family.kind()).chain([FILES]);
        let mut shares: BTreeMap<_, _> = kinds.map(|kind| (kind, Share::default())).collect();
        let now = Instant::now();
        for shard in &self.shards {
            for entry in shard.lock().topics.values().flat_map(HashMap::values) {
                let is_present = now - entry.heard < if entry.waits { PRESENT_WITHIN } else { FORGET_AFTER };
                if let Some(is_current) = is_present.then(|| entry.is_current(catalog)).flatten() {
                    let share = shares.entry(entry.kind()).or_default();
                    share.present += 1;
                    share.current += usize::from(is_current);
                }
            }
        }
        shares
    }

    /// Those that want this, or all, as far as `judge` has something to say of them.
    fn judged(&self, topic: Option<u64>, judge: impl Fn(&Entry) -> Option<(u64, bool)>) -> Vec<Subscription> {
        let now = Instant::now();
        let mut found = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            self.sweep_if_due(&mut shard, now);
            let mut tell = |clients: &HashMap<u64, Entry>| {
                let told = clients.values().filter_map(|entry| judge(entry).map(|judged| entry.told(judged, now)));
                found.extend(told);
            };
            match topic {
                Some(topic) => shard.topics.get(&topic).into_iter().for_each(&mut tell),
                None => shard.topics.values().for_each(&mut tell),
            }
        }
        found
    }

    fn shard(&self, who: u64) -> &Mutex<Shard> {
        &self.shards[who as usize % SHARDS]
    }

    fn who(&self, client: Client<'_>) -> u64 {
        self.hashing.hash_one((client.address, cut(client.agent, limits::AGENT_BYTES_MAX)))
    }

    fn topic_of_file(&self, group: &str, file: &str) -> u64 {
        self.topic("file", &(group, canonical_file(file)))
    }

    fn topic_of_service(&self, family: Family, namespace: &str, service: &str) -> u64 {
        self.topic(family.kind(), &(namespace, service))
    }

    fn topic(&self, kind: &str, name: &impl Hash) -> u64 {
        self.hashing.hash_one((kind, name))
    }
}

impl Entry {
    fn kind(&self) -> &'static str {
        if let Wants::Rules { family, .. } = &self.wants { family.kind() } else { FILES }
    }

    /// Whether it has what it should have by now; nothing where there is nothing to have.
    fn is_current(&self, catalog: &Catalog) -> Option<bool> {
        match (&self.wants, &self.given) {
            (Wants::File { group, file, namespaces }, Given::File { namespace, version }) => {
                let due = self.due_file(catalog, namespaces, group, file)?;
                Some(*due.namespace == **namespace && due.version == *version)
            }
            (Wants::Rules { family, namespace, service }, Given::Rules(given)) => {
                let label = |key: &str| self.label(key);
                let due = catalog.rules.of(*family).active().of_service(namespace, service, label);
                let due = due.iter().filter(|release| release.rule.enable);
                let due: HashSet<_> = due.map(|release| (release.rule.id.as_str(), release.version)).collect();
                let is_current = due.len() == given.len();
                let is_current = is_current && given.iter().all(|(id, version)| due.contains(&(&**id, *version)));
                (!(due.is_empty() && given.is_empty())).then_some(is_current)
            }
            _ => None,
        }
    }

    fn due_file<'a>(
        &self,
        catalog: &'a Catalog,
        namespaces: &[String],
        group: &str,
        file: &str,
    ) -> Option<&'a Arc<Released>> {
        let client = ClientLabels { address: self.address.to_string(), labels: self.labels.to_vec() };
        namespaces.iter().find_map(|namespace| catalog.configs.find(namespace, group, file, &client))
    }

    fn label(&self, key: &str) -> Option<&str> {
        match self.labels.iter().find(|(known, _)| known == key) {
            Some((_, value)) => Some(value.as_str()),
            None => (key == CLIENT_ADDRESS_LABEL).then_some(&*self.address),
        }
    }

    fn told(&self, (version, is_current): (u64, bool), now: Instant) -> Subscription {
        Subscription {
            address: self.address.to_string(),
            agent: self.agent.to_string(),
            labels: self.labels.to_vec(),
            version,
            since: self.since,
            heard_ms_ago: u64::try_from((now - self.heard).as_millis()).unwrap_or(u64::MAX),
            is_current,
        }
    }
}

#[cfg(test)]
mod tests;
