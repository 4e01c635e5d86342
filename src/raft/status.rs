//! What a node can say about itself and the cluster, and how it leaves.

use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use tokio::time::timeout;

use super::errand::{Errand, MembershipChange};
use super::leading::{self, Carried, TRANSFER_WITHIN};
use super::node::{LEADER_PATIENCE, Node, NodeError};
use super::peer::{CallError, ForwardAnswer};
use super::types::{NodeId, TypeConfig};
use crate::catalog::Command;

/// How long a change of the membership may take.
const MEMBERSHIP_WITHIN: Duration = Duration::from_secs(8);
const SURVEY_WITHIN: Duration = Duration::from_millis(500);
const DISK_WITHIN: Duration = Duration::from_secs(2);

/// The cluster as this node sees it.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    pub cluster_id: Option<String>,
    pub leader: Option<NodeId>,
    pub term: u64,
    pub node_id: NodeId,
    pub members: Vec<MemberStatus>,
    pub hash: [u8; 32],
    pub hash_index: u64,
}

#[derive(Clone, Debug)]
pub struct MemberStatus {
    pub id: NodeId,
    pub role: &'static str,
    pub voter: bool,
    pub api: String,
    pub compat: String,
    pub peer: String,
    /// Indexes of its last log entry and of the last one applied; unknown of one that does not answer.
    pub last_log: Option<u64>,
    pub applied: Option<u64>,
    pub reachable: bool,
}

/// Why an operator's call was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error("{0}")]
    Refused(String),
}

/// One line of `/readyz?verbose`.
#[derive(Clone, Debug)]
pub struct Check {
    pub name: &'static str,
    /// Why it fails, if it does.
    pub failure: Option<String>,
}

impl Node {
    pub fn cluster_status(&self) -> ClusterStatus {
        let metrics = self.raft_metrics();
        let progress = self.inner().machine.progress();
        let catalog = self.state().catalog();
        let membership = metrics.membership_config.membership();
        let replication = metrics.replication.clone().unwrap_or_default();
        let voters: Vec<NodeId> = membership.voter_ids().collect();
        let members = membership.nodes().map(|(id, member)| {
            let record = catalog.nodes.get(*id);
            let is_self = *id == self.id();
            let voter = voters.contains(id);
            MemberStatus {
                id: *id,
                role: role(metrics.current_leader == Some(*id), voter),
                voter,
                api: record.map(|record| record.api.clone()).unwrap_or_default(),
                compat: record.map(|record| record.compat.clone()).unwrap_or_default(),
                peer: member.peer.clone(),
                last_log: if is_self {
                    metrics.last_log_index
                } else {
                    replication.get(id).map(|matched| matched.map_or(0, |id| id.index))
                },
                applied: is_self.then(|| progress.last_applied.map_or(0, |id| id.index)),
                reachable: self.is_reachable(*id),
            }
        });
        ClusterStatus {
            cluster_id: catalog.nodes.cluster_id().map(str::to_owned),
            leader: metrics.current_leader,
            term: metrics.current_term,
            node_id: self.id(),
            members: members.collect(),
            hash: progress.hash,
            hash_index: progress.last_applied.map_or(0, |id| id.index),
        }
    }

    /// [`Node::cluster_status`] with how far the other members say they are; they are asked at the
    /// same time, and one that does not answer at once stays unknown.
    pub async fn cluster_survey(&self) -> ClusterStatus {
        let mut status = self.cluster_status();
        let others = status.members.iter_mut().filter(|member| member.id != self.id() && member.reachable);
        let ask = others.map(|member| async {
            if let Ok(progress) = self.inner().peers.progress(member.id, SURVEY_WITHIN).await {
                (member.last_log, member.applied) = (Some(progress.last_log), Some(progress.applied));
            }
        });
        futures_util::future::join_all(ask).await;
        status
    }

    /// Carries a change of the membership to the leader, one hop. The id of a removed member is
    /// spent for ever after.
    pub async fn change_membership(&self, change: MembershipChange) -> Result<(), ChangeError> {
        self.lead_change(change.clone()).await?;
        if let MembershipChange::Remove { node_id } = change {
            self.propose("cluster", Command::Forget { node_id }).await?;
        }
        Ok(())
    }

