//! Resource bounds of a node: log, disk, memory and connections.

use clap::Args;

use super::faults::Faults;
use crate::memory;
use crate::model::limits;

/// Bounds on log, disk, memory and connections.
#[derive(Args, Clone, Debug)]
pub struct Bounds {
    /// Log entries after which the node writes a snapshot and purges the log before it
    #[arg(long, env = "THUBAN_SNAPSHOT_ENTRIES", default_value_t = 200_000)]
    pub snapshot_entries: u64,

    /// Bytes of log after which the node does the same, whichever comes first
    #[arg(long, env = "THUBAN_SNAPSHOT_BYTES", default_value_t = limits::LOG_BYTES)]
    pub snapshot_bytes: u64,

    /// Log entries retained before a snapshot: a node that missed fewer entries needs no snapshot
    #[arg(long, env = "THUBAN_LOG_ENTRIES_KEPT", default_value_t = 100_000)]
    pub log_entries_kept: u64,

    /// Maximum bytes of log retained before a snapshot, even if these are fewer entries
    #[arg(long, env = "THUBAN_LOG_BYTES_KEPT", default_value_t = limits::LOG_BYTES)]
    pub log_bytes_kept: u64,

    /// Free bytes of the filesystem below which every node refuses additions (507001); deletes and logins go on; 0
    /// switches the check off [default: a tenth of the filesystem, at most 1 GiB]
    #[arg(long, env = "THUBAN_DISK_RESERVE_BYTES")]
    pub disk_reserve_bytes: Option<u64>,

    /// Bytes of replicated state above which additions are refused (507001), the same on every node; 0 for no limit
    /// [default: half of the memory limit, divided by the memory that a byte of state costs]
    #[arg(long, env = "THUBAN_QUOTA_BYTES")]
    pub quota_bytes: Option<u64>,

    /// Bytes of memory that the node may use: above 85 % of them every node refuses additions (507001) [default: the
    /// limit of its control group, else the machine's memory]
    #[arg(long, env = "THUBAN_MEMORY_LIMIT_BYTES")]
    pub memory_limit_bytes: Option<u64>,

    /// Bytes of rendered config files that are cached for further clients; 0 switches the cache off
    #[arg(long, env = "THUBAN_RENDER_CACHE_BYTES", default_value_t = limits::RENDER_CACHE_BYTES)]
    pub render_cache_bytes: u64,

    /// Connections of one address (IPv6: one /64) to the two surfaces together, and requests that a node holds for it;
    /// their keys and memory are limited in proportion
    #[arg(long, env = "THUBAN_CONNECTIONS_PER_ADDRESS", default_value_t = limits::CONNECTIONS_PER_ADDRESS)]
    pub connections_per_address: usize,
}

impl Bounds {
    /// Returns the configured limit, else the limit that the system sets.
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory_limit_bytes.or_else(memory::limit)
    }

    /// Returns the configured quota, else the one that `memory_limit` has room for; 0 for none.
    pub fn quota(&self, memory_limit: Option<u64>) -> u64 {
        let share = |limit| limit / limits::STATE_MEMORY_DIVISOR / limits::MEMORY_PER_STATE_BYTE;
        self.quota_bytes.unwrap_or_else(|| memory_limit.map_or(0, share))
    }

    pub(super) fn check(&self, faults: &mut Faults) {
        for (flag, is_nothing) in [
            ("--snapshot-entries", self.snapshot_entries == 0),
            ("--snapshot-bytes", self.snapshot_bytes == 0),
            ("--memory-limit-bytes", self.memory_limit_bytes == Some(0)),
            ("--connections-per-address", self.connections_per_address == 0),
        ] {
            if is_nothing {
                faults.add(format!("{flag} has to be above 0"));
            }
        }
    }
}
