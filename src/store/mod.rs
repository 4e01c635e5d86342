//! The data directory: RocksDB with the Raft log and the rows of the state machine, snapshot files, and the identity of
//! the node. It stores bytes under keys without knowing their meaning, and names nothing of `model`, `catalog` or a
//! surface.
//!
//! ```text
//! LOCK-thuban      held while a process uses the directory
//! identity.json    node and cluster of the directory
//! ballast          blocks that are freed when the disk is full, see [`room`]
//! committed        index up to which the log is known to be committed, see [`commit_marker`]
//! db/              RocksDB: families default (scalars), log, state; one write-ahead log
//! snapshots/       the newest snapshot, and those being built or received
//! order.json       order for the node's next run, see [`order`]
//! restoring/       an unfinished restore, see [`staging`]
//! ```
//!
//! Log appends are fsynced before they count, many at a time. The rows of the state follow in separate batches,
//! unsynced ([`rows`]). After a crash the missing rows are applied again from the log; with a single write-ahead log,
//! the state on disk is never ahead of the log on disk.
//!
//! Start reading at [`Store`], then [`log`], [`flush`] and [`rows`] for the path of a write, [`snapshot`] and
//! [`transfer`] for the transfer of a state.

mod commit_marker;
mod contiguous;
mod database;
mod entry_cache;
mod error;
mod flush;
mod footprint;
mod identity;
mod log;
mod order;
mod ownership;
mod raft_log;
mod read_only;
mod room;
mod rows;
mod snapshot;
mod snapshot_dir;
mod space;
mod staging;
mod transfer;

#[cfg(test)]
pub(crate) mod testing;

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rocksdb::{DB, DBAccess, DBRawIteratorWithThreadMode, ReadOptions, SnapshotWithThreadMode, WriteBatch};
use tokio::sync::Semaphore;

use crate::format::level::LevelRange;
use crate::format::types::{Entry, LogId, Vote};
use crate::metrics::Metrics;
use crate::tasks;
use database::{Database, META, PROBE_KEY, STATE, Scalar};
use flush::FlushThread;
use identity::DirectoryOwner;
use log::Log;
use room::{Room, is_full};
use rows::RowWriter;
use snapshot_dir::SnapshotDir;

pub use database::FamilySize;
pub use error::StoreError;
pub use identity::Identity;
pub use ownership::give_to_owner_of;
pub use raft_log::LogStore;
pub use read_only::{LogSize, ReadOnlyStore};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use snapshot::read_from;
pub use snapshot::{Contents, FileKind, SnapshotFile, read as read_file, write as write_file};
pub use snapshot_dir::IncomingSnapshot;
pub use space::DiskSpace;
pub use staging::StagingDir;
pub use transfer::RowSink;

const DATABASE_DIR: &str = "db";
const SNAPSHOT_DIR: &str = "snapshots";
/// Reason why this directory is no longer served.
struct Retired;
impl Scalar for Retired {
    const KEY: &'static str = "retired";
    type Value = String;
}

/// Readahead of the start-up, which reads all rows in order: fewer, larger reads.
const SCAN_READAHEAD_BYTES: usize = 1024 * 1024;

/// Handle on the data directory. The directory is unlocked when the last clone is dropped, including those in
/// [`LogStore`].
#[derive(Clone)]
pub struct Store(Arc<OpenDirectory>);

struct OpenDirectory {
    title: Arc<DirectoryOwner>,
    metrics: Arc<Metrics>,
    shelf: SnapshotDir,
    /// Held while the rows are replaced by those of a snapshot, so that no view sees a mixture.
    whole_state: Mutex<()>,
    /// Permit for one check at a time whether the disk accepts writes.
    probing: Arc<Semaphore>,
    rows: RowWriter,
    log: Arc<Log>,
    database: Arc<Database>,
}

impl Store {
    /// Opens or creates the directory of node `node_id`, which uses `levels`.
    pub fn open(dir: &Path, node_id: u64, levels: LevelRange, metrics: Arc<Metrics>) -> Result<Self, StoreError> {
        Store::open_with(dir, node_id, levels, metrics, Box::new(Database::sync_wal))
    }

