//! Resource cache of a node: resources of the state that the node has applied. They are built on demand and cached
//! until a dependency changes.
//!
//! One task follows the feed of changes. A change invalidates the units that read one of its subjects. In cached maps
//! of wildcards, only the services of those units are rebuilt, at the next request.
//!
//! Streams look up cached items under one lock, which is held for the lookup only. A stream that misses an item builds
//! it without the lock from an immutable state and stores it for all others.

mod gathering;
mod generation;
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
mod view;
mod wildcard;
mod wildcard_set;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, sleep_until};

use super::applied::{AppliedChanges, AppliedState};
use super::names::ServiceName;
use crate::model::rule::Family;
use crate::model::rule::matching::ALL;
use crate::tasks::in_place;

use generation::Generation;
use past::Past;
use snapshot::is_pattern;
use units::UnitCache;

pub(crate) use retired::RetiredSubsets;
pub(crate) use snapshot::{CatalogSnapshot, ChangeMask, LastModified, is_about};
pub use touched::Touched;
pub use view::CacheView;

/// Quiet period after which changes are applied, and the maximum time that they wait for it.
const QUIET: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_millis(60);

/// Number of changes remembered for streams that have not processed them.
const RECENT_MAX: usize = 64;
/// Time after which an unused scope is dropped.
const IDLE: Duration = Duration::from_secs(60);

/// Cache of the resources of one node.
pub struct ResourceCache {
    state: Arc<dyn AppliedState>,
    /// Set once the node was ready.
    was_ready: AtomicBool,
    /// Authority whose names are resolved in addition to plain names.
    authority: Option<Arc<str>>,
    units: Mutex<UnitCache>,
    past: Mutex<Past>,
    /// Serializes the application of changes.
    applying: Mutex<()>,
    /// Recent changes with their numbers.
    recent: Mutex<VecDeque<(u64, Arc<Touched>)>>,
    /// Number of the last change.
    changes: watch::Sender<u64>,
}

impl ResourceCache {
    /// Creates a cache over the state of a node.
    pub fn new(state: Arc<dyn AppliedState>, authority: Option<String>) -> Self {
        state.follow();
        let (AppliedChanges { index, .. }, snapshot) = take(&*state);
        ResourceCache {
            state,
            was_ready: AtomicBool::new(false),
            authority: authority.map(Arc::from),
            units: Mutex::new(UnitCache::new(Generation::first(snapshot, index))),
            past: Mutex::default(),
            applying: Mutex::default(),
            recent: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Follows the changes of the node. Must be called once; runs as long as the node.
    pub async fn follow(self: Arc<Self>) {
        let mut idle = interval_at(Instant::now() + IDLE, IDLE);
        loop {
            let forgets_at = self.units.lock().generation.retired.next_end();
            tokio::select! {
                () = self.state.changed() => self.await_quiet().await,
                () = sleep_until(forgets_at.unwrap_or_else(Instant::now)), if forgets_at.is_some() => {}
                _ = idle.tick() => {
                    self.past.lock().forget(Instant::now());
                    let garbage = self.units.lock().wildcards.forget_idle();
                    in_place(|| drop(garbage));
                    continue;
                }
            }
            in_place(|| self.apply_changes());
        }
    }

    async fn await_quiet(&self) {
        let latest = Instant::now() + WAIT_MAX;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(latest.min(Instant::now() + QUIET)) => return,
                () = self.state.changed() => {}
            }
        }
    }

    /// Applies all changes so far.
    pub(super) fn apply_changes(&self) {
        self.apply_changes_at(Instant::now());
    }

