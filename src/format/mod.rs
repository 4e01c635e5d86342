//! Formats of what is stored and sent, below all modules that store and send it: the types of the log ([`types`]),
//! their bytes ([`codec`], [`pack`]), the [`header`] of a file of them, and the [`level`] that each of them belongs to.
//!
//! `store` keeps these, `raft` exchanges them, `catalog` takes the packing and the levels. Nothing here
//! knows a disk, a socket or what a command means.

pub mod codec;
pub mod header;
pub mod level;
pub mod pack;
mod runtime;
pub mod types;
