//! The RocksDB that holds log and state: options, column families, stored scalars, failures.
//!
//! One database, one write-ahead log (WAL). What is durable is therefore always a prefix of what
//! was written: a state batch that survives a crash implies every log append before it.
//!
//! A write or fsync that failed is never repeated: after a failed fsync the kernel may have dropped the dirty pages,
//! and a second one that succeeds would prove nothing. The failure is stored, every later write is refused with it, and
//! readiness reports it. A write for which there was no room is not such a failure: it has changed nothing, see
//! [`super::room`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, CompactOptions, DB, DBCompressionType,
    DBRecoveryMode, ErrorKind, LiveFile, LogLevel, Options, WriteBatch, WriteOptions, properties,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use super::room::{Room, is_full};
use crate::descriptors;
use crate::format::codec;

/// Family of the scalars; RocksDB requires one of this name anyway.
pub(super) const META: &str = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
/// Family of the Raft log entries, by big-endian index.
pub(super) const LOG: &str = "log";
/// Family of the state machine's rows.
pub(super) const STATE: &str = "state";
const FAMILIES: [&str; 3] = [META, LOG, STATE];

const MEBIBYTE: usize = 1024 * 1024;
/// Maximum size of a memtable of log or state; there are two of them during a flush.
const WRITE_BUFFER_BYTES_MAX: usize = 8 * MEBIBYTE;
/// Steps in which this size differs between nodes, see [`write_buffer_bytes`].
const WRITE_BUFFER_STEP_BYTES: usize = MEBIBYTE;
const WRITE_BUFFER_STEPS: u64 = 3;
const META_WRITE_BUFFER_BYTES: usize = MEBIBYTE;
/// Target size of a file. Files are small because they are compacted one by one while the disk is short.
const FILE_BYTES: u64 = 16 * 1024 * 1024;
/// New files of the state from which on all of it is rewritten. It is read only at the start and for snapshots.
const STATE_FILES_MAX: i32 = 8;
/// Option by which files of the log stay at the last level: nothing in them was replaced. Otherwise each would be
/// rewritten there once a later snapshot of the database ends. (The crate has no method for it.)
const LOG_STAYS: [(&str, &str); 1] = [("bottommost_file_compaction_delay", "4294967295")];
/// Block cache of all families. The catalog is read from memory, so this serves start-up and snapshots only.
const BLOCK_CACHE_BYTES: usize = 16 * MEBIBYTE;
/// Maximum size of the WAL. It bounds what a restart has to replay, and the space of obsolete data: a family that is
/// rarely flushed (the scalars) holds back the WAL of all until this size is reached.
const WAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum size of RocksDB's text log, which is only read after a problem.
const TEXT_LOG_BYTES_MAX: usize = MEBIBYTE;
const TEXT_LOGS_KEPT: usize = 2;

/// Key that is written to test whether the disk accepts writes; its value has no meaning.
pub(super) const PROBE_KEY: &str = "probe";

/// A stored scalar, which binds a key to its type.
pub(super) trait Scalar {
    const KEY: &'static str;
    type Value: Serialize + DeserializeOwned;
}

/// Sizes of one column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilySize {
    pub family: &'static str,
    pub live_bytes: u64,
    pub memtable_bytes: u64,
    pub files_bytes: u64,
    pub keys_estimate: u64,
}

pub(super) struct Database {
    db: DB,
    failure: OnceLock<String>,
    path: PathBuf,
    room: Room,
    #[cfg(test)]
    pub(super) hold: super::testing::Hold,
    /// Declared last: released after RocksDB has closed.
    _lock: File,
}

