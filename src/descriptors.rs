//! File descriptors: the limit of this process, and its shares for clients and for everything else.
//!
//! A client whose connection is refused for lack of a descriptor connects again. RocksDB fails for good if it cannot
//! open a new write-ahead log, and a peer without a connection costs the cluster a member. Client connections therefore
//! leave a reserve.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limit that is assumed if the system sets none, or a very high one.
const DESCRIPTORS_MAX: u64 = 1024 * 1024;
/// Reserve for peers, RocksDB, snapshots and listeners: a fifth of all within these bounds, but at most half, so that
/// clients can connect under a low limit.
const RESERVE_MIN: u64 = 256;
const RESERVE_MAX: u64 = 1000;
const RESERVE_DIVISOR: u64 = 5;

/// Shares of the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Connections of clients, over all listeners.
    pub connections: usize,
    /// Table files that RocksDB keeps open.
    pub database_files: i32,
}

/// Raises the soft limit of this process to the hard limit. Returns the limit.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, ?limit, "failed to raise the limit of open files");
    }
    present()
}

/// Returns the shares of the current limit of this process.
pub fn shares() -> Shares {
    share(present())
}

fn present() -> u64 {
    getrlimit(Resource::Nofile).current.map_or(DESCRIPTORS_MAX, |current| current.min(DESCRIPTORS_MAX))
}

fn share(limit: u64) -> Shares {
    let reserve = (limit / RESERVE_DIVISOR).clamp(RESERVE_MIN, RESERVE_MAX).min(limit / 2);
    Shares {
        connections: usize::try_from(limit - reserve).unwrap_or(usize::MAX),
        database_files: i32::try_from(reserve / 2).unwrap_or(i32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_reserve_to_the_others() {
        for (limit, connections, database_files) in
            [(256, 128, 64), (1024, 768, 128), (4096, 3277, 409), (20_000, 19_000, 500), (1_048_576, 1_047_576, 500)]
        {
            assert_eq!(share(limit), Shares { connections, database_files }, "of {limit}");
        }
    }

    #[test]
    fn what_may_be_raised_is_raised() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise(), maximum.map_or(DESCRIPTORS_MAX, |maximum| maximum.min(DESCRIPTORS_MAX)));
    }
}
