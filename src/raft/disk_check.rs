//! Disk check: tries whether the disk takes a durable write, for any caller, but once a second and by one at a time.
//!
//! Balancers ask several times a second, and anybody may: without this each question would be an fsync
//! beside those that writes wait for.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::tasks;

use super::node::Node;

/// A slower write counts as none.
const WITHIN: Duration = Duration::from_secs(2);
/// For how long an answer is given again.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Result of the last try.
#[derive(Default)]
pub(super) struct DiskCheck {
    last: Mutex<Option<Tried>>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Tried {
    at: Instant,
    failure: Option<String>,
}

impl DiskCheck {
    fn fresh(&self) -> Option<Tried> {
        self.last.lock().clone().filter(|tried| tried.at.elapsed() < FRESH_FOR)
    }
}

impl Node {
    /// Reason why nothing can be written; `None` if the disk takes writes.
    pub(super) async fn disk_failure(&self) -> Option<String> {
        if let Some(tried) = self.inner().disk_check.fresh() {
            return tried.failure;
        }
        let node = self.clone();
        // On a task of its own: whoever hangs up must not make the next one try again.
        let tried = tasks::errand(async move { node.try_disk().await }).await;
        tried.unwrap_or_else(|error| Some(error.to_string()))
    }

    async fn try_disk(&self) -> Option<String> {
        let check = &self.inner().disk_check;
        let _turn = check.turn.lock().await;
        if let Some(tried) = check.fresh() {
            return tried.failure;
        }
        let failure = match timeout(WITHIN, self.store().check_writable()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("a durable write took longer than {} s", WITHIN.as_secs())),
        };
        *check.last.lock() = Some(Tried { at: Instant::now(), failure: failure.clone() });
        failure
    }
}
