//! Status that a node reports about itself and the cluster, and its shutdown.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use tokio::time::{Instant, timeout, timeout_at};

use super::alarms::Alarm;
use super::compaction;
use super::forwarded::{ForwardedRequest, MembershipChange};
use super::leading;
use super::members::TRANSFER_WITHIN;
use super::node::{Attempt, LEADER_PATIENCE, Node, NodeError, pause_before_retry};
use crate::catalog::Command;
use crate::format::level::{Level, LevelRange};
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::peer::{Build, CallError, ForwardAnswer};
use crate::tasks;

/// Time limit of a change of the membership.
const MEMBERSHIP_WITHIN: Duration = Duration::from_secs(8);
/// Time limit of a wait for a requested snapshot.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(5);
const SURVEY_WITHIN: Duration = Duration::from_millis(500);

/// The cluster as this node sees it.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    pub cluster_id: Option<String>,
    /// Leader, if it is in reach; a node names itself while it reaches a majority.
    pub leader: Option<NodeId>,
    pub term: u64,
    pub node_id: NodeId,
    pub members: Vec<MemberStatus>,
    pub hash: [u8; 32],
    pub hash_index: u64,
    /// Format level of the cluster, see [`crate::format::level`].
    pub level: Level,
    pub alarms: Vec<Alarm>,
}

#[derive(Clone, Debug)]
pub struct MemberStatus {
    pub id: NodeId,
    pub role: &'static str,
    pub voter: bool,
    pub api: String,
    pub compat: String,
    /// gRPC address; empty if gRPC is off or the address is unknown.
    pub grpc: String,
    pub peer: String,
    /// Index of its last log entry, and `applied` that of the last one applied; `None` if it does not answer.
    pub last_log: Option<u64>,
    pub applied: Option<u64>,
    pub reachable: bool,
    /// Age of its state: entries committed within this time may not be applied there. `None` if it does not answer.
    pub fresh_ms: Option<u64>,
    /// Round trip from this node to it, as measured by pings.
    pub round_trip: Option<Duration>,
    /// Version of its binary, from the open connection if there is one, otherwise as it announced it last.
    pub version: Option<String>,
    pub levels: Option<LevelRange>,
    /// Reason why it is out of contact with this node, in either direction.
    pub problem: Option<String>,
}

/// Reason why an operator's request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error("{}", .0.info())]
    Refused(Refusal),
}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Node(error) => error.into(),
            ChangeError::Refused(refusal) => refusal,
        }
    }
}

/// One line of `/readyz?verbose`.
#[derive(Clone, Debug)]
pub struct Check {
    pub name: &'static str,
    /// Reason for the failure; `None` if the check passes.
    pub failure: Option<String>,
    /// Remark that does not fail the check.
    pub note: Option<String>,
}

impl Check {
    fn new(name: &'static str, failure: Option<String>) -> Self {
        Check { name, failure, note: None }
    }
}