    fn apply_changes_at(&self, now: Instant) {
        let _applying = self.applying.lock();
        let before = self.units.lock().generation.clone();
        let (AppliedChanges { changes, index: applied_index }, mut snapshot) = take(&*self.state);
        let Some(changes) = changes else {
            self.reset(&before, snapshot, applied_index, now);
            return;
        };
        let mut touched = Touched::of(&changes);
        let services_with_other_subsets = snapshot.inherit(&before.snapshot, &touched.subjects);
        let snapshot = Arc::new(snapshot);
        let mut retired = RetiredSubsets::clone(&before.retired);
        let gone = retired.end(now);
        if touched.is_nothing() && gone.is_empty() {
            let generation = &mut self.units.lock().generation;
            (generation.snapshot, generation.applied_index) = (snapshot, applied_index);
            return;
        }
        let mut last_modified = LastModified::clone(&before.last_modified);
        for (index, change) in &changes {
            snapshot::subjects(change)
                .into_iter()
                .for_each(|(aspect, name)| last_modified.record(*index, aspect, name));
        }
        for service in self.with_changed_subsets(&before.snapshot, &touched, services_with_other_subsets) {
            retired.compare(&service, &before.snapshot, &snapshot, now);
        }
        for name in gone {
            touched.add(name, ChangeMask::rules(Family::Routing));
        }
        let (last_modified, retired, number) = (Arc::new(last_modified), Arc::new(retired), before.number + 1);
        let generation = Generation { snapshot, last_modified, retired, applied_index, number };
        self.past.lock().follow(&before, &touched, now);
        let touched = self.units.lock().advance(generation, touched);
        self.publish(touched);
    }

    /// Advances to a state with unknown differences from the previous one. Subsets are retired nevertheless.
    fn reset(&self, before: &Generation, mut snapshot: CatalogSnapshot, index: u64, now: Instant) {
        snapshot.matchers = before.snapshot.matchers.clone();
        let mut retired = RetiredSubsets::clone(&before.retired);
        retired.end(now);
        for service in before.snapshot.services_in(None) {
            retired.compare(&service, &before.snapshot, &snapshot, now);
        }
        let generation =
            Generation { retired: Arc::new(retired), number: before.number + 1, ..Generation::first(snapshot, index) };
        let old = std::mem::replace(&mut *self.units.lock(), UnitCache::new(generation));
        drop(old);
        // The new state may be unrelated to the previous one, so no earlier state is retained.
        let past = std::mem::take(&mut *self.past.lock());
        drop(past);
        self.publish(Arc::new(Touched::everything()));
    }

    /// Returns the services whose subsets may have changed.
    fn with_changed_subsets(
        &self,
        before: &CatalogSnapshot,
        touched: &Touched,
        mut services: BTreeSet<ServiceName>,
    ) -> BTreeSet<ServiceName> {
        let by_rules = ChangeMask::rules(Family::Routing);
        for (name, mask) in &touched.subjects {
            if !mask.has_any(by_rules.with(ChangeMask::INSTANCES)) {
                continue;
            }
            if !is_pattern(name) {
                services.insert(name.clone());
                // Label values may come from the instances of another service.
                services.extend(self.units.lock().read_for_clusters(name).cloned());
            } else if mask.has_any(by_rules) {
                let namespace = (*name.namespace != *ALL).then_some(&*name.namespace);
                services.extend(before.services_in(namespace).filter(|service| name.covers(service)));
            }
        }
        services
    }

    /// Wakes the streams and records the change for them.
    fn publish(&self, touched: Arc<Touched>) {
        let mut recent = self.recent.lock();
        let number = recent.back().map_or(0, |(number, _)| *number) + 1;
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back((number, touched));
        self.changes.send_replace(number);
    }

    /// Returns the log index that the cache includes.
    pub(super) fn known_index(&self) -> u64 {
        self.units.lock().generation.applied_index
    }

    pub(super) fn authority(&self) -> Option<&Arc<str>> {
        self.authority.as_ref()
    }
}

/// Takes the changes of a state, with a snapshot that contains exactly these and all earlier ones.
fn take(state: &dyn AppliedState) -> (AppliedChanges, CatalogSnapshot) {
    let mut snapshot = CatalogSnapshot::default();
    let changes = state.take(&mut |catalog| snapshot = CatalogSnapshot::of(catalog));
    (changes, snapshot)
}
