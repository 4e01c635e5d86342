//! Consensus over openraft.
//!
//! [`node::Node`] is the handle that the rooms above hold. [`Lead`] is what a controller of the leader proposes
//! through. [`extension::Extension`] is what the rooms above add to a node.
//!
//! | part | modules |
//! |---|---|
//! | commands | [`proposal`] (byte form), [`leading`] (append and read on the leader), [`forwarded`], [`batching`] |
//! | apply | [`machine`] (state machine), [`cost`] (of a group), [`state`], [`contents`] (on disk), [`state_size`] |
//! | leadership | [`election`], [`lease`], [`lead`], [`freshness`], [`read_index`], [`read_barrier`], [`clock`] |
//! | members' progress | [`poll`], [`contact`] |
//! | membership | [`start`], [`formation`], [`members`], [`peer_admission`], [`initial_cluster`], [`removal`] |
//! | alarms | [`alarms`] |
//! | maintenance | [`compaction`], [`capacity`], [`backup`], [`transfer`], [`consistency_check`], [`checkpoint_hashes`]
//! |
//! | runtime | [`background`], [`threads`], [`status`], [`replication_stall`], [`disk_check`], [`audit_log`] |

pub mod alarms;
mod attempts;
mod audit_log;
mod background;
pub mod backup;
mod batching;
mod capacity;
mod checkpoint_hashes;
pub mod clock;
mod compaction;
mod consistency_check;
mod contact;
mod contents;
mod cost;
mod disk_check;
mod effects;
mod election;
pub mod extension;
mod formation;
mod forwarded;
mod freshness;
mod initial_cluster;
mod lead;
pub mod leading;
mod lease;
pub mod machine;
mod members;
pub mod node;
mod peer_admission;
mod poll;
pub(crate) mod progress;
pub mod proposal;
mod read_barrier;
mod read_index;
pub mod removal;
mod replication_stall;
mod service;
pub mod start;
pub mod state;
mod state_size;
pub mod status;
mod threads;
mod transfer;

#[cfg(test)]
mod tests;

pub(crate) use audit_log::log_row;
pub(crate) use background::run as run_task;
pub use capacity::RoomBounds;
pub use clock::survey::{ClockSurvey, ClockVerdict};
pub use compaction::LogBounds;
pub use forwarded::MembershipChange;
pub use lead::{Lead, NotCommitted};
pub use state::CommandReply;
#[cfg(test)]
pub(crate) use threads::Threads;
