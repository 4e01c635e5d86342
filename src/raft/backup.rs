//! Backup of this node's state while writes go on.
//!
//! A backup is a snapshot file that is never stored here: the rows of one RocksDB view pass through a bounded channel
//! into the response, as fast as its reader accepts them. It occupies a thread, and the view retains data that
//! compactions would remove. So the number of concurrent backups is limited, and a backup ends if its reader stalls or
//! takes too long.

mod on_node;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::progress::{PROGRESS_KEY, Progress};
use crate::catalog::Row;
use crate::catalog::nodes::Cluster;
use crate::format::header::StateHeader;
use crate::model::time::Timestamp;
use crate::store::View;

const CHUNK_BYTES: usize = 256 * 1024;

/// Pause between two attempts to queue a chunk.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// A running backup.
pub struct Backup<S> {
    pub header: StateHeader,
    /// Contents of the file, in order; the last item is an error if the backup failed.
    pub chunks: S,
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
