//! Who may talk to this node: the judge of the peer wire's handshakes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::peer::{Hello, Introductions, Refusal, RefusalReason, Welcome};
use super::state::State;
use super::types::NodeId;
use crate::store::Store;

/// What this node knows of the others: announced data directories from the catalog, and before the
/// first announcements those that it met itself.
pub(super) struct Acquaintances {
    node_id: NodeId,
    store: Store,
    state: Arc<State>,
    met: Mutex<BTreeMap<NodeId, String>>,
}

impl Acquaintances {
    pub(super) fn new(node_id: NodeId, store: Store, state: Arc<State>) -> Self {
        Acquaintances { node_id, store, state, met: Mutex::default() }
    }

    fn cluster_id(&self) -> Option<String> {
        self.store.identity().cluster_id.or_else(|| self.state.catalog().nodes.cluster_id().map(str::to_owned))
    }

    fn judge_cluster(&self, theirs: Option<&str>) -> Result<(), Refusal> {
        match (self.cluster_id(), theirs) {
            (Some(ours), Some(theirs)) if ours != theirs => Err(Refusal {
                reason: RefusalReason::OtherCluster,
                text: format!("node {} belongs to cluster {ours}, the other to cluster {theirs}", self.node_id),
            }),
            _ => Ok(()),
        }
    }

    /// A node id stands for one data directory, for ever.
    fn judge_instance(&self, node_id: NodeId, instance: &str) -> Result<(), Refusal> {
        let announced = self.state.catalog().nodes.get(node_id).map(|node| (node.instance.clone(), node.removed));
        if let Some((_, true)) = announced {
            let text =
                format!("node {node_id} was removed from the cluster; its id is spent, start it under a new one");
            return Err(Refusal { reason: RefusalReason::Removed, text });
        }
        let known = announced.map(|(instance, _)| instance);
        let mut met = self.met.lock();
        let known = known.unwrap_or_else(|| met.entry(node_id).or_insert_with(|| instance.to_owned()).clone());
        if known == instance {
            return Ok(());
        }
        let text = format!(
            "the cluster knows node {node_id} with another data directory: this one was wiped or is new, and a node \
             that forgot its votes may not come back under its old id. Replace it: `thuban cluster remove --id \
             {node_id}`, start it with an empty data directory, a new --node-id and no --initial-cluster, then \
             `thuban cluster add --id NEW --peer HOST:PORT` and `thuban cluster promote --id NEW`"
        );
        Err(Refusal { reason: RefusalReason::OtherInstance, text })
    }
}

impl Introductions for Acquaintances {
    fn hello(&self, target: NodeId) -> Hello {
        Hello { cluster_id: self.cluster_id(), node_id: self.node_id, target, instance: self.store.identity().instance }
    }

    fn judge(&self, hello: &Hello) -> Result<Welcome, Refusal> {
        if hello.target != self.node_id {
            let text = format!("this is node {}, not node {}", self.node_id, hello.target);
            return Err(Refusal { reason: RefusalReason::OtherNode, text });
        }
        self.judge_cluster(hello.cluster_id.as_deref())?;
        self.judge_instance(hello.node_id, &hello.instance)?;
        Ok(Welcome {
            cluster_id: self.cluster_id(),
            node_id: self.node_id,
            instance: self.store.identity().instance,
            initialized: !self.store.is_fresh().unwrap_or(false),
            knows_you: self.state.catalog().nodes.get(hello.node_id).is_some(),
        })
    }

    fn accept(&self, welcome: &Welcome) -> Result<(), Refusal> {
        self.judge_cluster(welcome.cluster_id.as_deref())?;
        self.judge_instance(welcome.node_id, &welcome.instance)
    }
}
