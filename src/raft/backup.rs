//! Backup of this node's state while writes go on.
//!
//! A backup is a snapshot file that is never stored here: the rows of one RocksDB view pass through a bounded channel
//! into the response, as fast as its reader accepts them. It occupies a thread, and the view retains data that
//! compactions would remove. So the number of concurrent backups is limited, and a backup ends if its reader stalls or
//! takes too long.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::machine::{PROGRESS_KEY, Progress};
use super::node::Node;
use crate::catalog::Row;
use crate::catalog::nodes::Cluster;
use crate::format::codec;
use crate::format::header::StateHeader;
use crate::model::code::{Code, Refusal};
use crate::model::limits::{BACKUP_SECONDS_MAX, BACKUP_STALL_SECONDS, BACKUPS_AT_ONCE};
use crate::model::time::Timestamp;
use crate::store::View;
use crate::tasks;

const CHUNK_BYTES: usize = 256 * 1024;
/// Chunks queued between the thread that reads the view and the connection that sends them.
const CHUNKS_QUEUED_MAX: usize = 8;
/// Pause between two attempts to queue a chunk.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// A running backup.
pub struct Backup<S> {
    pub header: StateHeader,
    /// Contents of the file, in order; the last item is an error if the backup failed.
    pub chunks: S,
}

impl Node {
    /// Starts a backup of what this node has applied.
    pub async fn backup(&self) -> Result<Backup<impl Stream<Item = io::Result<Bytes>> + Send + use<>>, Refusal> {
        let Ok(permit) = self.inner().upkeep.backups.clone().try_acquire_owned() else {
            let why = format!("{BACKUPS_AT_ONCE} backups are being taken from this node");
            return Err(Refusal::new(Code::TooManyWaiters, why));
        };
        let (chunks, taken) = mpsc::channel(CHUNKS_QUEUED_MAX);
        let (begun, header) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let (node, since) = (self.clone(), Instant::now());
        tasks::blocking_errand(move || {
            let is_stopping = || node.inner().lifecycle.stopping.load(Ordering::Relaxed);
            let patience = Duration::from_secs(BACKUP_STALL_SECONDS);
            let sink = Chunks { chunks, patience, whole: Duration::from_secs(BACKUP_SECONDS_MAX), since, is_stopping };
            // The receiver is gone if the reader is.
            let _ = ended.send(node.write_backup(begun, sink, permit));
        });
        let header = match header.await {
            Ok(Ok(header)) => header,
            // Reading rows requires that all pending ones are written.
            Ok(Err(error)) if error.kind() == io::ErrorKind::StorageFull => {
                let why = format!("{error}, and a backup waits for what has to be written: take it from another node");
                return Err(Refusal::new(Code::NoRoom, why));
            }
            _ => return Err(Refusal::new(Code::StoreLayerException, "the state of this node cannot be read")),
        };
        let chunks = unfold(Some((taken, end)), |state| async move {
            let (mut taken, end) = state?;
            if let Some(chunk) = taken.recv().await {
                return Some((Ok(chunk), Some((taken, end))));
            }
            let end = end.await.unwrap_or_else(|_| Err(io::Error::other("the backup was abandoned")));
            end.err().map(|error| (Err(error), None))
        });
        Ok(Backup { header, chunks })
    }

    fn write_backup(
        &self,
        begun: oneshot::Sender<io::Result<StateHeader>>,
        sink: impl Write,
        _permit: OwnedSemaphorePermit,
    ) -> io::Result<()> {
        let started = Instant::now();
        let written = self.write_view(begun, sink);
        let event = if written.is_ok() { "done" } else { "failed" };
        self.metrics().backups.with_label_values(&[event]).inc();
        match written {
            Ok(bytes) => {
                tracing::info!(bytes, elapsed_ms = started.elapsed().as_millis(), "a backup was taken");
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "a backup failed");
                Err(error)
            }
        }
    }

    fn write_view(&self, begun: oneshot::Sender<io::Result<StateHeader>>, sink: impl Write) -> io::Result<u64> {
        let read = self.store().view().and_then(|view| Ok((header_of(&view, self.state().clock.wall_time())?, view)));
        let (header, view) = match read {
            Ok(read) => read,
            Err(error) => {
                // The caller gets the kind of the error, the log the whole.
                let _ = begun.send(Err(io::Error::new(error.kind(), error.to_string())));
                return Err(error);
            }
        };
        let bytes = codec::to_bytes(&header);
        begun.send(Ok(header)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        self.store().write_view(&view, bytes, sink)
    }
}

