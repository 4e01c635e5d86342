//! Marks of namespaces with xDS clients: every node proposes those that it serves, once a day.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::audit_buffer::propose_once;
use crate::catalog::{Command, RequestId};
use crate::model::limits;
use crate::raft::node::Node;
use crate::subscribers::Subscribers;

/// Interval between two checks of the streams.
const ROUND: Duration = Duration::from_secs(5);

/// Proposes missing marks, for as long as the node runs.
pub(super) async fn mark(node: Node, subscribers: Arc<Subscribers>) {
    loop {
        sleep(ROUND).await;
        let seen = subscribers.streams().namespaces();
        let now = node.now();
        let unmarked: Vec<String> = {
            let catalog = node.state().catalog();
            let is_unmarked =
                |name: &String| catalog.namespaces.get(name).is_some() && !catalog.xds_marks.has_today(name, now);
            seen.into_iter().filter(is_unmarked).take(limits::BATCH_ITEMS_MAX).collect()
        };
        if unmarked.is_empty() {
            continue;
        }
        let (request, command) = (RequestId(rand::random()), Command::XdsSeen(unmarked));
        if let Err(error) = propose_once(&node, request, &command).await {
            tracing::debug!(%error, "namespaces with xDS clients could not be marked yet");
        }
    }
}