impl Node {
    pub fn cluster_status(&self) -> ClusterStatus {
        let (metrics, alarms) = (self.raft_metrics(), self.alarms());
        let progress = self.inner().machine.progress();
        let membership = metrics.membership_config.membership();
        let said: BTreeMap<NodeId, Build> =
            membership.nodes().filter_map(|(id, _)| Some((*id, self.build_of(*id)?))).collect();
        let catalog = self.state().catalog();
        let replication = metrics.replication.clone().unwrap_or_default();
        let voters: Vec<NodeId> = membership.voter_ids().collect();
        // Raft names the last leader until another one is elected.
        let leader = metrics.current_leader.filter(|_| self.is_led());
        let members = membership.nodes().map(|(id, member)| {
            let record = catalog.nodes.get(*id);
            let is_self = *id == self.id();
            let voter = voters.contains(id);
            let said = said.get(id).map(|build| (build.version.clone(), build.levels));
            let announced = || record.map(|record| (record.version.clone(), record.levels));
            let build = said.or_else(announced).filter(|(version, _)| !version.is_empty());
            MemberStatus {
                id: *id,
                role: role(leader == Some(*id), voter),
                voter,
                api: record.map(|record| record.api.clone()).unwrap_or_default(),
                compat: record.map(|record| record.compat.clone()).unwrap_or_default(),
                grpc: record.map(|record| record.grpc.clone()).unwrap_or_default(),
                peer: member.peer.clone(),
                last_log: if is_self {
                    metrics.last_log_index
                } else {
                    replication.get(id).map(|matched| matched.map_or(0, |id| id.index))
                },
                applied: is_self.then(|| progress.last_applied.map_or(0, |id| id.index)),
                reachable: self.is_reachable(*id),
                fresh_ms: is_self.then(|| self.age()).flatten().map(whole_ms),
                round_trip: if is_self { Some(Duration::ZERO) } else { self.inner().peers.round_trip(*id) },
                version: build.as_ref().map(|(version, _)| version.clone()),
                levels: build.map(|(_, levels)| levels),
                problem: self.problem_between(*id),
            }
        });
        ClusterStatus {
            cluster_id: catalog.nodes.cluster_id().map(str::to_owned),
            leader,
            term: metrics.current_term,
            node_id: self.id(),
            members: members.collect(),
            hash: progress.hash,
            hash_index: progress.last_applied.map_or(0, |id| id.index),
            level: catalog.level(),
            alarms,
        }
    }

    /// Returns [`Node::cluster_status`] with the progress of the other members. They are asked in parallel; the
    /// progress of a member that does not answer in time stays unknown, and it counts as unreachable if its connection
    /// is gone as well.
    pub async fn cluster_survey(&self) -> ClusterStatus {
        let mut status = self.cluster_status();
        let others = status.members.iter_mut().filter(|member| member.id != self.id() && member.reachable);
        let ask = others.map(|member| async {
            match self.ask_progress(member.id, SURVEY_WITHIN).await {
                Some(progress) => {
                    (member.last_log, member.applied) = (Some(progress.last_log), Some(progress.applied));
                    member.fresh_ms = progress.fresh_ms;
                }
                None => member.reachable = self.inner().peers.build(member.id).is_some(),
            }
        });
        futures_util::future::join_all(ask).await;
        status
    }

    /// Has the leader change the membership, one hop. The id of a removed member cannot be used again.
    ///
    /// Runs on its own task: a change that has begun is finished, even if the caller disconnects.
    pub async fn change_membership(&self, change: MembershipChange) -> Result<(), ChangeError> {
        let node = self.clone();
        let outcome = tasks::errand(async move { node.carry_change(change).await }).await;
        outcome.unwrap_or_else(|_| Err(NodeError::OutcomeUnknown.into()))
    }

    async fn carry_change(&self, change: MembershipChange) -> Result<(), ChangeError> {
        self.lead_change(change.clone()).await?;
        if let MembershipChange::Remove { node_id } = change
            && !self.state().catalog().nodes.get(node_id).is_some_and(|known| known.removed)
        {
            self.propose("cluster", Command::Forget { node_id }).await?;
        }
        Ok(())
    }

    /// Waits for a leader as a write does. A request that a leader may have received is not sent again: a repeated one
    /// would not be recognised, and other changes may have been made in between.
    async fn lead_change(&self, change: MembershipChange) -> Result<(), ChangeError> {
        let (forwarded, now) = (ForwardedRequest::Membership(change), Instant::now());
        let (patience, deadline) = (now + LEADER_PATIENCE, now + MEMBERSHIP_WITHIN);
        while Instant::now() < patience {
            match timeout_at(deadline, self.attempt_change(&forwarded)).await {
                Ok(Attempt::Done) => return Ok(()),
                Ok(Attempt::NotAppended) => pause_before_retry().await,
                Ok(Attempt::Refused(refusal)) => return Err(ChangeError::Refused(refusal)),
                Ok(Attempt::Unknown) | Err(_) => return Err(NodeError::OutcomeUnknown.into()),
            }
        }
        Err(NodeError::NoLeader.into())
    }

