//! Peer admission: accepts or refuses the handshakes of the peer wire.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::initial_cluster::Lists;
use super::state::State;
use crate::format::types::NodeId;
use crate::peer::{Build, Hello, Introductions, ListDigest, Refusal, RefusalReason, Welcome};
use crate::store::Store;

/// Minimum time between two log lines about a node that is refused for the same reason: a removed node that still runs
/// retries many times a second.
const REFUSED_LINE_PAUSE: Duration = Duration::from_secs(60);

/// Peers known to this node: those whose data directories the catalog has, and before they are announced, those that
/// connected to it.
pub(super) struct KnownPeers {
    node_id: NodeId,
    store: Store,
    state: Arc<State>,
    met: Mutex<BTreeMap<NodeId, Met>>,
    /// True if this node had no vote, log or state when it started.
    was_fresh: bool,
    lists: Lists,
    /// Last refusal of each node that was logged: its reason and its time.
    refused: Mutex<BTreeMap<NodeId, (RefusalReason, Instant)>>,
    /// Reason why this node cannot be part of the cluster that it contacted; `None` while none is known.
    unfit: watch::Sender<Option<String>>,
    /// Reason given by a peer that refused this node as removed; `None` while none has.
    removed: watch::Sender<Option<String>>,
}

/// A data directory that connected under a node id which is not announced yet.
struct Met {
    instance: String,
    /// True if it named the id of this node's cluster.
    is_of_cluster: bool,
}

impl KnownPeers {
    pub(super) fn new(
        (node_id, initial_cluster): (NodeId, &BTreeMap<NodeId, String>),
        (store, was_fresh): (Store, bool),
        state: Arc<State>,
    ) -> Self {
        let (unfit, removed) = (watch::Sender::new(None), watch::Sender::new(None));
        let lists = Lists::new(node_id, initial_cluster);
        let (met, refused) = (Mutex::default(), Mutex::default());
        KnownPeers { node_id, store, state, met, was_fresh, lists, refused, unfit, removed }
    }

