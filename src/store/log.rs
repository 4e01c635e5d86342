//! The Raft log on RocksDB, without the asynchronous face that openraft sees ([`super::raft_log`]).
//!
//! Lock order: `order`, then `state`. `order` makes the WAL, the queue of the flush thread and the
//! memory agree on one sequence of writes. `state` is held only for moments, except by truncate and
//! purge, which hold it across their (rare) write so that a reader never sees memory and database
//! of different times.

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

/// Memory for the newest entries: what followers are behind at full load. It is written round and round, and a large
/// one pushes everything else out of the caches of the processor.
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

/// Committed log id that a directory made from a file begins with, and that binaries before [`Commitment`] wrote.
struct Committed;
impl Scalar for Committed {
    const KEY: &'static str = "committed";
    type Value = Option<LogId>;
}

pub(super) type Durable = oneshot::Receiver<io::Result<()>>;

/// Entries on their way into the log.
pub(super) struct Append {
    pub(super) entries: Vec<Entry>,
    pub(super) callback: Option<IOFlushed<TypeConfig>>,
}

pub(super) struct Log {
    database: Arc<Database>,
    flush: FlushThread,
    commitment: Commitment,
    title: Arc<DirectoryOwner>,
    /// The highest level that the directory was raised to, so that an append need not ask.
    level: AtomicU8,
    order: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    vote: Option<types::Vote>,
    purged: Option<LogId>,
    /// Index of the first entry: what follows `purged`. (A log that was never purged begins at 0;
    /// only openraft's conformance suite begins one elsewhere.)
    first: u64,
    /// The last entry, or what was purged last.
    last: Option<LogId>,
    tail: EntryCache,
    footprint: Footprint,
}

impl State {
    /// The part of `range` that the log holds.
    fn clip(&self, range: Range<u64>) -> Range<u64> {
        range.start.max(self.first)..range.end.min(after(self.last.as_ref()))
    }
}

/// The index that follows `log_id`; the first index is 0.
pub(super) fn after(log_id: Option<&LogId>) -> u64 {
    log_id.map_or(0, |log_id| log_id.index + 1)
}

pub(super) fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

/// Bytes of an entry beside its payload: key, log id, RocksDB's own record.
const STORED_OVERHEAD_BYTES: u64 = 40;

/// Bytes of an entry on disk, near enough for a limit.
fn stored_bytes(entry: &Entry) -> u64 {
    STORED_OVERHEAD_BYTES + codec::entry_payload_bytes(entry) as u64
}

/// The highest level of any of `entries`.
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

    /// Noted before what it covers is applied, see [`Commitment`].
    pub(super) fn save_committed(&self, committed: Option<LogId>) -> io::Result<()> {
        self.database.check()?;
        match self.commitment.note(committed.as_ref()) {
            // What is not noted is as if less was committed.
            Err(error) if is_full(&error) => Ok(()),
            noted => self.database.keep_failure(noted.map_err(|error| error.to_string())),
        }
    }

    /// The newest entry of the log that is known to be committed.
    pub(super) fn committed(&self) -> io::Result<Option<LogId>> {
        let noted = match self.commitment.noted()? {
            Some(noted) if self.holds(&noted)? => Some(noted),
            _ => None,
        };
        Ok(noted.max(self.database.scalar::<Committed>()?.flatten()))
    }

    /// As the binary before does.
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

    /// Readable on return; the callback completes when durable. Where there is no room, entries and callback are left
    /// to the caller.
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

    /// The directory says what it holds before it holds it.
    fn raise_to(&self, level: Level) -> io::Result<()> {
        if level.0 > self.level.load(Ordering::Relaxed) {
            self.title.raise_to(level).map_err(StoreError::into_io)?;
            self.level.fetch_max(level.0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Removes what follows `keep`.
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

    /// Forgets everything up to and including `through`, which may lie beyond the end of the log
    /// (after a snapshot was installed).
    ///
    /// Where something is left, that alone is written down: what lies before the first entry is no part of the log,
    /// and goes with the files that hold nothing else ([`Log::drop_files`]). A tombstone over all of it would have
    /// every file of the log overlap the next, and each entry written once more by a compaction.
    ///
    /// Not synced. A purge lost in a crash is repeated; one that survives implies, there being one
    /// WAL, that the state batches before it survived, and nothing is purged that they lack.
    pub(super) fn purge(&self, through: LogId) -> io::Result<()> {
        let _order = self.order.lock();
        let mut state = self.state.lock();
        if through.index < after(state.purged.as_ref()) {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        self.database.put_scalar::<Purged>(&mut batch, &through);
        // So that the newest entry that is stored is the last one of the log, or there is none.
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

    /// Puts an empty log behind `last` in place of this one, on disk only: to be opened anew.
    pub(super) fn put_beginning(&self, batch: &mut WriteBatch, last: LogId, vote: types::Vote) -> io::Result<()> {
        // It is of another log.
        self.commitment.note(None)?;
        batch.delete_range_cf(self.database.family(LOG), key(0), key(u64::MAX));
        self.database.put_scalar::<Purged>(batch, &last);
        self.database.put_scalar::<Committed>(batch, &Some(last));
        self.database.put_scalar::<Vote>(batch, &vote);
        Ok(())
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> u64 {
        self.state.lock().footprint.bytes()
    }

    /// Bytes of the entries that follow `index`.
    pub(super) fn bytes_after(&self, index: u64) -> u64 {
        self.state.lock().footprint.bytes_after(index)
    }

    /// Index up to which the log can be purged so that at most `bytes` are left of it up to `index`.
    pub(super) fn cut(&self, index: u64, bytes: u64) -> Option<u64> {
        self.state.lock().footprint.cut(index, bytes)
    }

    /// Gives back the files that hold nothing beyond `purged`. None is read or written for it, and a reader that
    /// began before the purge keeps those that it needs. The purge has to be durable: else nobody would find after a
    /// crash what is looked for.
    pub(super) fn drop_files(&self, purged: &LogId) -> io::Result<()> {
        self.database.drop_files(LOG, &key(0), &key(purged.index))
    }

    /// Gives back all the space of what was purged, which otherwise waits until whole files are. Takes as long as
    /// what is kept beside it in these files is large.
    pub(super) fn compact(&self) -> io::Result<()> {
        let Some(purged) = self.purged_and_last().0 else { return Ok(()) };
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(self.database.family(LOG), key(0), key(purged.index + 1));
        self.database.write(batch)?;
        self.database.compact(LOG, None, Some(&key(purged.index + 1)))
    }

    /// Completes when everything written so far is durable.
    pub(super) fn barrier(&self) -> io::Result<Durable> {
        self.flush.barrier()
    }

    /// True if a read from `index` on needs no disk.
    pub(super) fn is_in_memory(&self, index: u64) -> bool {
        let state = self.state.lock();
        index >= after(state.last.as_ref()) || state.tail.first_index().is_some_and(|first| first <= index)
    }

    /// The entries that the log holds of `range`, cut where they pass `bytes_max` (but at least
    /// one). Consistent: as of one moment.
    pub(super) fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
        self.read_clipped(self.state.lock(), range, bytes_max)
    }

    /// The same for who goes on where something else ended, and would take what follows a gap for the next entry: that
    /// the log begins behind `range.start` is an error.
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
        // Begun before the lock is given back: it sees the same moment as `newest`, and keeps its files.
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

    /// A gap in the log must never reach the disk, whoever asks for it.
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
