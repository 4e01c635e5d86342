//! Credentials that the held requests of this node were let in by. The holder of each is looked at again and again:
//! where its token has ended, or may do something else now, its requests are woken, and judge their caller anew as
//! after every wake.
//!
//! One look serves all held requests, and there is none while nothing is held. That this node has not heard of a leader
//! for too long ends no held request: its callers have lost nothing.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::node::Node;
use crate::catalog::Credential;
use crate::catalog::access::{Access, Holder};
use crate::model::time::Timestamp;
use crate::tasks;
use crate::watch::WatchKey;

/// Between two looks: within a second of its end a token has no held request.
const LOOK_EVERY: Duration = Duration::from_millis(400);

#[derive(Default)]
pub(super) struct CredentialWatcher(Mutex<HeldCredentials>);

#[derive(Default)]
struct HeldCredentials {
    by_key: HashMap<WatchKey, WatchedCredential>,
    /// A task looks after them.
    is_kept: bool,
}

/// A credential that requests are held by.
struct WatchedCredential {
    credential: Credential,
    requests: usize,
    holder: Option<Holder>,
    /// Time at which it ends by itself, if it does.
    ends: Option<Timestamp>,
}

impl WatchedCredential {
    fn new(credential: &Credential, access: &Access, now: Timestamp) -> Self {
        let mut guarded = WatchedCredential { credential: credential.clone(), requests: 0, holder: None, ends: None };
        guarded.is_other(access, now);
        guarded
    }

    /// Looks who stands behind it now; true for somebody else than before.
    fn is_other(&mut self, access: &Access, now: Timestamp) -> bool {
        let holder = access.holder_of(&self.credential, now);
        // Nothing ends twice.
        self.ends = holder.as_ref().and_then(|_| access.end_of_credential(&self.credential));
        let is_other = holder != self.holder;
        self.holder = holder;
        is_other
    }
}

/// One held request; it is looked after until this is dropped.
pub struct Guard {
    node: Node,
    key: WatchKey,
}

impl Guard {
    /// Key to wait for: it wakes when the credential is not what it was.
    pub fn key(&self) -> WatchKey {
        self.key
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut kept = self.node.inner().watcher.0.lock();
        if let Some(guarded) = kept.by_key.get_mut(&self.key) {
            guarded.requests -= 1;
            if guarded.requests == 0 {
                kept.by_key.remove(&self.key);
            }
        }
    }
}

impl Node {
    /// For a request that is to be held: who asks has to be judged once more after this, and after every wake.
    pub fn guard(&self, credential: &Credential) -> Guard {
        let key = WatchKey::credential(credential);
        let mut kept = self.inner().watcher.0.lock();
        let begin = || WatchedCredential::new(credential, &self.state().access(), self.sure_now());
        kept.by_key.entry(key).or_insert_with(begin).requests += 1;
        if !std::mem::replace(&mut kept.is_kept, true) {
            tasks::needed("held-credentials", keep(self.clone()));
        }
        Guard { node: self.clone(), key }
    }
}

/// Looks until nothing is held any more.
async fn keep(node: Node) {
    let mut seen = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(others) = look(&node, &mut seen) else { return };
        node.state().hub().wake(others);
    }
}

/// The keys of those that are not what they were; nothing once there is none to look at.
fn look(node: &Node, seen: &mut Option<Access>) -> Option<Vec<WatchKey>> {
    let mut kept = node.inner().watcher.0.lock();
    if kept.by_key.is_empty() {
        *kept = HeldCredentials::default();
        return None;
    }
    let (access, now) = (node.state().access().clone(), node.sure_now());
    let is_same = seen.as_ref().is_some_and(|seen| seen.is_shared_with(&access));
    let is_due = |guarded: &WatchedCredential| !is_same || guarded.ends.is_some_and(|ends| ends <= now);
    let due = kept.by_key.iter_mut().filter(|(_, guarded)| is_due(guarded));
    let others = due.filter_map(|(key, guarded)| guarded.is_other(&access, now).then_some(*key)).collect();
    *seen = Some(access);
    Some(others)
}
