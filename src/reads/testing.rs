//! A node in memory, for tests of reads by config clients.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{ConfigSource, LiveMember, Reader, Sight};
use crate::catalog::Credential;
use crate::model::config_file::{Format, canonical_file};
use crate::model::config_lookup::{Lookup, Released, Unreadable};
use crate::model::grant::ReadScope;
use crate::model::signature::AppKeys;
use crate::model::time::Timestamp;
use crate::operations::token_hash;
use crate::origin::Origin;
use crate::subscribers::Word;
use crate::watch::{Hub, WatchKey};

pub(crate) const TOKEN: &str = "a-valid-token";
/// User named by a certificate.
pub(crate) const NAMED: &str = "ann";

/// A label and its value, as a gray release requires it.
pub(crate) type Demand = (&'static str, &'static str);

/// Everything published, as one node has applied it.
#[derive(Clone)]
pub(crate) struct Fake(pub(crate) Arc<Scene>);

pub(crate) struct Scene {
    /// Normal and gray release of every file, by namespace, group and stored name.
    pub(crate) files: Mutex<BTreeMap<[String; 3], Slot>>,
    pub(crate) ids: Mutex<BTreeMap<[String; 3], u32>>,
    pub(crate) versions: Mutex<BTreeMap<[String; 3], u64>>,
    pub(crate) newest_id: watch::Sender<u32>,
    /// True to publish a change right after the next read of the newest id.
    pub(crate) arrives: AtomicBool,
    pub(crate) hub: Hub,
    pub(crate) members: Mutex<Vec<LiveMember>>,
    /// Newest id that the leader knows; `None` without a leader.
    pub(crate) leader: Mutex<Option<u32>>,
    pub(crate) questions: AtomicU64,
    pub(crate) is_at_horizon: AtomicBool,
    pub(crate) keys: Mutex<BTreeMap<String, AppKeys>>,
    /// Groups that the holder of the token may read.
    pub(crate) read_scope: Mutex<ReadScope>,
    /// True if the holder of the token may read sealed contents.
    pub(crate) is_client: AtomicBool,
    pub(crate) is_unready: AtomicBool,
    pub(crate) has_key: AtomicBool,
    /// Milliseconds since 1970.
    pub(crate) now: AtomicU64,
    /// Apps for which a refused reader was recorded.
    pub(crate) refused: Mutex<Vec<String>>,
    /// Reports of clients, each as a text.
    pub(crate) said: Mutex<Vec<String>>,
    /// Origin of each record about a client.
    pub(crate) payers: Mutex<Vec<Origin>>,
}

#[derive(Default)]
pub(crate) struct Slot {
    normal: Option<Arc<Released>>,
    gray: Option<(Demand, Arc<Released>)>,
}

pub(crate) fn key(namespace: &str, group: &str, file: &str) -> [String; 3] {
    [namespace, group, file].map(str::to_owned)
}

impl Fake {
    pub(crate) fn new(hub: Hub) -> Self {
        Fake(Arc::new(Scene {
            files: Mutex::default(),
            ids: Mutex::default(),
            versions: Mutex::default(),
            newest_id: watch::Sender::new(0),
            arrives: AtomicBool::default(),
            hub,
            members: Mutex::default(),
            leader: Mutex::default(),
            questions: AtomicU64::default(),
            is_at_horizon: AtomicBool::default(),
            keys: Mutex::default(),
            read_scope: Mutex::default(),
            is_client: AtomicBool::default(),
            is_unready: AtomicBool::default(),
            has_key: AtomicBool::default(),
            now: AtomicU64::default(),
            refused: Mutex::default(),
            said: Mutex::default(),
            payers: Mutex::default(),
        }))
    }

    /// Publishes in the group `app`.
    pub(crate) fn publish(&self, namespace: &str, file: &str, content: &str) {
        self.change(namespace, file, |slot, version| {
            slot.normal = Some(released(namespace, file, version, content));
        });
    }

    /// Publishes an encrypted file; its stored form is the text reversed.
    pub(crate) fn publish_sealed(&self, file: &str, content: &str) {
        let sealed: String = content.chars().rev().collect();
        self.change("default", file, |slot, version| {
            let new = Released::new("default", "app", file, version, Format::Properties, sealed.as_str().into());
            slot.normal = Some(Arc::new(new.sealed()));
        });
    }

    pub(crate) fn publish_gray(&self, file: &str, content: &str, demand: Demand) {
        self.change("default", file, |slot, version| {
            slot.gray = Some((demand, released("default", file, version, content)));
        });
    }

    pub(crate) fn stop_gray(&self, file: &str) {
        self.change("default", file, |slot, _| slot.gray = None);
    }

    pub(crate) fn delete(&self, namespace: &str, file: &str) {
        self.change(namespace, file, |slot, _| *slot = Slot::default());
    }

    fn change(&self, namespace: &str, file: &str, change: impl FnOnce(&mut Slot, u64)) {
        let id = *self.0.newest_id.borrow() + 1;
        let version = self.highest_version(namespace, "app", file) + 1;
        change(self.0.files.lock().entry(key(namespace, "app", file)).or_default(), version);
        self.0.versions.lock().insert(key(namespace, "app", file), version);
        self.0.ids.lock().insert(key(namespace, "app", &canonical_file(file)), id);
        self.0.newest_id.send_replace(id);
        self.0.hub.wake([WatchKey::config(namespace, "app", file)]);
    }

