//! Nodes on loopback, with listeners that tests can close.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::{Config, Raft, RaftMetrics, ReadPolicy, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::memory::{MemoryLog, MemoryMachine, MemoryPort};
use crate::format::codec;
use crate::format::types::{Member, NodeId, Proposal, TypeConfig};
use crate::metrics::Metrics;
use crate::peer::handshake::{Purpose, dial_as};
use crate::peer::wire::Wire;
use crate::peer::{
    Build, Credentials, ExtensionCall, ForwardAnswer, Hello, IntroduceError, Introductions, PeerNetwork, PeerProgress,
    PeerServer, PeerService, Peers, ReadIndexAnswer, Refusal, RefusalReason, Welcome,
};

pub(super) type TestRaft = Raft<TypeConfig, MemoryMachine>;

pub(super) const LIMIT: Duration = Duration::from_secs(20);

pub(super) const SECRET: &[u8] = b"a secret of the test, 32 characters";

pub(super) fn secret() -> Credentials {
    credentials(SECRET, None)
}

pub(super) fn credentials(shown: &[u8], other: Option<&[u8]>) -> Credentials {
    Credentials::new(shown, other).expect("a certificate can be made")
}

/// Performs one handshake with node `target`, as node 9, and closes.
pub(super) async fn introduce(
    address: &str,
    credentials: &Credentials,
    target: NodeId,
) -> Result<Welcome, IntroduceError> {
    let met = dial_as(&*Names::of(9), credentials, address, target, Purpose::Control).await;
    met.map(|(_, welcome)| welcome)
}

/// Waits for a condition; panics with its description if it does not become true in time.
pub(super) async fn eventually(fact: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + LIMIT;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "not within {LIMIT:?}: {fact}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Introductions of one cluster, which can be set to refuse every node.
pub(super) struct Names {
    pub(super) node_id: NodeId,
    pub(super) refusal: Mutex<Option<RefusalReason>>,
}

impl Names {
    pub(super) fn of(node_id: NodeId) -> Arc<Self> {
        Arc::new(Names { node_id, refusal: Mutex::new(None) })
    }
}

impl Introductions for Names {
    fn hello(&self, target: NodeId) -> Hello {
        let instance = format!("data of {}", self.node_id);
        let (cluster_id, build) = (Some("test".into()), Build::default());
        Hello { cluster_id, node_id: self.node_id, target, instance, build, list: None }
    }

    fn judge(&self, hello: &Hello) -> Result<Welcome, Refusal> {
        let mismatch = (hello.target != self.node_id).then_some(RefusalReason::OtherNode);
        match self.refusal.lock().or(mismatch) {
            Some(reason) => Err(Refusal { reason, text: format!("{reason:?}") }),
            None => Ok(Welcome {
                cluster_id: Some("test".into()),
                node_id: self.node_id,
                instance: format!("data of {}", self.node_id),
                initialized: true,
                knows_you: true,
                build: Build::default(),
                list: None,
            }),
        }
    }

    fn accept(&self, welcome: &Welcome) -> Result<(), Refusal> {
        match welcome.cluster_id.as_deref() {
            Some("test") => Ok(()),
            _ => Err(Refusal { reason: RefusalReason::OtherCluster, text: "another cluster".into() }),
        }
    }
}

/// Service that proposes to openraft, as a node would; `hold` blocks its callers, `release` unblocks them.
#[derive(Clone)]
pub(super) struct Proposer {
    raft: TestRaft,
    pub(super) held: Arc<tokio::sync::Semaphore>,
    pub(super) holding: Arc<std::sync::atomic::AtomicUsize>,
}

impl PeerService for Proposer {
    async fn forward(&self, command: Bytes) -> ForwardAnswer {
        if command.starts_with(b"hold") {
            self.holding.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let permit = self.held.acquire().await.expect("never closed");
            permit.forget();
            return ForwardAnswer::Done { log_index: 0 };
        }
        if command.starts_with(b"release") {
            self.held.add_permits(1);
            return ForwardAnswer::Done { log_index: 0 };
        }
        match self.raft.client_write(Proposal(command)).await {
            Ok(written) => ForwardAnswer::Done { log_index: written.log_id.index },
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                ForwardAnswer::NotLeader { leader: to.leader_id }
            }
            Err(error) => ForwardAnswer::Unknown { text: error.to_string() },
        }
    }

    fn progress(&self, _: NodeId) -> PeerProgress {
        PeerProgress {
            asker_problem: None,
            last_log: 0,
            applied: 0,
            time_ms: None,
            time_shift_ms: None,
            wall_ms: None,
            disk: None,
            memory: None,
            checkpoints: Vec::new(),
            is_acknowledged: None,
            committed: None,
            fresh_ms: None,
            alarms: Vec::new(),
        }
    }

    fn hear_leader(&self) {}

    fn hear_bytes_of(&self, _: NodeId) {}

    async fn read_index(&self) -> ReadIndexAnswer {
        ReadIndexAnswer::Ready { log_index: 7 }
    }

    /// Repeats the call; refuses an empty question.
    async fn extension(&self, call: ExtensionCall, body: Bytes) -> Result<Bytes, String> {
        let question: String = codec::from_bytes(&body).map_err(|error| error.to_string())?;
        match question.as_str() {
            "" => Err("nothing was asked".to_owned()),
            question => Ok(codec::to_bytes(&format!("{call:?} {question}")).into()),
        }
    }
}

pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) raft: TestRaft,
    pub(super) machine: MemoryMachine,
    pub(super) names: Arc<Names>,
    pub(super) peers: Peers,
    pub(super) service: Proposer,
    pub(super) metrics: Arc<Metrics>,
    pub(super) address: String,
    listener: std::net::TcpListener,
    open: Mutex<Option<(CancellationToken, JoinHandle<()>)>>,
}

fn config() -> Arc<Config> {
    let config = Config {
        // Long, so that no election starts on a busy machine; the first election needs no timeout.
        heartbeat_interval: 200,
        election_timeout_min: 3000,
        election_timeout_max: 6000,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        ..Config::default()
    };
    Arc::new(config.validate().expect("a valid configuration"))
}

impl Node {
    pub(super) async fn start(id: NodeId) -> Node {
        Node::start_on(id, std::net::TcpListener::bind("127.0.0.1:0").expect("a free port")).await
    }

    /// Starts a node on a listener that may have pending connections.
    pub(super) async fn start_on(id: NodeId, listener: std::net::TcpListener) -> Node {
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("bound").to_string();
        let (names, metrics) = (Names::of(id), Arc::new(Metrics::new().expect("metrics")));
        let peers = Peers::new(id, secret(), names.clone(), metrics.clone());
        let machine = MemoryMachine::default();
        let network = PeerNetwork::new(peers.clone(), MemoryPort);
        let raft = Raft::new(id, config(), network, MemoryLog::default(), machine.clone()).await.expect("a raft");
        let service =
            Proposer { raft: raft.clone(), held: Arc::new(tokio::sync::Semaphore::new(0)), holding: Arc::default() };
        let node =
            Node { id, raft, machine, names, peers, service, metrics, address, listener, open: Mutex::default() };
        node.open_door();
        node
    }

    pub(super) fn server(&self) -> PeerServer<MemoryMachine, Proposer, MemoryPort> {
        self.server_with(secret())
    }

    pub(super) fn server_with(&self, credentials: Credentials) -> PeerServer<MemoryMachine, Proposer, MemoryPort> {
        let (raft, service, names) = (self.raft.clone(), self.service.clone(), self.names.clone());
        PeerServer::new(raft, service, MemoryPort, credentials, names, self.metrics.clone())
    }

    pub(super) fn open_door(&self) {
        self.open_with(self.server());
    }

    pub(super) fn open_with(&self, server: PeerServer<MemoryMachine, Proposer, MemoryPort>) {
        let listener = self.listener.try_clone().expect("a file descriptor");
        let listener = TcpListener::from_std(listener).expect("within the runtime");
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(server.serve(listener, shutdown.clone()));
        *self.open.lock() = Some((shutdown, task));
    }

    /// Closes every connection from other nodes. The port stays bound: new connections wait in the backlog.
    pub(super) async fn close_door(&self) {
        let open = self.open.lock().take();
        if let Some((shutdown, task)) = open {
            shutdown.cancel();
            task.await.expect("serving does not panic");
        }
    }

    /// Opens a connection, and sends nothing.
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.expect("listening")
    }

    /// Opens a connection with TLS, accepting any certificate.
    pub(super) async fn connect_secured(&self) -> Wire {
        Wire::secured(self.connect().await, secret().tls()).await.expect("a server that shows a certificate")
    }

    pub(super) fn metrics_now(&self) -> RaftMetrics<TypeConfig> {
        self.raft.metrics().borrow_watched().clone()
    }

    pub(super) fn refused(&self, reason: &str) -> u64 {
        self.metrics.peer_refused.with_label_values(&[reason]).get()
    }
}

pub(super) fn addresses<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> BTreeMap<NodeId, String> {
    nodes.into_iter().map(|node| (node.id, node.address.clone())).collect()
}

/// Starts three connected voters; returns once there is a leader with a quorum.
pub(super) async fn cluster() -> Vec<Node> {
    let nodes = vec![Node::start(1).await, Node::start(2).await, Node::start(3).await];
    let members = addresses(&nodes);
    for node in &nodes {
        node.peers.set_members(&members);
    }
    let voters: BTreeMap<_, _> = members.into_iter().map(|(id, peer)| (id, Member { peer })).collect();
    nodes[0].raft.initialize(voters).await.expect("pristine");
    for node in &nodes {
        node.raft.wait(Some(LIMIT)).metrics(|now| now.current_leader.is_some(), "a leader").await.expect("elected");
    }
    leads(leader_of(&nodes)).await;
    nodes
}

/// Waits until `leader` has a quorum: before that it refuses writes.
pub(super) async fn leads(leader: &Node) {
    let deadline = tokio::time::Instant::now() + LIMIT;
    while let Err(error) = leader.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
        assert!(tokio::time::Instant::now() < deadline, "node {} does not lead: {error}", leader.id);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(super) fn leader_of(nodes: &[Node]) -> &Node {
    let of = |node: &Node| {
        let seen = node.metrics_now();
        (seen.current_term, seen.current_leader)
    };
    let (_, leader) = nodes.iter().map(of).max().expect("nodes");
    nodes.iter().find(|node| Some(node.id) == leader).expect("the newest term has a leader")
}
