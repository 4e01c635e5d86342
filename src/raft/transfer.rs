//! Snapshots between the store and the wire.

use std::io;

use bytes::Bytes;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use crate::peer::SnapshotPort;
use crate::store::{IncomingSnapshot, SnapshotFile, Store};
use crate::tasks;

/// Room that a snapshot takes where it arrives, in times of its size: the file, and its rows beside those that they
/// replace.
const ROOM_TIMES: u64 = 2;

/// The store as the wire sees it.
#[derive(Clone)]
pub(super) struct Port {
    store: Store,
}

impl Port {
    pub(super) fn new(store: Store) -> Self {
        Port { store }
    }
}

impl SnapshotPort for Port {
    type Data = SnapshotFile;
    type Source = File;
    type Sink = Sink;

    /// A state that is known to be wrong is given to nobody.
    async fn open(&self, data: &SnapshotFile) -> io::Result<(File, u64)> {
        if let Some(why) = self.store.retired()? {
            return Err(io::Error::other(why));
        }
        Ok((File::from_std(data.open()?), data.bytes()))
    }

    /// Refused before the first byte where it could not be installed either: a disk that runs full in the
    /// middle of that ends the node.
    async fn create(&self, bytes: u64) -> io::Result<Sink> {
        let store = self.store.clone();
        let space = tasks::blocking(move || store.disk_space()).await?;
        let needed = bytes.saturating_mul(ROOM_TIMES);
        if space.free_bytes < needed {
            let text = format!("a snapshot of {bytes} bytes needs {needed} of disk, {} are free", space.free_bytes);
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        let incoming = self.store.incoming_snapshot()?;
        let file = File::from_std(incoming.writer()?);
        Ok(Sink { incoming, file })
    }

    async fn write(&self, sink: &mut Sink, chunk: Bytes) -> io::Result<()> {
        sink.file.write_all(&chunk).await
    }

    async fn seal(&self, mut sink: Sink) -> io::Result<SnapshotFile> {
        sink.file.flush().await?;
        let store = self.store.clone();
        tasks::blocking(move || store.accept_incoming(sink.incoming)).await
    }
}

/// A snapshot on its way in; dropped unsealed, its file goes.
pub(super) struct Sink {
    incoming: IncomingSnapshot,
    file: File,
}