    async fn lead_change(&self, change: MembershipChange) -> Result<(), ChangeError> {
        let errand = Errand::Membership(change);
        self.await_leader(LEADER_PATIENCE, |leader| leader.is_some()).await;
        let leader = self.leader().ok_or(NodeError::NoLeader)?;
        if leader == self.id() {
            return match timeout(MEMBERSHIP_WITHIN, leading::carry_out(self, errand)).await {
                Ok(Carried::Done { .. }) => Ok(()),
                Ok(Carried::NotLeader) => Err(NodeError::NoLeader.into()),
                Ok(Carried::Refused(text)) => Err(ChangeError::Refused(text)),
                Ok(Carried::Unknown(_)) | Err(_) => Err(NodeError::OutcomeUnknown.into()),
            };
        }
        match self.inner().peers.forward(leader, errand.to_bytes(), MEMBERSHIP_WITHIN).await {
            Ok(ForwardAnswer::Done { .. }) => Ok(()),
            Ok(ForwardAnswer::NotLeader { .. } | ForwardAnswer::Overloaded) => Err(NodeError::NoLeader.into()),
            Ok(ForwardAnswer::Refused { text }) => Err(ChangeError::Refused(text)),
            Ok(ForwardAnswer::Unknown { .. }) => Err(NodeError::OutcomeUnknown.into()),
            Err(CallError::NotSent(_)) => Err(NodeError::NoLeader.into()),
            Err(CallError::Unknown(_)) => Err(NodeError::OutcomeUnknown.into()),
        }
    }

    /// Starts a snapshot of this node's state.
    pub async fn snapshot(&self) -> Result<(), NodeError> {
        self.inner().raft.trigger().snapshot().await.map_err(|_| NodeError::OutcomeUnknown)
    }

