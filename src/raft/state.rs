//! The applied state of this node, as everyone else in the process sees it: the catalog to read,
//! how far it is applied, who waits for changes, and who waits for the answer of a command. Beside it
//! what is known of the time, which is never replicated.

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

/// Shared by the state machine, which writes it, and by the surfaces, which read it.
pub struct State {
    pub(super) catalog: RwLock<Catalog>,
    pub(super) applied: watch::Sender<Applied>,
    pub(super) replies: Replies,
    pub(super) clock: Clock,
    /// A webhook changed, or something waits for one.
    pub(crate) webhooks: watch::Sender<()>,
    /// The catalog's, beside it: every proposal asks, and must not wait for an apply.
    level: AtomicU8,
    /// The same of who may ask: every request is looked up.
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

    /// The catalog as it stands. Hold it shortly: apply waits for it, and readers behind apply. Who
    /// has a long way to walk takes a [`State::view`].
    pub fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        self.catalog.read()
    }

    /// The catalog as it stands now, whatever is applied while it is read.
    pub fn view(&self) -> Catalog {
        self.catalog.read().view()
    }

    /// The level in force, see [`Catalog::level`].
    pub fn level(&self) -> Level {
        Level(self.level.load(Ordering::Relaxed))
    }

    /// Access rights of all callers: those of the catalog, and as recent.
    pub fn access(&self) -> RwLockReadGuard<'_, Access> {
        self.access.read()
    }

    /// Puts another catalog in the place of this one.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn replace(&self, catalog: Catalog) {
        let mut present = self.catalog.write();
        self.note(&catalog);
        *present = catalog;
    }

    /// Puts the catalog of a further entry in the place of this one, and tells of it as the state machine does.
    #[cfg(test)]
    pub(crate) fn apply(&self, index: u64, catalog: Catalog, changes: Vec<Change>) {
        let applied = Applied::of(index, &catalog);
        self.replace(catalog);
        self.feed.push(changes.into_iter().map(|change| (index, change)));
        self.applied.send_replace(applied);
    }

    /// To be called by who has changed the catalog, while it is still locked.
    pub(super) fn note(&self, catalog: &Catalog) {
        self.level.store(catalog.level().0, Ordering::Relaxed);
        if !self.access.read().is_shared_with(&catalog.access) {
            *self.access.write() = catalog.access.clone();
        }
    }

    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Changes of services, of their instances and of the rules about them.
    pub fn feed(&self) -> &Feed<Change> {
        &self.feed
    }

    pub fn applied(&self) -> Applied {
        *self.applied.borrow()
    }

    /// Waits until `is_reached` holds for what is applied; false if `limit` passes first.
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
    /// Audit rows that were written about it.
    pub audit: Vec<AuditRow>,
}

/// Callers that wait for an answer, by request. Every node applies every entry, so the node that took a request gets
/// its answer from its own apply, whichever node proposed the entry.
#[derive(Default)]
pub(super) struct Replies {
    waiting: Mutex<HashMap<RequestId, oneshot::Sender<CommandReply>>>,
}

impl Replies {
    /// Registers before anything is sent: the answer may come before the sending returns.
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
            // The waiter may have gone just now; its request is applied all the same.
            let _ = sender.send(reply);
        }
    }
}

/// Keeps a request registered; dropped, it is forgotten.
pub(super) struct PendingReply<'a> {
    replies: &'a Replies,
    request: RequestId,
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        self.replies.waiting.lock().remove(&self.request);
    }
}
