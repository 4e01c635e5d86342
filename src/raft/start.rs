//! Start of a node: load, meet the peers, form or join the cluster.
//!
//! A node without data that is in the initial list asks its peers before it does anything: if one
//! of them knows its id under another data directory, this one was wiped. It may have voted and
//! acknowledged under that id and would now do so again, so it refuses to start. Otherwise it waits
//! until a majority of the list has welcomed it, and forms the cluster with them: every node writes
//! the same first entry, so the order of starts does not matter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use openraft::{Config, SnapshotPolicy};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::chores;
use super::introductions::Acquaintances;
use super::leading::Service;
use super::machine::Machine;
use super::node::{ClusterRaft, Node};
use super::peer::{IntroduceError, Introductions, PeerNetwork, PeerServer, Peers, Secret, Welcome, introduce};
use super::transfer::Port;
use super::types::{Member, NodeId};
use crate::metrics::Metrics;
use crate::store::Store;
use crate::watch::Hub;

/// A follower that hears nothing stands for election after the longest election time, for which it
/// grants nobody a vote, and a random one on top: 650 to 800 ms.
const HEARTBEAT_MS: u64 = 100;
const ELECTION_MS_MIN: u64 = 250;
const ELECTION_MS_MAX: u64 = 400;
/// Entries of one append: a follower one round trip behind gets all it missed at once.
const APPEND_ENTRIES_MAX: u64 = 4096;
/// A follower further behind than this is sent a snapshot, even where the log still reaches back.
const LAG_ENTRIES_MAX: u64 = 100_000;
/// Entries purged at a time, or fewer where fewer are kept.
const PURGE_ENTRIES: u64 = 4096;
const SNAPSHOT_INSTALL_MS_MAX: u64 = 600_000;
/// Between two rounds of asking the peers at first start, and between two lines about it.
const MEET_PAUSE: Duration = Duration::from_millis(200);
const MEET_LOG_PAUSE: Duration = Duration::from_secs(5);
const RECOVERY_WITHIN: Duration = Duration::from_secs(120);

/// What a node is started with.
pub struct Setup {
    pub node_id: NodeId,
    /// The list that forms the cluster; empty for a node that waits to be added.
    pub initial_cluster: BTreeMap<NodeId, String>,
    pub secret: Option<Secret>,
    pub peer_listener: Option<TcpListener>,
    /// Advertised addresses of the two surfaces.
    pub api: String,
    pub compat: String,
    /// Hash of the administrator's password, used if this node founds the cluster.
    pub admin_password_hash: String,
    pub snapshot_every_entries: u64,
    /// Entries kept behind a snapshot, so that a follower that was away shortly needs no snapshot
    /// and one that receives a snapshot finds the entries after it still there.
    pub log_entries_kept: u64,
}

/// Starts consensus and its background tasks on `tasks`, all of which end with `shutdown`.
///
/// Returns at once with the node, which is not ready yet, and with a receiver that hears why if the
/// node cannot take part.
pub async fn start(
    setup: Setup,
    store: Store,
    hub: Hub,
    metrics: Arc<Metrics>,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) -> anyhow::Result<(Node, oneshot::Receiver<anyhow::Error>)> {
    let is_fresh = store.is_fresh()?;
    let loading = (store.clone(), hub, metrics.clone());
    let machine = tokio::task::spawn_blocking(move || Machine::load(loading.0, loading.1, loading.2)).await??;
    let acquaintances = Arc::new(Acquaintances::new(setup.node_id, store.clone(), machine.state().clone()));
    // Without a secret nobody can be met; a random one keeps the types simple and the door shut.
    let secret = setup.secret.unwrap_or_else(|| Secret::new(&rand::random::<[u8; 32]>()));
    let peers = Peers::new(setup.node_id, secret.clone(), acquaintances.clone(), metrics.clone());
    let port = Port::new(store.clone());
    let network = PeerNetwork::new(peers.clone(), port.clone());
    let raft = ClusterRaft::new(
        setup.node_id,
        Arc::new(config(setup.log_entries_kept)?),
        network,
        store.log(),
        machine.clone(),
    )
    .await
    .context("consensus could not start")?;
    let node = Node::new(setup.node_id, raft.clone(), machine, store, peers, metrics.clone());
    if let Some(listener) = setup.peer_listener {
        let service = Service(node.clone());
        let server = PeerServer::new(raft, service, port, secret.clone(), acquaintances.clone(), metrics);
        tasks.spawn(server.serve(listener, shutdown.clone()));
    }
    let orders = chores::Orders {
        api: setup.api,
        compat: setup.compat,
        admin_password_hash: setup.admin_password_hash,
        snapshot_every_entries: setup.snapshot_every_entries,
    };
    let joining = Joining { node: node.clone(), initial_cluster: setup.initial_cluster, secret, acquaintances };
    let (failed, failure) = oneshot::channel();
    let (until, spawner) = (shutdown.clone(), tasks.clone());
    tasks.spawn(async move {
        match until.run_until_cancelled(joining.join(is_fresh)).await {
            Some(Ok(())) => chores::start(&joining.node, orders, &spawner, &until),
            Some(Err(error)) => drop(failed.send(error)),
            None => {}
        }
    });
    Ok((node, failure))
}

