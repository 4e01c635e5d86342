//! Applied state of this node: the catalog, the applied index, the watchers of changes, and the callers that wait for
//! the reply of a command. Also the clock, which is not replicated.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::clock::Clock;
use crate::catalog::access::Access;
use crate::catalog::audit::AuditRow;
use crate::catalog::{Catalog, Change, Outcome, RequestId};
use crate::format::level::Level;
use crate::model::time::Timestamp;
use crate::watch::Hub;
use crate::watch::feed::Feed;

/// Progress of apply on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub index: u64,
    /// Newest notification id of the configuration store.
    pub notification_id: u32,
}

impl Applied {
    pub(super) fn of(index: u64, catalog: &Catalog) -> Self {
        Applied { index, notification_id: catalog.configs.newest_notification_id() }
    }
}

/// State that is written by the state machine and read by the surfaces.
pub struct State {
    pub(super) catalog: RwLock<Catalog>,
    pub(super) applied: watch::Sender<Applied>,
    pub(super) replies: Replies,
    pub(super) clock: Clock,
    /// Notified when a webhook changes or an event waits for one.
    pub(crate) webhooks: watch::Sender<()>,
    /// Copy of the catalog's level: every proposal reads it and must not wait for an apply.
    level: AtomicU8,
    /// Copy of the catalog's access rights: every request reads it.
    access: RwLock<Access>,
    hub: Hub,
    feed: Feed<Change>,
}

impl State {
    pub(crate) fn new(catalog: Catalog, applied_index: u64, hub: Hub) -> Self {
        let applied = Applied::of(applied_index, &catalog);
        let clock = Clock::new(catalog.time_mark());
        let level = AtomicU8::new(catalog.level().0);
        let access = RwLock::new(catalog.access.clone());
        State {
            catalog: RwLock::new(catalog),
            applied: watch::Sender::new(applied),
            replies: Replies::default(),
            clock,
            webhooks: watch::Sender::new(()),
            level,
            access,
            hub,
            feed: Feed::default(),
        }
    }

    /// Locks the current catalog for reading. Hold the lock briefly: apply waits for it, and other readers wait for
    /// apply. Use [`State::view`] to iterate over much of it.
    pub fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        self.catalog.read()
    }

    /// Returns a copy of the current catalog that later applies do not change.
    pub fn view(&self) -> Catalog {
        self.catalog.read().view()
    }

    /// Returns the level in force, see [`Catalog::level`].
    pub fn level(&self) -> Level {
        Level(self.level.load(Ordering::Relaxed))
    }

    /// Locks the access rights of all callers for reading. They are as recent as the catalog's.
    pub fn access(&self) -> RwLockReadGuard<'_, Access> {
        self.access.read()
    }

    /// Replaces the catalog.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn replace(&self, catalog: Catalog) {
        let mut present = self.catalog.write();
        self.note(&catalog);
        *present = catalog;
    }

    /// Updates the copies of level and access rights. Call it after changing the catalog, while it is still locked.
    pub(super) fn note(&self, catalog: &Catalog) {
        self.level.store(catalog.level().0, Ordering::Relaxed);
        if !self.access.read().is_shared_with(&catalog.access) {
            *self.access.write() = catalog.access.clone();
        }
    }

    /// Returns the current time of the cluster, see [`super::clock`].
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time of the cluster without all that is in doubt, see [`crate::catalog::time`].
    pub fn sure_now(&self) -> Timestamp {
        self.clock.sure()
    }

    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns the feed of changes of services, of their instances and of the rules about them.
    pub fn feed(&self) -> &Feed<Change> {
        &self.feed
    }

    pub fn applied(&self) -> Applied {
        *self.applied.borrow()
    }

    /// Waits until `is_reached` holds for what is applied; returns false if `limit` passes first.
    pub async fn wait_applied(&self, limit: Duration, is_reached: impl FnMut(&Applied) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut applied = self.applied.subscribe();
        timeout_at(deadline, applied.wait_for(is_reached)).await.is_ok_and(|reached| reached.is_ok())
    }
}

/// Reply of an apply to the caller that made the request.
#[derive(Debug)]
pub struct CommandReply {
    pub outcomes: Vec<Outcome>,
    /// Audit rows of the command.
    pub audit: Vec<AuditRow>,
}

/// Listener to the state machine.
pub trait ApplyListener: Send + Sync + 'static {
    /// Hears of what was applied, once for each group of entries; apply waits for it.
    fn applied(&self, replies: &[(RequestId, CommandReply)]);
}

/// Callers that wait for a reply, by request. Every node applies every entry, so a request gets its reply from the
/// apply of the node that received it, whichever node proposed the entry.
#[derive(Default)]
pub(super) struct Replies {
    waiting: Mutex<HashMap<RequestId, oneshot::Sender<CommandReply>>>,
}

impl Replies {
    /// Registers a request. Call it before sending: the reply may arrive before the call that sends returns.
    pub(super) fn register(&self, request: RequestId) -> (PendingReply<'_>, oneshot::Receiver<CommandReply>) {
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(request, sender);
        (PendingReply { replies: self, request }, receiver)
    }

    pub(super) fn is_awaited(&self, request: RequestId) -> bool {
        self.waiting.lock().contains_key(&request)
    }

    pub(super) fn answer(&self, replies: impl IntoIterator<Item = (RequestId, CommandReply)>) {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            return;
        }
        let answer = |(request, reply)| waiting.remove(&request).map(|sender| (sender, reply));
        let answered: Vec<_> = replies.into_iter().filter_map(answer).collect();
        drop(waiting);
        for (sender, reply) in answered {
            // The caller may have gone; its request is applied all the same.
            let _ = sender.send(reply);
        }
    }
}

/// Registration of a request, removed on drop.
pub(super) struct PendingReply<'a> {
    replies: &'a Replies,
    request: RequestId,
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        self.replies.waiting.lock().remove(&self.request);
    }
}
