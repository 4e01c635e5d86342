//! Background tasks of consensus: links to all members, elections, snapshots, capacity and the rest.

use openraft::async_runtime::WatchReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::alarms;
use super::capacity;
use super::compaction;
use super::consistency_check;
use super::election;
use super::lease;
use super::members;
use super::node::Node;
use super::poll;
use super::removal;
use super::replication_stall;
use crate::tasks;

pub(super) fn start(node: &Node, tracker: &TaskTracker, shutdown: &CancellationToken) {
    run("members", follow_members(node.clone()), tracker, shutdown);
    run("leader", watch_leader(node.clone()), tracker, shutdown);
    run("lease", lease::log_leaders(node.clone()), tracker, shutdown);
    run("elections", election::hold(node.clone()), tracker, shutdown);
    run("poll", poll::keep_asking(node.clone()), tracker, shutdown);
    run("poll-leader", poll::keep_asking_leader(node.clone()), tracker, shutdown);
    run("compaction", compaction::keep(node.clone()), tracker, shutdown);
    run("capacity", capacity::watch(node.clone()), tracker, shutdown);
    run("alarms", alarms::watch(node.clone()), tracker, shutdown);
    run("state-checks", consistency_check::watch(node.clone()), tracker, shutdown);
    run("standstills", replication_stall::watch(node.clone()), tracker, shutdown);
    run("removal", removal::watch(node.clone()), tracker, shutdown);
}

/// Runs a background task that the node needs, until the node shuts down.
pub(crate) fn run(
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) {
    let until = shutdown.clone();
    tasks::needed_in(tracker, name, async move { until.run_until_cancelled(task).await });
}

/// Maintains a link to every member, at the address that the membership has for it.
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