/// What it takes to become part of the cluster.
struct Joining {
    node: Node,
    initial_cluster: BTreeMap<NodeId, String>,
    secret: Secret,
    acquaintances: Arc<Acquaintances>,
}

/// * `enable_leader_restore` off: a leader that restarts must be elected anew. Restored in its old
///   term after a power loss it could give a lost entry's place to another one.
/// * snapshots and log retention are driven by [`chores`], openraft's defaults are far too small.
fn config(log_entries_kept: u64) -> anyhow::Result<Config> {
    let config = Config {
        cluster_name: "thuban".into(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MS_MIN,
        election_timeout_max: ELECTION_MS_MAX,
        max_payload_entries: APPEND_ENTRIES_MAX,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: log_entries_kept,
        replication_lag_threshold: LAG_ENTRIES_MAX,
        purge_batch_size: PURGE_ENTRIES.min(log_entries_kept.max(1)),
        install_snapshot_timeout: SNAPSHOT_INSTALL_MS_MAX,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    Ok(config.validate()?)
}

impl Joining {
    async fn join(&self, is_fresh: bool) -> anyhow::Result<()> {
        if is_fresh && !self.initial_cluster.is_empty() {
            let is_formed = self.meet_peers().await?;
            if !is_formed {
                self.form().await?;
            }
        }
        let recovery = self.node.inner().raft.wait_for_recovery(Some(RECOVERY_WITHIN));
        recovery.await.context("the committed log could not be applied")?;
        self.node.set_recovered();
        Ok(())
    }

    /// Waits for a majority of the initial list. True if some peer belongs to a formed cluster.
    async fn meet_peers(&self) -> anyhow::Result<bool> {
        let majority = self.initial_cluster.len() / 2 + 1;
        let mut welcomes: BTreeMap<NodeId, Welcome> = BTreeMap::new();
        let mut last_line = Instant::now();
        loop {
            for (peer, address) in self.initial_cluster.iter().filter(|(peer, _)| **peer != self.node.id()) {
                match introduce(address, &self.secret, &self.acquaintances.hello(*peer)).await {
                    Ok(welcome) => drop(welcomes.insert(*peer, welcome)),
                    Err(IntroduceError::Unreachable(_)) => {}
                    Err(error) => bail!("node {peer} at {address} turned this node away: {error}"),
                }
            }
            if welcomes.len() + 1 >= majority {
                return Ok(welcomes.values().any(|welcome| welcome.initialized));
            }
            if last_line.elapsed() > MEET_LOG_PAUSE {
                last_line = Instant::now();
                let met = welcomes.len() + 1;
                tracing::info!(met, needed = majority, "waiting for the peers of the initial cluster");
            }
            tokio::time::sleep(MEET_PAUSE).await;
        }
    }

    async fn form(&self) -> anyhow::Result<()> {
        let member = |(id, peer): (&NodeId, &String)| (*id, Member { peer: peer.clone() });
        let members: BTreeMap<NodeId, Member> = self.initial_cluster.iter().map(member).collect();
        let raft = &self.node.inner().raft;
        match raft.initialize(members).await {
            Ok(()) => Ok(()),
            // A peer was faster and has already replicated to this node.
            Err(_) if raft.is_initialized().await.unwrap_or(false) => Ok(()),
            Err(error) => Err(error).context("the cluster could not be formed"),
        }
    }
}
