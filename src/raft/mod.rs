//! Consensus over openraft, and the background tasks of a node.
//!
//! [`node::Node`] is the handle that the surfaces hold.
//!
//! | part | modules |
//! |---|---|
//! | commands | [`proposal`] (byte form), [`leading`] (append and read on the leader), [`forwarded`], [`batching`] |
//! | apply | [`machine`] (openraft's state machine), [`cost`] (size of a group), [`state`] (applied state), [`contents`] (texts on disk), [`state_size`] |
//! | leadership | [`election`], [`lease`], [`freshness`], [`read_index`], [`read_barrier`], [`clock`], [`poll`] (progress of the peers) |
//! | membership | [`start`], [`formation`], [`members`], [`peer_admission`], [`lists`], [`levels`] |
//! | keeping | [`compaction`], [`capacity`], [`backup`], [`transfer`], [`consistency_check`], [`checkpoint_hashes`] |
//! | background | [`background`], [`heartbeats`], [`retention`], [`schedule`], [`webhooks`], [`password_reset`], [`stuck`], [`disk_check`] |
//! | audit | [`audit_buffer`], [`audit_reader`] |
//! | runtime | [`threads`], [`status`], [`vigil`] (ends of tokens) |

#[cfg(test)]
mod apply_test;
mod attempts;
mod audit_buffer;
mod audit_reader;
mod background;
pub mod backup;
mod batching;
mod capacity;
mod checkpoint_hashes;
pub mod clock;
mod compaction;
mod consistency_check;
mod contents;
mod cost;
mod disk_check;
mod election;
mod formation;
mod forwarded;
mod freshness;
mod heartbeats;
pub mod leading;
mod lease;
mod levels;
mod lists;
pub mod machine;
mod members;
mod news;
pub mod node;
pub mod password_reset;
mod peer_admission;
mod poll;
pub mod proposal;
mod read_barrier;
mod read_index;
mod retention;
mod schedule;
#[cfg(test)]
mod stall_test;
pub mod start;
pub mod state;
mod state_size;
pub mod status;
mod stuck;
pub mod subscribers;
#[cfg(test)]
pub(crate) mod testing;
mod threads;
mod transfer;
pub mod vigil;
mod webhooks;

#[cfg(test)]
mod tests;

pub use audit_buffer::RateClass;
pub use capacity::RoomBounds;
pub use compaction::LogBounds;
pub use forwarded::MembershipChange;
pub use read_barrier::Reached;
