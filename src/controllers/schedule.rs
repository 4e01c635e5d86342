//! Planned releases, and requests that have waited for too long: the leader looks at the clock of the cluster, and
//! proposes those whose time has come. Apply carries each out once, whoever proposes it and how often; so nothing is
//! lost with a leader but the moment until the next one looks.

use std::time::Duration;

use super::Controller;
use crate::catalog::Command;
use crate::raft::{Lead, NotCommitted};

/// Between two looks at what is due, and so how late a release may be.
const ROUND: Duration = Duration::from_millis(500);
/// Between two tries while what is due is refused, for want of room say: a release is late by that at most, once there
/// is.
const ROUND_WHILE_REFUSED: Duration = Duration::from_secs(5);

/// True if a request for approval has waited for longer than the settings allow.
fn has_expired_requests(lead: &Lead) -> bool {
    let catalog = lead.catalog();
    let before = catalog.requests_expire_before(lead.node().sure_now());
    catalog.approvals.has_pending_before(before)
}

#[derive(Default)]
pub(super) struct Schedule {
    is_refused: bool,
}

impl Controller for Schedule {
    /// Publishes the releases that are due. A refusal is logged once: a lack of room is reported by itself.
    async fn act(&mut self, lead: &Lead) -> Duration {
        let was_refused = std::mem::take(&mut self.is_refused);
        if has_expired_requests(lead) {
            // One that is not taken now is found again.
            let _ = lead.propose("the end of requests that have waited for too long", Command::ExpireRequests).await;
        }
        let due = lead.catalog().due(lead.node().sure_now());
        if due.is_empty() {
            return ROUND;
        }
        let releases = due.len();
        match lead.propose("releases that are due", Command::PublishDue(due)).await {
            Ok(()) => tracing::info!(releases, "releases that were due are published"),
            Err(NotCommitted::Refused(refusal)) => {
                if !was_refused {
                    tracing::warn!(?refusal, releases, "releases that are due are not taken, and are tried again");
                }
                self.is_refused = true;
                return ROUND_WHILE_REFUSED;
            }
            Err(NotCommitted::Failed) => {}
        }
        ROUND
    }

    fn stand_down(&mut self) {
        self.is_refused = false;
    }
}
