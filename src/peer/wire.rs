//! The bytes of a connection on their way: TLS, or as they are for nodes from before it.
//!
//! A server tells the two apart by the first byte. Nothing here is authenticated yet; that is what
//! [`super::handshake`] does with the value that [`Wire::binding`] gives.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::handshake::Turned;
use super::limits::TLS_READ_BYTES;
use crate::tls::{self, Ephemeral};

/// Bytes of the value that binds the proof of the secret to one TLS connection.
pub(super) const BINDING_BYTES: usize = 32;
/// Its label (RFC 9266 has one for everybody; with one of our own no other protocol can be its other end).
const BINDING_LABEL: &[u8] = b"EXPORTER-thuban-peer";

/// One connection.
pub(super) enum Wire {
    Plain(TcpStream),
    /// Read through a buffer, as rustls itself asks the socket for little at a time.
    Tls(Box<TlsStream<BufReader<TcpStream>>>),
}

impl Wire {
    /// The client's end of TLS. Any certificate will do.
    pub(super) async fn secured(stream: TcpStream, tls: &Ephemeral) -> io::Result<Wire> {
        let secured = tls.connect(buffered(stream)).await?;
        Ok(Wire::Tls(Box::new(secured.into())))
    }

    /// The server's end of whatever the caller begins with.
    pub(super) async fn accepted(stream: TcpStream, tls: &Ephemeral) -> Result<Wire, Turned> {
        if !tls::begins_with_tls(&stream).await? {
            return Ok(Wire::Plain(stream));
        }
        match tls.accept(buffered(stream)).await {
            Ok(secured) => Ok(Wire::Tls(Box::new(secured.into()))),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Turned("tls")),
            Err(_) => Err(Turned("gone")),
        }
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Wire::Plain(_))
    }

    /// A value that only the two ends of this TLS connection can know; none without TLS.
    pub(super) fn binding(&self) -> io::Result<Option<[u8; BINDING_BYTES]>> {
        let Wire::Tls(stream) = self else { return Ok(None) };
        let zero = [0; BINDING_BYTES];
        let value = match &**stream {
            TlsStream::Client(stream) => stream.get_ref().1.export_keying_material(zero, BINDING_LABEL, None),
            TlsStream::Server(stream) => stream.get_ref().1.export_keying_material(zero, BINDING_LABEL, None),
        };
        value.map(Some).map_err(io::Error::other)
    }
}

fn buffered(stream: TcpStream) -> BufReader<TcpStream> {
    BufReader::with_capacity(TLS_READ_BYTES, stream)
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Wire::Tls(stream) => match ready!(Pin::new(stream).poll_read(cx, buffer)) {
                // A process that was killed did not say goodbye. Nothing can be cut off unseen: every frame
                // says how long it is.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
                read => Poll::Ready(read),
            },
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Wire::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
