//! What only the leader does: stamp and append, confirm reads, change the membership. Called for
//! this node's own requests and for those that peers forward; either way it never forwards again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use openraft::{ChangeMembers, ReadPolicy, ServerState};

use super::beats;
use super::errand::{Errand, MembershipChange};
use super::node::{Attempt, Node};
use super::peer::{BeatsAnswer, ForwardAnswer, PeerProgress, PeerService, ReadIndexAnswer};
use super::proposal;
use super::types::{Member, TypeConfig};
use crate::catalog::{Command, RequestId};
use crate::model::time::Timestamp;

type WriteError = RaftError<TypeConfig, ClientWriteError<TypeConfig>>;

/// How long a successor may take to win its election.
pub(super) const TRANSFER_WITHIN: Duration = Duration::from_secs(3);

/// How an errand ended, if this node leads.
#[derive(Debug)]
pub(super) enum Carried {
    Done {
        log_index: u64,
    },
    NotLeader,
    Unknown(String),
    /// Refused with a reason that a person can act on.
    Refused(String),
}

/// The clock, read here and nowhere else in the write path.
#[expect(clippy::disallowed_methods, reason = "the leader's stamp is the one place where time enters the log")]
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

pub(super) async fn carry_out(node: &Node, errand: Errand) -> Carried {
    match errand {
        Errand::Propose(draft) => append(node, &draft).await,
        // Boxed: it is rare, and its size would be that of every proposal otherwise.
        Errand::Membership(change) => Box::pin(change_membership(node, change)).await,
    }
}

/// Proposes what this node decided as the leader: one attempt, here or nowhere.
pub(super) async fn propose_here(node: &Node, command: Command) -> Carried {
    append(node, &proposal::draft(RequestId(rand::random()), "cluster", &command)).await
}

/// Stamps never run backwards on one leader; over leaders the catalog sees to it.
async fn append(node: &Node, draft: &[u8]) -> Carried {
    let now = now().0;
    let time = Timestamp(node.inner().last_stamp_ms.fetch_max(now, Ordering::Relaxed).max(now));
    let proposal = proposal::stamp(time, rand::random(), draft);
    node.inner().gatherer.append(&node.inner().raft, proposal).await
}

pub(super) fn write_error(error: WriteError) -> Carried {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => Carried::NotLeader,
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(forward)) => Carried::Unknown(forward.to_string()),
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => Carried::Refused(error.to_string()),
        RaftError::APIError(ClientWriteError::PreconditionFailed(error)) => Carried::Refused(error.to_string()),
        RaftError::Fatal(fatal) => Carried::Unknown(fatal.to_string()),
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

async fn change_membership(node: &Node, change: MembershipChange) -> Carried {
    let raft = &node.inner().raft;
    if node.raft_metrics().state != ServerState::Leader {
        return Carried::NotLeader;
    }
    let written = match change {
        MembershipChange::Add { node_id, peer } => {
            if node.state().catalog().nodes.get(node_id).is_some_and(|known| known.removed) {
                return Carried::Refused(format!("node id {node_id} was removed before and is spent, take another"));
            }
            // Catching up goes on in the background: a large state takes longer than a request may.
            raft.add_learner(node_id, Member { peer }, false).await
        }
        MembershipChange::Promote { node_id } => {
            if let Err(why) = has_caught_up(node, node_id) {
                return Carried::Refused(why);
            }
            raft.change_membership(ChangeMembers::AddVoterIds(BTreeSet::from([node_id])), false).await
        }
        MembershipChange::Remove { node_id } => return remove(node, node_id).await,
        MembershipChange::Transfer { node_id } => return transfer(node, node_id).await,
    };
    match written {
        Ok(written) => Carried::Done { log_index: written.log_id.index },
        Err(error) => write_error(error),
    }
}

/// Entries that a learner may still be behind when it gets its vote.
const PROMOTE_LAG_MAX: u64 = 1000;

