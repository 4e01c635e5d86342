//! Requests that a node forwards to the leader, at most one hop.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::proposal::Draft;
use crate::format::codec;
use crate::format::types::NodeId;

const PROPOSE: u8 = 0;
const MEMBERSHIP: u8 = 1;

/// Change of the membership or of the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MembershipChange {
    /// Addition of a node as a learner, which receives the log and has no vote.
    Add { node_id: NodeId, peer: String },
    /// Promotion of a learner that has caught up to a voter.
    Promote { node_id: NodeId },
    /// Removal of a member for good; its id is not used again.
    Remove { node_id: NodeId },
    /// Transfer of leadership to another voter.
    Transfer { node_id: NodeId },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ForwardedRequest {
    Propose(Draft),
    Membership(MembershipChange),
}

impl ForwardedRequest {
    pub(super) fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            ForwardedRequest::Propose(draft) => {
                out.reserve(1 + draft.bytes.len());
                out.put_u8(PROPOSE);
                out.put_slice(&draft.bytes);
            }
            ForwardedRequest::Membership(change) => {
                out.put_u8(MEMBERSHIP);
                out.put_slice(&codec::to_bytes(change));
            }
        }
        out.freeze()
    }

    pub(super) fn from_bytes(bytes: Bytes) -> io::Result<ForwardedRequest> {
        match bytes.first() {
            Some(&PROPOSE) => Draft::read(bytes.slice(1..)).map(ForwardedRequest::Propose).map_err(unreadable),
            Some(&MEMBERSHIP) => codec::from_bytes(&bytes[1..]).map(ForwardedRequest::Membership),
            other => Err(unreadable(format!("an errand of unknown kind {other:?}"))),
        }
    }
}

fn unreadable(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
