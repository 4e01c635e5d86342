//! The part of a node above consensus: it hears of what is applied, answers peers, and runs tasks of its own.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::node::Node;
pub use super::state::ApplyListener;
use crate::format::types::NodeId;
pub use crate::peer::ExtensionCall;
use std::time::Duration;

/// The part of a node above consensus.
pub trait Extension: ApplyListener {
    /// Answers a call of a peer; an error refuses it, for the reason that it names.
    fn answer<'a>(&'a self, node: &'a Node, call: ExtensionCall, body: Bytes) -> BoxFuture<'a, Result<Bytes, String>>;

    /// Starts its background tasks. Called once, when the node takes part in a cluster.
    fn start(self: Arc<Self>, node: &Node, tasks: &TaskTracker, shutdown: &CancellationToken);
}

impl Node {
    /// Asks the extension of another member; `None` if it did not answer, or refused.
    pub async fn ask_extension<Q: Serialize + ?Sized, A: DeserializeOwned>(
        &self,
        member: NodeId,
        call: ExtensionCall,
        question: &Q,
        within: Duration,
    ) -> Option<A> {
        self.peers().extension(member, call, question, within).await.ok()
    }
}
