//! Queries for the clients of a release. Clients are compared with the catalog when a query runs, not before.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

use super::entry::{DeliveredVersion, Subscriber, Topic};
use super::{COUNT_EVERY, FILES, Share, Subscribers, Subscription, streaming};
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::catalog::rules::ends_of;
use crate::model::config_file::{ConfigKey, canonical_file};
use crate::model::rule::Family;

impl Subscribers {
    /// Returns the clients that have a release of this thing, or should have one according to the catalog.
    pub fn of(&self, catalog: &Catalog, thing: &Thing) -> Vec<Subscription> {
        match thing {
            Thing::File(key) => self.of_file(catalog, key),
            Thing::Rule(family, id) => self.of_rule(catalog, *family, id),
        }
    }

    fn of_file(&self, catalog: &Catalog, key: &ConfigKey) -> Vec<Subscription> {
        let topic = self.topic_of_file(&key.group, &key.file);
        let canonical = canonical_file(&key.file);
        self.judged(Some(topic), &key.namespace, |entry| {
            let Topic::File { group, file, namespaces } = &entry.wants else { return None };
            let DeliveredVersion::File { namespace, file: given, version, .. } = &entry.given else { return None };
            if **group != *key.group || **file != *canonical {
                return None;
            }
            let has = (**namespace == *key.namespace && **given == *key.file).then_some(*version);
            if entry.is_reported {
                let in_force = |version: &u64| catalog.configs.in_force(key, *version).is_some();
                return has.map(|version| (version, in_force(&version)));
            }
            let due = entry.due_file(catalog, namespaces, group, file);
            let should = due.filter(|due| due.namespace == key.namespace && due.file == key.file);
            let is_current = match due {
                Some(due) => *due.namespace == **namespace && *due.file == **given && due.version == *version,
                None => false,
            };
            (has.is_some() || should.is_some()).then_some((has.unwrap_or_default(), is_current))
        })
    }

    fn of_rule(&self, catalog: &Catalog, family: Family, id: &str) -> Vec<Subscription> {
        let active = catalog.rules.of(family).active();
        let of_xds = streaming::of_rule(&self.streams, active, id);
        // The services that the rule applies to may have changed since it was delivered, so every entry is examined.
        let mut found = self.judged(None, id, |entry| {
            let DeliveredVersion::Rules(given) = &entry.given else { return None };
            let has = given.iter().find(|(known, _)| **known == *id).map(|(_, version)| *version);
            let (wanted, namespace, service) = match &entry.wants {
                Topic::Rules { family, namespace, service } => (*family, namespace, service),
                Topic::ReportedRule { family: reported } if *reported == family => {
                    let in_force = |version: u64| active.releases_of(id).any(|release| release.version == version);
                    return has.map(|version| (version, in_force(version)));
                }
                _ => return None,
            };
            if wanted != family {
                return None;
            }
            if has.is_none() && !active.is_about(id, &ends_of(namespace, service)) {
                return None;
            }
            let label = |key: &str| entry.label(key);
            let due = active.of_service(namespace, service, label).into_iter().find(|release| release.rule.id == id);
            let should = due.filter(|release| release.rule.enable).map(|release| release.version);
            (has.is_some() || should.is_some()).then_some((has.unwrap_or_default(), has == should))
        });
        found.extend(of_xds);
        found
    }

    /// Reports whether [`COUNT_EVERY`] has passed since the last count. Returns true to only one of concurrent callers.
    pub fn is_to_be_counted(&self) -> bool {
        let (mut counted, now) = (self.counted.lock(), Instant::now());
        let is_due = counted.is_none_or(|counted| now - counted >= COUNT_EVERY);
        if is_due {
            *counted = Some(now);
        }
        is_due
    }

    /// Counts the present clients per kind: `configfile`, or the name of a rule family. Clients known by their own
    /// report alone are left out, because the node that serves them counts them.
    pub fn shares(&self, catalog: &Catalog) -> BTreeMap<&'static str, Share> {
        let kinds = Family::ALL.iter().map(|family| family.word()).chain([FILES]);
        let mut shares: BTreeMap<_, _> = kinds.map(|kind| (kind, Share::default())).collect();
        let now = Instant::now();
        for shard in &self.shards {
            for entry in shard.lock().topics.values().flat_map(HashMap::values) {
                if let Some(is_current) = entry.is_there(now).then(|| entry.is_current(catalog)).flatten() {
                    let share = shares.entry(entry.kind()).or_default();
                    share.present += 1;
                    share.current += usize::from(is_current);
                }
            }
        }
        streaming::add_shares(&mut shares, &self.streams, catalog);
        shares
    }

    /// Calls `see` for every present client of the topic, or of all topics if there is none.
    pub(super) fn each_there(&self, topic: Option<u64>, mut see: impl FnMut(&Subscriber, Instant)) {
        let now = Instant::now();
        for shard in &self.shards {
            let shard = shard.lock();
            let mut tell = |clients: &HashMap<u64, Subscriber>| {
                clients.values().filter(|entry| entry.is_there(now)).for_each(|entry| see(entry, now));
            };
            match topic {
                Some(topic) => shard.topics.get(&topic).into_iter().for_each(&mut tell),
                None => shard.topics.values().for_each(&mut tell),
            }
        }
    }

    /// Returns a row for each present client of the topic, or of all topics if there is none, for which `judge` returns
    /// a version. The row has the client's report on `thing`.
    pub(super) fn judged(
        &self,
        topic: Option<u64>,
        thing: &str,
        judge: impl Fn(&mut Subscriber) -> Option<(u64, bool)>,
    ) -> Vec<Subscription> {
        let now = Instant::now();
        let mut found = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            self.sweep_if_due(&mut shard, now);
            let mut tell = |clients: &mut HashMap<u64, Subscriber>| {
                let there = clients.values_mut().filter(|entry| entry.is_there(now));
                let told =
                    there.filter_map(|entry| judge(entry).map(|judged| entry.to_subscription(thing, judged, now)));
                found.extend(told);
            };
            match topic {
                Some(topic) => shard.topics.get_mut(&topic).into_iter().for_each(&mut tell),
                None => shard.topics.values_mut().for_each(&mut tell),
            }
        }
        found
    }
}
