//! Start of consensus: loads the state, forms or joins a cluster, and takes part in it.
//!
//! No step has a deadline. A node whose peers are away, or that waits to be added, serves what it has; `/readyz`
//! reports that it is not ready.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use openraft::{Config, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::alarms::Alarms;
use super::background;
use super::batching::Batcher;
use super::capacity::{Capacity, RoomBounds};
use super::compaction::{Compaction, LogBounds};
use super::consistency_check::{self, Divergence};
use super::disk_check::DiskCheck;
use super::election::Elections;
use super::extension::Extension;
use super::formation::Formation;
use super::freshness::Freshness;
use super::machine::Machine;
use super::node::{ClusterRaft, Inner, Lifecycle, Node, Upkeep};
use super::peer_admission::KnownPeers;
use super::poll::Poll;
use super::read_index::ReadIndexes;
use super::removal::{self, Removal};
use super::replication_stall::StallDetector;
use super::service::NodeService;
use super::threads::{self, Threads};
use super::transfer::Port;
use crate::format::types::NodeId;
use crate::metrics::Metrics;
use crate::model::limits::BACKUPS_AT_ONCE;
use crate::peer::{Credentials, PeerNetwork, PeerServer, Peers};
use crate::store::Store;
use crate::tasks;
use crate::tls::Certificates;
use crate::watch::Hub;

/// openraft's own timeouts, longer than those of [`super::election`], which decides: the timeout of a heartbeat, that
/// of a vote, and a lease that a follower ends earlier when it misses its leader.
const HEARTBEAT_GIVEN_UP_MS: u64 = 4_000;
const VOTE_GIVEN_UP_MS: u64 = 6_000;
const LEASE_MS_MIN: u64 = 10_000;
/// A follower that acknowledged an append within this time is sent no heartbeat.
const HEARTBEAT_SPARED_MS: u64 = 50;
/// Maximum number of entries of one append: a follower that is one round trip late gets everything it missed at once.
const APPEND_ENTRIES_MAX: u64 = 4096;
const SNAPSHOT_INSTALL_MS_MAX: u64 = 600_000;
/// Maximum time between two checks whether this node has caught up.
const CAUGHT_UP_LOOK: Duration = Duration::from_millis(100);

/// The cluster secret; two while it is rotated.
pub struct Secrets {
    pub shown: Vec<u8>,
    /// Secret that is accepted from peers but not used.
    pub other: Option<Vec<u8>>,
}

/// Start parameters of a node.
pub struct Setup {
    pub extension: Arc<dyn Extension>,
    pub node_id: NodeId,
    /// The list that forms the cluster; empty for a node that waits to be added.
    pub initial_cluster: BTreeMap<NodeId, String>,
    /// True if a majority of the list may form the cluster, see [`super::formation`].
    pub form_with_majority: bool,
    pub secrets: Option<Secrets>,
    pub peer_listener: Option<TcpListener>,
    /// Local address of connections to peers; `None` leaves the choice to the system.
    pub dials_from: Option<IpAddr>,
    pub log_bounds: LogBounds,
    pub room_bounds: RoomBounds,
    /// Entries between two indexes at which the members compare their state hashes.
    pub hash_check_entries: u64,
    /// Fixed timeout, instead of one that follows the measured round trip.
    pub election_timeout: Option<Duration>,
    /// Maximum staleness of a ready node; 0 for no limit.
    pub ready_behind: Duration,
    /// Certificate files of this node, for its alarms.
    pub certificates: Arc<Certificates>,
}

/// Starts consensus on its own threads and its background tasks on `tracker`; all end with `shutdown`.
///
/// Returns at once with the node, which is not ready yet, and with a receiver of the error if the node cannot take
/// part.
pub async fn start(
    setup: Setup,
    store: Store,
    hub: Hub,
    metrics: Arc<Metrics>,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) -> anyhow::Result<(Node, oneshot::Receiver<anyhow::Error>)> {
    let (threads, handle) = Threads::start().context("the threads of consensus could not start")?;
    let (tracker, shutdown) = (tracker.clone(), shutdown.clone());
    // Tasks that are spawned from there run on the same threads.
    let started = async move { start_on(threads, setup, store, hub, metrics, &tracker, &shutdown).await };
    tasks::errand_on(&handle, started).await.context("consensus could not start")?
}

