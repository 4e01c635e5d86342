//! Consensus: everything that knows openraft.

pub mod codec;
pub mod peer;
pub mod types;
