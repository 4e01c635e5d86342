//! Consensus for the delivery of webhooks: it says whether this node leads and when there is something to deliver, and
//! writes down how far each webhook was told. The delivery itself is [`crate::webhooks`].

use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use tokio::sync::watch;
use tokio::time::timeout;

use super::leading::{self, ProposeOutcome};
use super::node::Node;
use crate::catalog::Command;
use crate::model::webhook::WebhookTold;

/// Time limit for writing down what was told.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

impl Node {
    /// The term in which this node leads, as far as it knows: with a lease or without.
    pub fn term_of_lead(&self) -> Option<u64> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.state == ServerState::Leader && self.has_caught_up()).then_some(metrics.current_term)
    }

    /// True if no other node can lead at this moment.
    pub fn holds_lead(&self, term: u64) -> bool {
        self.leading_term() == Some(term)
    }

    /// Changes whenever a webhook does, or something waits for one.
    pub fn webhooks_changed(&self) -> watch::Receiver<()> {
        self.state().webhooks.subscribe()
    }

    /// Writes down what the leader of `term` has told; false where that has to be tried again.
    pub async fn write_down_told(&self, term: u64, told: Vec<WebhookTold>) -> bool {
        let proposal = leading::propose_in_term(self, term, Command::WebhooksTold(told));
        match timeout(COMMIT_WITHIN, proposal).await {
            Ok(ProposeOutcome::Done { .. }) => true,
            // What is missing is told elsewhere; the receivers are told again of what they know.
            Ok(other) => {
                tracing::debug!(?other, "what webhooks were told is not written down yet");
                false
            }
            Err(_) => false,
        }
    }
}
