//! World of a running node: the resources of its own applied state, made when they are asked for and kept until
//! something changes that they were made from.
//!
//! One task follows the feed of changes. A change costs what it changed: the units that read one of its subjects go,
//! and of what is kept for wildcards the services that they belong to are made anew when somebody asks.

mod cells;
mod lingering;
mod scene;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod wild;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Source;
use super::client::Client;
use super::view::WorldView;
use crate::raft::state::State;
use crate::reads::catch_up::{CATCH_UP_LIMIT, Reached, reach};
use crate::watch::feed::News;

pub(super) use cells::Cells;
pub(crate) use lingering::Lingering;
pub(crate) use scene::{Facets, Newest, Scene};
pub(super) use wild::{Gathered, WildKey};

/// Time without a change after which changes are taken in, and the most that they wait for one.
const QUIET: Duration = Duration::from_millis(20);
const WAIT_MAX: Duration = Duration::from_millis(60);

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
            cells: Mutex::new(Cells::new(scene, index)),
            changes: watch::Sender::new(0),
        }
    }

    /// Follows the changes of the node; to be run once, for as long as the node runs.
    pub async fn follow(self: Arc<Self>) {
        loop {
            let forgets_at = self.cells.lock().forgets_at();
            tokio::select! {
                () = self.state.feed().changed() => self.await_quiet().await,
                () = sleep_until(forgets_at.unwrap_or_else(Instant::now)), if forgets_at.is_some() => {}
            }
            self.take_changes();
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
        let mut cells = self.cells.lock();
        let news = self.state.feed().take();
        // The index goes first: what the scene has beyond it comes again with the feed.
        let index = self.state.applied().index;
        let scene = Scene::of(&self.state.catalog());
        let has_changed = match news {
            News::Changes(changes) => cells.advance(scene, index, &changes, Instant::now()),
            News::Everything(newest) => {
                *cells = Cells::new(scene, newest.max(index));
                true
            }
        };
        if has_changed {
            self.changes.send_modify(|number| *number += 1);
        }
    }

    pub(super) fn cells(&self) -> &Mutex<Cells> {
        &self.cells
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

    fn catch_up(&self) {
        let applied = self.state.applied().index;
        let known = self.cells.lock().applied_index();
        if known < applied {
            self.take_changes();
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
