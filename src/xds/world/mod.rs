//! World of a running node: the resources of its own applied state, made when they are asked for and kept until
//! something changes that they were made from.
//!
//! One task follows the feed of changes. A change costs what it changed: the units that read one of its subjects go,
//! and of what is kept for wildcards the services that they belong to are made anew when somebody asks.
//!
//! Streams look up what is kept under one lock, which nobody holds for longer than that. Whoever misses something makes
//! it of an unchanging state ([`Stand`]) without the lock, and puts it there for all others.

mod cells;
mod gathering;
mod lingering;
mod making;
mod past;
mod scene;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod touched;
mod wild;

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
use super::view::WorldView;
use crate::model::rule::Family;
use crate::model::rule::matching::ALL;
use crate::raft::at_length;
use crate::raft::state::State;
use crate::reads::catch_up::{CATCH_UP_LIMIT, Reached, reach};
use crate::watch::feed::News;

use cells::{Cells, Stand};
use past::Past;

pub(crate) use lingering::Lingering;
use scene::is_pattern;
pub(crate) use scene::{Facets, Newest, Scene};
pub use touched::Touched;
pub(super) use wild::WildKey;

/// Time without a change after which changes are taken in, and the most that they wait for one.
const QUIET: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_millis(60);

/// Changes that are remembered for streams that have not looked at them.
const WAVES_MAX: usize = 64;
/// Time after which a scope is forgotten that no stream uses.
const IDLE: Duration = Duration::from_secs(60);

/// The resources of one node.
pub struct World {
    state: Arc<State>,
    is_ready: Box<dyn Fn() -> bool + Send + Sync>,
    was_ready: AtomicBool,
    /// Asks whether this node has all that any node of the cluster had a moment ago.
    horizon: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    /// Authority whose names are answered as well.
    authority: Option<Arc<str>>,
    cells: Mutex<Cells>,
    past: Mutex<Past>,
    /// Held while changes are taken in, by one after the other.
    taking: Mutex<()>,
    /// The last changes, each with its number.
    waves: Mutex<VecDeque<(u64, Arc<Touched>)>>,
    /// Number of the last one.
    changes: watch::Sender<u64>,
}