pub(crate) async fn start_on(
    threads: Threads,
    setup: Setup,
    store: Store,
    hub: Hub,
    metrics: Arc<Metrics>,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) -> anyhow::Result<(Node, oneshot::Receiver<anyhow::Error>)> {
    let is_fresh = store.is_fresh()?;
    let loading = (store.clone(), hub, metrics.clone());
    let machine = tasks::blocking(move || Machine::load(loading.0, loading.1, loading.2)).await?;
    refuse_half_recovered(&store, &machine)?;
    let machine = machine.with_checkpoints_every(setup.hash_check_entries).with_listener(setup.extension.clone());
    let known_peers = Arc::new(KnownPeers::new(
        (setup.node_id, &setup.initial_cluster),
        (store.clone(), is_fresh),
        machine.state().clone(),
    ));
    // Without a secret no peer can connect; a random one keeps the types simple.
    let secrets = setup.secrets.unwrap_or_else(|| Secrets { shown: rand::random::<[u8; 32]>().to_vec(), other: None });
    let credentials = Credentials::new(&secrets.shown, secrets.other.as_deref())?.dialling_from(setup.dials_from);
    let peers = Peers::new(setup.node_id, credentials.clone(), known_peers.clone(), metrics.clone());
    let port = Port::new(store.clone());
    let network = PeerNetwork::new(peers.clone(), port.clone());
    let raft = ClusterRaft::new(
        setup.node_id,
        Arc::new(config(setup.election_timeout)?),
        network,
        store.log(),
        machine.clone(),
    )
    .await
    .context("consensus could not start")?;
    let node = Node::new(Inner {
        id: setup.node_id,
        raft: raft.clone(),
        machine,
        store: store.clone(),
        peers,
        metrics: metrics.clone(),
        batcher: Batcher::default(),
        freshness: Freshness::new(),
        elections: Elections::new(setup.election_timeout),
        poll: Poll::default(),
        standstills: StallDetector::default(),
        settling: tokio::sync::Mutex::default(),
        membership_turn: tokio::sync::Mutex::default(),
        read_indexes: ReadIndexes::default(),
        lifecycle: lifecycle(setup.ready_behind),
        upkeep: upkeep(setup.node_id, setup.room_bounds, setup.log_bounds, setup.certificates),
        threads,
    });
    if let Some(listener) = setup.peer_listener {
        let service = NodeService { node: node.clone(), extension: setup.extension.clone() };
        let server = PeerServer::new(raft, service, port, credentials, known_peers.clone(), metrics);
        serve_peers(server.calls(), server.serve(threads::settle(listener)?, shutdown.clone()), tracker);
    }
    consistency_check::recall(&node)?;
    let must_meet = is_fresh && !setup.initial_cluster.is_empty();
    let formation = Formation {
        node: node.clone(),
        known_peers: known_peers.clone(),
        initial_cluster: setup.initial_cluster,
        with_majority: setup.form_with_majority,
    };
    background::run("removal-heard", removal::listen(node.clone(), known_peers.clone()), tracker, shutdown);
    let (until, spawner, joining) = (shutdown.clone(), tracker.clone(), node.clone());
    let take_part = async move {
        if must_meet && let Err(error) = formation.form_or_join().await {
            return error;
        }
        background::start(&joining, &spawner, &until);
        setup.extension.start(&joining, &spawner, &until);
        await_caught_up(&joining).await;
        joining.set_caught_up();
        std::future::pending().await
    };
    let (failed, failure) = oneshot::channel();
    let until = shutdown.clone();
    tasks::needed_in(tracker, "start", async move {
        let end = async {
            tokio::select! {
                error = take_part => error,
                error = known_peers.unfit() => error,
            }
        };
        if let Some(error) = until.run_until_cancelled(end).await {
            // The receiver is gone if the node shuts down already.
            drop(failed.send(error));
        }
    });
    Ok((node, failure))
}

