//! Consensus: everything that knows openraft.
//!
//! [`node::Node`] is what the surfaces hold. Behind it: [`proposal`] (the byte form of a command),
//! [`leading`] (what only the leader does), [`machine`] (openraft's state machine over the catalog
//! and the store), [`state`] (the applied state that everyone reads), [`peer`] (the wire between
//! nodes), [`beats`] (the heartbeats of instances), [`start`] and [`chores`] (how a node comes up and
//! what it does unasked).

mod beats;
mod chores;
pub mod codec;
mod errand;
mod gather;
mod introductions;
pub mod leading;
pub mod machine;
pub mod node;
pub mod peer;
pub mod proposal;
mod read_index;
pub mod start;
pub mod state;
pub mod status;
mod transfer;
pub mod types;

pub use chores::ADMIN;
pub use errand::MembershipChange;