    /// Returns the list that this node was started with, and those of its peers.
    pub(super) fn lists(&self) -> &Lists {
        &self.lists
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

    /// Waits until this node has contacted a cluster whose level it cannot read; returns the error.
    pub(super) async fn unfit(&self) -> anyhow::Error {
        let mut unfit = self.unfit.subscribe();
        let why = unfit.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        anyhow::anyhow!(why.unwrap_or_default())
    }

    /// Waits until a peer has refused this node as removed; returns the reason.
    pub(super) async fn removed(&self) -> String {
        let mut removed = self.removed.subscribe();
        removed.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    fn build(&self) -> Build {
        let levels = self.store.levels();
        // Without a cluster it uses its lowest level.
        let level = self.cluster_id().map_or(levels.min, |_| self.state.catalog().level());
        Build::own(levels, level)
    }

    /// Checks that each of the two nodes can read the level of the other's cluster.
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
        if theirs.format != theirs.level.digest() {
            return refuse(format!(
                "node {node_id} runs a build of thuban {} with other formats of level {}: run one build on all nodes",
                theirs.version, theirs.level
            ));
        }
        Ok(())
    }

    /// Refuses to form a cluster with a node of another list. A node that belongs to a cluster has no list.
    fn judge_list(&self, node_id: NodeId, theirs: Option<&ListDigest>) -> Result<(), Refusal> {
        if self.cluster_id().is_some() || self.lists.agrees(node_id, theirs) {
            return Ok(());
        }
        let text = format!("node {node_id} was started with another initial cluster than this node");
        Err(Refusal { reason: RefusalReason::OtherList, text })
    }

    /// Returns the list of this node while it has no cluster.
    fn own_list(&self) -> Option<ListDigest> {
        if self.cluster_id().is_some() { None } else { self.lists.own().cloned() }
    }

    /// Checks that the node comes with the data directory that belongs to its id. Until the directory is announced, one
    /// that belongs to the cluster replaces one that belongs to none: the node may have been started on an empty
    /// directory before that was created from a backup.
    fn judge_instance(&self, node_id: NodeId, instance: &str, cluster_id: Option<&str>) -> Result<(), Refusal> {
        let announced = self.state.catalog().nodes.get(node_id).map(|node| (node.instance.clone(), node.removed));
        if let Some((_, true)) = announced {
            let text =
                format!("node {node_id} was removed from the cluster; its id is spent, start it under a new one");
            return Err(Refusal { reason: RefusalReason::Removed, text });
        }
        let known = announced.map(|(instance, _)| instance);
        let is_known = known.map_or_else(|| self.is_met(node_id, instance, cluster_id), |known| known == instance);
        if is_known {
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

    /// Reports whether this is the first directory that connected under the id, recording it if there was none.
    fn is_met(&self, node_id: NodeId, instance: &str, cluster_id: Option<&str>) -> bool {
        let is_of_cluster = cluster_id.is_some() && self.cluster_id().as_deref() == cluster_id;
        let comes = || Met { instance: instance.to_owned(), is_of_cluster };
        let mut met = self.met.lock();
        let known = met.entry(node_id).or_insert_with(comes);
        if is_of_cluster && !known.is_of_cluster {
            *known = comes();
        }
        known.instance == instance
    }
}

impl Introductions for KnownPeers {
    fn hello(&self, target: NodeId) -> Hello {
        let instance = self.store.identity().instance;
        let (cluster_id, list) = (self.cluster_id(), self.own_list());
        Hello { cluster_id, node_id: self.node_id, target, instance, build: self.build(), list }
    }

    fn judge(&self, hello: &Hello) -> Result<Welcome, Refusal> {
        // A node with another list is not recorded but gets this node's list, even if that list has another node at
        // this address; it then closes the connection.
        let has_same_list = self.judge_list(hello.node_id, hello.list.as_ref()).is_ok();
        if hello.target != self.node_id && has_same_list {
            let text = format!("this is node {}, not node {}", self.node_id, hello.target);
            return Err(Refusal { reason: RefusalReason::OtherNode, text });
        }
        self.judge_cluster(hello.cluster_id.as_deref())?;
        self.judge_levels(&hello.build, hello.node_id)?;
        if has_same_list {
            self.judge_instance(hello.node_id, &hello.instance, hello.cluster_id.as_deref())?;
        }
        Ok(Welcome {
            cluster_id: self.cluster_id(),
            node_id: self.node_id,
            instance: self.store.identity().instance,
            initialized: !self.was_fresh || self.store.has_log(),
            knows_you: self.state.catalog().nodes.get(hello.node_id).is_some(),
            build: self.build(),
            list: self.own_list(),
        })
    }

    fn accept(&self, welcome: &Welcome) -> Result<(), Refusal> {
        self.judge_cluster(welcome.cluster_id.as_deref())?;
        self.judge_levels(&welcome.build, welcome.node_id)?;
        self.judge_list(welcome.node_id, welcome.list.as_ref())?;
        self.judge_instance(welcome.node_id, &welcome.instance, welcome.cluster_id.as_deref())
    }

    fn is_removed(&self, node_id: NodeId) -> bool {
        self.state.catalog().nodes.get(node_id).is_some_and(|known| known.removed)
    }

    fn hear_refusal(&self, refusal: &Refusal) {
        if refusal.reason == RefusalReason::Removed {
            self.removed.send_replace(Some(refusal.text.clone()));
        }
    }

    fn log_refused(&self, node_id: NodeId, refusal: &Refusal) {
        let mut refused = self.refused.lock();
        let told = refused.get(&node_id);
        if told.is_some_and(|(reason, at)| *reason == refusal.reason && at.elapsed() < REFUSED_LINE_PAUSE) {
            return;
        }
        refused.insert(node_id, (refusal.reason, Instant::now()));
        tracing::warn!(peer = node_id, %refusal, "a node was refused");
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::format::level::LevelRange;
    use crate::raft::machine::Machine;
    use crate::store::testing::metrics;
    use crate::watch::Hub;

    /// Creates a node on its own directory, tied to a cluster or to none.
    fn node(node_id: NodeId, cluster_id: Option<&str>) -> (TempDir, KnownPeers) {
        node_of(node_id, cluster_id, BTreeMap::new())
    }

    /// Creates the same node, started with a list.
    fn node_of(
        node_id: NodeId,
        cluster_id: Option<&str>,
        initial_cluster: BTreeMap<NodeId, String>,
    ) -> (TempDir, KnownPeers) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(dir.path(), node_id, LevelRange::OWN, metrics()).expect("a directory");
        if let Some(cluster_id) = cluster_id {
            store.set_cluster_id(cluster_id).expect("tied");
        }
        let state = Machine::load(store.clone(), Hub::new(0), metrics()).expect("an empty state").state().clone();
        (dir, KnownPeers::new((node_id, &initial_cluster), (store, true), state))
    }

    /// Returns the results of a dial from `from` to `to` and of one in the opposite direction.
    fn meet(from: &KnownPeers, to: &KnownPeers) -> [Option<RefusalReason>; 2] {
        [(from, to), (to, from)].map(|(from, to)| {
            let met = to.judge(&from.hello(to.node_id)).and_then(|welcome| from.accept(&welcome));
            met.err().map(|refusal| refusal.reason)
        })
    }

    /// Two builds without a release between them may have different formats of the same level.
    #[test]
    fn a_build_with_other_formats_is_refused() {
        let ((_one, one), (_two, two)) = (node(1, Some("c")), node(2, Some("c")));
        let mut hello = two.hello(1);
        hello.build.format = "0123456789abcdef".to_owned();
        let refused = one.judge(&hello).expect_err("other formats");
        assert!(
            refused.reason == RefusalReason::Level && refused.text.contains("other formats of level 1"),
            "{refused}"
        );
        assert_eq!(meet(&two, &one), LET_IN);
    }

    const LET_IN: [Option<RefusalReason>; 2] = [None, None];

    /// Both clusters were created from one backup.
    #[test]
    fn a_node_of_another_cluster_is_refused_and_takes_no_id() {
        let (_one, one) = node(1, Some("second"));
        let (_left, left_over) = node(2, Some("first"));
        let (_two, two) = node(2, Some("second"));
        for _ in 0..2 {
            assert_eq!(meet(&left_over, &one), [Some(RefusalReason::OtherCluster); 2]);
        }
        assert_eq!(meet(&two, &one), LET_IN);
        assert_eq!(meet(&left_over, &one), [Some(RefusalReason::OtherCluster); 2]);
        assert_eq!(meet(&two, &one), LET_IN);
    }

    /// The node was started by mistake on an empty directory, and then on the one created from the backup.
    #[test]
    fn a_directory_without_a_cluster_does_not_take_the_id_of_one_that_has_it() {
        let (_one, one) = node(1, Some("second"));
        let (_empty, empty) = node(2, None);
        let (_two, two) = node(2, Some("second"));
        let (_other, other) = node(2, Some("second"));
        assert_eq!(meet(&empty, &one), LET_IN);
        assert_eq!(meet(&two, &one), LET_IN);
        let refused = Some(RefusalReason::OtherInstance);
        assert_eq!((meet(&empty, &one)[0], meet(&other, &one)[0]), (refused, refused));
        assert_eq!(meet(&two, &one), LET_IN);
    }

    /// Node 4 runs at the address that the list of node 1 has for node 3. Each of the two learns the other's list,
    /// whichever dials, and node 4 takes no id.
    #[test]
    fn a_node_with_another_list_at_the_address_of_a_listed_one_says_its_list() {
        let listed = |ids: &[NodeId]| ids.iter().map(|id| (*id, format!("host-{}:1", id.min(&3)))).collect();
        let ((_one, one), (_four, four)) = (node_of(1, None, listed(&[1, 2, 3])), node_of(4, None, listed(&[1, 2, 4])));
        let met = four.judge(&one.hello(3)).and_then(|welcome| one.accept(&welcome));
        assert_eq!(met.map_err(|refusal| refusal.reason), Err(RefusalReason::OtherList));
        let (ones, fours) = ("node 1: 1=host-1:1,2=host-2:1,3=host-3:1", "node 4: 1=host-1:1,2=host-2:1,4=host-3:1");
        let line = |told: &KnownPeers| told.lists().lines().pop().expect("a difference");
        for said in [line(&one), line(&four)] {
            assert!(said.contains(ones) && said.contains(fours), "{said}");
        }

        let (_same, same) = node_of(4, None, listed(&[1, 2, 3]));
        let met = same.judge(&one.hello(3)).map(|welcome| welcome.node_id);
        assert_eq!(met.map_err(|refusal| refusal.reason), Err(RefusalReason::OtherNode), "only its number is wrong");
    }

    /// It is unknown which of the two directories acknowledged the first entry.
    #[test]
    fn before_there_is_a_cluster_the_first_directory_keeps_the_id() {
        let ((_one, one), (_two, two), (_other, other)) = (node(1, None), node(2, None), node(2, None));
        assert_eq!(meet(&two, &one), LET_IN);
        assert_eq!(meet(&other, &one)[0], Some(RefusalReason::OtherInstance));
        assert_eq!(meet(&two, &one), LET_IN);
    }
}
