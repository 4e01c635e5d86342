//! Length-prefixed frames on a connection: `length:u32 (big-endian) body`.
//!
//! Frames have no meaning here. Both directions are cancel-safe, so that one task can wait for input, output and its
//! own events in one `select!`, and no connection needs a lock.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::time::Instant;
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use super::limits::{FRAME_BYTES_MAX, HANDSHAKE_FRAME_BYTES_MAX, WRITE_STALL_MAX};
use super::wire::Wire;

const LENGTH_BYTES: usize = 4;
/// Capacity above which an empty outbox releases its memory.
const OUTBOX_KEPT_BYTES: usize = 256 * 1024;

/// One connection, split into its two directions.
pub(super) struct Connection {
    pub(super) reader: FrameReader,
    pub(super) writer: FrameWriter,
}

/// The outgoing direction, used through an [`Outbox`].
pub(super) type FrameWriter = WriteHalf<Wire>;

impl Connection {
    /// Creates a connection whose other end is not authenticated: only small frames are read.
    pub(super) fn new(wire: Wire) -> Self {
        let (reader, writer) = tokio::io::split(wire);
        let reader = Observed { half: reader, last_byte: Instant::now(), on_bytes: None };
        Connection { reader: FrameReader(FramedRead::new(reader, codec(HANDSHAKE_FRAME_BYTES_MAX))), writer }
    }

    /// Raises the size limit of frames, once the other end has authenticated.
    pub(super) fn trust(&mut self) {
        self.reader.0.decoder_mut().set_max_frame_length(FRAME_BYTES_MAX);
    }

    /// Writes one frame at once.
    pub(super) async fn send(&mut self, body: &[u8]) -> io::Result<()> {
        let mut outbox = Outbox::default();
        outbox.put(|out| out.put_slice(body))?;
        outbox.flush(&mut self.writer).await
    }

    /// Returns the stream below the frames, for tests that misuse it.
    #[cfg(test)]
    pub(super) fn into_wire(self) -> Wire {
        self.reader.0.into_inner().half.unsplit(self.writer)
    }

    /// Returns the next frame; the end of the stream is an error.
    pub(super) async fn expect(&mut self) -> io::Result<Bytes> {
        self.reader.next().await.ok_or(io::ErrorKind::UnexpectedEof)?
    }
}

/// Returns a codec that fails on longer frames.
pub(super) fn codec(frame_bytes_max: usize) -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(frame_bytes_max).new_codec()
}

/// The incoming direction.
pub(super) struct FrameReader(FramedRead<Observed, LengthDelimitedCodec>);

/// Byte stream that records arrivals, also of bytes of incomplete frames: a peer on a slow link is alive while they
/// come.
struct Observed {
    half: ReadHalf<Wire>,
    last_byte: Instant,
    on_bytes: Option<Box<dyn Fn() + Send + Sync>>,
}

impl AsyncRead for Observed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.half).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.last_byte = Instant::now();
            if let Some(on_bytes) = &self.on_bytes {
                on_bytes();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl FrameReader {
    /// Returns the next frame, or `None` at a clean end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        self.0.next().await.map(|frame| frame.map(BytesMut::freeze))
    }

    /// Returns the time at which the last byte arrived, or the connection was made.
    pub(super) fn last_byte(&self) -> Instant {
        self.0.get_ref().last_byte
    }

    /// Sets a function that is called whenever bytes arrive.
    pub(super) fn on_bytes(&mut self, on_bytes: impl Fn() + Send + Sync + 'static) {
        self.0.get_mut().on_bytes = Some(Box::new(on_bytes));
    }

    /// Reads and discards frames until the other end closes.
    pub(super) async fn drain(&mut self) {
        while let Some(Ok(_)) = self.next().await {}
    }
}

/// Frames queued for the outgoing direction: many small ones leave in one system call.
#[derive(Default)]
pub(super) struct Outbox {
    frames: BytesMut,
    /// True if TLS may hold encrypted bytes that are not handed to the socket yet.
    is_unflushed: bool,
}

impl Outbox {
    /// Reports whether no bytes are queued, here or in TLS.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && !self.is_unflushed
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Adds the frame whose body `write` appends. A body above the limit is removed again and is an error.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut BytesMut)) -> io::Result<()> {
        let start = self.frames.len();
        self.frames.put_bytes(0, LENGTH_BYTES);
        write(&mut self.frames);
        let length = self.frames.len() - start - LENGTH_BYTES;
        if length > FRAME_BYTES_MAX {
            self.frames.truncate(start);
            let text = format!("a frame of {length} bytes is above the limit of {FRAME_BYTES_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let prefix = u32::try_from(length).expect("the limit is below 4 GiB").to_be_bytes();
        self.frames[start..start + LENGTH_BYTES].copy_from_slice(&prefix);
        Ok(())
    }

    /// Writes some queued bytes to the socket. Cancel-safe; must not be called while empty.
    pub(super) async fn write_some(&mut self, writer: &mut FrameWriter) -> io::Result<()> {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        if !self.frames.is_empty() {
            let written = tokio::time::timeout(WRITE_STALL_MAX, writer.write_buf(&mut self.frames)).await;
            if written.map_err(late)?? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.is_unflushed = true;
        }
        if self.frames.is_empty() {
            tokio::time::timeout(WRITE_STALL_MAX, writer.flush()).await.map_err(late)??;
            self.is_unflushed = false;
            if self.frames.capacity() > OUTBOX_KEPT_BYTES {
                self.frames = BytesMut::new();
            }
        }
        Ok(())
    }

    /// Writes all queued bytes to the socket.
    pub(super) async fn flush(&mut self, writer: &mut FrameWriter) -> io::Result<()> {
        while !self.is_empty() {
            self.write_some(writer).await?;
        }
        Ok(())
    }
}
