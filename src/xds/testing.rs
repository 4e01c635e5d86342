//! Invented resources for tests: a view that is changed by the test, and a source for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Client, Source, Touched, View};
use crate::model::mesh::resource::{Resource, ResourceType, Resources, Version};
use crate::reads::catch_up::{Reached, reach};

/// Prefix of resources that are found by name only.
pub(crate) const HIDDEN: &str = "hidden/";
const REACH: Duration = Duration::from_secs(2);

/// Resources of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeView {
    pub(crate) index: u64,
    shown: [Resources; 4],
    hidden: [Resources; 4],
}

impl FakeView {
    /// Adds or replaces a resource and increments the log index.
    pub(crate) fn put(&mut self, kind: ResourceType, name: &str, content: &str) {
        self.put_naming(kind, name, content, &[]);
    }

    /// Adds or replaces a resource that names clusters.
    pub(crate) fn put_naming(&mut self, kind: ResourceType, name: &str, content: &str, clusters: &[&str]) {
        self.index += 1;
        let bytes = Bytes::from(format!("{name}={content}"));
        let hash = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        let resource = Resource {
            kind,
            name: name.into(),
            version: Version { index: self.index, hash },
            head: Bytes::new(),
            body: bytes,
            releases: Vec::new(),
            clusters: clusters.iter().map(|cluster| (*cluster).into()).collect(),
        };
        self.map(kind, name).insert(name.into(), Arc::new(resource));
    }

    pub(crate) fn remove(&mut self, kind: ResourceType, name: &str) {
        self.index += 1;
        self.map(kind, name).remove(name);
    }

    /// Returns a copy with resources of its own, like another node in the same state.
    pub(crate) fn rebuilt(&self) -> FakeView {
        let mut again = FakeView { index: self.index, ..FakeView::default() };
        for (kind, maps) in ResourceType::ALL.into_iter().zip(self.shown.iter().zip(&self.hidden)) {
            for resource in maps.0.values().chain(maps.1.values()) {
                let copy = Arc::new(Resource::clone(resource));
                again.map(kind, &resource.name.clone()).insert(resource.name.clone(), copy);
            }
        }
        again
    }

    fn map(&mut self, kind: ResourceType, name: &str) -> &mut Resources {
        let maps = if name.starts_with(HIDDEN) { &mut self.hidden } else { &mut self.shown };
        &mut maps[kind.index()]
    }
}

impl View for FakeView {
    fn applied_index(&self) -> u64 {
        self.index
    }

    fn all(&self, kind: ResourceType) -> Resources {
        self.shown[kind.index()].clone()
    }

    fn get(&self, kind: ResourceType, name: &str) -> Option<Arc<Resource>> {
        let maps = if name.starts_with(HIDDEN) { &self.hidden } else { &self.shown };
        maps[kind.index()].get(name).cloned()
    }

    /// Returns `None`: this view has no past.
    fn routes_before(&self, _name: &str, _is_it: &dyn Fn(&Resource) -> bool) -> Option<Arc<Resource>> {
        None
    }

    fn shared_name(&self, kind: ResourceType, name: &str) -> Option<Arc<str>> {
        self.get(kind, name).map(|found| found.name.clone())
    }
}

/// A node with the resources of a [`FakeView`].
pub(crate) struct FakeSource {
    view: Mutex<FakeView>,
    changes: watch::Sender<u64>,
    is_ready: AtomicBool,
    /// Set if the node has applied everything that was committed in its cluster.
    is_at_horizon: AtomicBool,
}

impl FakeSource {
    pub(crate) fn of(view: FakeView) -> Arc<FakeSource> {
        let (changes, is_ready) = (watch::Sender::new(0), AtomicBool::new(true));
        Arc::new(FakeSource { view: Mutex::new(view), changes, is_ready, is_at_horizon: AtomicBool::new(false) })
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut FakeView)) {
        change(&mut self.view.lock());
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }

    pub(crate) fn set_at_horizon(&self) {
        self.is_at_horizon.store(true, Ordering::Relaxed);
    }

    pub(crate) fn view(&self) -> FakeView {
        self.view.lock().clone()
    }
}

impl Source for FakeSource {
    type View<'a> = FakeView;

    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    fn view<'a>(&'a self, _: &'a Client) -> FakeView {
        self.view()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn touched_since(&self, _: u64) -> Option<Vec<Arc<Touched>>> {
        None
    }

    /// Changes are visible at once.
    fn catch_up(&self) {}

    async fn reach(&self, index: u64) -> Reached {
        let mut changes = self.changes.subscribe();
        let is_here = || self.view.lock().index >= index;
        let arrived = async { while !is_here() && changes.changed().await.is_ok() {} };
        let arrival = async {
            // A timeout counts as not applied.
            let _ = tokio::time::timeout(REACH, arrived).await;
            is_here()
        };
        let horizon = async { self.is_at_horizon.load(Ordering::Relaxed) };
        reach(is_here, arrival, horizon).await
    }
}