/// Returns the header of a file with the rows of `view`.
pub(super) fn header_of(view: &View<'_>, created: Timestamp) -> io::Result<StateHeader> {
    let progress = Progress::read(view.get_row(PROGRESS_KEY)?)?;
    let cluster = view.get_row(&[Cluster::TABLE as u8])?;
    let cluster = cluster.map(|row| Cluster::read(&row)).transpose().map_err(io::Error::other)?;
    let level = cluster.as_ref().map(|cluster| cluster.level).unwrap_or_default();
    Ok(StateHeader {
        last_log_id: progress.last_applied,
        last_membership: progress.membership,
        level,
        cluster_id: cluster.map(|cluster| cluster.cluster_id),
        state_hash: hex::encode(progress.hash),
        format: level.digest().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_ms: created.0,
    })
}

/// Writer that cuts its input into chunks and sends them, within time limits.
struct Chunks<F> {
    chunks: mpsc::Sender<Bytes>,
    /// Limit for one chunk.
    patience: Duration,
    /// Limit for all chunks.
    whole: Duration,
    since: Instant,
    is_stopping: F,
}

impl<F> Chunks<F> {
    /// Returns the error that ends the wait for a reader that has not taken a chunk since `began`; `None` if it may go
    /// on.
    fn impatience(&self, began: Instant) -> Option<io::Error> {
        let why = if began.elapsed() > self.patience {
            format!("its reader took nothing for {:?}", self.patience)
        } else if self.since.elapsed() > self.whole {
            format!("its reader has not taken all of it within {:?}", self.whole)
        } else {
            return None;
        };
        Some(io::Error::new(io::ErrorKind::TimedOut, why))
    }
}

impl<F: Fn() -> bool> Write for Chunks<F> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let part = &buffer[..buffer.len().min(CHUNK_BYTES)];
        let mut chunk = Bytes::copy_from_slice(part);
        let began = Instant::now();
        loop {
            chunk = match self.chunks.try_send(chunk) {
                Ok(()) => return Ok(part.len()),
                Err(TrySendError::Closed(_)) => return Err(io::Error::other("its reader hung up")),
                Err(TrySendError::Full(chunk)) => chunk,
            };
            if let Some(error) = self.impatience(began) {
                return Err(error);
            }
            if (self.is_stopping)() {
                return Err(io::Error::other("the node is shutting down"));
            }
            std::thread::sleep(FULL_PAUSE);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(patience: Duration, is_stopping: bool) -> (Chunks<impl Fn() -> bool>, mpsc::Receiver<Bytes>) {
        let (chunks, taken) = mpsc::channel(1);
        let (whole, since) = (Duration::from_secs(20), Instant::now());
        (Chunks { chunks, patience, whole, since, is_stopping: move || is_stopping }, taken)
    }

    #[test]
    fn a_reader_is_waited_for_and_gets_all_of_it_in_order() {
        let (mut sink, mut taken) = chunks(Duration::from_secs(20), false);
        let written: Vec<u8> = (0..CHUNK_BYTES * 3 + 7).map(|n| n as u8).collect();
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            while let Some(chunk) = taken.blocking_recv() {
                assert!(chunk.len() <= CHUNK_BYTES);
                read.extend_from_slice(&chunk);
            }
            read
        });
        sink.write_all(&written).expect("taken");
        drop(sink);
        assert!(reader.join().expect("no panic") == written);
    }

    /// A reader that takes a chunk now and then would hold its view and its permit for days.
    #[test]
    fn a_reader_that_never_comes_to_the_end_ends_it() {
        let (mut slow, mut taken) = chunks(Duration::from_secs(20), false);
        slow.whole = Duration::from_millis(20);
        let reader = std::thread::spawn(move || {
            while taken.blocking_recv().is_some() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let error = slow.write_all(&vec![0; CHUNK_BYTES * 1000]).expect_err("too slow for all of it");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("all of it"), "{error}");
        drop(slow);
        reader.join().expect("no panic");
    }

    #[test]
    fn a_reader_that_takes_nothing_or_hangs_up_ends_it_and_so_does_the_node() {
        let (mut stalled, _taken) = chunks(Duration::from_millis(20), false);
        let error = stalled.write_all(&[0; CHUNK_BYTES * 2]).expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let (mut gone, taken) = chunks(Duration::from_secs(20), false);
        drop(taken);
        assert!(gone.write_all(b"x").expect_err("nobody is there").to_string().contains("hung up"));
        let (mut stopping, _taken) = chunks(Duration::from_secs(20), true);
        let error = stopping.write_all(&[0; CHUNK_BYTES * 2]).expect_err("the node goes");
        assert!(error.to_string().contains("shutting down"), "{error}");
    }
}
