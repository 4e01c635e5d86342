//! Hello messages: nodes introduce themselves after the handshake, and each decides whether to go on.
//!
//! The wire proves that the other end holds the secret; whether it is the right node of the right
//! cluster is decided by the node, through [`Introductions`].

use serde::{Deserialize, Serialize};

use crate::format::level::{Level, LevelRange};
use crate::format::types::NodeId;

/// Description of a node's binary, by its own word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Version of the program.
    pub version: String,
    /// Levels that it reads and writes.
    pub levels: LevelRange,
    /// Level that its cluster speaks as far as it knows, see [`crate::format::level`].
    pub level: Level,
    /// Digest of the formats of that level, see [`Level::digest`].
    pub format: String,
}

impl Build {
    /// Describes this binary on a node of these levels, whose cluster speaks `level`.
    pub fn own(levels: LevelRange, level: Level) -> Build {
        Build { version: env!("CARGO_PKG_VERSION").to_owned(), levels, level, format: level.digest().to_owned() }
    }
}

/// The list by which a node without a cluster would form one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDigest {
    /// Equal for equal lists.
    pub digest: String,
    /// `id=host:port,…`, sorted by id; a long one is cut.
    pub text: String,
}

impl std::fmt::Display for ListDigest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

/// Message of the dialling node about itself and the node that it expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Absent while the node belongs to no cluster yet.
    pub cluster_id: Option<String>,
    pub node_id: NodeId,
    /// The node that the caller means to have dialled.
    pub target: NodeId,
    /// Random id of the caller's data directory: a wiped node keeps its node id but not this.
    pub instance: String,
    pub build: Build,
    /// Said by a node that belongs to no cluster yet and has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListDigest>,
}

/// Reply of the accepting node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub cluster_id: Option<String>,
    pub node_id: NodeId,
    pub instance: String,
    /// This node has a log: it belongs to a formed cluster.
    pub initialized: bool,
    /// The caller is a member of the cluster as this node knows it.
    pub knows_you: bool,
    pub build: Build,
    /// As in [`Hello`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListDigest>,
}

/// Reason why an authenticated node is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// The two belong to different clusters.
    OtherCluster,
    /// The caller dialled another node than it meant to.
    OtherNode,
    /// The node id is known under another data directory: the node was wiped.
    OtherInstance,
    /// The caller was removed from the cluster.
    Removed,
    /// One of the two cannot read what the cluster of the other speaks.
    Level,
    /// Neither of the two has a cluster, and they were started with different lists.
    OtherList,
    /// A reason that this version does not know.
    #[serde(other)]
    Unknown,
}

impl RefusalReason {
    /// The label of the refusal in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            RefusalReason::OtherCluster => "cluster",
            RefusalReason::OtherNode => "target",
            RefusalReason::OtherInstance => "instance",
            RefusalReason::Removed => "removed",
            RefusalReason::Level => "level",
            // Said by who dials, to itself.
            RefusalReason::OtherList | RefusalReason::Unknown => "other",
        }
    }
}

/// A refusal as it travels: the reason for programs, the text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub reason: RefusalReason,
    pub text: String,
}

/// The node's side of every handshake.
///
/// Called on the async threads for each connection: answer from memory.
pub trait Introductions: Send + Sync + 'static {
    /// Introduction of this node to `target`, as of now.
    fn hello(&self, target: NodeId) -> Hello;

    /// Judges a node that dialled us. Called only after it proved that it holds the secret.
    fn judge(&self, hello: &Hello) -> Result<Welcome, Refusal>;

    /// Judges a node that we dialled, so that the dialling side too can refuse a peer that came back
    /// under another data directory.
    fn accept(&self, welcome: &Welcome) -> Result<(), Refusal>;

    /// True if a node was removed from the cluster: what it has open ends.
    fn is_removed(&self, _node_id: NodeId) -> bool {
        false
    }

    /// Hears that a node which holds the secret has turned this one away.
    fn hear_refusal(&self, _refusal: &Refusal) {}

    /// Tells people that a node was refused at the door.
    fn tell_refused(&self, node_id: NodeId, refusal: &Refusal) {
        tracing::warn!(peer = node_id, %refusal, "a node was refused");
    }
}
