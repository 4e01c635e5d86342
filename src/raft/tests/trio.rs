//! Three nodes in one process, each with a wire in front of it that a test can cut.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::controllers::heartbeats::HeartbeatMonitor;
use crate::controllers::{Controllers, FoundingSettings};
use crate::format::level::LevelRange;
use crate::format::types::NodeId;
use crate::metrics::Metrics;
use crate::raft::node::Node;
use crate::raft::start::{Secrets, Setup, start};
use crate::raft::{LogBounds, RoomBounds};
use crate::store::Store;
use crate::tls::Certificates;
use crate::watch::Hub;

pub(super) const LIMIT: Duration = Duration::from_secs(20);
const PROBE_PAUSE: Duration = Duration::from_millis(5);

/// Returns the address from which the node dials: its own one, by which the wires identify the node.
fn address_of(id: NodeId) -> IpAddr {
    let last = u8::try_from(id).expect("a small id");
    IpAddr::from([127, 0, 0, 10 + last])
}

/// Waits for a condition; panics with its description if it does not become true in time.
pub(super) async fn eventually<T>(fact: &str, mut holds: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(value) = holds() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {fact}");
        sleep(PROBE_PAUSE).await;
    }
}

pub(super) struct Trio {
    pub(super) nodes: Vec<Node>,
    /// Controllers of each node, in the order of `nodes`.
    controllers: Vec<Arc<Controllers>>,
    wires: Wires,
    shutdown: CancellationToken,
    _directories: Vec<TempDir>,
}

impl Trio {
    /// Forms a cluster whose nodes have wall clocks with these errors; returns once every node is announced.
    pub(super) async fn start(wrong_by_ms: [i64; 3]) -> Trio {
        let (wires, shutdown) = (Wires::default(), CancellationToken::new());
        let (mut listeners, mut addresses) = (Vec::new(), BTreeMap::new());
        for id in 1..=3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            addresses.insert(id, wires.lay(id, listener.local_addr().expect("bound").to_string()).await);
            listeners.push((id, listener));
        }
        let (mut nodes, mut controllers, mut directories) = (Vec::new(), Vec::new(), Vec::new());
        for ((id, listener), wrong_by) in listeners.into_iter().zip(wrong_by_ms) {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let metrics = Arc::new(Metrics::new().expect("a consistent table"));
            let store = Store::open(directory.path(), id, LevelRange::OWN, metrics.clone()).expect("a new directory");
            let address = format!("127.0.0.1:{id}");
            let founding = FoundingSettings {
                api: address.clone(),
                compat: address.clone(),
                grpc: address,
                admin_password_hash: "a hash".into(),
            };
            controllers.push(Controllers::new(founding, []));
            let setup = Setup {
                extension: controllers.last().expect("just made").clone(),
                node_id: id,
                initial_cluster: addresses.clone(),
                secrets: Some(Secrets { shown: b"a secret of the test, 32 characters".to_vec(), other: None }),
                peer_listener: Some(listener),
                dials_from: Some(address_of(id)),
                log_bounds: LogBounds {
                    snapshot_entries: 100_000,
                    snapshot_bytes: u64::MAX,
                    entries_kept: 100_000,
                    bytes_kept: u64::MAX,
                },
                room_bounds: RoomBounds { disk_reserve_bytes: Some(0), quota_bytes: 0, memory_limit_bytes: None },
                hash_check_entries: 1000,
                form_with_majority: false,
                election_timeout: None,
                ready_behind: Duration::ZERO,
                certificates: Arc::new(Certificates::none()),
            };
            let started = start(setup, store, Hub::new(10), metrics, &TaskTracker::new(), &shutdown).await;
            let (node, _failed) = started.expect("a node");
            node.state().clock.set_wrong_by(wrong_by);
            nodes.push(node);
            directories.push(directory);
        }
        let trio = Trio { nodes, controllers, wires, shutdown, _directories: directories };
        let is_known = |node: &Node| (1..=3).all(|id| node.state().catalog().nodes.get(id).is_some());
        eventually("all nodes know each other", || trio.nodes.iter().all(is_known).then_some(())).await;
        trio
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes.iter().find(|node| node.id() == id).expect("one of three")
    }

    pub(super) fn heartbeats(&self, node: &Node) -> &Arc<HeartbeatMonitor> {
        let place = self.nodes.iter().position(|one| one.id() == node.id());
        &self.controllers[place.expect("one of three")].heartbeats
    }

    /// Returns the node whose leadership is certain.
    pub(super) async fn leader(&self) -> &Node {
        eventually("a node leads", || self.nodes.iter().find(|node| node.leading_term().is_some())).await
    }

    pub(super) fn others(&self, than: &Node) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.id() != than.id()).collect()
    }

    /// Cuts this node off from all others; messages in flight wait.
    pub(super) fn cut(&self, id: NodeId) {
        self.wires.cut.lock().insert(id);
    }

    pub(super) fn mend(&self) {
        self.wires.cut.lock().clear();
    }
}

impl Drop for Trio {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[derive(Clone, Default)]
struct Wires {
    /// Nodes that are cut off from all others.
    cut: Arc<Mutex<BTreeSet<NodeId>>>,
}

impl Wires {
    /// Forwards connections to the node `to`, which listens at `address`; returns the address to dial.
    async fn lay(&self, to: NodeId, address: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let front = listener.local_addr().expect("bound").to_string();
        let wires = self.clone();
        tokio::spawn(async move {
            while let Ok((dialler, dialler_address)) = listener.accept().await {
                let from = (1..=3).find(|id| address_of(*id) == dialler_address.ip());
                let (wires, address) = (wires.clone(), address.clone());
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(address).await else { return };
                    let ((dialler_reads, dialler_writes), (server_reads, server_writes)) =
                        (dialler.into_split(), server.into_split());
                    // Either end of a connection ends the other one, as with a proxy.
                    tokio::select! {
                        () = wires.pass(dialler_reads, server_writes, to, from) => {}
                        () = wires.pass(server_reads, dialler_writes, to, from) => {}
                    }
                });
            }
        });
        front
    }

    async fn pass(&self, mut reads: OwnedReadHalf, mut writes: OwnedWriteHalf, to: NodeId, from: Option<NodeId>) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = reads.read(&mut bytes).await {
            while self.is_cut(to, from) {
                sleep(PROBE_PAUSE).await;
            }
            if writes.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    }

    fn is_cut(&self, to: NodeId, from: Option<NodeId>) -> bool {
        let cut = self.cut.lock();
        cut.contains(&to) || from.is_some_and(|from| cut.contains(&from))
    }
}
