//! Snapshots between the store and the wire.

use std::io;

use bytes::Bytes;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::peer::SnapshotPort;
use crate::store::{IncomingSnapshot, SnapshotFile, Store};

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

    async fn open(&self, data: &SnapshotFile) -> io::Result<(File, u64)> {
        Ok((File::from_std(data.open()?), data.bytes()))
    }

    async fn create(&self, _bytes: u64) -> io::Result<Sink> {
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
        let sealed = tokio::task::spawn_blocking(move || store.accept_incoming(sink.incoming));
        sealed.await.map_err(io::Error::other)?
    }
}

/// A snapshot on its way in; dropped unsealed, its file goes.
pub(super) struct Sink {
    incoming: IncomingSnapshot,
    file: File,
}
