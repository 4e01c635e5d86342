//! Types for openraft: the payload of an entry, the record of a member, and short names for the generic types that
//! `raft` and `store` use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::errors::MembershipError;
use serde::{Deserialize, Serialize};

use super::level::Level;
use super::runtime::WatchedRuntime;

openraft::declare_raft_types!(
    /// Standard Raft: at most one leader per term (`leader_id_std`), members with their addresses.
    pub TypeConfig:
        D = Proposal,
        R = (),
        Node = Member,
        LeaderId = openraft::impls::leader_id_std::LeaderId<Self::Term, Self::NodeId>,
        AsyncRuntime = WatchedRuntime,
);

pub type NodeId = u64;
pub type Entry = openraft::type_config::alias::EntryOf<TypeConfig>;
pub type CommittedLeaderId = openraft::type_config::alias::CommittedLeaderIdOf<TypeConfig>;
pub type LogId = openraft::type_config::alias::LogIdOf<TypeConfig>;
pub type Vote = openraft::type_config::alias::VoteOf<TypeConfig>;
pub type Membership = openraft::Membership<NodeId, Member>;
pub type StoredMembership = openraft::type_config::alias::StoredMembershipOf<TypeConfig>;
pub type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<TypeConfig>;

/// Payload of one log entry: an encoded command with its stamps, opaque to Raft and to the log.
///
/// The node that proposes it encodes it once; afterwards it is copied as bytes, and only the state machine decodes it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u8>", into = "Vec<u8>")]
pub struct Proposal(pub Bytes);

impl Proposal {
    /// Returns the level at which the sender encoded it: the first byte, see `raft::proposal`.
    pub fn level(&self) -> Level {
        self.0.first().map_or(Level::FIRST, |level| Level(*level))
    }
}

impl From<Vec<u8>> for Proposal {
    fn from(bytes: Vec<u8>) -> Self {
        Proposal(bytes.into())
    }
}

impl From<Proposal> for Vec<u8> {
    fn from(proposal: Proposal) -> Self {
        proposal.0.into()
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proposal({} bytes)", self.0.len())
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Member of the cluster in the Raft membership: its address for peers.
///
/// Addresses for clients are not included: each node announces its own, and they are stored in the catalog, so that a
/// changed load balancer needs no membership change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// `host:port` of the peer listener.
    pub peer: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.peer)
    }
}

/// Returns the membership in which all of `members` vote.
pub fn all_vote(members: BTreeMap<NodeId, Member>) -> Result<Membership, MembershipError<NodeId>> {
    let voters: BTreeSet<NodeId> = members.keys().copied().collect();
    Membership::new(vec![voters], members)
}

/// Returns the membership that an entry carries, if any.
pub fn membership_of(entry: &Entry) -> Option<StoredMembership> {
    match &entry.payload {
        EntryPayload::Membership(membership) => Some(StoredMembership::new(Some(entry.log_id), membership.clone())),
        EntryPayload::Blank | EntryPayload::Normal(_) => None,
    }
}