/// Returns the lifecycle of a node that has not caught up.
fn lifecycle(ready_behind: Duration) -> Lifecycle {
    Lifecycle {
        stopping: AtomicBool::new(false),
        caught_up: AtomicBool::new(false),
        caught_up_now: Notify::new(),
        awaited: Mutex::default(),
        ready_behind,
        removal: Removal::default(),
    }
}

fn upkeep(node_id: NodeId, room: RoomBounds, log: LogBounds, certificates: Arc<Certificates>) -> Upkeep {
    Upkeep {
        disk_check: DiskCheck::default(),
        backups: Arc::new(Semaphore::new(BACKUPS_AT_ONCE)),
        capacity: Capacity::new(node_id, room),
        compaction: tokio::sync::Mutex::new(Compaction::new(log)),
        divergence: Divergence::default(),
        certificates,
        alarms: Alarms::default(),
    }
}

/// Serves peers until `serving` ends with the shutdown, and then waits for the end of their calls.
fn serve_peers(calls: TaskTracker, serving: impl Future<Output = ()> + Send + 'static, tracker: &TaskTracker) {
    tasks::needed_in(tracker, "peers", async move {
        serving.await;
        calls.close();
        calls.wait().await;
    });
}

/// Refuses a directory whose recovery was interrupted: `thuban recover` writes the new cluster id first and the state
/// last.
fn refuse_half_recovered(store: &Store, machine: &Machine) -> anyhow::Result<()> {
    let (tied, catalog) = (store.identity().cluster_id, machine.state().catalog());
    match (&tied, catalog.nodes.cluster_id()) {
        (Some(tied), Some(held)) if tied != held => bail!(
            "{} belongs to cluster {tied} and holds the state of {held}: `thuban recover` did not come to its end, \
             repeat it",
            store.dir().display()
        ),
        _ => Ok(()),
    }
}

/// Waits until this node has applied everything that its leader had committed at first contact. Without a leader it
/// never returns; only readiness depends on it.
async fn await_caught_up(node: &Node) {
    let mut applied = node.state().applied.subscribe();
    while node.age().is_none() {
        tokio::select! {
            () = node.inner().freshness.changed() => {}
            moved = applied.changed() => if moved.is_err() { return },
            () = tokio::time::sleep(CAUGHT_UP_LOOK) => {}
        }
    }
}

/// Returns the configuration of openraft.
///
/// * `enable_leader_restore` is off: a leader that restarts has to be elected anew. Restored in its old term after a
///   power loss, it could put another entry in the place of a lost one.
/// * Snapshots and log retention of openraft are off: [`super::compaction`] decides by bytes, disks and peers.
///   `replication_lag_threshold` has no effect: only a blocking addition of a learner uses it, and ours do not block.
/// * Ticks are off: [`super::election`] sends heartbeats and starts elections.
fn config(election_timeout: Option<Duration>) -> anyhow::Result<Config> {
    let twice =
        election_timeout.map_or(0, |fixed| u64::try_from(fixed.as_millis()).unwrap_or(u64::MAX).saturating_mul(2));
    let config = Config {
        cluster_name: "thuban".into(),
        heartbeat_interval: HEARTBEAT_GIVEN_UP_MS,
        heartbeat_min_interval: Some(HEARTBEAT_SPARED_MS),
        election_timeout_min: VOTE_GIVEN_UP_MS,
        election_timeout_max: LEASE_MS_MIN.max(twice),
        enable_tick: false,
        max_payload_entries: APPEND_ENTRIES_MAX,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        install_snapshot_timeout: SNAPSHOT_INSTALL_MS_MAX,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    Ok(config.validate()?)
}

#[cfg(test)]
mod tests;
