//! Transfer of snapshots: one connection per transfer.
//!
//! ```text
//! sender   → header {vote, meta, bytes}, then chunks of up to 256 KiB
//! receiver → 0:u8                  still working, at least once a second
//!          | 1:u8 answer           installed
//!          | 2:u8 text             failed
//! ```
//!
//! Storage and verification of snapshots are left to [`SnapshotPort`]; this module only moves bytes.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use openraft::raft::SnapshotResponse;
use openraft::type_config::alias::SnapshotOf;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::frame::{Connection, FrameReader, FrameWriter, Outbox};
use super::limits::{SNAPSHOT_CHUNK_BYTES, SNAPSHOT_INSTALL_MAX, SNAPSHOT_STALL_MAX, SNAPSHOT_WORKING_INTERVAL};
use crate::format::codec;
use crate::format::types::{SnapshotMeta, TypeConfig, Vote};

/// Storage of snapshots, implemented by the store and used by both ends of a transfer.
pub trait SnapshotPort: Clone + Send + Sync + 'static {
    /// Type that openraft uses for the data of a snapshot.
    type Data: Send + 'static;
    type Source: AsyncRead + Send + Unpin;
    /// A snapshot being received. If it is dropped without [`SnapshotPort::seal`], its data is deleted.
    type Sink: Send + Sync;

    /// Opens a snapshot for sending, and returns its size in bytes.
    fn open(&self, data: &Self::Data) -> impl Future<Output = io::Result<(Self::Source, u64)>> + Send;

    /// Creates an incoming snapshot of `bytes`.
    fn create(&self, bytes: u64) -> impl Future<Output = io::Result<Self::Sink>> + Send;

    /// Appends the next bytes.
    fn write(&self, sink: &mut Self::Sink, chunk: Bytes) -> impl Future<Output = io::Result<()>> + Send;

    /// Verifies the received bytes by the checksum in them, and returns the snapshot ready for installation.
    fn seal(&self, sink: Self::Sink) -> impl Future<Output = io::Result<Self::Data>> + Send;
}

const WORKING: u8 = 0;
const INSTALLED: u8 = 1;
const GIVEN_UP: u8 = 2;

#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    vote: Vote,
    meta: SnapshotMeta,
    bytes: u64,
}

/// Sends a snapshot and waits until it is installed.
pub(super) async fn send<P: SnapshotPort>(
    connection: Connection,
    port: &P,
    vote: Vote,
    snapshot: SnapshotOf<TypeConfig, P::Data>,
) -> io::Result<SnapshotResponse<TypeConfig>> {
    let Connection { mut reader, mut writer } = connection;
    let (source, bytes) = port.open(&snapshot.snapshot).await?;
    let header = codec::to_bytes(&Header { vote, meta: snapshot.meta, bytes });
    // The receiver may fail in the middle (a full disk) and report it: both directions are watched.
    let pour = async {
        let mut outbox = Outbox::default();
        outbox.put(|out| out.put_slice(&header))?;
        pour(source, bytes, &mut outbox, &mut writer).await
    };
    let answer = verdict(&mut reader);
    tokio::pin!(pour, answer);
    tokio::select! {
        answer = &mut answer => answer,
        poured = &mut pour => match poured {
            Ok(()) => answer.await,
            // A reason from the receiver is more informative than a broken pipe.
            Err(broken) => Err(answer.await.err().unwrap_or(broken)),
        },
    }
}

async fn pour(
    source: impl AsyncRead + Unpin,
    bytes: u64,
    outbox: &mut Outbox,
    writer: &mut FrameWriter,
) -> io::Result<()> {
    // Reading one byte more than promised detects a file that still grows.
    let mut source = source.take(bytes.saturating_add(1));
    let mut sent = 0;
    let mut chunk = BytesMut::with_capacity(SNAPSHOT_CHUNK_BYTES);
    while stalled(source.read_buf(&mut chunk)).await? > 0 {
        sent += chunk.len() as u64;
        outbox.put(|out| out.put_slice(&chunk))?;
        chunk.clear();
        outbox.flush(writer).await?;
    }
    if sent != bytes {
        return Err(io::Error::other(format!("the snapshot was opened with {bytes} bytes and read with {sent}")));
    }
    Ok(())
}

/// Reads progress messages until the final one. The receiver limits the duration.
async fn verdict(reader: &mut FrameReader) -> io::Result<SnapshotResponse<TypeConfig>> {
    loop {
        let frame = next(reader).await?;
        match frame.first() {
            Some(&WORKING) => (),
            Some(&INSTALLED) => return codec::from_bytes(&frame[1..]),
            Some(&GIVEN_UP) => return Err(io::Error::other(String::from_utf8_lossy(&frame[1..]).into_owned())),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Receives a snapshot, has it installed and reports the result or the error to the sender.
pub(super) async fn receive<P, I, F>(connection: Connection, port: &P, install: I) -> io::Result<()>
where
    P: SnapshotPort,
    I: FnOnce(Vote, SnapshotOf<TypeConfig, P::Data>) -> F,
    F: Future<Output = Result<SnapshotResponse<TypeConfig>, String>>,
{
    let Connection { mut reader, mut writer } = connection;
    let mut work = Box::pin(async {
        let (vote, snapshot) = take_in(&mut reader, port).await.map_err(|error| error.to_string())?;
        let installed = timeout(SNAPSHOT_INSTALL_MAX, install(vote, snapshot)).await;
        installed.map_err(|_| "the snapshot was not installed in time".to_owned())?
    });
    let mut outbox = Outbox::default();
    let result = loop {
        match timeout(SNAPSHOT_WORKING_INTERVAL, &mut work).await {
            Ok(result) => break result,
            Err(_) => {
                outbox.put(|out| out.put_u8(WORKING))?;
                outbox.flush(&mut writer).await?;
            }
        }
    };
    drop(work);
    outbox.put(|out| match &result {
        Ok(response) => {
            out.put_u8(INSTALLED);
            out.put_slice(&codec::to_bytes(response));
        }
        Err(text) => {
            out.put_u8(GIVEN_UP);
            out.put_slice(text.as_bytes());
        }
    })?;
    outbox.flush(&mut writer).await?;
    super::serving::close(reader, writer).await;
    result.map(drop).map_err(io::Error::other)
}

async fn take_in<P: SnapshotPort>(
    reader: &mut FrameReader,
    port: &P,
) -> io::Result<(Vote, SnapshotOf<TypeConfig, P::Data>)> {
    let Header { vote, meta, bytes } = codec::from_bytes(&next(reader).await?)?;
    let mut sink = port.create(bytes).await?;
    let mut left = bytes;
    while left > 0 {
        let chunk = next(reader).await?;
        let length = chunk.len() as u64;
        if length == 0 || length > left {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the snapshot has another size than announced"));
        }
        stalled(port.write(&mut sink, chunk)).await?;
        left -= length;
    }
    Ok((vote, SnapshotOf::<TypeConfig, P::Data> { meta, snapshot: port.seal(sink).await? }))
}

async fn next(reader: &mut FrameReader) -> io::Result<Bytes> {
    stalled(async { reader.next().await.ok_or(io::ErrorKind::UnexpectedEof)? }).await
}

async fn stalled<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("nothing moved for {SNAPSHOT_STALL_MAX:?}"));
    timeout(SNAPSHOT_STALL_MAX, step).await.map_err(late)?
}
