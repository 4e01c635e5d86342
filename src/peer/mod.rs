//! The wire between nodes: TLS on a separate listener.
//!
//! Start reading at [`handshake`]: every connection begins with it, and no byte of a message is parsed before both ends
//! have proved that they hold the cluster secret. After it a connection serves one purpose:
//!
//! | purpose | connections | carries |
//! |---|---|---|
//! | control | one per peer ([`link`]) | multiplexed calls: votes, heartbeats, forwards, read indexes, pings |
//! | control | one per call with a large body ([`dedicated`]) | that call |
//! | append | one per peer of a leader ([`append`]) | a pipeline of log entries, which delays no heartbeat |
//! | snapshot | one per transfer ([`snapshot`]) | one snapshot |
//!
//! Everything is a frame: `length:u32 body` ([`frame`]); the bodies are in [`messages`]. Every queue, wait and frame
//! has a limit in [`limits`].
//!
//! The secret authenticates, TLS encrypts ([`wire`]); no certificates have to be set up.
//!
//! This module does not know the meaning of commands, HTTP or RocksDB: commands are bytes, the node is a
//! [`PeerService`], and snapshots are read and written through [`SnapshotPort`].

mod append;
mod backoff;
mod call;
mod credentials;
mod dedicated;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod handshake;
mod hello;
mod limits;
mod link;
mod liveness;
mod messages;
mod network;
mod peers;
mod pending_handshakes;
mod server;
mod serving;
mod snapshot;
mod transfers;
mod wire;

#[cfg(test)]
mod tests;

pub use call::CallError;
pub use credentials::Credentials;
pub use handshake::IntroduceError;
pub use hello::{Build, Hello, Introductions, ListDigest, Refusal, RefusalReason, Welcome};
pub use limits::{FRAME_BYTES_MAX, HANDSHAKE_FRAME_BYTES_MAX, REACHABLE_WITHIN};
pub use messages::{
    Checkpoint, DiskRoom, ExtensionCall, ForwardAnswer, MemberAlarm, MemoryRoom, PeerProgress, ReadIndexAnswer,
    Shortage,
};
pub use network::{PeerClient, PeerNetwork};
pub use peers::Peers;
pub use server::{PeerServer, PeerService};
pub use snapshot::SnapshotPort;
