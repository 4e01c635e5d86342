//! This process's handle on the cluster: proposes commands and prepares linearizable reads.
//!
//! The surfaces know nothing else of Raft. A command is proposed the same way on every node: the leader appends it, any
//! other node forwards the draft to the leader, one hop. Either way the reply comes from this node's own apply, so a
//! caller that got its reply sees its write here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use openraft::Raft;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::alarms::Alarms;
pub(crate) use super::attempts::LEADER_PATIENCE;
use super::attempts::{Attempts, PROPOSE_WITHIN};
use super::audit_log::log_row;
use super::batching::Batcher;
use super::capacity::Capacity;
use super::compaction::Compaction;
use super::consistency_check::Divergence;
use super::disk_check::DiskCheck;
use super::election::Elections;
use super::forwarded::ForwardedRequest;
use super::freshness::Freshness;
use super::leading;
use super::machine::Machine;
use super::poll::Poll;
use super::proposal::Draft;
use super::read_index::ReadIndexes;
use super::removal::Removal;
use super::replication_stall::StallDetector;
use super::state::State;
use super::threads::Threads;
use crate::catalog::{AuthorizedCommand, Command, Outcome, RequestId};
use crate::format::types::{NodeId, TypeConfig};
use crate::metrics::{Metrics, OneMore};
use crate::model::code::{Code, Refusal};
use crate::model::time::Timestamp;
use crate::peer::{CallError, ForwardAnswer, Peers, ReadIndexAnswer};
use crate::store::Store;
use crate::tls::Certificates;
use crate::traces;
use crate::uptime;

/// Mean pause between two attempts while the leader changes. It is randomized by half, so that callers that were
/// rejected together do not retry together.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Waits before the next attempt.
pub(crate) async fn pause_before_retry() {
    tokio::time::sleep(RETRY_PAUSE.mul_f64(0.5 + rand::random::<f64>())).await;
}

pub type ClusterRaft = Raft<TypeConfig, Machine>;

/// Reason why a command got no reply from the catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// Nothing was changed.
    #[error("no leader is known")]
    NoLeader,
    /// The command may have been applied, or still may be.
    #[error("the outcome is unknown")]
    OutcomeUnknown,
    /// Nothing was changed, for a reason that holds on every node.
    #[error("{}", .0.info())]
    Refused(Refusal),
}

impl From<NodeError> for Refusal {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::NoLeader => Code::NoLeader.into(),
            NodeError::OutcomeUnknown => Code::OutcomeUnknown.into(),
            NodeError::Refused(refusal) => refusal,
        }
    }
}

/// Handle on the node; cheap to clone.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

pub(super) struct Inner {
    pub(super) id: NodeId,
    pub(super) raft: ClusterRaft,
    pub(super) machine: Machine,
    pub(super) store: Store,
    pub(super) peers: Peers,
    pub(super) metrics: Arc<Metrics>,
    pub(super) batcher: Batcher,
    pub(super) freshness: Freshness,
    pub(super) elections: Elections,
    pub(super) poll: Poll,
    pub(super) standstills: StallDetector,
    /// Held while this node determines the time.
    pub(super) settling: tokio::sync::Mutex<()>,
    /// Held by the membership change in progress on this node.
    pub(super) membership_turn: tokio::sync::Mutex<()>,
    pub(super) read_indexes: ReadIndexes,
    pub(super) lifecycle: Lifecycle,
    pub(super) upkeep: Upkeep,
    /// Declared last: the tasks that run there end when the last handle on the node is dropped.
    pub(super) threads: Threads,
}

/// Stages of a node between its start and its end.
pub(super) struct Lifecycle {
    pub(super) stopping: AtomicBool,
    /// Set once this node has applied everything that the leader had committed at first contact. Never cleared.
    pub(super) caught_up: AtomicBool,
    /// Wakes the background tasks that wait for `caught_up`.
    pub(super) caught_up_now: Notify,
    /// Description of what a node without a cluster waits for; `None` while it waits for nothing.
    pub(super) awaited: Mutex<Option<String>>,
    /// Maximum staleness of a ready node; 0 for no limit.
    pub(super) ready_behind: Duration,
    pub(super) removal: Removal,
}

/// Care of what this node stores, and of the alarms about it.
pub(super) struct Upkeep {
    pub(super) disk_check: DiskCheck,
    /// Permits for concurrent backups.
    pub(super) backups: Arc<Semaphore>,
    pub(super) capacity: Capacity,
    pub(super) compaction: tokio::sync::Mutex<Compaction>,
    pub(super) divergence: Divergence,
    pub(super) certificates: Arc<Certificates>,
    pub(super) alarms: Alarms,
}

