//! Heartbeats of instances as nodes exchange them.

use serde::{Deserialize, Serialize};

/// Answer of the leader to the heartbeats that another node took from its clients; the call is the list of the
/// instances' ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BeatsAnswer {
    /// The instances count as alive from now on.
    Taken,
    /// This node does not lead, or not for sure.
    NotLeader,
    Overloaded,
}
