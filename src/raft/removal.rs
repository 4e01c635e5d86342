//! Removal of this node from the cluster: detecting it, reporting it to clients and the operator, and ending.
//!
//! The leader stops sending to a member that it removes, often before that member has the entry of the change. So a
//! node learns of its removal in one of two ways: from the membership that it has applied, or from a peer, which
//! refuses a removed node with that reason and closes the connections that it has open to it. A peer refuses only after
//! it has applied the entry, so one peer suffices. A node that is cut off from all peers cannot learn of its removal
//! and runs on.

mod on_node;

use std::sync::OnceLock;

use tokio::sync::Notify;

pub(super) use self::on_node::{listen, watch};

/// Reason why this node has left its cluster for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Removed(pub String);

/// Record of this node's own removal.
#[derive(Default)]
pub(super) struct Removal {
    why: OnceLock<Removed>,
    heard: Notify,
}
