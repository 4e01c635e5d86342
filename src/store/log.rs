//! The Raft log on RocksDB, without openraft's asynchronous interface ([`super::raft_log`]).
//!
//! Lock order: `order`, then `state`. `order` makes the WAL, the queue of the flush thread and the memory agree on one
//! sequence of writes. `state` is held only briefly, except by truncate and purge, which hold it across their (rare)
//! write so that a reader never sees memory and database of different times.

use std::io;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::BytesMut;
use parking_lot::{Mutex, MutexGuard};
use rocksdb::{IteratorMode, ReadOptions, WriteBatch};
use tokio::sync::oneshot;

use openraft::storage::IOFlushed;

use super::StoreError;
use super::commit_marker::Commitment;
use super::contiguous::{collect_contiguous, last_of_contiguous};
use super::database::{Database, LOG, Scalar};
use super::entry_cache::{EntryCache, entry_bytes};
use super::flush::{FlushThread, Waiter};
use super::footprint::Footprint;
use super::identity::DirectoryOwner;
use super::room::{Room, is_full};
use crate::format::codec;
use crate::format::level::Level;
use crate::format::types::{self, Entry, LogId, TypeConfig};

/// Memory for the newest entries: what followers lack at full load. It is rewritten continuously, and a large one would
/// evict everything else from the processor's caches.
const TAIL_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(super) struct Vote;
impl Scalar for Vote {
    const KEY: &'static str = "vote";
    type Value = types::Vote;
}

pub(super) struct Purged;
impl Scalar for Purged {
    const KEY: &'static str = "purged";
    type Value = LogId;
}

/// Committed log id that a directory created from a file begins with, and that binaries before [`Commitment`] wrote.
struct Committed;
impl Scalar for Committed {
    const KEY: &'static str = "committed";
    type Value = Option<LogId>;
}

pub(super) type Durable = oneshot::Receiver<io::Result<()>>;

/// Entries to append to the log.
pub(super) struct Append {
    pub(super) entries: Vec<Entry>,
    pub(super) callback: Option<IOFlushed<TypeConfig>>,
}

pub(super) struct Log {
    database: Arc<Database>,
    flush: FlushThread,
    commitment: Commitment,
    title: Arc<DirectoryOwner>,
    /// The level that the directory was raised to, cached for appends.
    level: AtomicU8,
    order: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    vote: Option<types::Vote>,
    purged: Option<LogId>,
    /// Index of the first entry: the one that follows `purged`. (A log that was never purged begins at 0; only
    /// openraft's conformance suite begins one elsewhere.)
    first: u64,
    /// The last entry, or the last one that was purged.
    last: Option<LogId>,
    tail: EntryCache,
    footprint: Footprint,
}

impl State {
    /// Returns the part of `range` that the log has.
    fn clip(&self, range: Range<u64>) -> Range<u64> {
        range.start.max(self.first)..range.end.min(after(self.last.as_ref()))
    }
}

/// Returns the index that follows `log_id`; the first index is 0.
pub(super) fn after(log_id: Option<&LogId>) -> u64 {
    log_id.map_or(0, |log_id| log_id.index + 1)
}

pub(super) fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

/// Bytes of an entry in addition to its payload: key, log id, RocksDB's own record.
const STORED_OVERHEAD_BYTES: u64 = 40;

/// Returns the approximate bytes of an entry on disk.
fn stored_bytes(entry: &Entry) -> u64 {
    STORED_OVERHEAD_BYTES + codec::entry_payload_bytes(entry) as u64
}

/// Returns the highest level of `entries`.
fn level_of(entries: &[Entry]) -> Level {
    entries.iter().map(codec::entry_level).max().unwrap_or_default()
}

impl Log {
    pub(super) fn open(
        database: Arc<Database>,
        flush: FlushThread,
        title: Arc<DirectoryOwner>,
    ) -> Result<Self, StoreError> {
        let purged = database.scalar::<Purged>().map_err(StoreError::at(database.path()))?;
        let mut footprint = Footprint::default();
        let note = |entry: &Entry| footprint.push(entry.log_id.index, stored_bytes(entry));
        let last = last_of_contiguous(&database, purged.as_ref(), note)?.or(purged);
        let vote = database.scalar::<Vote>().map_err(StoreError::at(database.path()))?;
        let first = after(purged.as_ref());
        let state = State { vote, purged, first, last, tail: EntryCache::new(TAIL_BYTES_MAX), footprint };
        let level = AtomicU8::new(title.identity().level.0);
        let commitment = Commitment::open(title.dir()).map_err(StoreError::at(title.dir()))?;
        Ok(Log { database, flush, commitment, title, level, order: Mutex::new(()), state: Mutex::new(state) })
    }

    pub(super) fn purged_and_last(&self) -> (Option<LogId>, Option<LogId>) {
        let state = self.state.lock();
        (state.purged, state.last)
    }

    pub(super) fn vote(&self) -> Option<types::Vote> {
        self.state.lock().vote
    }

