//! What a node does unasked: found the cluster, announce itself, keep links to all members, take
//! snapshots, watch over the instances.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::beats;
use super::leading;
use super::node::Node;
use crate::catalog::Command;
use crate::catalog::nodes::NodeRecord;
use crate::model::access::{PasswordHash, Role, User};

/// Between two looks at what is to be done.
const ROUND: Duration = Duration::from_millis(200);

/// What the chores need to know.
pub(super) struct Orders {
    pub(super) api: String,
    pub(super) compat: String,
    pub(super) admin_password_hash: String,
    pub(super) snapshot_every_entries: u64,
}

pub(super) fn start(node: &Node, orders: Orders, tasks: &TaskTracker, shutdown: &CancellationToken) {
    run(keep_house(node.clone(), orders), tasks, shutdown);
    run(watch_leader(node.clone()), tasks, shutdown);
    run(beats::watch_over(node.clone()), tasks, shutdown);
}

fn run(chore: impl Future<Output = ()> + Send + 'static, tasks: &TaskTracker, shutdown: &CancellationToken) {
    let until = shutdown.clone();
    tasks.spawn(async move { until.run_until_cancelled(chore).await });
}

async fn keep_house(node: Node, orders: Orders) {
    loop {
        node.inner().peers.set_members(&leading::member_addresses(&node));
        if node.leader().is_some() {
            found(&node, &orders).await;
            announce(&node, &orders).await;
        }
        remember_cluster(&node);
        snapshot_if_due(&node, orders.snapshot_every_entries).await;
        tokio::time::sleep(ROUND).await;
    }
}

/// The first leader names the cluster and makes the administrator.
async fn found(node: &Node, orders: &Orders) {
    if node.leader() != Some(node.id()) || node.state().catalog().nodes.cluster_id().is_some() {
        return;
    }
    let admin = User {
        id: hex::encode(rand::random::<[u8; 16]>()),
        name: ADMIN.to_owned(),
        role: Role::Admin,
        password_hash: PasswordHash(orders.admin_password_hash.clone()),
        ctime: leading::now(),
    };
    let cluster_id = hex::encode(rand::random::<[u8; 16]>());
    match node.propose("cluster", Command::Bootstrap { cluster_id: cluster_id.clone(), admin }).await {
        Ok(_) => tracing::info!(cluster.id = cluster_id, "cluster founded"),
        Err(error) => tracing::warn!(%error, "the cluster could not be founded yet"),
    }
}

/// Name of the administrator.
pub const ADMIN: &str = "admin";

/// Tells the others under which addresses clients reach this node.
async fn announce(node: &Node, orders: &Orders) {
    let instance = node.store().identity().instance;
    let record = NodeRecord::new(node.id(), instance, orders.api.clone(), orders.compat.clone());
    let is_known = {
        let catalog = node.state().catalog();
        catalog.nodes.cluster_id().is_none()
            || catalog.nodes.get(node.id()).is_some_and(|known| *known == record || known.removed)
    };
    if !is_known && let Err(error) = node.propose("cluster", Command::Announce(record)).await {
        tracing::debug!(%error, "this node could not announce itself yet");
    }
}

/// Ties the data directory to the cluster, so that it is refused by any other.
fn remember_cluster(node: &Node) {
    if node.store().identity().cluster_id.is_some() {
        return;
    }
    let cluster_id = node.state().catalog().nodes.cluster_id().map(str::to_owned);
    if let Some(cluster_id) = cluster_id
        && let Err(error) = node.store().set_cluster_id(&cluster_id)
    {
        tracing::error!(%error, "the cluster id could not be kept in the data directory");
    }
}

/// A snapshot covers the state every so many entries; the log behind it is then purged, but for
/// what is kept for peers that are a little behind.
async fn snapshot_if_due(node: &Node, every_entries: u64) {
    let metrics = node.raft_metrics();
    let applied = metrics.last_applied.map_or(0, |id| id.index);
    let covered = metrics.snapshot.map_or(0, |id| id.index);
    if applied.saturating_sub(covered) >= every_entries
        && let Err(error) = node.inner().raft.trigger().snapshot().await
    {
        tracing::warn!(%error, "a snapshot could not be started");
    }
}

/// Logs and counts changes of leader.
async fn watch_leader(node: Node) {
    let mut server = node.inner().raft.server_metrics();
    let mut known = None;
    loop {
        let (leader, term) = {
            let now = server.borrow_watched();
            (now.current_leader, now.vote.leader_id().term)
        };
        if leader != known && leader.is_some() {
            tracing::info!(raft.leader = leader, raft.term = term, "leader changed");
            node.metrics().leader_changes.inc();
            known = leader;
        }
        if server.changed().await.is_err() {
            return;
        }
    }
}
