//! openraft's storage traits on the log.
//!
//! Appends and votes reach the WAL on the calling task (a copy to the page cache) and become durable on the flush
//! thread. Reads that need the disk run on a blocking thread.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};

use super::blocking;
use super::log::{Append, Durable, Log};
use super::room::is_full;
use crate::format::types::{Entry, LogId, TypeConfig, Vote};

/// Maximum bytes that one read for replication or apply returns: a follower that lacks much must not pull the whole log
/// into memory.
const READ_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Handle on the Raft log of one [`super::Store`].
#[derive(Clone)]
pub struct LogStore {
    log: Arc<Log>,
}

impl LogStore {
    pub(super) fn new(log: Arc<Log>) -> Self {
        LogStore { log }
    }

    async fn read_on(&self, range: Range<u64>) -> io::Result<Vec<Entry>> {
        self.read(range, |log, range| log.read_on(range, READ_BYTES_MAX)).await
    }

    /// Repeats a write until there is room for it: consensus sees a full disk as a slow one. Fails if the node stops
    /// first.
    async fn write<T>(&self, mut write: impl FnMut(&Log) -> io::Result<T>) -> io::Result<T> {
        let mut waiting = None;
        loop {
            match write(&self.log) {
                Err(error) if is_full(&error) => {
                    waiting.get_or_insert_with(|| self.log.room().waiting()).pause().await?;
                }
                outcome => return outcome,
            }
        }
    }

    async fn read(
        &self,
        range: Range<u64>,
        read: impl FnOnce(&Log, Range<u64>) -> io::Result<Vec<Entry>> + Send + 'static,
    ) -> io::Result<Vec<Entry>> {
        if self.log.is_in_memory(range.start) {
            return read(&self.log, range);
        }
        let log = self.log.clone();
        blocking(move || read(&log, range)).await
    }
}

pub(super) async fn durable(wait: Durable) -> io::Result<()> {
    wait.await.map_err(|_| io::Error::other("the flush thread of the log has died"))?
}

fn to_range(bounds: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match bounds.start_bound() {
        Bound::Included(index) => *index,
        Bound::Excluded(index) => index.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match bounds.end_bound() {
        Bound::Included(index) => index.saturating_add(1),
        Bound::Excluded(index) => *index,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<Entry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        self.read(to_range(&range), |log, range| log.read(range, usize::MAX)).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.read_on(start..end).await
    }

    /// Returns the entries for apply, in pieces, since after a restart the range may be most of the log.
    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = io::Result<Entry>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let log = self.clone();
        let pieces = stream::try_unfold((log, to_range(&range)), |(log, range)| async move {
            let entries = log.read_on(range.clone()).await?;
            let next = entries.last().map(|entry| entry.log_id.index + 1..range.end);
            Ok::<_, io::Error>(next.map(|next| (entries, (log, next))))
        });
        let entries = pieces.flat_map(|piece| match piece {
            Ok(entries) => stream::iter(entries.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        });
        Box::pin(entries)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.log.vote())
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let (last_purged_log_id, last_log_id) = self.log.purged_and_last();
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        durable(self.write(|log| log.save_vote(vote)).await?).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.log.save_committed(committed)
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        self.log.committed()
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut appended = Append { entries: entries.into_iter().collect(), callback: Some(callback) };
        self.write(|log| log.append(&mut appended)).await
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> io::Result<()> {
        durable(self.write(|log| log.truncate_after(last_log_id)).await?).await
    }

    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        self.write(|log| log.purge(log_id)).await
    }
}
