//! Read-only access to a data directory that no node runs on.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rocksdb::{DB, IteratorMode};

use super::database::{self, LOG, STATE, Scalar};
use super::transfer::Installing;
use super::{DATABASE_DIR, Identity, LogExtent, RowSink, StoreError, identity, log, order, scan, scan_options};
use crate::format::codec;
use crate::format::level::LevelRange;

/// A directory of a stopped node, locked against a start and opened without changes. A copy of its write-ahead log is
/// in memory.
pub struct ReadOnlyStore {
    dir: PathBuf,
    identity: Identity,
    db: DB,
    _lock: Option<File>,
}

/// Size of the log on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    pub first: Option<u64>,
    pub entries: u64,
    pub bytes: u64,
}

impl ReadOnlyStore {
    pub fn open(dir: &Path, levels: LevelRange) -> Result<Self, StoreError> {
        let lock = identity::lock_to_look(dir)?;
        let identity = Identity::of(dir, levels)?;
        let path = dir.join(DATABASE_DIR);
        if !path.join("CURRENT").exists() {
            return Err(StoreError::DatabaseMissing { path: dir.to_owned() });
        }
        Ok(ReadOnlyStore { dir: dir.to_owned(), identity, db: database::open_to_look(&path)?, _lock: lock })
    }

    /// Leaves an order for the node's next run.
    pub fn leave_order(&self, order: &[u8]) -> io::Result<()> {
        order::leave(&self.dir, order)
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Reports whether the installation of a snapshot was interrupted: the rows are a mixture until the next start.
    pub fn is_mixture(&self) -> io::Result<bool> {
        Ok(self.scalar::<Installing>()?.is_some())
    }

    pub fn for_each_row(&self, visit: &mut RowSink<'_>) -> io::Result<()> {
        scan(self.db.raw_iterator_cf_opt(database::family_of(&self.db, STATE), scan_options()), visit)
    }

    pub fn log_extent(&self) -> io::Result<LogExtent> {
        let purged = self.scalar::<log::Purged>()?;
        let newest = self.db.iterator_cf(database::family_of(&self.db, LOG), IteratorMode::End).next();
        let entry = newest.map(|row| codec::entry_from_bytes(row.map_err(io::Error::other)?.1.into())).transpose()?;
        let last = entry.map(|entry| entry.log_id);
        Ok(LogExtent { purged, last: last.or(purged), vote: self.scalar::<log::Vote>()? })
    }

    pub fn log_size(&self) -> io::Result<LogSize> {
        let mut size = LogSize::default();
        let mut options = scan_options();
        // Earlier entries are purged; they remain until their file is deleted.
        options.set_iterate_lower_bound(log::key(log::after(self.scalar::<log::Purged>()?.as_ref())));
        let rows = self.db.raw_iterator_cf_opt(database::family_of(&self.db, LOG), options);
        scan(rows, &mut |key, value| {
            let index = key.try_into().map(u64::from_be_bytes).map_err(io::Error::other)?;
            size.first.get_or_insert(index);
            size.entries += 1;
            size.bytes += (key.len() + value.len()) as u64;
            Ok(())
        })?;
        Ok(size)
    }

    fn scalar<S: Scalar>(&self) -> io::Result<Option<S::Value>> {
        let bytes = self.db.get_pinned_cf(database::family_of(&self.db, database::META), S::KEY);
        bytes.map_err(io::Error::other)?.map(|bytes| codec::from_bytes(&bytes)).transpose()
    }
}
