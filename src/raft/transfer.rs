//! Transfer of snapshots between the store and the peer wire.

use std::io;

use bytes::Bytes;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use crate::peer::SnapshotPort;
use crate::store::{IncomingSnapshot, SnapshotFile, Store};
use crate::tasks;

/// Disk space that an incoming snapshot needs, in multiples of its size: the file, and its rows while those that they
/// replace still exist.
const ROOM_TIMES: u64 = 2;

/// The store as seen by the peer wire.
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

    /// Opens a snapshot for sending. Fails if this node's state was found wrong.
    async fn open(&self, data: &SnapshotFile) -> io::Result<(File, u64)> {
        if let Some(why) = self.store.retired()? {
            return Err(io::Error::other(why));
        }
        Ok((File::from_std(data.open()?), data.bytes()))
    }

    /// Creates the file of an incoming snapshot. Fails if there is too little space to install it: a disk that fills up
    /// during the installation would end the node.
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

/// An incoming snapshot. Its file is deleted if it is dropped before it is sealed.
pub(super) struct Sink {
    incoming: IncomingSnapshot,
    file: File,
}
