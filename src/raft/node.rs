//! This process's handle on the cluster: `propose` a command, get ready to `read`.
//!
//! The surfaces know nothing else of Raft. Whoever leads, a command is proposed the same way: the
//! leader appends it, any other node forwards the draft to the leader, one hop; either way the
//! answer comes from this node's own apply, so that a caller who was answered sees its write here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use openraft::Raft;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use tokio::time::{Instant, timeout_at};

use super::errand::Errand;
use super::gather::Gatherer;
use super::leading;
use super::machine::Machine;
use super::peer::{CallError, ForwardAnswer, Peers, ReadIndexAnswer};
use super::proposal;
use super::read_index::ReadIndexes;
use super::state::State;
use super::types::{NodeId, TypeConfig};
use crate::catalog::{Command, Outcome, RequestId};
use crate::metrics::{Metrics, OneMore};
use crate::store::Store;

/// How long a command may take before its outcome is called unknown. Below the request time-out,
/// so that the caller still gets the answer.
const PROPOSE_WITHIN: Duration = Duration::from_secs(8);
/// How long a request waits for a leader where none is known: longer than an election, short
/// enough for a caller on a node that is cut off.
pub(super) const LEADER_PATIENCE: Duration = Duration::from_secs(3);
/// Between two attempts while the leader changes.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(20);

pub type ClusterRaft = Raft<TypeConfig, Machine>;

/// Why a command got no answer from the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// Certainly nothing was changed.
    #[error("no leader is known")]
    NoLeader,
    /// It may have been carried out, or may still be.
    #[error("the outcome is unknown")]
    OutcomeUnknown,
}

/// A handle; cheap to clone.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

pub(super) struct Inner {
    pub(super) id: NodeId,
    pub(super) raft: ClusterRaft,
    pub(super) machine: Machine,
    pub(super) store: Store,
    pub(super) peers: Peers,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stopping: AtomicBool,
    /// What was committed when the node started is applied.
    pub(super) recovered: AtomicBool,
    /// Latest time that this node stamped as a leader, in milliseconds.
    pub(super) last_stamp_ms: AtomicU64,
    pub(super) gatherer: Gatherer,
    read_indexes: ReadIndexes,
}

/// How one attempt to hand a command to the leader ended.
pub(super) enum Attempt {
    /// Committed; the answer comes with the apply.
    Done,
    /// Certainly not appended.
    NotAppended,
    /// Appended perhaps.
    Unknown,
}

