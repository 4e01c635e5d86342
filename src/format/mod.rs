//! Formats of what is stored and sent, below all modules that store and send it: the types of the log ([`types`]),
//! their bytes ([`codec`], [`pack`]), the [`header`] of a file of them, the [`level`] that each of them belongs to, and
//! the text form of [`sealed`] secrets.
//!
//! `store` keeps these, `raft` exchanges them, `catalog` takes the packing, the levels and the names of keys. Nothing
//! here knows a disk, a socket or what a command means.

pub mod codec;
pub mod header;
pub mod level;
pub mod pack;
mod runtime;
pub mod sealed;
pub mod types;
