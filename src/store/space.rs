//! Disk space of the store, and free space.

use std::io;
use std::path::Path;

use super::database::{LOG, STATE};
use super::raft_log::durable;
use super::{Store, blocking};

/// The filesystem of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub total_bytes: u64,
    /// Bytes that this process may still use, less the memtables that it will have to write.
    pub free_bytes: u64,
}

impl DiskSpace {
    pub(super) fn of(path: &Path) -> io::Result<DiskSpace> {
        let found = rustix::fs::statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(DiskSpace { total_bytes: bytes(found.f_blocks), free_bytes: bytes(found.f_bavail) })
    }
}

impl Store {
    /// Returns the space of the filesystem; on a network filesystem this may take long.
    pub fn disk_space(&self) -> io::Result<DiskSpace> {
        let DiskSpace { total_bytes, free_bytes } = DiskSpace::of(self.0.database.path())?;
        let unwritten: u64 = self.sizes().iter().map(|size| size.memtable_bytes).sum();
        Ok(DiskSpace { total_bytes, free_bytes: free_bytes.saturating_sub(unwritten) })
    }

    /// Allocates the ballast, if it was freed and `reserve_bytes` stay free in addition: a `divisor`th of them, within
    /// bounds. Blocks.
    pub fn restore_ballast(&self, reserve_bytes: u64, divisor: u64) -> io::Result<()> {
        self.0.database.room().restore(reserve_bytes, divisor)
    }

    /// Returns the bytes of all log entries.
    pub fn log_bytes(&self) -> u64 {
        self.0.log.bytes()
    }

    /// Returns the bytes of the log entries that follow `index`.
    pub fn log_bytes_after(&self, index: u64) -> u64 {
        self.0.log.bytes_after(index)
    }

    /// Returns the index through which the log can be purged so that at most `bytes` remain of it up to and including
    /// `index`; `None` if the log is empty.
    pub fn log_cut(&self, index: u64, bytes: u64) -> Option<u64> {
        self.0.log.cut(index, bytes)
    }

    /// Returns the bytes of the log's files, without the write-ahead log.
    pub fn log_files_bytes(&self) -> u64 {
        self.sizes().iter().find(|size| size.family == LOG).map_or(0, |size| size.files_bytes)
    }

    /// Deletes the files that contain purged entries only.
    pub async fn drop_log_files(&self) -> io::Result<()> {
        let Some(purged) = self.0.log.purged_and_last().0 else { return Ok(()) };
        durable(self.0.log.barrier()?).await?;
        let store = self.clone();
        blocking(move || store.0.log.drop_files(&purged)).await
    }

    /// Frees all the space of purged entries. Blocks until done.
    pub fn compact_log(&self) -> io::Result<()> {
        self.0.log.compact()
    }

    /// Frees space while the disk is short: the write-ahead log by flushing the memtables, and deleted and replaced
    /// rows by compacting one file after the other, as far as the new files fit in addition to the old ones and
    /// `spare_bytes` stay free. Blocks until done.
    pub fn make_room(&self, spare_bytes: u64) -> io::Result<()> {
        self.0.rows.settle()?;
        // Started without room, a flush would stop the database until there is room.
        let unwritten: u64 = self.sizes().iter().map(|size| size.memtable_bytes).sum();
        if DiskSpace::of(self.0.database.path())?.free_bytes <= unwritten.saturating_mul(2) {
            return Err(self.0.database.room().full());
        }
        self.0.database.write_out()?;
        let has_room = |bytes: u64| {
            DiskSpace::of(self.0.database.path())
                .is_ok_and(|space| space.free_bytes > bytes.saturating_add(spare_bytes))
        };
        self.0.database.compact_by_file(STATE, has_room)
    }
}