impl Node {
    pub(super) fn new(
        id: NodeId,
        raft: ClusterRaft,
        machine: Machine,
        store: Store,
        peers: Peers,
        metrics: Arc<Metrics>,
    ) -> Self {
        let read_indexes = ReadIndexes::default();
        Node(Arc::new(Inner {
            id,
            raft,
            machine,
            store,
            peers,
            metrics,
            stopping: AtomicBool::new(false),
            recovered: AtomicBool::new(false),
            last_stamp_ms: AtomicU64::new(0),
            gatherer: Gatherer::default(),
            read_indexes,
        }))
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

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// A peer that answered lately; this node always.
    pub fn is_reachable(&self, node_id: NodeId) -> bool {
        node_id == self.0.id || self.0.peers.reachable(node_id)
    }

    pub(super) fn raft_metrics(&self) -> RaftMetrics<TypeConfig> {
        self.0.raft.metrics().borrow_watched().clone()
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.0.raft.metrics().borrow_watched().current_leader
    }

    /// Waits until this node sees a leader that `is_wanted`; false if `limit` passes first.
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

    /// Carries a command through the log. Returns one outcome per item once this node has applied
    /// the entry and others can see it here.
    ///
    /// An attempt that may have happened is repeated under the same request id, which the catalog
    /// recognises; a command is applied once however often it is sent.
    pub async fn propose(&self, by: &str, command: Command) -> Result<Vec<Outcome>, NodeError> {
        let metrics = &self.0.metrics;
        let _pending = OneMore::of(&metrics.proposals_pending);
        let started = Instant::now();
        let result = self.propose_draft(by, command).await;
        match result {
            Ok(_) => metrics.proposal_duration.observe(started.elapsed().as_secs_f64()),
            Err(error) => {
                let reason = match error {
                    NodeError::NoLeader => "no_leader",
                    NodeError::OutcomeUnknown => "outcome_unknown",
                };
                metrics.proposals_failed.with_label_values(&[reason]).inc();
            }
        }
        result
    }

    async fn propose_draft(&self, by: &str, command: Command) -> Result<Vec<Outcome>, NodeError> {
        let request = RequestId(rand::random());
        let errand = Errand::Propose(proposal::draft(request, by, &command));
        let (_pending, reply) = self.state().replies.register(request);
        let mut attempts = Attempts::new();
        tokio::select! {
            biased;
            outcomes = reply => outcomes.map_err(|_| NodeError::OutcomeUnknown),
            error = self.send_until_applied(errand, &mut attempts) => Err(error),
        }
    }

    /// Sends until the entry is committed, then waits for the reply, which ends this future from
    /// outside. Returns only when patience is at its end.
    async fn send_until_applied(&self, errand: Errand, attempts: &mut Attempts) -> NodeError {
        while attempts.go_on() {
            match timeout_at(attempts.deadline, self.attempt(&errand)).await {
                Ok(Attempt::Done) => {
                    attempts.may_have_happened = true;
                    tokio::time::sleep_until(attempts.deadline).await;
                }
                Ok(Attempt::NotAppended) => tokio::time::sleep(RETRY_PAUSE).await,
                Ok(Attempt::Unknown) => {
                    attempts.may_have_happened = true;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(_) => attempts.may_have_happened = true,
            }
        }
        if attempts.may_have_happened { NodeError::OutcomeUnknown } else { NodeError::NoLeader }
    }

    pub(super) async fn attempt(&self, errand: &Errand) -> Attempt {
        match self.leader() {
            None => Attempt::NotAppended,
            Some(leader) if leader == self.0.id => leading::carry_out(self, errand.clone()).await.into(),
            Some(leader) => match self.0.peers.forward(leader, errand.to_bytes(), PROPOSE_WITHIN).await {
                Ok(answer) => answer.into(),
                Err(CallError::NotSent(_)) => Attempt::NotAppended,
                Err(CallError::Unknown(_)) => Attempt::Unknown,
            },
        }
    }

    /// Returns when this node has applied everything that was acknowledged anywhere before the
    /// call: a read after it is linearizable.
    ///
    /// The leader confirms with a quorum that it still leads (ReadIndex: no assumption on clocks),
    /// and this node waits until it has applied as far.
    pub async fn await_linearizable(&self) -> Result<(), NodeError> {
        let deadline = Instant::now() + LEADER_PATIENCE;
        while Instant::now() < deadline {
            if let Ok(Some(index)) = timeout_at(deadline, self.read_index()).await {
                let left = deadline.saturating_duration_since(Instant::now());
                let reached = self.state().wait_applied(left, |applied| applied.index >= index).await;
                return if reached { Ok(()) } else { Err(NodeError::NoLeader) };
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Err(NodeError::NoLeader)
    }

    async fn read_index(&self) -> Option<u64> {
        let leader = self.leader()?;
        if leader == self.0.id {
            return leading::read_index(self).await.ok();
        }
        self.0.read_indexes.get(|| async move { self.ask_read_index(leader).await }).await
    }

    async fn ask_read_index(&self, leader: NodeId) -> Option<u64> {
        match self.0.peers.read_index(leader, LEADER_PATIENCE).await {
            Ok(ReadIndexAnswer::Ready { log_index }) => Some(log_index),
            Ok(_) | Err(_) => None,
        }
    }
}

impl From<ForwardAnswer> for Attempt {
    fn from(answer: ForwardAnswer) -> Self {
        match answer {
            ForwardAnswer::Done { .. } => Attempt::Done,
            ForwardAnswer::NotLeader { .. } | ForwardAnswer::Overloaded | ForwardAnswer::Refused { .. } => {
                Attempt::NotAppended
            }
            ForwardAnswer::Unknown { .. } => Attempt::Unknown,
        }
    }
}

/// When to give up.
struct Attempts {
    deadline: Instant,
    patience: Instant,
    may_have_happened: bool,
}

impl Attempts {
    fn new() -> Self {
        let now = Instant::now();
        Attempts { deadline: now + PROPOSE_WITHIN, patience: now + LEADER_PATIENCE, may_have_happened: false }
    }

    /// Once something may have happened, only a result counts, up to the deadline; before that a
    /// caller is better served with a quick "no leader".
    fn go_on(&self) -> bool {
        let limit = if self.may_have_happened { self.deadline } else { self.patience };
        Instant::now() < limit
    }
}
