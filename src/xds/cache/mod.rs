//! Resource cache of a node: resources of the state that the node has applied. They are built on demand and cached
//! until a dependency changes.
//!
//! One task follows the feed of changes. A change invalidates the units that read one of its subjects. In cached maps
//! of wildcards, only the services of those units are rebuilt, at the next request.
//!
//! Streams look up cached items under one lock, which is held for the lookup only. A stream that misses an item builds
//! it without the lock from an immutable state and stores it for all others.

mod gathering;
mod making;
mod past;
mod retired;
mod snapshot;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod touched;
mod units;
mod wildcard;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, sleep_until};

use super::Source;
use super::client::Client;
use super::names::ServiceName;
use super::view::CacheView;
use crate::model::rule::Family;
use crate::model::rule::matching::ALL;
use crate::raft::at_length;
use crate::raft::state::State;
use crate::reads::catch_up::{CATCH_UP_LIMIT, Reached, reach};
use crate::watch::feed::News;

use past::Past;
use units::{Stand, UnitCache};

pub(crate) use retired::RetiredSubsets;
use snapshot::is_pattern;
pub(crate) use snapshot::{CatalogSnapshot, ChangeMask, LastModified};
pub use touched::Touched;
pub(super) use wildcard::WildcardKey;

/// Quiet period after which changes are applied, and the maximum time that they wait for it.
const QUIET: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_millis(60);

/// Number of changes remembered for streams that have not processed them.
const WAVES_MAX: usize = 64;
/// Time after which an unused scope is dropped.
const IDLE: Duration = Duration::from_secs(60);

/// Cache of the resources of one node.
pub struct ResourceCache {
    state: Arc<State>,
    is_ready: Box<dyn Fn() -> bool + Send + Sync>,
    was_ready: AtomicBool,
    /// Reports whether this node has applied everything that was committed in the cluster when the call began.
    horizon: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    /// Authority whose names are resolved in addition to plain names.
    authority: Option<Arc<str>>,
    cells: Mutex<UnitCache>,
    past: Mutex<Past>,
    /// Serializes the application of changes.
    taking: Mutex<()>,
    /// Recent changes with their numbers.
    waves: Mutex<VecDeque<(u64, Arc<Touched>)>>,
    /// Number of the last change.
    changes: watch::Sender<u64>,
}

impl ResourceCache {
    /// Creates a cache over a node's state. `is_ready` is called until it returns true, `horizon` for an index that is
    /// not applied here.
    pub fn new(
        state: Arc<State>,
        authority: Option<String>,
        is_ready: impl Fn() -> bool + Send + Sync + 'static,
        horizon: impl Fn() -> BoxFuture<'static, bool> + Send + Sync + 'static,
    ) -> Self {
        state.feed().follow();
        let index = state.applied().index;
        let snapshot = CatalogSnapshot::of(&state.catalog());
        ResourceCache {
            state,
            is_ready: Box::new(is_ready),
            was_ready: AtomicBool::new(false),
            horizon: Box::new(horizon),
            authority: authority.map(Arc::from),
            cells: Mutex::new(UnitCache::new(Stand::first(snapshot, index))),
            past: Mutex::default(),
            taking: Mutex::default(),
            waves: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Follows the changes of the node. Must be called once; runs as long as the node.
    pub async fn follow(self: Arc<Self>) {
        let mut idle = interval_at(Instant::now() + IDLE, IDLE);
        loop {
            let forgets_at = self.cells.lock().stand.retired.next_end();
            tokio::select! {
                () = self.state.feed().changed() => self.await_quiet().await,
                () = sleep_until(forgets_at.unwrap_or_else(Instant::now)), if forgets_at.is_some() => {}
                _ = idle.tick() => {
                    self.past.lock().forget(Instant::now());
                    let garbage = self.cells.lock().wilds.forget_idle();
                    at_length(|| drop(garbage));
                    continue;
                }
            }
            at_length(|| self.take_changes());
        }
    }

    async fn await_quiet(&self) {
        let latest = Instant::now() + WAIT_MAX;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(latest.min(Instant::now() + QUIET)) => return,
                () = self.state.feed().changed() => {}
            }
        }
    }

    /// Applies all changes so far.
    pub(super) fn take_changes(&self) {
        self.take_changes_at(Instant::now());
    }

