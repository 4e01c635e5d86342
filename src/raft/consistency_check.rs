//! Consistency check: every few seconds each member compares its state hashes at fixed indexes
//! ([`super::checkpoint_hashes`]) with those of the others.
//!
//! A node that finds itself wrong stops serving and does not start serving again: its answers are not what the cluster
//! decided, and it is unknown since when and in how much they differ. It goes on taking part in consensus, since its
//! log is intact, but it gives up leadership and sends no snapshot, which would carry its state to others. The finding
//! is stored in its data directory. The remedy is a new directory.

mod on_node;

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::checkpoint_hashes::Difference;

pub(super) use self::on_node::{recall, watch};

/// Findings of this node about the members' states.
#[derive(Default)]
pub(super) struct Divergence {
    found: Mutex<CorruptMembers>,
    /// Reason why this node no longer serves requests.
    retired: OnceLock<String>,
}

#[derive(Default)]
struct CorruptMembers {
    difference: Option<Difference>,
    /// Consecutive comparisons that found this node wrong.
    rounds: u32,
}
