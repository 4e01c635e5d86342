//! Length-prefixed frames on a TCP connection: `length:u32 (big-endian) body`.
//!
//! Knows nothing of what a frame means. Both directions are cancel-safe, so that one task can wait
//! for input, output and its own events in one `select!`, and no connection needs a lock.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use super::limits::{FRAME_BYTES_MAX, HANDSHAKE_FRAME_BYTES_MAX, WRITE_STALL_MAX};

const LENGTH_BYTES: usize = 4;
/// An outbox that has grown beyond this for one large frame gives its memory back once empty.
const OUTBOX_KEPT_BYTES: usize = 256 * 1024;

/// One TCP connection, cut into its two directions.
pub(super) struct Connection {
    pub(super) reader: FrameReader,
    pub(super) writer: OwnedWriteHalf,
}

impl Connection {
    /// A connection whose other end is still a stranger: only small frames are read.
    pub(super) fn new(stream: TcpStream) -> Self {
        let (reader, writer) = stream.into_split();
        let codec = LengthDelimitedCodec::builder().max_frame_length(HANDSHAKE_FRAME_BYTES_MAX).new_codec();
        Connection { reader: FrameReader(FramedRead::new(reader, codec)), writer }
    }

    /// Lifts the size limit, once the other end has authenticated.
    pub(super) fn trust(&mut self) {
        self.reader.0.decoder_mut().set_max_frame_length(FRAME_BYTES_MAX);
    }

    /// Writes one frame at once.
    pub(super) async fn send(&mut self, body: &[u8]) -> io::Result<()> {
        let mut outbox = Outbox::default();
        outbox.put(|out| out.put_slice(body))?;
        outbox.flush(&mut self.writer).await
    }

    /// The raw socket, for tests that misuse it.
    #[cfg(test)]
    pub(super) fn into_stream(self) -> TcpStream {
        self.reader.0.into_inner().reunite(self.writer).expect("two halves of one")
    }

    /// The next frame; its absence is an error.
    pub(super) async fn expect(&mut self) -> io::Result<Bytes> {
        self.reader.next().await.ok_or(io::ErrorKind::UnexpectedEof)?
    }
}

/// The incoming direction.
pub(super) struct FrameReader(FramedRead<OwnedReadHalf, LengthDelimitedCodec>);

impl FrameReader {
    /// The next frame, or `None` at a clean end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        self.0.next().await.map(|frame| frame.map(BytesMut::freeze))
    }

    /// Reads and forgets what still comes, until the other end closes.
    pub(super) async fn drain(&mut self) {
        while let Some(Ok(_)) = self.next().await {}
    }
}

/// Frames waiting for the outgoing direction: many small ones leave in one system call.
#[derive(Default)]
pub(super) struct Outbox(BytesMut);

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the frame whose body `write` appends. A body above the limit is taken back.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut BytesMut)) -> io::Result<()> {
        let start = self.0.len();
        self.0.put_bytes(0, LENGTH_BYTES);
        write(&mut self.0);
        let length = self.0.len() - start - LENGTH_BYTES;
        if length > FRAME_BYTES_MAX {
            self.0.truncate(start);
            let text = format!("a frame of {length} bytes is above the limit of {FRAME_BYTES_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let prefix = u32::try_from(length).expect("the limit is below 4 GiB").to_be_bytes();
        self.0[start..start + LENGTH_BYTES].copy_from_slice(&prefix);
        Ok(())
    }

    /// Hands some waiting bytes to the socket. Cancel-safe; call it only while not empty.
    pub(super) async fn write_some(&mut self, writer: &mut OwnedWriteHalf) -> io::Result<()> {
        let written = tokio::time::timeout(WRITE_STALL_MAX, writer.write_buf(&mut self.0)).await;
        if written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if self.0.is_empty() && self.0.capacity() > OUTBOX_KEPT_BYTES {
            self.0 = BytesMut::new();
        }
        Ok(())
    }

    /// Hands all waiting bytes to the socket.
    pub(super) async fn flush(&mut self, writer: &mut OwnedWriteHalf) -> io::Result<()> {
        while !self.is_empty() {
            self.write_some(writer).await?;
        }
        Ok(())
    }
}
