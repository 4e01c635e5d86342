//! Keyed wake-ups for everything that is held open until a change.
//!
//! The order of use is the contract: register a [`Watch`] on every key the answer can depend on, THEN read, then wait
//! for [`Watch::changed`] and read again. A change between registration and waiting is stored as a permit, so none is
//! lost. A wake-up means "read again"; it does not carry the change, and may be spurious.
//!
//! Waiters are counted by origin ([`budget`]), so a flood from one address leaves room to others.
//!
//! Knows nothing of HTTP, of the catalog, or of the meaning of keys.

mod budget;
pub mod feed;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::config_file::canonical_file;
use crate::model::rule::Family;
use crate::origin::Origin;
use budget::{Budget, Load};

pub use budget::HubFull;

/// Number of shards. Waiters are spread over them, not keys: the waiters of one hot key register and leave in parallel,
/// while a wake-up visits every shard, which is cheap.
const SHARDS: usize = 16;

/// Key of a waiter: a hash of the full key, 8 bytes per registration instead of three strings. A collision only costs a
/// spurious read. Never stored, never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchKey(u64);

impl WatchKey {
    /// Returns the key of a config file; all spellings that one lookup can resolve to share the key.
    pub fn config(namespace: &str, group: &str, file: &str) -> Self {
        Self::of("config", &(namespace, group, canonical_file(file)))
    }

    /// Returns the key of the rules of a family that clients of a service see; `*` means every service.
    pub fn rules(family: Family, namespace: &str, service: &str) -> Self {
        Self::of(family.kind(), &(namespace, service))
    }

    pub fn namespaces() -> Self {
        Self::of("namespaces", &())
    }

    /// Returns the key of the services of a namespace, or of all namespaces.
    pub fn services(namespace: Option<&str>) -> Self {
        Self::of("services", &namespace)
    }

    /// Returns the key of one service, by its name or an alias.
    pub fn service(namespace: &str, name: &str) -> Self {
        Self::of("service", &(namespace, name))
    }

    /// Returns the key of the instances of a service.
    pub fn instances(namespace: &str, service: &str) -> Self {
        Self::of("instances", &(namespace, service))
    }

    /// Returns the key of the holder of a credential.
    pub fn credential(credential: &impl Hash) -> Self {
        Self::of("credential", credential)
    }

    fn of(kind: &str, name: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (kind, name).hash(&mut hasher);
        WatchKey(hasher.finish())
    }
}

/// Reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// One of the keys may have changed: read again.
    Changed,
    /// The node is shutting down: answer now, there will be no more wake-ups.
    Closed,
}

/// Register of the waiters of one node; cheap to clone.
#[derive(Clone)]
pub struct Hub(Arc<HubState>);

/// Registrations by key, then waiter: the waiters of a key are a range, and one is removed without a scan.
type Registrations = BTreeMap<(WatchKey, u64), Arc<Notify>>;

struct HubState {
    shards: [Mutex<Registrations>; SHARDS],
    budget: Budget,
    next_waiter: AtomicU64,
    closed: AtomicBool,
}

impl Hub {
    /// Creates a hub for at most `waiters_max` waiters, all of which may be of one origin.
    pub fn new(waiters_max: usize) -> Self {
        Hub::with_share(waiters_max, waiters_max)
    }

    /// Creates a hub with limits in total and per origin; keys and bytes are limited in proportion.
    pub fn with_share(waiters_max: usize, waiters_per_origin: usize) -> Self {
        Hub(Arc::new(HubState {
            shards: std::array::from_fn(|_| Mutex::default()),
            budget: Budget::new(waiters_max, waiters_per_origin),
            next_waiter: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }))
    }

    /// Registers one waiter on all keys at once; duplicate keys count once. `bytes` is the memory that the waiter holds
    /// in addition.
    pub fn watch(&self, origin: Origin, mut keys: Vec<WatchKey>, bytes: usize) -> Result<Watch, HubFull> {
        keys.sort_unstable();
        keys.dedup();
        let load = Load { keys: keys.len(), bytes };
        self.0.budget.take(origin, load)?;
        let waiter = self.0.next_waiter.fetch_add(1, Ordering::Relaxed);
        let bell = Arc::new(Notify::new());
        let mut shard = self.0.shard(waiter).lock();
        shard.extend(keys.iter().map(|&key| ((key, waiter), bell.clone())));
        drop(shard);
        Ok(Watch { hub: self.clone(), keys: keys.into(), waiter, bell, origin, load })
    }

    /// Wakes all waiters of the keys. Must be called after the change can be read.
    pub fn wake(&self, keys: impl IntoIterator<Item = WatchKey>) {
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return;
        }
        for shard in &self.0.shards {
            let shard = shard.lock();
            for &key in &keys {
                shard.range((key, 0)..=(key, u64::MAX)).for_each(|(_, bell)| bell.notify_one());
            }
        }
    }

    /// Wakes all waiters, because the whole state was replaced, as by a snapshot.
    pub fn wake_all(&self) {
        for shard in &self.0.shards {
            shard.lock().values().for_each(|bell| bell.notify_one());
        }
    }

    /// Ends all present and future waits.
    pub fn close(&self) {
        // The flag is set first: a waiter that registers after its shard was visited sees it.
        self.0.closed.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::SeqCst)
    }

    pub fn waiters(&self) -> usize {
        self.0.budget.waiters()
    }
}

impl HubState {
    fn shard(&self, waiter: u64) -> &Mutex<Registrations> {
        &self.shards[waiter as usize % SHARDS]
    }
}

