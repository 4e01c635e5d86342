//! TLS of the connections between nodes.
//!
//! TLS authenticates nothing here: [`super::handshake`] does, with the value of [`HookedStream::binding`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::handshake::Turned;
use super::limits::TLS_READ_BYTES;
use crate::connections::{HookedStream, Hooks, ReadResult};
use crate::tls::{self, Ephemeral};

/// Bytes of the value that binds the proof of the secret to one TLS connection.
pub(super) const BINDING_BYTES: usize = 32;
/// Label of that value. RFC 9266 defines a common one; with our own, no other protocol can be the other end.
const BINDING_LABEL: &[u8] = b"EXPORTER-thuban-peer";

/// One TLS connection. It is read through a buffer, because rustls reads little from the socket at a time.
pub(super) type Wire = HookedStream<Box<TlsStream<BufReader<TcpStream>>>, UncleanEnd>;

impl Wire {
    /// Opens the client's end. Any certificate is accepted.
    pub(super) async fn secured(stream: TcpStream, tls: &Ephemeral) -> io::Result<Wire> {
        let secured = tls.connect(buffered(stream)).await?;
        Ok(HookedStream { stream: Box::new(secured.into()), hooks: UncleanEnd })
    }

    /// Opens the server's end. A caller that does not start with TLS gets no byte, not even an alert.
    pub(super) async fn accepted(stream: TcpStream, tls: &Ephemeral) -> Result<Wire, Turned> {
        if !tls::begins_with_tls(&stream).await? {
            return Err(Turned("tls"));
        }
        match tls.accept(buffered(stream)).await {
            Ok(secured) => Ok(HookedStream { stream: Box::new(secured.into()), hooks: UncleanEnd }),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Turned("tls")),
            Err(_) => Err(Turned("gone")),
        }
    }

    /// Returns a value that only the two ends of this TLS connection can know.
    pub(super) fn binding(&self) -> io::Result<[u8; BINDING_BYTES]> {
        let zero = [0; BINDING_BYTES];
        let value = match &*self.stream {
            TlsStream::Client(stream) => stream.get_ref().1.export_keying_material(zero, BINDING_LABEL, None),
            TlsStream::Server(stream) => stream.get_ref().1.export_keying_material(zero, BINDING_LABEL, None),
        };
        value.map_err(io::Error::other)
    }
}

fn buffered(stream: TcpStream) -> BufReader<TcpStream> {
    BufReader::with_capacity(TLS_READ_BYTES, stream)
}

/// Hooks that accept an end of the stream without a TLS close.
pub(super) struct UncleanEnd;

impl Hooks for UncleanEnd {
    fn read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> ReadResult {
        match ready!(Pin::new(stream).poll_read(cx, buffer)) {
            // A killed process sends no TLS close. Truncation cannot go unnoticed, since every frame has its length.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => Poll::Ready(read),
        }
    }
}