impl World {
    /// A world of a node's state; `is_ready` is asked until it says yes, and `horizon` for an index that is not here.
    pub fn new(
        state: Arc<State>,
        authority: Option<String>,
        is_ready: impl Fn() -> bool + Send + Sync + 'static,
        horizon: impl Fn() -> BoxFuture<'static, bool> + Send + Sync + 'static,
    ) -> Self {
        state.feed().follow();
        let index = state.applied().index;
        let scene = Scene::of(&state.catalog());
        World {
            state,
            is_ready: Box::new(is_ready),
            was_ready: AtomicBool::new(false),
            horizon: Box::new(horizon),
            authority: authority.map(Arc::from),
            cells: Mutex::new(Cells::new(Stand::first(scene, index))),
            past: Mutex::default(),
            taking: Mutex::default(),
            waves: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Follows the changes of the node; to be run once, for as long as the node runs.
    pub async fn follow(self: Arc<Self>) {
        let mut idle = interval_at(Instant::now() + IDLE, IDLE);
        loop {
            let forgets_at = self.cells.lock().stand.lingering.next_end();
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

    /// Takes in what has changed so far.
    pub(super) fn take_changes(&self) {
        self.take_changes_at(Instant::now());
    }

    fn take_changes_at(&self, now: Instant) {
        let _taking = self.taking.lock();
        let before = self.cells.lock().stand.clone();
        // Both at one moment: what the scene shows has been told.
        let catalog = self.state.catalog();
        let (news, applied, mut scene) = (self.state.feed().take(), self.state.applied().index, Scene::of(&catalog));
        drop(catalog);
        let (changes, newest) = match news {
            News::Changes(changes) => (Some(changes), None),
            News::Everything(newest) => (None, Some(newest)),
        };
        let last_told = changes.iter().flatten().map(|(index, _)| *index).chain(newest).max().unwrap_or_default();
        let applied_index = applied.max(last_told);
        let Some(changes) = changes else {
            self.begin_anew(&before, scene, applied_index, now);
            return;
        };
        let mut touched = Touched::of(&changes);
        let other_sets = scene.inherit(&before.scene, &touched.subjects);
        let scene = Arc::new(scene);
        let mut lingering = Lingering::clone(&before.lingering);
        let gone = lingering.end(now);
        if touched.is_nothing() && gone.is_empty() {
            let stand = &mut self.cells.lock().stand;
            (stand.scene, stand.applied_index) = (scene, applied_index);
            return;
        }
        let mut newest = Newest::clone(&before.newest);
        for (index, change) in &changes {
            scene::subjects(change).into_iter().for_each(|(facet, name)| newest.note(*index, facet, name));
        }
        for service in self.may_linger(&before.scene, &touched, other_sets) {
            lingering.compare(&service, &before.scene, &scene, now);
        }
        for name in gone {
            touched.add(name, Facets::rules(Family::Routing));
        }
        let (newest, lingering, number) = (Arc::new(newest), Arc::new(lingering), before.number + 1);
        let stand = Stand { scene, newest, lingering, applied_index, number };
        self.past.lock().follow(&before, &touched, now);
        let touched = self.cells.lock().advance(stand, touched);
        self.tell(touched);
    }

    /// Goes on to a state of which it is not known how it differs. Sets of labels linger all the same.
    fn begin_anew(&self, before: &Stand, mut scene: Scene, index: u64, now: Instant) {
        scene.matchers = before.scene.matchers.clone();
        let mut lingering = Lingering::clone(&before.lingering);
        lingering.end(now);
        for service in before.scene.services_in(None) {
            lingering.compare(&service, &before.scene, &scene, now);
        }
        let stand = Stand { lingering: Arc::new(lingering), number: before.number + 1, ..Stand::first(scene, index) };
        let old = std::mem::replace(&mut *self.cells.lock(), Cells::new(stand));
        drop(old);
        // It may be another state as a whole, of which nothing is to stay.
        let past = std::mem::take(&mut *self.past.lock());
        drop(past);
        self.tell(Arc::new(Touched::everything()));
    }

    /// Services whose sets of labels may be others now.
    fn may_linger(
        &self,
        before: &Scene,
        touched: &Touched,
        mut services: BTreeSet<ServiceName>,
    ) -> BTreeSet<ServiceName> {
        let by_rules = Facets::rules(Family::Routing);
        for (name, facets) in &touched.subjects {
            if !facets.has_any(by_rules.with(Facets::INSTANCES)) {
                continue;
            }
            if !is_pattern(name) {
                services.insert(name.clone());
                // Values of labels may be those of instances of another service.
                services.extend(self.cells.lock().read_for_clusters(name).cloned());
            } else if facets.has_any(by_rules) {
                let namespace = (*name.namespace != *ALL).then_some(&*name.namespace);
                services.extend(before.services_in(namespace).filter(|service| name.covers(service)));
            }
        }
        services
    }

    /// Wakes the streams, and tells them what it is about.
    fn tell(&self, touched: Arc<Touched>) {
        let mut waves = self.waves.lock();
        let number = waves.back().map_or(0, |(number, _)| *number) + 1;
        if waves.len() >= WAVES_MAX {
            waves.pop_front();
        }
        waves.push_back((number, touched));
        self.changes.send_replace(number);
    }

    /// Index up to which what is made has taken in the log.
    pub(super) fn known_index(&self) -> u64 {
        self.cells.lock().stand.applied_index
    }

    pub(super) fn authority(&self) -> Option<&Arc<str>> {
        self.authority.as_ref()
    }
}

impl Source for World {
    type View<'a> = WorldView<'a>;

    fn is_ready(&self) -> bool {
        if !self.was_ready.load(Ordering::Relaxed) && (self.is_ready)() {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        self.was_ready.load(Ordering::Relaxed)
    }

    fn view<'a>(&'a self, client: &'a Client) -> WorldView<'a> {
        WorldView::new(self, client)
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
