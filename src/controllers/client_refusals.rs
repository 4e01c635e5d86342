//! Refusals by clients, which every node passes to the subscribed webhooks: in batches, at most once a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::audit_buffer::propose_once;
use crate::catalog::{Command, RequestId};
use crate::model::limits;
use crate::raft::node::Node;
use crate::subscribers::Subscribers;

/// Pause between two proposals.
const ROUND: Duration = Duration::from_secs(1);

/// Proposes the waiting refusals, for as long as the node runs. Those without a subscribed webhook are dropped.
pub(super) async fn tell(node: Node, subscribers: Arc<Subscribers>) {
    loop {
        sleep(ROUND).await;
        let refusals = subscribers.refusals().hand_over(limits::BATCH_ITEMS_MAX);
        if refusals.is_empty() {
            continue;
        }
        if !node.state().catalog().webhooks.is_listening() {
            continue;
        }
        let (request, command) = (RequestId(rand::random()), Command::ClientsRefused(refusals.clone()));
        if let Err(error) = propose_once(&node, request, &command).await {
            tracing::debug!(%error, "refusals of clients could not be told yet");
            subscribers.refusals().take_back(refusals);
        }
    }
}