/// Outcome of one attempt to hand a command to the leader.
pub(super) enum Attempt {
    /// Committed; the reply comes from apply.
    Done,
    /// Not appended.
    NotAppended,
    /// Possibly appended.
    Unknown,
    /// Not appended; a retry would not help.
    Refused(Refusal),
}

impl Node {
    pub(super) fn new(inner: Inner) -> Self {
        Node(Arc::new(inner))
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    pub fn id(&self) -> NodeId {
        self.0.id
    }

    pub fn state(&self) -> &Arc<State> {
        self.0.machine.state()
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Returns the links to the other members.
    pub(crate) fn peers(&self) -> &Peers {
        &self.0.peers
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// Returns a description of what this node waits for before it forms a cluster; `None` while it waits for nothing.
    pub(super) fn awaited(&self) -> Option<String> {
        self.0.lifecycle.awaited.lock().clone()
    }

    pub(super) fn set_awaited(&self, what: Option<String>) {
        *self.0.lifecycle.awaited.lock() = what;
    }

    /// Reports whether a peer has answered recently; always true for this node.
    pub fn is_reachable(&self, node_id: NodeId) -> bool {
        node_id == self.0.id || self.0.peers.reachable(node_id)
    }

    pub(super) fn raft_metrics(&self) -> RaftMetrics<TypeConfig> {
        self.0.raft.metrics().borrow_watched().clone()
    }

    /// Returns the current time of the cluster, see [`super::clock`].
    pub fn now(&self) -> Timestamp {
        self.state().now()
    }

    /// Returns the time of the cluster without its doubted part, see [`crate::catalog::time`].
    pub fn sure_now(&self) -> Timestamp {
        self.state().sure_now()
    }

    /// Returns the leader according to Raft. It may have failed, see [`super::lease`].
    pub fn leader(&self) -> Option<NodeId> {
        self.0.raft.metrics().borrow_watched().current_leader
    }

    /// Waits until the leader known here satisfies `is_wanted`; returns false if `limit` passes first.
    pub(super) async fn await_leader(&self, limit: Duration, is_wanted: impl Fn(Option<NodeId>) -> bool) -> bool {
        let mut metrics = self.0.raft.metrics();
        let seen = async {
            while !is_wanted(self.leader()) {
                if metrics.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(limit, seen).await.unwrap_or(false)
    }

    /// Proposes a command. Returns one outcome per item once this node has applied the entry and serves its changes.
    ///
    /// An attempt that may have succeeded is repeated under the same request id, which the catalog recognises: a
    /// command is applied once however often it is sent.
    pub async fn propose(&self, by: &str, command: Command) -> Result<Vec<Outcome>, NodeError> {
        let metrics = &self.0.metrics;
        let _pending = OneMore::of(&metrics.proposals_pending);
        let started = Instant::now();
        let span = traces::proposing();
        let request = RequestId(traces::draft_id(&span));
        let result = self.propose_draft(request, by, command).instrument(span.clone()).await;
        match &result {
            Ok(_) => metrics.proposal_duration.observe(started.elapsed().as_secs_f64()),
            Err(error) => {
                traces::failed(&span);
                let reason = match error {
                    NodeError::NoLeader => "no_leader",
                    NodeError::OutcomeUnknown => "outcome_unknown",
                    NodeError::Refused(_) => "refused",
                };
                metrics.proposals_failed.with_label_values(&[reason]).inc();
            }
        }
        result
    }

    /// Proposes a caller's command, whose rights are checked for each item on apply.
    pub async fn ask(&self, by: &str, asked: AuthorizedCommand) -> Result<Vec<Outcome>, NodeError> {
        self.propose(by, Command::Authorized(Box::new(asked))).await
    }

    /// Proposes like [`Node::propose`], under the given id. Proposals under the same id are applied once.
    pub(crate) async fn propose_draft(
        &self,
        request: RequestId,
        by: &str,
        command: Command,
    ) -> Result<Vec<Outcome>, NodeError> {
        let draft = Draft::new(request, by, &command);
        leading::admit(self, &draft).map_err(NodeError::Refused)?;
        let forwarded = ForwardedRequest::Propose(draft);
        let (_pending, reply) = self.state().replies.register(request);
        let mut attempts = Attempts::new();
        tokio::select! {
            biased;
            reply = reply => reply.map_err(|_| NodeError::OutcomeUnknown).map(|reply| {
                // Here, where a slow reader of the log delays no one else.
                reply.audit.iter().for_each(log_row);
                reply.outcomes
            }),
            error = self.send_until_applied(forwarded, &mut attempts) => Err(error),
        }
    }

    /// Sends until the entry is committed, then waits for the reply, on which the caller drops this future. Returns
    /// only when the limits of the attempts are reached.
    async fn send_until_applied(&self, forwarded: ForwardedRequest, attempts: &mut Attempts) -> NodeError {
        while attempts.go_on() {
            match timeout_at(attempts.deadline, self.attempt(&forwarded)).await {
                Ok(Attempt::Done) => {
                    attempts.may_have_happened = true;
                    tokio::time::sleep_until(attempts.deadline).await;
                }
                Ok(Attempt::NotAppended) => pause_before_retry().await,
                Ok(Attempt::Unknown) => {
                    attempts.may_have_happened = true;
                    pause_before_retry().await;
                }
                // An earlier attempt may have succeeded all the same.
                Ok(Attempt::Refused(_)) if attempts.may_have_happened => pause_before_retry().await,
                Ok(Attempt::Refused(refusal)) => return NodeError::Refused(refusal),
                Err(_) => attempts.may_have_happened = true,
            }
        }
        if attempts.may_have_happened { NodeError::OutcomeUnknown } else { NodeError::NoLeader }
    }

    pub(super) async fn attempt(&self, forwarded: &ForwardedRequest) -> Attempt {
        match self.leader_in_touch() {
            None => Attempt::NotAppended,
            Some(leader) if leader == self.0.id => leading::carry_out(self, forwarded.clone()).await.into(),
            Some(leader) => tokio::select! {
                answer = self.0.peers.forward(leader, forwarded.to_bytes(), PROPOSE_WITHIN) => match answer {
                    Ok(answer) => answer.into(),
                    Err(CallError::NotSent(_)) => Attempt::NotAppended,
                    Err(CallError::Unknown(_)) => Attempt::Unknown,
                },
                // The old leader may have received the request and never answer; the new one can answer at once.
                () = self.leader_other_than(leader) => Attempt::Unknown,
            },
        }
    }

    /// Waits until this node has applied everything that was acknowledged anywhere before the call: a read after it is
    /// linearizable.
    ///
    /// The leader confirms with a quorum that it still leads (ReadIndex: no assumption on clocks), and this node waits
    /// until it has applied that index.
    pub async fn await_linearizable(&self) -> Result<(), NodeError> {
        self.await_linearizable_within(LEADER_PATIENCE).await
    }

    pub(super) async fn await_linearizable_within(&self, limit: Duration) -> Result<(), NodeError> {
        let (span, asked) = (traces::reading(), uptime::now());
        let result = self.await_read_index(limit).instrument(span.clone()).await;
        match &result {
            Ok(()) => self.0.freshness.reach(asked),
            Err(_) => traces::failed(&span),
        }
        result
    }

    async fn await_read_index(&self, limit: Duration) -> Result<(), NodeError> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Ok(Some(index)) = timeout_at(deadline, self.read_index()).await {
                let left = deadline.saturating_duration_since(Instant::now());
                let reached = self.state().wait_applied(left, |applied| applied.index >= index).await;
                return if reached { Ok(()) } else { Err(NodeError::NoLeader) };
            }
            pause_before_retry().await;
        }
        Err(NodeError::NoLeader)
    }

    async fn read_index(&self) -> Option<u64> {
        let leader = self.leader_in_touch()?;
        // Readers on the leader share a request too: each is a message to the threads of consensus.
        let ask = || async move {
            match leader == self.0.id {
                true => leading::read_index(self).await.ok(),
                false => self.ask_read_index(leader).await,
            }
        };
        self.0.read_indexes.get(ask).await
    }

    async fn ask_read_index(&self, leader: NodeId) -> Option<u64> {
        tokio::select! {
            answer = self.0.peers.read_index(leader, LEADER_PATIENCE) => match answer {
                Ok(ReadIndexAnswer::Ready { log_index }) => Some(log_index),
                Ok(_) | Err(_) => None,
            },
            () = self.leader_other_than(leader) => None,
        }
    }
}

/// Converts a refusal from another node. A code that only a later version knows becomes a bad request.
fn refusal(code: u32, text: String) -> Refusal {
    Refusal::new(Code::of_number(code).unwrap_or(Code::BadRequest), text)
}

impl From<ForwardAnswer> for Attempt {
    fn from(answer: ForwardAnswer) -> Self {
        match answer {
            ForwardAnswer::Done { .. } => Attempt::Done,
            ForwardAnswer::NotLeader { .. } | ForwardAnswer::Overloaded | ForwardAnswer::Refused { code: None, .. } => {
                Attempt::NotAppended
            }
            ForwardAnswer::Refused { text, code: Some(code) } => Attempt::Refused(refusal(code, text)),
            ForwardAnswer::Unknown { .. } => Attempt::Unknown,
        }
    }
}
