//! Work of the leader alone: stamps and appends proposals, and confirms reads, for requests of this node and for those
//! that peers forward. It never forwards them again.

use openraft::ReadPolicy;
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use openraft::impls::ProgressResponder;

use super::capacity::{self, Growth};
use super::forwarded::ForwardedRequest;
use super::node::{Attempt, Node};
use super::proposal::{self, Draft};
use super::{clock, members};
use crate::catalog::{Command, RequestId};
use crate::format::types::{CommittedLeaderId, Proposal, TypeConfig};
use crate::model::code::{Code, Refusal};
use crate::peer::ReadIndexAnswer;

pub(super) type WriteError = RaftError<TypeConfig, ClientWriteError<TypeConfig>>;

/// Outcome of a request that is handled here; `NotLeader` if this node does not lead.
#[derive(Debug)]
pub(super) enum ProposeOutcome {
    Done {
        log_index: u64,
    },
    NotLeader,
    /// Not appended, because too many proposals wait already.
    Busy,
    Unknown(String),
    /// Refused with a reason that the operator can act on.
    Refused(Refusal),
}

pub(super) async fn carry_out(node: &Node, request: ForwardedRequest) -> ProposeOutcome {
    match request {
        ForwardedRequest::Propose(draft) => append(node, &draft).await,
        // Boxed: it is rare, and would make the future of every proposal as large otherwise.
        ForwardedRequest::Membership(change) => Box::pin(members::change(node, change)).await,
    }
}

/// Proposes a finding of this node as the leader of `term`. It is appended in that term or not at all.
pub(super) async fn propose_in_term(node: &Node, term: u64, command: Command) -> ProposeOutcome {
    let draft = Draft::new(RequestId(rand::random()), "cluster", &command);
    capacity::look_before(node, draft.bytes.len()).await;
    if let Err(refusal) = admit(node, &draft) {
        return ProposeOutcome::Refused(refusal);
    }
    let proposal = stamped(node, term, &draft).await;
    let (responder, written) = ProgressResponder::complete_only();
    let write = node.inner().raft.write(proposal).with_leader(CommittedLeaderId::new(term)).responder(responder);
    if let Err(fatal) = write.await {
        return ProposeOutcome::Unknown(fatal.to_string());
    }
    match written.await {
        Ok(Ok(written)) => ProposeOutcome::Done { log_index: written.log_id.index },
        Ok(Err(error)) => write_error(RaftError::APIError(error)),
        Err(_) => ProposeOutcome::Unknown("the node is stopping".to_owned()),
    }
}

/// Checks whether a draft may be proposed now. Called by the node that gets the request, to refuse at once, and by the
/// leader, whose check is the most recent.
pub(super) fn admit(node: &Node, draft: &Draft) -> Result<(), Refusal> {
    let level = node.state().level();
    // The first command of a cluster and the one that raises the level set the level themselves.
    if draft.level > level && !draft.sets_level {
        let text = format!("this needs level {}, the cluster is at {level}", draft.level);
        return Err(Refusal::new(Code::LevelNotReached, text));
    }
    let growth = match draft {
        Draft { sets_level: true, .. } => Growth::Founds,
        Draft { adds: true, .. } => Growth::Adds,
        Draft { .. } => Growth::Keeps,
    };
    if node.store().waits_for_room() && growth != Growth::Founds {
        let text = format!("the disk of node {} is full; nothing is taken any more until it has room", node.id());
        return Err(Refusal::new(Code::NoRoom, text));
    }
    node.inner().upkeep.capacity.admit(growth, node.inner().machine.weight().counted())
}

/// Appends a draft, only while the lease holds: an entry appended by a leader that is cut off stays in its log, and its
/// caller gets no clear outcome.
async fn append(node: &Node, draft: &Draft) -> ProposeOutcome {
    let Some(term) = node.leading_term() else { return ProposeOutcome::NotLeader };
    capacity::look_before(node, draft.bytes.len()).await;
    if let Err(refusal) = admit(node, draft) {
        return ProposeOutcome::Refused(refusal);
    }
    let proposal = stamped(node, term, draft).await;
    node.inner().batcher.append(node, proposal).await
}

/// Stamps a draft. Stamps of one leader never run backwards; across leaders the catalog ensures it. Before the first
/// stamp of a term the leader asks the other members for their time.
async fn stamped(node: &Node, term: u64, draft: &Draft) -> Proposal {
    let clock = &node.state().clock;
    let (time, epoch) = match clock.stamp(term) {
        Some(stamp) => stamp,
        None => {
            clock::settle(node, term).await;
            clock.stamp(term).unwrap_or_else(|| clock.unsettled())
        }
    };
    proposal::stamp(time, epoch, rand::random(), draft)
}

/// Returns the refusal of an operator's request that cannot be carried out at all, or not now.
pub(super) fn refused(text: impl Into<String>) -> ProposeOutcome {
    ProposeOutcome::Refused(Refusal::new(Code::BadRequest, text))
}

pub(super) fn write_error(error: WriteError) -> ProposeOutcome {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => ProposeOutcome::NotLeader,
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(forward)) => {
            ProposeOutcome::Unknown(forward.to_string())
        }
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => refused(error.to_string()),
        RaftError::APIError(ClientWriteError::PreconditionFailed(error)) => refused(error.to_string()),
        RaftError::Fatal(fatal) => ProposeOutcome::Unknown(fatal.to_string()),
    }
}

pub(super) async fn read_index(node: &Node) -> Result<u64, ReadIndexAnswer> {
    match node.inner().raft.get_read_linearizer(ReadPolicy::ReadIndex).await {
        Ok(linearizer) => Ok(linearizer.read_log_id().index()),
        Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
            Err(ReadIndexAnswer::NotLeader { leader: forward.leader_id })
        }
        Err(error) => Err(ReadIndexAnswer::Unconfirmed { text: error.to_string() }),
    }
}

impl From<ProposeOutcome> for Attempt {
    fn from(outcome: ProposeOutcome) -> Self {
        match outcome {
            ProposeOutcome::Done { .. } => Attempt::Done,
            ProposeOutcome::NotLeader | ProposeOutcome::Busy => Attempt::NotAppended,
            ProposeOutcome::Unknown(_) => Attempt::Unknown,
            ProposeOutcome::Refused(refusal) => Attempt::Refused(refusal),
        }
    }
}
