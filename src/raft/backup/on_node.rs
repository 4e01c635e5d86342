//! Backups that a node takes.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{Backup, Chunks, header_of};
use crate::format::codec;
use crate::format::header::StateHeader;
use crate::model::code::{Code, Refusal};
use crate::model::limits::{BACKUP_SECONDS_MAX, BACKUP_STALL_SECONDS, BACKUPS_AT_ONCE};
use crate::raft::node::Node;
use crate::tasks;

/// Chunks queued between the thread that reads the view and the connection that sends them.
const CHUNKS_QUEUED_MAX: usize = 8;

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