impl Database {
    pub(super) fn open(path: &Path, node_id: u64, room: Room, lock: File) -> Result<Self, StoreError> {
        // Opening the database writes the contents of its logs to files.
        let logs = fs::read_dir(path).into_iter().flatten().flatten();
        let logs = logs.filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
        let bytes: u64 = logs.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum();
        if let Err(error) = room.admit(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            tracing::warn!(%error, "the disk is full; the database is opened anyway");
        }
        let cache = Cache::new_lru_cache(BLOCK_CACHE_BYTES);
        let options = |name| family_options(name, write_buffer_bytes(name, node_id), &cache);
        let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options(name)));
        let db = DB::open_cf_descriptors(&database_options(), path, families).map_err(|error| refusal(path, error))?;
        db.set_options_cf(family_of(&db, LOG), &LOG_STAYS).map_err(|error| refusal(path, error))?;
        let path = path.to_owned();
        Ok(Database {
            db,
            failure: OnceLock::new(),
            path,
            room,
            #[cfg(test)]
            hold: super::testing::Hold::default(),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns RocksDB for reading. Writes use the methods below, which record failures.
    pub(super) fn rocks(&self) -> &DB {
        &self.db
    }

    pub(super) fn family(&self, name: &str) -> &ColumnFamily {
        family_of(&self.db, name)
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    /// Writes to WAL and memtable: readable on return, durable after the next [`Self::sync_wal`]. A write for which
    /// there is no room changes nothing and may be repeated, see [`is_full`].
    pub(super) fn write(&self, batch: WriteBatch) -> io::Result<()> {
        self.check()?;
        self.room.admit(batch.size_in_bytes())?;
        #[cfg(test)]
        self.hold.pass();
        self.written(|db| db.write(batch))
    }

    /// Repeats a write until there is room for it. Blocks until then, or until the node stops.
    pub(super) fn write_patiently(&self, mut make: impl FnMut() -> WriteBatch) -> io::Result<()> {
        let mut waiting = None;
        loop {
            match self.write(make()) {
                Err(error) if is_full(&error) => waiting.get_or_insert_with(|| self.room.waiting()).pause_thread()?,
                outcome => return outcome,
            }
        }
    }

    /// Performs a write. If RocksDB accepts one after it found the disk full, it has recovered, unless the write began
    /// before that.
    fn written(&self, write: impl FnOnce(&DB) -> Result<(), rocksdb::Error>) -> io::Result<()> {
        let was_stopped = self.room.is_stopped();
        self.keep_if_lasting(write(&self.db))?;
        if was_stopped {
            self.room.set_stopped(false);
        }
        Ok(())
    }

    /// Records a failure, except a full disk, from which RocksDB recovers by itself.
    fn keep_if_lasting(&self, outcome: Result<(), rocksdb::Error>) -> io::Result<()> {
        match outcome {
            Err(error) if is_no_space(&error) => {
                tracing::debug!(%error, "a write found the disk full");
                self.room.set_stopped(true);
                Err(self.room.full())
            }
            outcome => self.keep_failure(outcome.map_err(|error| error.into_string())),
        }
    }

    /// Waits until RocksDB accepts writes again after it found the disk full. By then it has flushed its memtables and
    /// started another WAL: a sync of the old one, which may end in a partial record, would fail.
    fn await_recovery(&self) -> io::Result<()> {
        if !self.room.is_stopped() {
            return Ok(());
        }
        self.write_patiently(|| {
            let mut probe = WriteBatch::default();
            probe.put_cf(self.family(META), PROBE_KEY, b"");
            probe
        })
    }

    /// Writes durably. For the few writes outside the log that need it.
    pub(super) fn write_synced(&self, batch: WriteBatch) -> io::Result<()> {
        self.check()?;
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.room.admit(batch.size_in_bytes())?;
        self.written(|db| db.write_opt(batch, &options))
    }

    /// Makes everything written so far durable.
    pub(super) fn sync_wal(&self) -> io::Result<()> {
        self.check()?;
        self.await_recovery()?;
        self.keep_failure(self.db.flush_wal(true).map_err(|error| error.into_string()))
    }

    /// Returns the failure that stopped this database, if any.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(failure) => Err(io::Error::other(format!("{}: {failure}", self.path.display()))),
        }
    }

    /// Records the first failure for good.
    pub(super) fn keep_failure(&self, outcome: Result<(), String>) -> io::Result<()> {
        let Err(text) = outcome else { return Ok(()) };
        if self.failure.set(text.clone()).is_ok() {
            let path = self.path.display();
            tracing::error!(%path, error = text, "the disk failed; this node accepts no more writes");
        }
        self.check()
    }

    pub(super) fn scalar<S: Scalar>(&self) -> io::Result<Option<S::Value>> {
        let bytes = self.db.get_pinned_cf(self.family(META), S::KEY).map_err(io::Error::other)?;
        bytes.map(|bytes| codec::from_bytes(&bytes)).transpose()
    }

    pub(super) fn put_scalar<S: Scalar>(&self, batch: &mut WriteBatch, value: &S::Value) {
        batch.put_cf(self.family(META), S::KEY, codec::to_bytes(value));
    }

    pub(super) fn delete_scalar<S: Scalar>(&self, batch: &mut WriteBatch) {
        batch.delete_cf(self.family(META), S::KEY);
    }

    pub(super) fn is_empty(&self, family: &str) -> io::Result<bool> {
        let mut iterator = self.db.raw_iterator_cf(self.family(family));
        iterator.seek_to_first();
        iterator.status().map_err(io::Error::other)?;
        Ok(!iterator.valid())
    }

    /// Rewrites the range from `start` to `end` of a family, which drops deleted data there. Blocks until done; reads
    /// and writes continue.
    pub(super) fn compact(&self, name: &str, start: Option<&[u8]>, end: Option<&[u8]>) -> io::Result<()> {
        self.check()?;
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        self.db.compact_range_cf_opt(self.family(name), start, end, &options);
        self.check()
    }

    /// Removes the files whose keys are all in this range, except new ones at level 0.
    pub(super) fn drop_files(&self, name: &str, first: &[u8], last: &[u8]) -> io::Result<()> {
        self.keep_if_lasting(self.db.delete_file_in_range_cf(self.family(name), first, last))
    }

    /// Compacts a whole family, the range of one file after the other, and only if `has_room` for the current size of
    /// the range: the new files are written before the old ones are deleted.
    pub(super) fn compact_by_file(&self, name: &str, has_room: impl Fn(u64) -> bool) -> io::Result<()> {
        let mut files = self.db.live_files().map_err(io::Error::other)?;
        files.retain(|file| file.column_family_name == name);
        for file in &files {
            let overlaps = |other: &&LiveFile| other.start_key <= file.end_key && file.start_key <= other.end_key;
            let bytes: usize = files.iter().filter(overlaps).map(|other| other.size).sum();
            if has_room(bytes as u64) {
                self.compact(name, file.start_key.as_deref(), file.end_key.as_deref())?;
            }
        }
        Ok(())
    }

    /// Flushes the memtables, so that the WAL can be deleted.
    pub(super) fn write_out(&self) -> io::Result<()> {
        self.check()?;
        for name in FAMILIES {
            self.db.flush_cf(self.family(name)).map_err(io::Error::other)?;
        }
        Ok(())
    }

    pub(super) fn sizes(&self) -> Vec<FamilySize> {
        FAMILIES.iter().map(|name| self.family_size(name)).collect()
    }

    fn family_size(&self, name: &'static str) -> FamilySize {
        // A property that cannot be read is a missing number in a chart, not a failure.
        let number = |property: &properties::PropName| {
            self.db.property_int_value_cf(self.family(name), property).ok().flatten().unwrap_or(0)
        };
        FamilySize {
            family: if name == META { "meta" } else { name },
            live_bytes: number(properties::ESTIMATE_LIVE_DATA_SIZE),
            memtable_bytes: number(properties::SIZE_ALL_MEM_TABLES),
            files_bytes: number(properties::TOTAL_SST_FILES_SIZE),
            keys_estimate: number(properties::ESTIMATE_NUM_KEYS),
        }
    }
}