    fn find(&self, namespace: &str, lookup: &Lookup) -> Option<Arc<Released>> {
        let files = self.0.files.lock();
        let toggled = match lookup.file.to_lowercase().strip_suffix(".properties") {
            Some(stem) => lookup.file[..stem.len()].to_owned(),
            None => format!("{}.properties", lookup.file),
        };
        let seen = |slot: &Slot| {
            let gray = slot.gray.as_ref().filter(|((label, value), _)| lookup.client.get(label) == Some(*value));
            gray.map(|(_, released)| released.clone()).or_else(|| slot.normal.clone())
        };
        let exact = |name: &str| seen(files.get(&key(namespace, &lookup.group, name))?);
        let ignoring_case = |name: &str| {
            let is_equal = |[space, group, file]: &[String; 3]| {
                space == namespace && *group == lookup.group && file.to_lowercase() == name.to_lowercase()
            };
            let mut equal = files.iter().filter(|(key, _)| is_equal(key)).filter_map(|(_, slot)| seen(slot));
            equal.next().filter(|_| equal.next().is_none())
        };
        let names = [lookup.file.as_str(), &toggled];
        names.into_iter().find_map(exact).or_else(|| names.into_iter().find_map(ignoring_case))
    }
}

pub(crate) fn released(namespace: &str, file: &str, version: u64, content: &str) -> Arc<Released> {
    Arc::new(Released::new(namespace, "app", file, version, Format::Properties, content.into()))
}

impl ConfigSource for Fake {
    type Guard = ();

    fn guard(&self, credential: &Credential) -> (WatchKey, ()) {
        (WatchKey::credential(credential), ())
    }

    fn newest_id(&self) -> u32 {
        let id = *self.0.newest_id.borrow();
        if self.0.arrives.swap(false, Ordering::Relaxed) {
            self.publish("default", "application", "a=late");
        }
        id
    }

    fn resolve(&self, lookup: &Lookup) -> Option<Arc<Released>> {
        lookup.namespaces.iter().find_map(|namespace| self.find(namespace, lookup))
    }

    fn notification_id(&self, lookup: &Lookup) -> Option<u32> {
        let ids = self.0.ids.lock();
        let id = |namespace| ids.get(&key(namespace, &lookup.group, &canonical_file(&lookup.file))).copied();
        lookup.namespaces.iter().filter_map(|namespace| id(namespace)).max()
    }

    fn highest_version(&self, namespace: &str, group: &str, file: &str) -> u64 {
        self.0.versions.lock().get(&key(namespace, group, file)).copied().unwrap_or(0)
    }

    fn hub(&self) -> &Hub {
        &self.0.hub
    }

    async fn wait_applied(&self, limit: Duration, is_reached: impl Fn(u32) -> bool + Send + Sync) -> bool {
        let mut newest = self.0.newest_id.subscribe();
        timeout(limit, newest.wait_for(|newest| is_reached(*newest))).await.is_ok_and(|reached| reached.is_ok())
    }

    async fn await_horizon(&self, limit: Duration) -> bool {
        self.0.questions.fetch_add(1, Ordering::Relaxed);
        let leader = *self.0.leader.lock();
        let Some(newest) = leader else {
            tokio::time::sleep(limit).await;
            return false;
        };
        self.wait_applied(limit, |id| id >= newest).await
    }

    fn was_at_horizon_lately(&self) -> bool {
        self.0.is_at_horizon.load(Ordering::Relaxed)
    }

    fn live_members(&self) -> Vec<LiveMember> {
        self.0.members.lock().clone()
    }

    fn sight_of(&self, credential: &Credential, _: Option<IpAddr>) -> Option<Sight> {
        let is_known = match credential {
            Credential::Token(token) => *token == token_hash(TOKEN),
            Credential::Certificate(name) => name == NAMED,
            Credential::Login | Credential::Bearer(_) => false,
        };
        is_known.then(|| Sight { origin: Origin::of_user(NAMED), read_scope: self.0.read_scope.lock().clone() })
    }

    fn may_have_sealed(&self, _: &Credential, _: Option<IpAddr>, _: &str, _: &str) -> bool {
        self.0.is_client.load(Ordering::Relaxed)
    }

    fn text(&self, released: &Released) -> Result<Arc<str>, Unreadable> {
        if !released.encrypted {
            return released.content.text().cloned().ok_or(Unreadable::Absent);
        }
        let has_key = self.0.has_key.load(Ordering::Relaxed);
        has_key.then(|| released.content.chars().rev().collect::<String>().into()).ok_or(Unreadable::Sealed)
    }

    fn access_keys(&self, app_id: &str, _: Option<&str>) -> Option<AppKeys> {
        self.0.keys.lock().get(app_id).cloned()
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.0.now.load(Ordering::Relaxed))
    }

    async fn is_ready(&self) -> bool {
        !self.0.is_unready.load(Ordering::Relaxed)
    }

    fn note_refused(&self, app_id: &str, _: Option<IpAddr>) {
        self.0.refused.lock().push(app_id.to_owned());
    }

    fn note_pulled(&self, reader: Reader<'_>, _: &Lookup, _: &Released) {
        self.0.payers.lock().push(reader.origin);
    }

    fn note_polled(&self, reader: Reader<'_>, _: &Lookup) -> bool {
        self.0.payers.lock().push(reader.origin);
        true
    }

    fn note_applied(
        &self,
        reader: Reader<'_>,
        lookup: &Lookup,
        (release_key, _): (&str, Option<&Released>),
        word: Word<'_>,
    ) {
        self.0.payers.lock().push(reader.origin);
        let (client, agent, namespaces) = (&lookup.client.address, reader.agent, lookup.namespaces.join(" "));
        let what = format!("{} {} of {namespaces}, {release_key}", lookup.group, lookup.file);
        let said = format!("{client} {agent}: {what}: {} {}", word.applied.word(), word.message);
        self.0.said.lock().push(said);
    }
}
