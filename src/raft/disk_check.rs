//! Disk check: tests whether the disk accepts a durable write, at most once a second and one at a time.
//!
//! Load balancers probe several times a second, and any client may. Without the limit each probe would be another fsync
//! that competes with those of writes.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::tasks;

use super::node::Node;

/// Time after which a write counts as failed.
const WITHIN: Duration = Duration::from_secs(2);
/// Time for which a result is reused.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Result of the last check.
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
    /// Returns the reason why nothing can be written; `None` if the disk accepts writes.
    pub(super) async fn disk_failure(&self) -> Option<String> {
        if let Some(tried) = self.inner().upkeep.disk_check.fresh() {
            return tried.failure;
        }
        let node = self.clone();
        // On its own task: a caller that disconnects must not make the next one repeat the write.
        let tried = tasks::errand(async move { node.try_disk().await }).await;
        tried.unwrap_or_else(|error| Some(error.to_string()))
    }

    async fn try_disk(&self) -> Option<String> {
        let check = &self.inner().upkeep.disk_check;
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
