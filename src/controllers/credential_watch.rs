//! Re-authorizes held requests.
//!
//! Every 400 ms the credential of each held request is looked up. If its token has expired or its rights have changed,
//! the request is woken and checks its caller again, as after every wake. One task serves all held requests and ends
//! with the last one. Losing contact with the leader ends no held request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::catalog::Credential;
use crate::catalog::access::{Access, Holder};
use crate::model::time::Timestamp;
use crate::raft::state::State;
use crate::tasks;
use crate::watch::WatchKey;

/// Pause between two lookups: a token has no held request a second after it expired.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Watches the credentials of held requests.
#[derive(Default)]
pub struct CredentialWatcher(Mutex<HeldCredentials>);

#[derive(Default)]
struct HeldCredentials {
    by_key: HashMap<WatchKey, WatchedCredential>, // bound: held-requests
    /// True while the task runs.
    is_kept: bool,
}

/// A credential of held requests.
struct WatchedCredential {
    credential: Credential,
    requests: usize,
    holder: Option<Holder>,
    /// Time at which the credential expires, if it does.
    ends: Option<Timestamp>,
}

impl WatchedCredential {
    fn new(credential: &Credential, access: &Access, now: Timestamp) -> Self {
        let mut guarded = WatchedCredential { credential: credential.clone(), requests: 0, holder: None, ends: None };
        guarded.is_other(access, now);
        guarded
    }

    /// Looks up the holder; reports whether the holder or its rights have changed.
    fn is_other(&mut self, access: &Access, now: Timestamp) -> bool {
        let holder = access.holder_of(&self.credential, now);
        // A credential without a holder has expired already.
        self.ends = holder.as_ref().and_then(|_| access.end_of_credential(&self.credential));
        let is_other = holder != self.holder;
        self.holder = holder;
        is_other
    }
}

/// Registration of one held request, which is watched until this is dropped.
pub struct Guard {
    watcher: Arc<CredentialWatcher>,
    key: WatchKey,
}

impl Guard {
    /// Returns the watch key that is woken when the credential has changed.
    pub fn key(&self) -> WatchKey {
        self.key
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut kept = self.watcher.0.lock();
        if let Some(guarded) = kept.by_key.get_mut(&self.key) {
            guarded.requests -= 1;
            if guarded.requests == 0 {
                kept.by_key.remove(&self.key);
            }
        }
    }
}

impl CredentialWatcher {
    /// Registers a request that is to be held. Its caller has to be checked once more after this, and after every wake.
    pub fn guard(self: &Arc<Self>, state: &Arc<State>, credential: &Credential) -> Guard {
        let key = WatchKey::credential(credential);
        let mut kept = self.0.lock();
        let begin = || WatchedCredential::new(credential, &state.access(), state.sure_now());
        kept.by_key.entry(key).or_insert_with(begin).requests += 1;
        if !std::mem::replace(&mut kept.is_kept, true) {
            tasks::needed("held-credentials", keep(self.clone(), state.clone()));
        }
        Guard { watcher: self.clone(), key }
    }
}

/// Looks credentials up until no request is held.
async fn keep(watcher: Arc<CredentialWatcher>, state: Arc<State>) {
    let mut seen = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(others) = look(&watcher, &state, &mut seen) else { return };
        state.hub().wake(others);
    }
}

/// Returns the keys of the credentials that have changed; `None` once there are none.
fn look(watcher: &CredentialWatcher, state: &State, seen: &mut Option<Access>) -> Option<Vec<WatchKey>> {
    let mut kept = watcher.0.lock();
    if kept.by_key.is_empty() {
        *kept = HeldCredentials::default();
        return None;
    }
    let (access, now) = (state.access().clone(), state.sure_now());
    let is_same = seen.as_ref().is_some_and(|seen| seen.is_shared_with(&access));
    let is_due = |guarded: &WatchedCredential| !is_same || guarded.ends.is_some_and(|ends| ends <= now);
    let due = kept.by_key.iter_mut().filter(|(_, guarded)| is_due(guarded));
    let others = due.filter_map(|(key, guarded)| guarded.is_other(&access, now).then_some(*key)).collect();
    *seen = Some(access);
    Some(others)
}
