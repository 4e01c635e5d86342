//! Ground of all crates: the [`level`] of each format, the byte form of stored and sent data ([`pack`]), the text form
//! of [`sealed`] secrets, threads for deep recursion ([`threads`]), and the seed of randomized tests.
//!
//! It depends on no other crate of Thuban, and knows no disk, socket, clock, task or Raft.

pub mod level;
pub mod pack;
pub mod sealed;
#[cfg(any(test, feature = "test-support"))]
pub mod test_seed;
pub mod threads;