    /// Opens a store like [`Store::open`], with another function to make the log durable.
    fn open_with(
        dir: &Path,
        node_id: u64,
        levels: LevelRange,
        metrics: Arc<Metrics>,
        sync: flush::Sync,
    ) -> Result<Self, StoreError> {
        let lock = identity::lock(dir)?;
        let path = dir.join(DATABASE_DIR);
        let claim = identity::claim(dir, &path, node_id, levels)?;
        let database = Arc::new(Database::open(&path, node_id, Room::of(dir), lock)?);
        let snapshots = dir.join(SNAPSHOT_DIR);
        transfer::finish_interrupted(&database, &snapshots)?;
        let shelf = SnapshotDir::open(&snapshots).map_err(StoreError::at(&snapshots))?;
        let flush = FlushThread::start(database.clone(), metrics.clone(), sync).map_err(StoreError::at(&path))?;
        let title = Arc::new(DirectoryOwner::new(dir, claim.identity(), levels));
        let log = Arc::new(Log::open(database.clone(), flush, title.clone())?);
        let is_fresh = is_fresh(&database, &log).map_err(StoreError::at(&path))?;
        claim.settle(dir, is_fresh)?;
        let rows = RowWriter::start(database.clone()).map_err(StoreError::at(&path))?;
        let inner = OpenDirectory {
            title,
            metrics,
            shelf,
            whole_state: Mutex::new(()),
            probing: Arc::new(Semaphore::new(1)),
            rows,
            log,
            database,
        };
        Ok(Store(Arc::new(inner)))
    }

    pub fn identity(&self) -> Identity {
        self.0.title.identity()
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Path {
        self.0.title.dir()
    }

    /// Returns the order that was left for this node while it was stopped.
    pub fn order(&self) -> io::Result<Option<Vec<u8>>> {
        order::read(self.dir())
    }

    pub fn forget_order(&self) -> io::Result<()> {
        order::forget(self.dir())
    }

    /// Returns the levels that this node reads and writes.
    pub fn levels(&self) -> LevelRange {
        self.0.title.levels()
    }

    /// Ties the directory to a cluster for good.
    pub fn set_cluster_id(&self, cluster_id: &str) -> Result<(), StoreError> {
        self.0.title.tie(cluster_id)
    }

    /// Ties the directory to another cluster: that of a recovered single node.
    pub fn retie(&self, cluster_id: &str) -> Result<(), StoreError> {
        self.0.title.retie(cluster_id)
    }

    /// Returns the extent of the log, and the vote of this node.
    pub fn log_extent(&self) -> LogExtent {
        let (purged, last) = self.0.log.purged_and_last();
        LogExtent { purged, last, vote: self.0.log.vote() }
    }

    /// Returns the entries from `index` on, up to `bytes_max` but at least one.
    pub fn entries_from(&self, index: u64, bytes_max: usize) -> io::Result<Vec<Entry>> {
        self.0.log.read(index..u64::MAX, bytes_max)
    }

    /// Reports whether this node is new: it has no vote, no log and no state.
    pub fn is_fresh(&self) -> io::Result<bool> {
        self.0.rows.settle()?;
        is_fresh(&self.0.database, &self.0.log)
    }

    /// Reports from memory whether this node has a vote or a log, and so is no longer new.
    pub fn has_log(&self) -> bool {
        has_log(&self.0.log)
    }

    /// Returns a handle on the Raft log of this directory.
    pub fn log(&self) -> LogStore {
        LogStore::new(self.0.log.clone())
    }

    /// Writes (`Some`) and removes (`None`) rows of the state. After a crash either all of them are there or none, and
    /// none without those that were put before. Later reads see them; they reach the database a moment later, and are
    /// durable with the next sync, see the module.
    pub fn put_rows<K, V>(&self, rows: impl IntoIterator<Item = (K, Option<V>)>) -> io::Result<()>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        self.0.rows.put(rows)
    }

    pub fn get_row(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.view()?.get_row(key)
    }

    /// Returns a row whose value never changes. It is found even if it is not written yet, so that apply and readers do
    /// not need disk space for it. Blocks.
    pub fn get_constant_row(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let found = self.0.database.rocks().get_cf(self.0.database.family(STATE), key).map_err(io::Error::other)?;
        match found.or_else(|| self.0.rows.waiting(key)) {
            Some(row) => Ok(Some(row)),
            // It may be written by now, or be part of a snapshot that is being installed.
            None => self.get_row(key),
        }
    }

    /// Visits all current rows in key order.
    pub fn for_each_row(&self, visit: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
        self.view()?.for_each_row(visit)
    }

