//! A stream with hooks into its reads and writes ([`Hooks`]).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Result of a read.
pub(crate) type ReadResult = Poll<io::Result<()>>;
/// Result of a write.
pub(crate) type WriteResult = Poll<io::Result<usize>>;

/// Hooks of a stream. By default they change nothing.
pub(crate) trait Hooks: Unpin {
    /// Reads from the stream.
    fn read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> ReadResult {
        Pin::new(stream).poll_read(cx, buffer)
    }

    /// Returns the result of a write, given the stream's own.
    fn written(&mut self, _cx: &mut Context<'_>, written: WriteResult) -> WriteResult {
        written
    }
}

/// A stream that is read and written through its hooks.
pub(crate) struct HookedStream<S, H> {
    pub(crate) stream: S,
    pub(crate) hooks: H,
}

impl<S: AsyncRead + Unpin, H: Hooks> AsyncRead for HookedStream<S, H> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> ReadResult {
        let HookedStream { stream, hooks } = self.get_mut();
        hooks.read(stream, cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin, H: Hooks> AsyncWrite for HookedStream<S, H> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> WriteResult {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.hooks.written(cx, written)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> WriteResult {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.hooks.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
