//! Planned releases, and approval requests that expire: the leader compares them with the time of the cluster, and
//! proposes those that are due. Apply performs each once, however often it is proposed, so a lost leader costs only the
//! time until the next one checks.

use std::time::Duration;

use super::Controller;
use crate::catalog::Command;
use crate::raft::{Lead, NotCommitted};

/// Interval between two checks, and so the maximum delay of a release.
const ROUND: Duration = Duration::from_millis(500);
/// Interval while due releases are refused, for lack of room for example: the maximum delay of a release once there is
/// room.
const ROUND_WHILE_REFUSED: Duration = Duration::from_secs(5);

/// Reports whether a request for approval has waited longer than the settings allow.
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
    /// Publishes the releases that are due. A refusal is logged once; a lack of room has its own alarm.
    async fn act(&mut self, lead: &Lead) -> Duration {
        let was_refused = std::mem::take(&mut self.is_refused);
        if has_expired_requests(lead) {
            // A failed proposal is repeated in the next round.
            let _ = lead.propose("the end of requests that have waited for too long", Command::ExpireRequests).await;
        }
        let due = lead.catalog().due(lead.node().sure_now());
        if due.is_empty() {
            return ROUND;
        }
        let releases = due.len();
        match lead.propose("releases that are due", Command::PublishDue(due)).await {
            Ok(()) => tracing::info!(releases, "due releases were published"),
            Err(NotCommitted::Refused(refusal)) => {
                if !was_refused {
                    tracing::warn!(?refusal, releases, "due releases were refused and will be retried");
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
