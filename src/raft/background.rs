//! Background tasks of a node: it founds the cluster, announces itself and keeps links to all members, and starts the
//! tasks of snapshots, capacity, heartbeats and the rest.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::audit_buffer;
use super::capacity;
use super::clock;
use super::compaction;
use super::consistency_check;
use super::election;
use super::heartbeats;
use super::lease;
use super::levels;
use super::members;
use super::node::Node;
use super::password_reset;
use super::poll;
use super::retention;
use super::schedule;
use super::stuck;
use crate::catalog::Command;
use crate::catalog::nodes::NodeRecord;
use crate::format::level::Level;
use crate::model::access::{CLUSTER, Founder};

/// Between two looks at what is to be done.
const ROUND: Duration = Duration::from_millis(200);
/// Time limit for the first leader to hear from all founders which levels they read.
const FOUNDERS_WITHIN: Duration = Duration::from_secs(3);

/// Settings of the background tasks.
pub(super) struct BackgroundSettings {
    pub(super) api: String,
    pub(super) compat: String,
    pub(super) admin_password_hash: String,
}

pub(super) fn start(node: &Node, orders: BackgroundSettings, tasks: &TaskTracker, shutdown: &CancellationToken) {
    run(keep_house(node.clone(), orders), tasks, shutdown);
    run(follow_members(node.clone()), tasks, shutdown);
    run(watch_leader(node.clone()), tasks, shutdown);
    run(lease::tell_of_leaders(node.clone()), tasks, shutdown);
    run(election::hold(node.clone()), tasks, shutdown);
    run(poll::keep_asking(node.clone()), tasks, shutdown);
    run(compaction::keep(node.clone()), tasks, shutdown);
    run(capacity::watch(node.clone()), tasks, shutdown);
    run(consistency_check::watch(node.clone()), tasks, shutdown);
    run(stuck::watch(node.clone()), tasks, shutdown);
    run(heartbeats::watch_over(node.clone()), tasks, shutdown);
    run(retention::watch_over(node.clone()), tasks, shutdown);
    run(schedule::watch_over(node.clone()), tasks, shutdown);
    run(password_reset::carry_out(node.clone()), tasks, shutdown);
    run(audit_buffer::write_down(node.clone()), tasks, shutdown);
}

fn run(chore: impl Future<Output = ()> + Send + 'static, tasks: &TaskTracker, shutdown: &CancellationToken) {
    let until = shutdown.clone();
    tasks.spawn(async move { until.run_until_cancelled(chore).await });
}

async fn keep_house(node: Node, orders: BackgroundSettings) {
    let mut leads_since = None;
    loop {
        let leads = node.leader() == Some(node.id());
        leads_since = leads.then(|| leads_since.unwrap_or_else(Instant::now));
        // A node that has not caught up with its own log may not know what was settled long ago.
        if node.has_caught_up() && node.leader().is_some() {
            found(&node, &orders, leads_since).await;
            announce(&node, &orders).await;
            members::finish_change(&node).await;
            levels::raise_if_due(&node).await;
        }
        remember_cluster(&node);
        // Cut short the moment the node has caught up: who starts a cluster waits for what comes next.
        let _ = timeout(ROUND, node.inner().caught_up_now.notified()).await;
    }
}

/// Keeps a link to every member, under the address that the membership has for it now.
async fn follow_members(node: Node) {
    let mut server = node.inner().raft.server_metrics();
    loop {
        let membership = server.borrow_watched().membership_config.clone();
        node.inner().peers.set_members(&members::addresses(membership.membership()));
        if server.changed().await.is_err() {
            return;
        }
    }
}

/// The first leader names the cluster and makes the administrator. It waits a moment for the other
/// founders, so that a new cluster speaks what they can speak from its first entry on.
async fn found(node: &Node, orders: &BackgroundSettings, leads_since: Option<Instant>) {
    let Some(leads_since) = leads_since else { return };
    if node.state().catalog().nodes.cluster_id().is_some() {
        return;
    }
    let level = match node.common_level() {
        Some(common) => common,
        None if leads_since.elapsed() < FOUNDERS_WITHIN => return,
        None => Level::FIRST,
    };
    let Some(term) = node.leading_term() else { return };
    clock::settle(node, term).await;
    let admin =
        Founder::administrator(hex::encode(rand::random::<[u8; 16]>()), orders.admin_password_hash.clone(), node.now());
    let cluster_id = hex::encode(rand::random::<[u8; 16]>());
    match node.propose(CLUSTER, Command::Bootstrap { cluster_id: cluster_id.clone(), admin, level }).await {
        Ok(_) => tracing::info!(cluster.id = cluster_id, "cluster founded"),
        Err(error) => tracing::warn!(%error, "the cluster could not be founded yet"),
    }
}

/// Tells the others under which addresses clients reach this node.
async fn announce(node: &Node, orders: &BackgroundSettings) {
    let instance = node.store().identity().instance;
    let mut record = NodeRecord::new(node.id(), instance, orders.api.clone(), orders.compat.clone());
    if node.state().catalog().level() >= Level::SETTINGS {
        record.version = env!("CARGO_PKG_VERSION").to_owned();
        record.levels = node.store().levels();
    }
    let is_known = {
        let catalog = node.state().catalog();
        catalog.nodes.cluster_id().is_none()
            || catalog.nodes.get(node.id()).is_some_and(|known| *known == record || known.removed)
    };
    if !is_known && let Err(error) = node.propose(CLUSTER, Command::Announce(record)).await {
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