    pub(super) fn save_vote(&self, vote: &types::Vote) -> io::Result<Durable> {
        let mut batch = WriteBatch::default();
        self.database.put_scalar::<Vote>(&mut batch, vote);
        let _order = self.order.lock();
        self.database.write(batch)?;
        self.state.lock().vote = Some(*vote);
        self.flush.barrier()
    }

    /// Records a committed log id. Called before the entries that it covers are applied, see [`Commitment`].
    pub(super) fn save_committed(&self, committed: Option<LogId>) -> io::Result<()> {
        self.database.check()?;
        match self.commitment.note(committed.as_ref()) {
            // A missing record only means that less counts as committed.
            Err(error) if is_full(&error) => Ok(()),
            noted => self.database.keep_failure(noted.map_err(|error| error.to_string())),
        }
    }

    /// Returns the newest entry of the log that is known to be committed.
    pub(super) fn committed(&self) -> io::Result<Option<LogId>> {
        let noted = match self.commitment.noted()? {
            Some(noted) if self.holds(&noted)? => Some(noted),
            _ => None,
        };
        Ok(noted.max(self.database.scalar::<Committed>()?.flatten()))
    }

    /// Records a committed log id as the previous binary did.
    #[cfg(test)]
    pub(super) fn put_old_committed(&self, committed: LogId) -> io::Result<()> {
        let mut batch = WriteBatch::default();
        self.database.put_scalar::<Committed>(&mut batch, &Some(committed));
        self.database.write(batch)
    }

    fn holds(&self, log_id: &LogId) -> io::Result<bool> {
        Ok(self.read(log_id.index..log_id.index + 1, 1)?.first().is_some_and(|entry| entry.log_id == *log_id))
    }

    pub(super) fn room(&self) -> &Room {
        self.database.room()
    }

    /// Appends entries: readable on return, and the callback completes when they are durable. If there is no room,
    /// entries and callback are left in `appended`.
    pub(super) fn append(&self, appended: &mut Append) -> io::Result<()> {
        let Append { entries, callback } = appended;
        self.raise_to(level_of(entries))?;
        let batch = self.encode(entries);
        let _order = self.order.lock();
        self.check_follows(entries)?;
        self.database.write(batch)?;
        let mut state = self.state.lock();
        for entry in mem::take(entries) {
            state.last = Some(entry.log_id);
            state.footprint.push(entry.log_id.index, stored_bytes(&entry));
            state.tail.push(entry);
        }
        drop(state);
        callback.take().map_or(Ok(()), |callback| self.flush.push(Waiter::Append(callback)))
    }