    /// Returns a view of the current rows, unaffected by later changes. Writes pending rows first, and waits while a
    /// snapshot is being installed. Blocks.
    pub fn view(&self) -> io::Result<View<'_>> {
        let _whole = self.0.whole_state.lock();
        self.view_now()
    }

    fn view_now(&self) -> io::Result<View<'_>> {
        self.0.rows.settle()?;
        Ok(View { database: &self.0.database, snapshot: self.0.database.rocks().snapshot() })
    }

    /// Records for good that this directory must no longer be served, with the reason. Durable on return; blocks for an
    /// fsync.
    pub fn retire(&self, why: &str) -> io::Result<()> {
        let mut batch = WriteBatch::default();
        self.0.database.put_scalar::<Retired>(&mut batch, &why.to_owned());
        self.0.database.write_synced(batch)
    }

    /// Returns the reason that was given to [`Store::retire`].
    pub fn retired(&self) -> io::Result<Option<String>> {
        self.0.database.scalar::<Retired>()
    }

    /// Checks that the disk accepts writes, by a durable one. It takes as long as an fsync, so callers set a time
    /// limit: a disk that hangs is not writable either. However often it is called, a hanging disk blocks one thread. A
    /// full disk passes: it raises an alarm, and the data can still be read.
    pub async fn check_writable(&self) -> io::Result<()> {
        let turn = self.0.probing.clone().acquire_owned().await.map_err(io::Error::other)?;
        let store = self.clone();
        let write = move || {
            let _turn = turn;
            let mut batch = WriteBatch::default();
            batch.put_cf(store.0.database.family(META), PROBE_KEY, b"");
            match store.0.database.write(batch) {
                Err(error) if is_full(&error) => Ok(None),
                outcome => outcome.and_then(|()| store.0.log.barrier()).map(Some),
            }
        };
        match blocking(write).await? {
            Some(written) => raft_log::durable(written).await,
            None => Ok(()),
        }
    }

    /// Reports whether a write waits for room on the disk.
    pub fn waits_for_room(&self) -> bool {
        self.0.database.room().is_short()
    }

    /// Makes all writes that wait for room fail, because the node stops.
    pub fn stop_waiting(&self) {
        self.0.database.room().close();
    }

    /// Returns the failure after which nothing is written any more, if there was one.
    pub fn failure(&self) -> Option<String> {
        self.0.database.check().err().map(|error| error.to_string())
    }

    pub fn sizes(&self) -> Vec<FamilySize> {
        self.0.database.sizes()
    }

    /// Updates the gauges of RocksDB; called when metrics are read.
    pub fn record_sizes(&self) {
        let metrics = &self.0.metrics;
        metrics.log_bytes.set(i64::try_from(self.log_bytes()).unwrap_or(i64::MAX));
        for size in self.sizes() {
            for (gauge, value) in [
                (&metrics.rocksdb_live_bytes, size.live_bytes),
                (&metrics.rocksdb_memtable_bytes, size.memtable_bytes),
                (&metrics.rocksdb_files_bytes, size.files_bytes),
                (&metrics.rocksdb_keys, size.keys_estimate),
            ] {
                gauge.with_label_values(&[size.family]).set(i64::try_from(value).unwrap_or(i64::MAX));
            }
        }
    }

    /// Makes everything written so far durable, including the rows, so that the next start has nothing to replay.
    /// Blocks for an fsync.
    pub fn close(&self) -> io::Result<()> {
        self.0.rows.settle()?;
        self.0.database.sync_wal()
    }
}

/// Extent of the log of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogExtent {
    /// The last purged entry, covered by a snapshot.
    pub purged: Option<LogId>,
    /// The last entry, even if it was purged.
    pub last: Option<LogId>,
    pub vote: Option<Vote>,
}

/// The state at one moment.
pub struct View<'a> {
    database: &'a Database,
    snapshot: SnapshotWithThreadMode<'a, DB>,
}

impl View<'_> {
    pub fn get_row(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.snapshot.get_cf(self.database.family(STATE), key).map_err(io::Error::other)
    }

    /// Visits the values of the rows whose keys begin with `first`, in descending order of keys, from the last one or
    /// from the key `from`, until `visit` returns false.
    pub fn for_each_back(
        &self,
        first: u8,
        from: Option<&[u8]>,
        mut visit: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_iterate_lower_bound([first]);
        options.set_iterate_upper_bound([first + 1]);
        let mut rows = self.snapshot.raw_iterator_cf_opt(self.database.family(STATE), options);
        match from {
            Some(key) => rows.seek_for_prev(key),
            None => rows.seek_to_last(),
        }
        while let Some(value) = rows.value() {
            if !visit(value)? {
                return Ok(());
            }
            rows.prev();
        }
        rows.status().map_err(io::Error::other)
    }

    /// Visits all rows in key order.
    pub fn for_each_row(&self, mut visit: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
        let rows = self.snapshot.raw_iterator_cf_opt(self.database.family(STATE), scan_options());
        scan(rows, &mut visit)
    }
}

/// Returns the options for reading a family from end to end.
fn scan_options() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.fill_cache(false);
    options.set_readahead_size(SCAN_READAHEAD_BYTES);
    options
}

/// Runs work that waits for the disk on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tasks::blocking(work).await
}

fn scan<D: DBAccess>(mut rows: DBRawIteratorWithThreadMode<'_, D>, visit: &mut RowSink<'_>) -> io::Result<()> {
    rows.seek_to_first();
    while let Some((key, value)) = rows.item() {
        visit(key, value)?;
        rows.next();
    }
    rows.status().map_err(io::Error::other)
}

fn has_log(log: &Log) -> bool {
    log.vote().is_some() || log.purged_and_last() != (None, None)
}

fn is_fresh(database: &Database, log: &Log) -> io::Result<bool> {
    Ok(!has_log(log) && database.is_empty(STATE)?)
}

#[cfg(test)]
mod tests;
