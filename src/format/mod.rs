//! Formats of stored and sent data, below all modules that store or send it: the types of the log ([`types`]), their
//! bytes ([`codec`]) and the [`header`] of a file of a whole state. The parts that do not depend on openraft are in the
//! crate `thuban-base`: the [`level`] of each format, the byte form of rows and messages ([`pack`]), and the text form
//! of [`sealed`] secrets.
//!
//! `store` stores them, `raft` exchanges them. This module knows no disk, no socket and no meaning of a command.

pub mod codec;
pub mod header;
mod runtime;
pub mod types;

pub use thuban_base::{level, pack, sealed};
