//! Who may talk to this node: the judge of the peer wire's handshakes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::peer::{Build, Hello, Introductions, Refusal, RefusalReason, Welcome};
use super::state::State;
use crate::format::level::Level;
use crate::format::types::NodeId;
use crate::store::Store;

/// A node that is refused and knocks again for the same reason is told this often: one that was removed,
/// and runs on, knocks many times a second.
const REFUSED_LINE_PAUSE: Duration = Duration::from_secs(60);

/// What this node knows of the others: announced data directories from the catalog, and before the
/// first announcements those that it met itself.
pub(super) struct Acquaintances {
    node_id: NodeId,
    store: Store,
    state: Arc<State>,
    /// Nodes from before TLS are not talked to, whatever the level.
    tls_required: bool,
    met: Mutex<BTreeMap<NodeId, String>>,
    /// Who was refused last for which reason, and when that was told.
    refused: Mutex<BTreeMap<NodeId, (RefusalReason, Instant)>>,
    /// Why this node cannot be part of the cluster that it met.
    unfit: watch::Sender<Option<String>>,
}

impl Acquaintances {
    pub(super) fn new(node_id: NodeId, store: Store, state: Arc<State>, tls_required: bool) -> Self {
        let unfit = watch::Sender::new(None);
        let (met, refused) = (Mutex::default(), Mutex::default());
        Acquaintances { node_id, store, state, tls_required, met, refused, unfit }
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

    /// Returns when this node has met a cluster whose level it cannot read.
    pub(super) async fn unfit(&self) -> anyhow::Error {
        let mut unfit = self.unfit.subscribe();
        let why = unfit.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        anyhow::anyhow!(why.unwrap_or_default())
    }

    fn build(&self) -> Build {
        let levels = self.store.levels();
        // Without a cluster it speaks whatever it can.
        let level = self.cluster_id().map_or(levels.min, |_| self.state.catalog().level());
        Build { version: env!("CARGO_PKG_VERSION").to_owned(), levels, level, tls: true }
    }

    /// Each of the two has to read what the cluster of the other speaks.
    fn judge_levels(&self, theirs: &Build, node_id: NodeId) -> Result<(), Refusal> {
        let own = self.build();
        let refuse = |text: String| Err(Refusal { reason: RefusalReason::Level, text });
        if !theirs.levels.contains(own.level) {
            return refuse(format!(
                "the cluster speaks level {}, node {node_id} reads {}: start it with a newer version of thuban",
                own.level, theirs.levels
            ));
        }
        if !own.levels.contains(theirs.level) {
            let text = format!(
                "the cluster of node {node_id} speaks level {}, this node reads {}: start it with a newer version of \
                 thuban (or a higher --level-max)",
                theirs.level, own.levels
            );
            self.unfit.send_replace(Some(text.clone()));
            return refuse(text);
        }
        Ok(())
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
        let instance = self.store.identity().instance;
        Hello { cluster_id: self.cluster_id(), node_id: self.node_id, target, instance, build: self.build() }
    }

    fn judge(&self, hello: &Hello) -> Result<Welcome, Refusal> {
        if hello.target != self.node_id {
            let text = format!("this is node {}, not node {}", self.node_id, hello.target);
            return Err(Refusal { reason: RefusalReason::OtherNode, text });
        }
        self.judge_cluster(hello.cluster_id.as_deref())?;
        self.judge_levels(&hello.build, hello.node_id)?;
        self.judge_instance(hello.node_id, &hello.instance)?;
        Ok(Welcome {
            cluster_id: self.cluster_id(),
            node_id: self.node_id,
            instance: self.store.identity().instance,
            initialized: !self.store.is_fresh().unwrap_or(false),
            knows_you: self.state.catalog().nodes.get(hello.node_id).is_some(),
            build: self.build(),
        })
    }

    fn accept(&self, welcome: &Welcome) -> Result<(), Refusal> {
        self.judge_cluster(welcome.cluster_id.as_deref())?;
        self.judge_levels(&welcome.build, welcome.node_id)?;
        self.judge_instance(welcome.node_id, &welcome.instance)
    }

    fn takes_plain(&self) -> bool {
        !self.tls_required && self.state.level() < Level::TRUST
    }

    fn tell_refused(&self, node_id: NodeId, refusal: &Refusal) {
        let mut refused = self.refused.lock();
        let told = refused.get(&node_id);
        if told.is_some_and(|(reason, at)| *reason == refusal.reason && at.elapsed() < REFUSED_LINE_PAUSE) {
            return;
        }
        refused.insert(node_id, (refusal.reason, Instant::now()));
        tracing::warn!(peer = node_id, %refusal, "a node was refused");
    }
}
