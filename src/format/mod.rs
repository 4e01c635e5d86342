//! Formats of stored and sent data, below all modules that store or send it: the types of the log ([`types`]), their
//! bytes ([`codec`], [`pack`]), the [`header`] of a file of a whole state, the [`level`] of each format, and the text
//! form of [`sealed`] secrets.
//!
//! `store` stores them, `raft` exchanges them, `catalog` uses the packing, the levels and the names of keys. This
//! module knows no disk, no socket and no meaning of a command.

pub mod codec;
pub mod header;
pub mod level;
pub mod pack;
mod runtime;
pub mod sealed;
pub mod types;