pub(super) fn family_of<'a>(db: &'a DB, name: &str) -> &'a ColumnFamily {
    db.cf_handle(name).expect("every family is opened with the database")
}

/// Opens the database at `path` read-only.
pub(super) fn open_to_look(path: &Path) -> Result<DB, StoreError> {
    let mut options = database_options();
    options.create_if_missing(false);
    options.create_missing_column_families(false);
    DB::open_cf_for_read_only(&options, path, FAMILIES, false).map_err(|error| refusal(path, error))
}

/// Reports whether the error means a full disk, whichever file it is about.
fn is_no_space(error: &rocksdb::Error) -> bool {
    error.kind() == ErrorKind::IOError && error.as_ref().contains("No space left on device")
}

fn refusal(path: &Path, error: rocksdb::Error) -> StoreError {
    if error.kind() != ErrorKind::Corruption {
        // RocksDB has these kinds only in the text.
        let kind = match error.as_ref() {
            text if text.contains("Permission denied") => io::ErrorKind::PermissionDenied,
            text if text.contains("Read-only file system") => io::ErrorKind::ReadOnlyFilesystem,
            _ => io::ErrorKind::Other,
        };
        return StoreError::at(path)(io::Error::new(kind, error));
    }
    // The error often does not name the file; RocksDB's text log of this attempt does.
    let text = fs::read_to_string(path.join("LOG")).unwrap_or_default();
    let place = text.lines().rfind(|line| line.contains(": dropping ")).map(|line| format!("; {line}"));
    let reason = format!("{error}{}", place.unwrap_or_default());
    StoreError::DatabaseDamaged { path: path.to_owned(), reason }
}

