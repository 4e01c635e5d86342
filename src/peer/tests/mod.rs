//! The wire on real loopback sockets, around a real openraft over a store in memory.

mod away;
mod calls;
mod consensus;
mod doors;
mod harness;
mod memory;
mod secure;
mod streams;