/// One waiter, registered until it is dropped.
pub struct Watch {
    hub: Hub,
    keys: Box<[WatchKey]>,
    waiter: u64,
    /// `notify_one` stores one permit while the waiter is not waiting; this makes register, read, wait safe.
    bell: Arc<Notify>,
    origin: Origin,
    load: Load,
}

impl Watch {
    /// Waits for a wake-up; returns at once if one came since registration or the last call.
    pub async fn changed(&self) -> Wake {
        if !self.hub.is_closed() {
            self.bell.notified().await;
        }
        if self.hub.is_closed() { Wake::Closed } else { Wake::Changed }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut shard = self.hub.0.shard(self.waiter).lock();
        for &key in &self.keys {
            shard.remove(&(key, self.waiter));
        }
        drop(shard);
        self.hub.0.budget.give_back(self.origin, self.load);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn key(file: &str) -> WatchKey {
        WatchKey::config("default", "app", file)
    }

    fn watch(hub: &Hub, files: &[&str]) -> Watch {
        hub.watch(Origin::UNKNOWN, files.iter().map(|file| key(file)).collect(), 0).expect("there is room")
    }

    fn registrations(hub: &Hub) -> usize {
        hub.0.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[test]
    fn all_spellings_of_a_file_share_a_key() {
        for spelling in ["App", "app.properties", "APP.Properties"] {
            assert_eq!(key(spelling), key("app"), "{spelling}");
        }
        for other in ["app.yml", "ap", "app2"] {
            assert_ne!(key(other), key("app"), "{other}");
        }
        assert_ne!(WatchKey::config("default", "App", "app"), key("app"));
        assert_ne!(WatchKey::config("Default", "app", "app"), key("app"));
        // The parts of a key are hashed separately.
        assert_ne!(WatchKey::config("a", "bc", "d"), WatchKey::config("ab", "c", "d"));
    }

    #[test]
    fn a_wake_reaches_the_watchers_of_its_keys_only() {
        let hub = Hub::new(10);
        let both = watch(&hub, &["a", "b"]);
        let other = watch(&hub, &["c"]);
        hub.wake([key("b"), key("x")]);
        assert_eq!(both.changed().now_or_never(), Some(Wake::Changed));
        assert_eq!(both.changed().now_or_never(), None, "one wake is one permit");
        assert_eq!(other.changed().now_or_never(), None);
    }

    #[test]
    fn a_wake_before_the_wait_is_kept_and_many_count_once() {
        let hub = Hub::new(10);
        let early = watch(&hub, &["a", "b"]);
        hub.wake([key("a"), key("b")]);
        hub.wake([key("a")]);
        assert_eq!(early.changed().now_or_never(), Some(Wake::Changed));
        assert_eq!(early.changed().now_or_never(), None);
        let late = watch(&hub, &["a"]);
        assert_eq!(late.changed().now_or_never(), None, "registered after the wake");
    }

    #[test]
    fn wake_all_reaches_everyone() {
        let hub = Hub::new(10);
        let watches = [watch(&hub, &["a"]), watch(&hub, &["b"]), watch(&hub, &["c", "d"])];
        hub.wake_all();
        for watch in &watches {
            assert_eq!(watch.changed().now_or_never(), Some(Wake::Changed));
            assert_eq!(watch.changed().now_or_never(), None);
        }
    }

    #[tokio::test]
    async fn close_ends_waits_of_the_past_and_of_the_future() {
        let hub = Hub::new(10);
        let waiting = watch(&hub, &["a"]);
        let wait = tokio::spawn(async move { waiting.changed().await });
        tokio::task::yield_now().await;
        hub.close();
        assert_eq!(wait.await.expect("the wait ends"), Wake::Closed);
        let later = watch(&hub, &["a"]);
        assert_eq!(later.changed().await, Wake::Closed);
        assert_eq!(later.changed().await, Wake::Closed);
    }

    #[test]
    fn dropping_unregisters_every_key() {
        let hub = Hub::new(10);
        let first = watch(&hub, &["a", "b", "a"]);
        let second = watch(&hub, &["a"]);
        assert_eq!((hub.waiters(), registrations(&hub)), (2, 3));
        drop(first);
        assert_eq!((hub.waiters(), registrations(&hub)), (1, 1));
        hub.wake([key("a")]);
        assert_eq!(second.changed().now_or_never(), Some(Wake::Changed));
        drop(second);
        assert_eq!((hub.waiters(), registrations(&hub)), (0, 0));
    }

    #[test]
    fn the_limits_refuse_and_recover() {
        let hub = Hub::new(2);
        let first = watch(&hub, &["a"]);
        let _second = watch(&hub, &["a"]);
        let try_watch = |key| hub.watch(Origin::UNKNOWN, vec![key], 0).err();
        assert_eq!(try_watch(key("a")), Some(HubFull::Origin(Origin::UNKNOWN)));
        drop(first);
        assert_eq!(try_watch(key("a")), None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_hundred_thousand_waiters_of_one_key_wake_and_leave() {
        const HERD: usize = 100_000;
        let hub = Hub::new(HERD);
        let waits: Vec<_> = (0..HERD)
            .map(|_| {
                let watch = watch(&hub, &["a", "b"]);
                tokio::spawn(async move { watch.changed().await })
            })
            .collect();
        assert_eq!(hub.waiters(), HERD);
        hub.wake([key("b")]);
        for wait in waits {
            assert_eq!(wait.await.expect("the wait ends"), Wake::Changed);
        }
        assert_eq!((hub.waiters(), registrations(&hub)), (0, 0));
    }
}
