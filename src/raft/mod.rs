//! Consensus over openraft, and what a node does by itself.
//!
//! [`node::Node`] is what the surfaces hold. Behind it: [`proposal`] (the byte form of a command),
//! [`leading`] (what only the leader does), [`machine`] (openraft's state machine over the catalog
//! and the store), [`cost`] (how much of the log that applies at once), [`state`] (the applied state that everyone reads),
//! [`beats`] (the heartbeats of instances), [`retention`] (releases that are too many), [`keeping`]
//! (snapshots and the past of the log), [`room`] (disk and quota), [`lease`] (who can lead at this moment),
//! [`clock`] (what time it is), [`horizon`] (what no node of this cluster can know), [`backup`] (the state for
//! somebody to keep), [`members`] (who belongs to the cluster), [`divergence`] (whether all members hold the
//! same state), [`reset`] (a password that was reset while the node was stopped), [`notes`] (what a node saw for
//! the audit trail), [`trail`] (reading it), [`contents`] (texts that are on disk alone), [`webhooks`] (who is told of what happens), [`start`], [`formation`] and [`chores`] (how a node comes up and what it does unasked), and the
//! [`threads`] that all of it runs on.

#[cfg(test)]
mod apply_test;
mod attempts;
pub mod backup;
mod beats;
mod chores;
pub mod clock;
mod contents;
mod cost;
mod disk_check;
mod divergence;
mod election;
mod errand;
mod formation;
mod freshness;
mod gather;
mod hashes;
mod horizon;
mod introductions;
mod keeping;
pub mod leading;
mod lease;
mod levels;
mod lists;
pub mod machine;
mod members;
mod news;
pub mod node;
mod notes;
mod poll;
pub mod proposal;
mod read_index;
pub mod reset;
mod retention;
mod room;
mod schedule;
#[cfg(test)]
mod stall_test;
pub mod start;
pub mod state;
pub mod status;
mod stuck;
pub mod subscribers;
#[cfg(test)]
pub(crate) mod testing;
mod threads;
mod trail;
mod transfer;
pub mod vigil;
mod webhooks;
mod weight;

#[cfg(test)]
mod tests;

pub use errand::MembershipChange;
pub use horizon::Reached;
pub use keeping::LogBounds;
pub use notes::Lane;
pub use room::RoomBounds;