fn database_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_background_jobs(2);
    // Two threads write, one batch at a time. Keys greater than the last one, such as log entries and sorted rows, are
    // then inserted without a search.
    options.set_allow_concurrent_memtable_write(false);
    options.set_enable_write_thread_adaptive_yield(false);
    options.set_max_open_files(descriptors::shares().database_files);
    options.set_max_total_wal_size(WAL_BYTES_MAX);
    // A torn record at the very end was never acknowledged and is dropped; with damage before it RocksDB refuses to
    // open. See `tests::recovery` for its behaviour in each case.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_track_and_verify_wals_in_manifest(true);
    // A recycled WAL file has old records after its end, which would make a torn tail ambiguous.
    options.set_recycle_log_file_num(0);
    options.set_log_level(LogLevel::Warn);
    options.set_max_log_file_size(TEXT_LOG_BYTES_MAX);
    options.set_keep_log_file_num(TEXT_LOGS_KEPT);
    options.set_stats_dump_period_sec(0);
    options
}

/// Returns the size of a memtable on this node. Nodes write the same data at the same time. With memtables of one size
/// all of them would flush simultaneously, and a write would wait for it; with these sizes a majority does not.
fn write_buffer_bytes(name: &str, node_id: u64) -> usize {
    match name {
        META => META_WRITE_BUFFER_BYTES,
        _ => WRITE_BUFFER_BYTES_MAX - (node_id % WRITE_BUFFER_STEPS) as usize * WRITE_BUFFER_STEP_BYTES,
    }
}

fn family_options(name: &str, write_buffer_bytes: usize, cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_cache_index_and_filter_blocks(true);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(write_buffer_bytes);
    // The log is written once, read rarely and purged soon; the state stays.
    let compression = if name == STATE { DBCompressionType::Lz4 } else { DBCompressionType::None };
    options.set_compression_type(compression);
    options.set_target_file_size_base(FILE_BYTES);
    if name == STATE {
        options.set_level_zero_file_num_compaction_trigger(STATE_FILES_MAX);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_three_nodes_that_follow_one_another_write_their_files_at_once() {
        for family in [LOG, STATE] {
            for first in [0, 1, 2, 100, u64::MAX - 2] {
                let mut sizes = [0, 1, 2].map(|more| write_buffer_bytes(family, first + more));
                sizes.sort_unstable();
                assert_eq!(sizes, [6, 7, 8].map(|mebibytes| mebibytes * MEBIBYTE), "nodes from {first} on");
            }
        }
        assert_eq!(write_buffer_bytes(META, 1), write_buffer_bytes(META, 2));
    }
}
