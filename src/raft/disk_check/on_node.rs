//! Disk check on a node.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Tried;
use crate::raft::node::Node;
use crate::tasks;

/// Time after which a write counts as failed.
const WITHIN: Duration = Duration::from_secs(2);

impl Node {
    /// Returns the reason why nothing can be written; `None` if the disk accepts writes.
    pub(in crate::raft) async fn disk_failure(&self) -> Option<String> {
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