    /// What a load balancer wants to know, check by check.
    pub async fn readiness(&self) -> Vec<Check> {
        let metrics = self.raft_metrics();
        let is_stopping = self.inner().stopping.load(Ordering::Relaxed);
        let is_recovered = self.inner().recovered.load(Ordering::Relaxed);
        let failing = |fails: bool, why: &str| fails.then(|| why.to_owned());
        let disk = match timeout(DISK_WITHIN, self.store().check_writable()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("a durable write took longer than {} s", DISK_WITHIN.as_secs())),
        };
        vec![
            Check { name: "running", failure: metrics.running_state.err().map(|fatal| fatal.to_string()) },
            Check { name: "serving", failure: failing(is_stopping, "the node is shutting down") },
            Check { name: "leader", failure: failing(!self.is_led(), "no leader is in reach") },
            Check { name: "recovered", failure: failing(!is_recovered, "the committed log is still being applied") },
            Check { name: "founded", failure: failing(!self.is_founded(), "the state has not arrived yet") },
            Check { name: "disk", failure: disk },
        ]
    }

    /// Whether there is a leader that can lead: another node that answers, or this one with a majority
    /// that does. Raft alone goes on naming the last leader for as long as nobody else is elected.
    fn is_led(&self) -> bool {
        let metrics = self.raft_metrics();
        match metrics.current_leader {
            None => false,
            Some(leader) if leader != self.id() => self.is_reachable(leader),
            Some(_) => self.reaches_majority(&metrics),
        }
    }

    fn reaches_majority(&self, metrics: &RaftMetrics<TypeConfig>) -> bool {
        let voters: Vec<NodeId> = metrics.membership_config.membership().voter_ids().collect();
        let in_reach = voters.iter().filter(|voter| self.is_reachable(**voter)).count();
        in_reach > voters.len() / 2
    }

    /// The term in which this node leads, while a majority is in reach: a leader that was cut off goes on
    /// believing in its lead for as long as it hears of no other.
    pub(super) fn leading_term(&self) -> Option<u64> {
        let metrics = self.inner().raft.metrics();
        let metrics = metrics.borrow_watched();
        let leads = metrics.state == ServerState::Leader && self.reaches_majority(&metrics);
        leads.then_some(metrics.current_term)
    }

    fn is_founded(&self) -> bool {
        self.state().catalog().nodes.cluster_id().is_some()
    }

    /// Brings the gauges up to date; called when metrics are read.
    pub fn record_metrics(&self) {
        let raft = self.raft_metrics();
        let metrics = self.metrics();
        let number = |index: Option<u64>| i64::try_from(index.unwrap_or_default()).unwrap_or(i64::MAX);
        metrics.has_leader.set(i64::from(self.is_led()));
        metrics.is_leader.set(i64::from(raft.current_leader == Some(self.id())));
        for role in [ServerState::Learner, ServerState::Follower, ServerState::Candidate, ServerState::Leader] {
            let name = format!("{role:?}").to_lowercase();
            metrics.role.with_label_values(&[&name]).set(i64::from(raft.state == role));
        }
        metrics.term.set(number(Some(raft.current_term)));
        metrics.last_log_index.set(number(raft.last_log_index));
        metrics.committed_index.set(number(raft.cluster_committed.map(|id| id.index)));
        metrics.applied_index.set(number(raft.last_applied.map(|id| id.index)));
        metrics.snapshot_index.set(number(raft.snapshot.map(|id| id.index)));
        metrics.purged_index.set(number(raft.purged.map(|id| id.index)));
        metrics.peer_lag.reset();
        for (peer, matched) in raft.replication.unwrap_or_default().into_iter().filter(|(peer, _)| *peer != self.id()) {
            let lag = number(raft.last_log_index) - number(matched.map(|id| id.index));
            metrics.peer_lag.with_label_values(&[&peer.to_string()]).set(lag.max(0));
        }
        let catalog = self.state().catalog();
        metrics.notification_id.set(i64::from(catalog.configs.newest_notification_id()));
        for (kind, count) in catalog.counts() {
            metrics.objects.with_label_values(&[kind]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        drop(catalog);
        self.store().record_sizes();
    }

    pub(super) fn set_recovered(&self) {
        self.inner().recovered.store(true, Ordering::Relaxed);
    }

    /// Returns when consensus has ended by itself: a disk that failed, or damage found in the log.
    pub async fn fatal(&self) -> anyhow::Error {
        let mut metrics = self.inner().raft.metrics();
        loop {
            if let Err(fatal) = &metrics.borrow_watched().running_state {
                return anyhow::anyhow!("consensus stopped: {fatal}");
            }
            if metrics.changed().await.is_err() {
                return anyhow::anyhow!("consensus stopped");
            }
        }
    }

    /// From now on `/readyz` fails, so that balancers stop sending.
    pub fn begin_stop(&self) {
        self.inner().stopping.store(true, Ordering::Relaxed);
    }

    /// Hands the lead to the reachable voter that is furthest, if this node leads and there is one:
    /// the others then need no election.
    pub async fn hand_over(&self) {
        let metrics = self.raft_metrics();
        if metrics.state != ServerState::Leader {
            return;
        }
        let voters: Vec<NodeId> = metrics.membership_config.membership().voter_ids().collect();
        let replication = metrics.replication.unwrap_or_default();
        let successor = replication
            .into_iter()
            .filter(|(id, _)| *id != self.id() && voters.contains(id) && self.is_reachable(*id))
            .max_by_key(|(_, matched)| matched.map(|id| id.index));
        let Some((successor, _)) = successor else { return };
        if let Err(error) = self.inner().raft.trigger().transfer_leader(successor).await {
            tracing::warn!(%error, "the lead could not be handed over");
            return;
        }
        let own = Some(self.id());
        self.await_leader(TRANSFER_WITHIN, |leader| leader.is_some() && leader != own).await;
        tracing::info!(raft.leader = self.leader(), "lead handed over");
    }

    /// Ends consensus on this node and makes its state durable.
    pub async fn stop(&self) {
        if let Err(error) = self.inner().raft.shutdown().await {
            tracing::warn!(%error, "consensus did not end cleanly");
        }
        let store = self.store().clone();
        match tokio::task::spawn_blocking(move || store.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the state could not be made durable"),
            Err(error) => tracing::error!(%error, "closing the store failed"),
        }
    }
}

fn role(is_leader: bool, voter: bool) -> &'static str {
    match (is_leader, voter) {
        (true, _) => "leader",
        (false, true) => "follower",
        (false, false) => "learner",
    }
}