    /// Sends the change once. Does not give up when the leader changes: the change itself may be the cause, and only
    /// the node that received it knows the outcome.
    async fn attempt_change(&self, forwarded: &ForwardedRequest) -> Attempt {
        match self.leader_in_touch() {
            None => Attempt::NotAppended,
            Some(leader) if leader == self.id() => leading::carry_out(self, forwarded.clone()).await.into(),
            Some(leader) => match self.inner().peers.forward(leader, forwarded.to_bytes(), MEMBERSHIP_WITHIN).await {
                Ok(ForwardAnswer::Refused { text, code: None }) => {
                    Attempt::Refused(Refusal::new(Code::BadRequest, text))
                }
                Ok(answer) => answer.into(),
                Err(CallError::NotSent(_)) => Attempt::NotAppended,
                Err(CallError::Unknown(_)) => Attempt::Unknown,
            },
        }
    }

    /// Writes a snapshot of this node's state and purges the log up to it. If that takes longer than a request may, it
    /// continues in the background, and the result is false.
    pub async fn snapshot(&self) -> Result<bool, NodeError> {
        let work = tasks::errand(compaction::write_now(self.clone()));
        match timeout(SNAPSHOT_WITHIN, work).await {
            Ok(Ok(written)) => written.map(|()| true).map_err(NodeError::Refused),
            Ok(Err(_)) => Err(NodeError::OutcomeUnknown),
            Err(_) => Ok(false),
        }
    }

    /// Reports whether this node may get traffic.
    pub async fn is_ready(&self) -> bool {
        self.readiness().await.iter().all(|check| check.failure.is_none())
    }

    /// Returns the readiness checks for load balancers.
    pub async fn readiness(&self) -> Vec<Check> {
        let metrics = self.raft_metrics();
        let is_stopping = self.is_stopping();
        let failing = |fails: bool, why: &str| fails.then(|| why.to_owned());
        let disk = self.disk_failure().await;
        let stuck = self.stuck_peers().into_iter().map(|alarm| alarm.text);
        let note: Vec<String> = stuck.chain(self.peer_problems()).collect();
        let note = (!note.is_empty()).then(|| note.join("; "));
        vec![
            Check::new("running", metrics.running_state.err().map(|fatal| fatal.to_string())),
            Check::new("serving", failing(is_stopping, "the node is shutting down")),
            Check::new("leader", self.why_no_leader()),
            Check::new("caught_up", self.not_caught_up()),
            Check::new("founded", self.unfounded()),
            Check::new("member", self.removed().map(ToString::to_string)),
            Check::new("state", self.diverged().map(str::to_owned)),
            Check::new("disk", disk),
            Check { note, ..Check::new("peers", None) },
        ]
    }

    /// Returns the reason why this node is not part of a cluster yet; `None` if it is. It is part of one once its
    /// announcement is applied: from then on a wiped directory under its id is distinguished from it.
    fn unfounded(&self) -> Option<String> {
        if let Some(missing) = self.awaited() {
            return Some(format!("the cluster is not formed yet, {missing}"));
        }
        let catalog = self.state().catalog();
        match (catalog.nodes.cluster_id(), catalog.nodes.get(self.id())) {
            (None, _) => Some("the state has not arrived yet".to_owned()),
            (_, None) => Some("the cluster has not heard of this node yet".to_owned()),
            (Some(_), Some(_)) => None,
        }
    }

