//! Reason why `enable_leader_restore` has to be `Some(false)`.
//!
//! openraft's leader sends an entry once it is readable, which is before its own fsync. A power loss removes that entry
//! from the leader while a follower has it on disk. By default a restarted leader continues to lead the SAME term
//! without an election: it assigns the same (term, index) to another command, the follower takes that for the entry it
//! has, and an acknowledged write is missing on a majority without any error. With an election first, the follower's
//! longer log wins.
//!
//! The second test runs the dangerous setting and asserts the divergence, which proves that the first one would detect
//! it.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::type_config::alias::SnapshotOf;
use openraft::{Config, OptionalSend, SnapshotPolicy};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::format::types::{LogId, Member, NodeId, Proposal, TypeConfig, Vote};
use crate::store::testing::{Gate, RowMachine, rows};
use crate::store::{SnapshotFile, Store};

type Raft = openraft::Raft<TypeConfig, RowMachine>;

/// Limit of each step; the steps take a few seconds, most of it the election timeout.
const LIMIT: Duration = Duration::from_secs(60);
/// Much longer than any stall: a write that is given up here may still succeed, and would exist twice.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(20);

/// A network inside the process: unregistered nodes are unreachable.
#[derive(Clone, Default)]
struct Network(Arc<Mutex<HashMap<NodeId, Raft>>>);

struct Link {
    target: NodeId,
    network: Network,
}

impl Link {
    fn raft(&self) -> Result<Raft, Unreachable<TypeConfig>> {
        let raft = self.network.0.lock().get(&self.target).cloned();
        raft.ok_or_else(|| unreachable(io::Error::other("switched off")))
    }
}

fn unreachable(error: impl std::error::Error + 'static) -> Unreachable<TypeConfig> {
    Unreachable::new(&error)
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: NodeId, _node: &Member) -> Link {
        Link { target, network: self.clone() }
    }
}

impl RaftNetworkV2<TypeConfig> for Link {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        Ok(self.raft()?.append_entries(request).await.map_err(unreachable)?)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Ok(self.raft()?.vote(request).await.map_err(unreachable)?)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<TypeConfig, SnapshotFile>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        Ok(self.raft()?.install_full_snapshot(vote, snapshot).await.map_err(unreachable)?)
    }
}

struct Cluster {
    config: Arc<Config>,
    network: Network,
    dir: TempDir,
}

impl Cluster {
    fn new(enable_leader_restore: Option<bool>) -> Self {
        // With the restore, the leader has to be back before its follower starts an election, however slow the disk is;
        // without it, the test waits for that election.
        let election_timeout_ms = if enable_leader_restore == Some(false) { 4000 } else { 60_000 };
        let config = Config {
            heartbeat_interval: 200,
            election_timeout_min: election_timeout_ms,
            election_timeout_max: election_timeout_ms + 1000,
            snapshot_policy: SnapshotPolicy::Never,
            enable_leader_restore,
            ..Config::default()
        };
        let config = Arc::new(config.validate().expect("a valid configuration"));
        Cluster { config, network: Network::default(), dir: tempfile::tempdir().expect("a temporary directory") }
    }

    async fn start(&self, id: NodeId, dir: &str, gate: &Gate) -> (Raft, Store) {
        let store = gate.open_store(&self.dir.path().join(dir), id);
        let machine = RowMachine::new(&store);
        let raft = Raft::new(id, self.config.clone(), self.network.clone(), store.log(), machine).await;
        let raft = raft.expect("started");
        self.network.0.lock().insert(id, raft.clone());
        (raft, store)
    }

    async fn switch_off(&self, id: NodeId) {
        let raft = self.network.0.lock().remove(&id).expect("running");
        raft.shutdown().await.expect("no panic inside");
    }
}

/// Returns a proposal of the first level.
fn proposal(text: &str) -> Proposal {
    Proposal(Bytes::from([&[1], text.as_bytes()].concat()))
}

/// Proposes to the current leader until one acknowledges.
async fn write(rafts: &[&Raft], text: &'static str) -> LogId {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        for raft in rafts {
            let proposal = proposal(text);
            if let Ok(Ok(answer)) = timeout(ANSWER_LIMIT, raft.client_write(proposal)).await {
                return answer.log_id;
            }
        }
        sleep(RETRY).await;
    }
    panic!("nobody acknowledged {text}");
}

/// A leader loses power between sending OLD and its fsync, comes back, and NEW is written. Returns the proposals that
/// leader and follower have applied.
async fn lose_power(enable_leader_restore: Option<bool>) -> [Vec<Vec<u8>>; 2] {
    let cluster = Cluster::new(enable_leader_restore);
    let gate = Gate::default();
    let (first, first_store) = cluster.start(1, "n1", &gate).await;
    let (second, second_store) = cluster.start(2, "n2", &Gate::default()).await;
    let (third, _) = cluster.start(3, "n3", &Gate::default()).await;
    let members: BTreeMap<_, _> = (1..=3).map(|id| (id, Member::default())).collect();
    first.initialize(members).await.expect("fresh nodes");
    let base = write(&[&first], "BASE").await;
    for raft in [&second, &third] {
        raft.wait(Some(LIMIT)).applied_index_at_least(Some(base.index), "BASE everywhere").await.expect("replicated");
    }
    cluster.switch_off(3).await;

    gate.set_closed(true);
    let writer = first.clone();
    let lost = tokio::spawn(async move { writer.client_write(proposal("OLD")).await });
    let old_index = Some(base.index + 1);
    second.wait(Some(LIMIT)).log_index(old_index, "OLD reached the follower").await.expect("replicated");
    gate.power_loss(&cluster.dir.path().join("n1"), &cluster.dir.path().join("n1-restarted"));
    cluster.switch_off(1).await;
    gate.set_closed(false);
    lost.abort();
    drop((first, first_store));

    let (first, first_store) = cluster.start(1, "n1-restarted", &Gate::default()).await;
    let new = write(&[&first, &second], "NEW").await;
    for raft in [&first, &second] {
        raft.wait(Some(LIMIT)).applied_index_at_least(Some(new.index), "NEW applied").await.expect("replicated");
    }
    let applied = [&first_store, &second_store].map(proposals);
    for id in [1, 2] {
        cluster.switch_off(id).await;
    }
    applied
}

fn proposals(store: &Store) -> Vec<Vec<u8>> {
    rows(store)
        .into_iter()
        .filter(|(key, _)| key[..] != b"\0progress"[..])
        .map(|(_, value)| value[1..].to_vec())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_leader_restore_a_power_loss_loses_nothing() {
    let [first, second] = lose_power(Some(false)).await;
    assert_eq!(first, second);
    assert_eq!(first, [&b"BASE"[..], b"OLD", b"NEW"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_leader_restore_a_power_loss_diverges() {
    let [first, second] = lose_power(None).await;
    assert_eq!(first, [&b"BASE"[..], b"NEW"]);
    assert_eq!(second, [&b"BASE"[..], b"OLD"], "NEW was acknowledged and is missing on the follower");
}
