//! A node without surfaces, for tests that need a running one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Controllers, FoundingSettings};
use crate::format::level::LevelRange;
use crate::format::types::NodeId;
use crate::metrics::Metrics;
use crate::raft::node::Node;
use crate::raft::start::{Setup, start_on};
use crate::raft::{LogBounds, RoomBounds, Threads};
use crate::store::Store;
use crate::tls::Certificates;
use crate::watch::Hub;

const FOUNDED_WITHIN: Duration = Duration::from_secs(20);
const FREE_WITHIN: Duration = Duration::from_secs(10);
/// Index after bootstrap, announcement, and the entries of consensus before them.
const FOUNDED_INDEX: u64 = 3;

pub(crate) struct TestNode {
    pub(crate) node: Node,
    /// Receives the reason if the node cannot take part.
    pub(crate) failed: oneshot::Receiver<anyhow::Error>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// Returns settings with this hash of the administrator's password.
pub(crate) fn founding(admin_password_hash: &str) -> FoundingSettings {
    let admin_password_hash = admin_password_hash.to_owned();
    let [api, compat, grpc] = ["127.0.0.1:8090", "127.0.0.1:8890", "127.0.0.1:8091"].map(str::to_owned);
    FoundingSettings { api, compat, grpc, admin_password_hash }
}

/// Returns the setup of a cluster of one node without a listener for peers.
pub(crate) fn lone_setup() -> Setup {
    Setup {
        extension: Controllers::new(founding("none"), []),
        node_id: 1,
        initial_cluster: BTreeMap::from([(1, "127.0.0.1:8190".into())]),
        form_with_majority: false,
        secrets: None,
        peer_listener: None,
        dials_from: None,
        log_bounds: LogBounds {
            snapshot_entries: 1000,
            snapshot_bytes: u64::MAX,
            entries_kept: 1000,
            bytes_kept: u64::MAX,
        },
        room_bounds: RoomBounds { disk_reserve_bytes: Some(0), quota_bytes: 0, memory_limit_bytes: None },
        hash_check_entries: 100,
        election_timeout: None,
        ready_behind: Duration::ZERO,
        certificates: Arc::new(Certificates::none()),
    }
}

impl TestNode {
    /// Starts node 1 on a directory, without a listener for peers; an empty list makes it wait to be added.
    pub(crate) async fn start(dir: &Path, initial_cluster: &[(NodeId, &str)]) -> Self {
        let metrics = Arc::new(Metrics::new().expect("a consistent table"));
        let setup = Setup {
            initial_cluster: initial_cluster.iter().map(|(id, peer)| (*id, (*peer).to_owned())).collect(),
            ..lone_setup()
        };
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let store = open(dir, &metrics).await;
        // On the runtime of the test, whose clock may be paused.
        let (threads, _) = Threads::start().expect("threads can be made");
        let started = start_on(threads, setup, store, Hub::new(10), metrics, &tasks, &shutdown).await;
        let (node, failed) = started.expect("a node");
        TestNode { node, failed, tasks, shutdown }
    }

    /// Starts a cluster of one node.
    pub(crate) async fn founded(dir: &Path) -> Self {
        let started = TestNode::start(dir, &[(1, "127.0.0.1:8190")]).await;
        let founded = started.node.state().wait_applied(FOUNDED_WITHIN, |applied| applied.index >= FOUNDED_INDEX).await;
        assert!(founded, "a single node founds its cluster and announces itself");
        started
    }

    pub(crate) async fn stop(self) {
        self.node.stop().await;
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Opens the directory, which the previous run may hold until its last task has ended.
async fn open(dir: &Path, metrics: &Arc<Metrics>) -> Store {
    let begun = Instant::now();
    loop {
        match Store::open(dir, 1, LevelRange::OWN, metrics.clone()) {
            Ok(store) => return store,
            Err(error) if begun.elapsed() > FREE_WITHIN => panic!("{error}"),
            Err(_) => {
                // The clock of the runtime may be paused, but its tasks have to run.
                std::thread::sleep(Duration::from_millis(5));
                tokio::task::yield_now().await;
            }
        }
    }
}