    /// Updates the gauges of consensus and of the store; called when metrics are read.
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
        metrics.freshness.set(self.age().map_or(f64::INFINITY, |age| age.as_secs_f64()));
        metrics.election_timeout.set(self.inner().elections.timeout().as_secs_f64());
        metrics.peer_lag.reset();
        for (peer, matched) in raft.replication.unwrap_or_default().into_iter().filter(|(peer, _)| *peer != self.id()) {
            let lag = number(raft.last_log_index) - number(matched.map(|id| id.index));
            metrics.peer_lag.with_label_values(&[&peer.to_string()]).set(lag.max(0));
        }
        let weight = self.inner().machine.weight();
        metrics.state_bytes.set(number(Some(weight.counted())));
        metrics.audit_bytes.set(number(Some(weight.trail_bytes())));
        self.inner().peers.record_reachability();
        self.inner().upkeep.certificates.record(metrics);
        self.store().record_sizes();
    }

    /// Reports whether this node has applied everything that the leader had committed at first contact.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.inner().lifecycle.caught_up.load(Ordering::Relaxed)
    }

    pub(super) fn set_caught_up(&self) {
        self.inner().lifecycle.caught_up.store(true, Ordering::Relaxed);
        self.inner().lifecycle.caught_up_now.notify_one();
    }

    /// Waits until this node has caught up.
    pub(crate) async fn caught_up(&self) {
        self.inner().lifecycle.caught_up_now.notified().await;
    }

    /// Returns the reason why this node is too stale to serve, if it is. A missing leader is reported by another check.
    fn not_caught_up(&self) -> Option<String> {
        if !self.has_caught_up() {
            return Some("what was committed before this node started is still on its way to it".to_owned());
        }
        let limit = self.inner().lifecycle.ready_behind;
        let age = self.age().filter(|age| !limit.is_zero() && *age > limit && self.is_led())?;
        Some(format!(
            "this node is {} s behind its leader, the limit is {} s (--ready-behind-ms)",
            age.as_secs(),
            limit.as_secs()
        ))
    }

    /// Waits until consensus has ended by itself, after a disk failure or damage found in the log; returns the error.
    pub async fn fatal(&self) -> anyhow::Error {
        // All metrics end with consensus. The server metrics change only with the leader and the members; the others
        // change several times per write, and would wake this task each time.
        let mut server = self.inner().raft.server_metrics();
        while server.changed().await.is_ok() {}
        match &self.inner().raft.metrics().borrow_watched().running_state {
            Err(fatal) => anyhow::anyhow!("consensus stopped: {fatal}"),
            Ok(()) => anyhow::anyhow!("consensus stopped"),
        }
    }

    /// Reports whether this node is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.inner().lifecycle.stopping.load(Ordering::Relaxed)
    }

    /// Makes `/readyz` fail from now on, so that load balancers stop sending requests.
    pub fn begin_stop(&self) {
        self.inner().lifecycle.stopping.store(true, Ordering::Relaxed);
        self.store().stop_waiting();
    }

    /// Transfers leadership, if this node leads, to the reachable voter that has most of the log and whose state was
    /// not found wrong, so that no election is needed.
    pub async fn hand_over(&self) {
        let metrics = self.raft_metrics();
        if metrics.state != ServerState::Leader {
            return;
        }
        let voters: Vec<NodeId> = metrics.membership_config.membership().voter_ids().collect();
        let replication = metrics.replication.unwrap_or_default();
        let successor = replication
            .into_iter()
            .filter(|(id, _)| *id != self.id() && voters.contains(id) && self.is_reachable(*id) && !self.is_odd(*id))
            .max_by_key(|(_, matched)| matched.map(|id| id.index));
        let Some((successor, _)) = successor else { return };
        if let Err(error) = self.inner().raft.trigger().transfer_leader(successor).await {
            tracing::warn!(%error, "leadership could not be transferred");
            return;
        }
        let own = Some(self.id());
        self.await_leader(TRANSFER_WITHIN, |leader| leader.is_some() && leader != own).await;
        tracing::info!(raft.leader = self.leader(), "leadership transferred");
    }

    /// Stops consensus on this node and makes its state durable.
    pub async fn stop(&self) {
        if let Err(error) = self.inner().raft.shutdown().await {
            tracing::warn!(%error, "consensus did not end cleanly");
        }
        let store = self.store().clone();
        if let Err(error) = tasks::blocking(move || store.close()).await {
            tracing::error!(%error, "the state could not be made durable");
        }
    }

    /// Ends the threads of consensus, after everything that ends by itself: nothing accesses the database when the
    /// process exits.
    pub async fn end_threads(&self, limit: Duration) {
        let node = self.clone();
        tasks::blocking(move || node.inner().threads.end(limit)).await;
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn role(is_leader: bool, voter: bool) -> &'static str {
    match (is_leader, voter) {
        (true, _) => "leader",
        (false, true) => "follower",
        (false, false) => "learner",
    }
}
