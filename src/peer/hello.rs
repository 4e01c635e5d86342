//! Hello messages: nodes introduce themselves in the handshake, and each decides whether to continue.
//!
//! The wire proves that the other end holds the secret. [`Introductions`] decides whether it is the right node of the
//! right cluster.

use serde::{Deserialize, Serialize};

use crate::format::level::{Level, LevelRange};
use crate::format::types::NodeId;

/// Description of a node's binary, as the node reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Version of the program.
    pub version: String,
    /// Levels that it reads and writes.
    pub levels: LevelRange,
    /// Level of its cluster as far as it knows, see [`crate::format::level`].
    pub level: Level,
    /// Digest of the formats of that level, see [`Level::digest`].
    pub format: String,
}

impl Build {
    /// Describes this binary on a node with these levels in a cluster of `level`.
    pub fn own(levels: LevelRange, level: Level) -> Build {
        Build { version: env!("CARGO_PKG_VERSION").to_owned(), levels, level, format: level.digest().to_owned() }
    }
}

/// The initial list of a node without a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDigest {
    /// Digest, equal for equal lists.
    pub digest: String,
    /// The list as `id=host:port,…`, sorted by id; cut if it is long.
    pub text: String,
}

impl std::fmt::Display for ListDigest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

/// Message of the dialling node about itself and the expected node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Cluster of the node; absent while it belongs to none.
    pub cluster_id: Option<String>,
    pub node_id: NodeId,
    /// Node that the caller intends to reach.
    pub target: NodeId,
    /// Random id of the caller's data directory: a wiped node keeps its node id but not this.
    pub instance: String,
    pub build: Build,
    /// Initial list of a node that belongs to no cluster yet, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListDigest>,
}

/// Reply of the accepting node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub cluster_id: Option<String>,
    pub node_id: NodeId,
    pub instance: String,
    /// True if the node has a log, so that it belongs to a formed cluster.
    pub initialized: bool,
    /// True if the caller is a member of the cluster as far as the node knows.
    pub knows_you: bool,
    pub build: Build,
    /// Initial list, as in [`Hello`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListDigest>,
}

/// Reason why an authenticated node is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// The two belong to different clusters.
    OtherCluster,
    /// The caller reached another node than it intended.
    OtherNode,
    /// The node id is known with another data directory: the node was wiped.
    OtherInstance,
    /// The caller was removed from the cluster.
    Removed,
    /// One of the two cannot read the level of the other's cluster.
    Level,
    /// Neither belongs to a cluster, and they were started with different lists.
    OtherList,
    /// A reason that this version does not know.
    #[serde(other)]
    Unknown,
}

impl RefusalReason {
    /// Returns the label of the refusal in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            RefusalReason::OtherCluster => "cluster",
            RefusalReason::OtherNode => "target",
            RefusalReason::OtherInstance => "instance",
            RefusalReason::Removed => "removed",
            RefusalReason::Level => "level",
            // Found by the dialling side only.
            RefusalReason::OtherList | RefusalReason::Unknown => "other",
        }
    }
}

/// A refusal: the reason for programs, the text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub reason: RefusalReason,
    pub text: String,
}

/// Decisions of a node in handshakes.
///
/// Called on the async threads for each connection, so it must not block.
pub trait Introductions: Send + Sync + 'static {
    /// Returns the current introduction of this node to `target`.
    fn hello(&self, target: NodeId) -> Hello;

    /// Decides on a node that dialled this one. Called only after it proved that it holds the secret.
    fn judge(&self, hello: &Hello) -> Result<Welcome, Refusal>;

    /// Decides on a node that this one dialled, so that the dialling side too can refuse a peer that came back with
    /// another data directory.
    fn accept(&self, welcome: &Welcome) -> Result<(), Refusal>;

    /// Reports whether a node was removed from the cluster; its open connections then end.
    fn is_removed(&self, _node_id: NodeId) -> bool {
        false
    }

    /// Handles the refusal of this node by a node that holds the secret.
    fn hear_refusal(&self, _refusal: &Refusal) {}

    /// Logs the refusal of a node.
    fn log_refused(&self, node_id: NodeId, refusal: &Refusal) {
        tracing::warn!(peer = node_id, %refusal, "a node was refused");
    }
}