    /// Raises the level of the directory before an entry of that level is written.
    fn raise_to(&self, level: Level) -> io::Result<()> {
        if level.0 > self.level.load(Ordering::Relaxed) {
            self.title.raise_to(level).map_err(StoreError::into_io)?;
            self.level.fetch_max(level.0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Removes the entries that follow `keep`.
    pub(super) fn truncate_after(&self, keep: Option<LogId>) -> io::Result<Durable> {
        let _order = self.order.lock();
        let mut state = self.state.lock();
        let doomed = state.clip(after(keep.as_ref())..u64::MAX);
        if !doomed.is_empty() {
            let mut batch = WriteBatch::default();
            batch.delete_range_cf(self.database.family(LOG), key(doomed.start), key(doomed.end));
            self.database.write(batch)?;
            state.tail.truncate_from(doomed.start);
            state.footprint.truncate_from(doomed.start);
            state.last = if doomed.start == state.first { state.purged } else { keep };
        }
        drop(state);
        self.flush.barrier()
    }

    /// Removes everything up to and including `through`, which may lie beyond the end of the log (after a snapshot was
    /// installed).
    ///
    /// If entries remain, only the purged id is written: entries before the first one are no part of the log, and are
    /// deleted with the files that contain nothing else ([`Log::drop_files`]). A tombstone over all of them would make
    /// every file of the log overlap the next, and a compaction would rewrite each entry.
    ///
    /// Not synced. A purge lost in a crash is repeated; one that survives implies, with a single WAL, that the state
    /// batches before it survived, and they contain everything that was purged.
    pub(super) fn purge(&self, through: LogId) -> io::Result<()> {
        let _order = self.order.lock();
        let mut state = self.state.lock();
        if through.index < after(state.purged.as_ref()) {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        self.database.put_scalar::<Purged>(&mut batch, &through);
        // Ensures that the newest stored entry is the last one of the log, or that there is none.
        let leaves_nothing = state.last.is_none_or(|last| last.index <= through.index);
        if leaves_nothing {
            batch.delete_range_cf(self.database.family(LOG), key(0), key(through.index + 1));
        }
        self.database.write(batch)?;
        state.tail.drop_through(through.index);
        state.footprint.drop_through(through.index);
        state.purged = Some(through);
        state.first = state.first.max(through.index + 1);
        if leaves_nothing {
            state.last = Some(through);
        }
        Ok(())
    }

    /// Replaces the log on disk by an empty one that follows `last`; the log has to be reopened.
    pub(super) fn put_beginning(&self, batch: &mut WriteBatch, last: LogId, vote: types::Vote) -> io::Result<()> {
        // It belongs to another log.
        self.commitment.note(None)?;
        batch.delete_range_cf(self.database.family(LOG), key(0), key(u64::MAX));
        self.database.put_scalar::<Purged>(batch, &last);
        self.database.put_scalar::<Committed>(batch, &Some(last));
        self.database.put_scalar::<Vote>(batch, &vote);
        Ok(())
    }

    /// Returns the bytes of all entries.
    pub(super) fn bytes(&self) -> u64 {
        self.state.lock().footprint.bytes()
    }

    /// Returns the bytes of the entries that follow `index`.
    pub(super) fn bytes_after(&self, index: u64) -> u64 {
        self.state.lock().footprint.bytes_after(index)
    }

    /// Returns the index up to which the log can be purged so that at most `bytes` remain of it up to `index`.
    pub(super) fn cut(&self, index: u64, bytes: u64) -> Option<u64> {
        self.state.lock().footprint.cut(index, bytes)
    }

    /// Deletes the files that contain nothing beyond `purged`. None is read or written for it, and a reader that
    /// started before the purge keeps the files that it needs. The purge has to be durable: otherwise entries could be
    /// missing after a crash.
    pub(super) fn drop_files(&self, purged: &LogId) -> io::Result<()> {
        self.database.drop_files(LOG, &key(0), &key(purged.index))
    }

    /// Frees all the space of purged entries, which [`Log::drop_files`] leaves in files with other entries. The
    /// duration depends on the size of these.
    pub(super) fn compact(&self) -> io::Result<()> {
        let Some(purged) = self.purged_and_last().0 else { return Ok(()) };
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(self.database.family(LOG), key(0), key(purged.index + 1));
        self.database.write(batch)?;
        self.database.compact(LOG, None, Some(&key(purged.index + 1)))
    }

    /// Returns a receiver that completes once everything written so far is durable.
    pub(super) fn barrier(&self) -> io::Result<Durable> {
        self.flush.barrier()
    }

    /// Reports whether a read from `index` on needs no disk.
    pub(super) fn is_in_memory(&self, index: u64) -> bool {
        let state = self.state.lock();
        index >= after(state.last.as_ref()) || state.tail.first_index().is_some_and(|first| first <= index)
    }

    /// Returns the entries of `range` that the log has, up to `bytes_max` but at least one, as of one moment.
    pub(super) fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
        self.read_clipped(self.state.lock(), range, bytes_max)
    }

    /// Reads like [`Log::read`], for a reader that continues at `range.start` and would not notice a gap: fails if the
    /// log begins after it.
    pub(super) fn read_on(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let state = self.state.lock();
        let Range { start, end } = range;
        if start < end && start < state.first {
            return Err(io::Error::other(format!("log entry {start} is wanted, the log begins at {}", state.first)));
        }
        self.read_clipped(state, range, bytes_max)
    }

    fn read_clipped(
        &self,
        state: MutexGuard<'_, State>,
        range: Range<u64>,
        bytes_max: usize,
    ) -> io::Result<Vec<Entry>> {
        let range = state.clip(range);
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let in_memory = state.tail.first_index().unwrap_or(range.end).clamp(range.start, range.end);
        let newest = state.tail.read(in_memory..range.end, bytes_max);
        if in_memory == range.start {
            return Ok(newest);
        }
        // Created before the lock is released: it sees the same moment as `newest`, and retains its files.
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(key(in_memory));
        let start = key(range.start);
        let mode = IteratorMode::From(&start, rocksdb::Direction::Forward);
        let stored = self.database.rocks().iterator_cf_opt(self.database.family(LOG), options, mode);
        drop(state);
        let mut entries = collect_contiguous(stored, range.start..in_memory, bytes_max)?;
        let is_cut = after(entries.last().map(|entry| &entry.log_id)) < in_memory;
        let bytes: usize = entries.iter().map(entry_bytes).sum();
        if !is_cut && bytes < bytes_max {
            entries.extend(newest);
        }
        Ok(entries)
    }

    fn encode(&self, entries: &[Entry]) -> WriteBatch {
        let family = self.database.family(LOG);
        let mut batch = WriteBatch::default();
        let mut value = BytesMut::new();
        for entry in entries {
            value.clear();
            codec::put_entry(&mut value, entry);
            batch.put_cf(family, key(entry.log_id.index), &value);
        }
        batch
    }

    /// Checks that the entries leave no gap: a gap must never reach the disk.
    fn check_follows(&self, entries: &[Entry]) -> io::Result<()> {
        let mut state = self.state.lock();
        if let (None, Some(entry)) = (state.last, entries.first()) {
            state.first = entry.log_id.index;
        }
        let expected = state.last.map_or(state.first, |last| last.index + 1);
        let follows = (expected..).zip(entries).all(|(index, entry)| entry.log_id.index == index);
        if follows { Ok(()) } else { Err(io::Error::other(format!("append that does not start at entry {expected}"))) }
    }
}