    fn take_changes_at(&self, now: Instant) {
        let _taking = self.taking.lock();
        let before = self.cells.lock().stand.clone();
        // The feed and the snapshot are read under one lock, so the feed covers everything in the snapshot.
        let catalog = self.state.catalog();
        let (news, applied, mut snapshot) =
            (self.state.feed().take(), self.state.applied().index, CatalogSnapshot::of(&catalog));
        drop(catalog);
        let (changes, newest) = match news {
            News::Changes(changes) => (Some(changes), None),
            News::Everything(newest) => (None, Some(newest)),
        };
        let last_told = changes.iter().flatten().map(|(index, _)| *index).chain(newest).max().unwrap_or_default();
        let applied_index = applied.max(last_told);
        let Some(changes) = changes else {
            self.begin_anew(&before, snapshot, applied_index, now);
            return;
        };
        let mut touched = Touched::of(&changes);
        let other_sets = snapshot.inherit(&before.snapshot, &touched.subjects);
        let snapshot = Arc::new(snapshot);
        let mut retired = RetiredSubsets::clone(&before.retired);
        let gone = retired.end(now);
        if touched.is_nothing() && gone.is_empty() {
            let stand = &mut self.cells.lock().stand;
            (stand.snapshot, stand.applied_index) = (snapshot, applied_index);
            return;
        }
        let mut newest = LastModified::clone(&before.newest);
        for (index, change) in &changes {
            snapshot::subjects(change).into_iter().for_each(|(facet, name)| newest.note(*index, facet, name));
        }
        for service in self.may_linger(&before.snapshot, &touched, other_sets) {
            retired.compare(&service, &before.snapshot, &snapshot, now);
        }
        for name in gone {
            touched.add(name, ChangeMask::rules(Family::Routing));
        }
        let (newest, retired, number) = (Arc::new(newest), Arc::new(retired), before.number + 1);
        let stand = Stand { snapshot, newest, retired, applied_index, number };
        self.past.lock().follow(&before, &touched, now);
        let touched = self.cells.lock().advance(stand, touched);
        self.tell(touched);
    }

    /// Advances to a state with unknown differences from the previous one. Subsets are retired nevertheless.
    fn begin_anew(&self, before: &Stand, mut snapshot: CatalogSnapshot, index: u64, now: Instant) {
        snapshot.matchers = before.snapshot.matchers.clone();
        let mut retired = RetiredSubsets::clone(&before.retired);
        retired.end(now);
        for service in before.snapshot.services_in(None) {
            retired.compare(&service, &before.snapshot, &snapshot, now);
        }
        let stand = Stand { retired: Arc::new(retired), number: before.number + 1, ..Stand::first(snapshot, index) };
        let old = std::mem::replace(&mut *self.cells.lock(), UnitCache::new(stand));
        drop(old);
        // The new state may be unrelated to the previous one, so no earlier state is retained.
        let past = std::mem::take(&mut *self.past.lock());
        drop(past);
        self.tell(Arc::new(Touched::everything()));
    }

    /// Returns the services whose subsets may have changed.
    fn may_linger(
        &self,
        before: &CatalogSnapshot,
        touched: &Touched,
        mut services: BTreeSet<ServiceName>,
    ) -> BTreeSet<ServiceName> {
        let by_rules = ChangeMask::rules(Family::Routing);
        for (name, facets) in &touched.subjects {
            if !facets.has_any(by_rules.with(ChangeMask::INSTANCES)) {
                continue;
            }
            if !is_pattern(name) {
                services.insert(name.clone());
                // Label values may come from the instances of another service.
                services.extend(self.cells.lock().read_for_clusters(name).cloned());
            } else if facets.has_any(by_rules) {
                let namespace = (*name.namespace != *ALL).then_some(&*name.namespace);
                services.extend(before.services_in(namespace).filter(|service| name.covers(service)));
            }
        }
        services
    }

    /// Wakes the streams and records the change for them.
    fn tell(&self, touched: Arc<Touched>) {
        let mut waves = self.waves.lock();
        let number = waves.back().map_or(0, |(number, _)| *number) + 1;
        if waves.len() >= WAVES_MAX {
            waves.pop_front();
        }
        waves.push_back((number, touched));
        self.changes.send_replace(number);
    }

    /// Returns the log index that the cache includes.
    pub(super) fn known_index(&self) -> u64 {
        self.cells.lock().stand.applied_index
    }

    pub(super) fn authority(&self) -> Option<&Arc<str>> {
        self.authority.as_ref()
    }
}

impl Source for ResourceCache {
    type View<'a> = CacheView<'a>;

    fn is_ready(&self) -> bool {
        if !self.was_ready.load(Ordering::Relaxed) && (self.is_ready)() {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        self.was_ready.load(Ordering::Relaxed)
    }

    fn view<'a>(&'a self, client: &'a Client) -> CacheView<'a> {
        CacheView::new(self, client)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn touched_since(&self, number: u64) -> Option<Vec<Arc<Touched>>> {
        let waves = self.waves.lock();
        let is_remembered = waves.front().is_none_or(|(first, _)| *first <= number + 1);
        let since = waves.iter().filter(|(wave, _)| *wave > number);
        is_remembered.then(|| since.map(|(_, touched)| touched.clone()).collect())
    }

    fn catch_up(&self) {
        let applied = self.state.applied().index;
        let known = self.cells.lock().stand.applied_index;
        if known < applied {
            at_length(|| self.take_changes());
        }
    }

    async fn reach(&self, index: u64) -> Reached {
        let is_here = || self.state.applied().index >= index;
        let arrival = self.state.wait_applied(CATCH_UP_LIMIT, |applied| applied.index >= index);
        let reached = reach(is_here, arrival, (self.horizon)()).await;
        self.catch_up();
        reached
    }
}