/// A voter far behind would make every commit wait for the other ones.
fn has_caught_up(node: &Node, node_id: u64) -> Result<(), String> {
    let metrics = node.raft_metrics();
    if metrics.membership_config.membership().get_node(&node_id).is_none() {
        return Err(format!("node {node_id} is not a member, add it first"));
    }
    let matched = metrics.replication.unwrap_or_default().get(&node_id).copied().flatten().map_or(0, |id| id.index);
    let last = metrics.last_log_index.unwrap_or_default();
    if node_id != node.id() && matched + PROMOTE_LAG_MAX < last {
        return Err(format!("node {node_id} has {matched} of {last} log entries, let it catch up first"));
    }
    Ok(())
}

/// The voters go on without the node, which is then no member at all.
async fn remove(node: &Node, node_id: u64) -> Carried {
    let metrics = node.raft_metrics();
    let membership = metrics.membership_config.membership();
    if membership.get_node(&node_id).is_none() {
        return Carried::Refused(format!("node {node_id} is not a member"));
    }
    if node_id == node.id() {
        return Carried::Refused(format!("node {node_id} leads, transfer the lead first"));
    }
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    if voters.contains(&node_id) && voters.len() <= 2 {
        return Carried::Refused(format!("{} voters are left; add one before removing one", voters.len()));
    }
    let raft = &node.inner().raft;
    let is_voter = voters.contains(&node_id);
    let change = if is_voter {
        raft.change_membership(ChangeMembers::RemoveVoters(BTreeSet::from([node_id])), false).await
    } else {
        raft.change_membership(ChangeMembers::RemoveNodes(BTreeSet::from([node_id])), false).await
    };
    match change {
        Ok(written) => Carried::Done { log_index: written.log_id.index },
        Err(error) => write_error(error),
    }
}

async fn transfer(node: &Node, to: u64) -> Carried {
    let metrics = node.raft_metrics();
    if !metrics.membership_config.membership().voter_ids().any(|voter| voter == to) {
        return Carried::Refused(format!("node {to} is not a voter"));
    }
    if to == node.id() {
        return Carried::Done { log_index: metrics.last_log_index.unwrap_or_default() };
    }
    if let Err(error) = node.inner().raft.trigger().transfer_leader(to).await {
        return Carried::Unknown(error.to_string());
    }
    match node.await_leader(TRANSFER_WITHIN, |leader| leader == Some(to)).await {
        true => Carried::Done { log_index: metrics.last_log_index.unwrap_or_default() },
        false => Carried::Refused(format!("node {to} did not take the lead within {TRANSFER_WITHIN:?}")),
    }
}

impl From<Carried> for Attempt {
    fn from(carried: Carried) -> Self {
        match carried {
            Carried::Done { .. } => Attempt::Done,
            Carried::NotLeader | Carried::Refused(_) => Attempt::NotAppended,
            Carried::Unknown(_) => Attempt::Unknown,
        }
    }
}

/// What this node does for its peers.
#[derive(Clone)]
pub(super) struct Service(pub(super) Node);

impl PeerService for Service {
    async fn forward(&self, command: Bytes) -> ForwardAnswer {
        let errand = match Errand::from_bytes(command) {
            Ok(errand) => errand,
            Err(error) => return ForwardAnswer::Refused { text: error.to_string() },
        };
        match carry_out(&self.0, errand).await {
            Carried::Done { log_index } => ForwardAnswer::Done { log_index },
            Carried::NotLeader => ForwardAnswer::NotLeader { leader: self.0.leader() },
            Carried::Unknown(text) => ForwardAnswer::Unknown { text },
            Carried::Refused(text) => ForwardAnswer::Refused { text },
        }
    }

    async fn read_index(&self) -> ReadIndexAnswer {
        read_index(&self.0).await.map_or_else(|answer| answer, |log_index| ReadIndexAnswer::Ready { log_index })
    }

    fn progress(&self) -> PeerProgress {
        let last_log = self.0.raft_metrics().last_log_index.unwrap_or_default();
        PeerProgress { last_log, applied: self.0.state().applied().index }
    }

    fn beats(&self, ids: &[String]) -> BeatsAnswer {
        beats::take(&self.0, ids)
    }
}

/// All members with their peer addresses.
pub(super) fn member_addresses(node: &Node) -> BTreeMap<u64, String> {
    let metrics = node.raft_metrics();
    metrics.membership_config.membership().nodes().map(|(id, member)| (*id, member.peer.clone())).collect()
}
