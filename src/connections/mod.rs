//! Connections of clients: admission, idle limits and shutdown.
//!
//! All surfaces share one number of places, below the descriptors of the process ([`crate::descriptors`]). A connection
//! beyond it, or beyond the share of one address, is counted, and closed as soon as it sends a request: a refused
//! client turns to another node, while one that waits in the kernel's queue would not. Only health checks and scrapes
//! of metrics are answered on it, in one of a few places that idle connections cannot hold ([`crate::brief_places`]): a
//! supervisor kills a node that does not answer, even if the supervisor's own address has used up all places with idle
//! connections. Ordinary places cannot be held by idle connections either, see [`idle_timeout`], nor by incomplete
//! handshakes. A trusted proxy may name the client of each forwarded connection ([`proxy_header`]), which then has the
//! place.

mod accepting;
mod authority_list;
mod ending;
mod hooked_stream;
mod http2;
mod idle_timeout;
mod limiter;
mod parking;
mod proxy_header;
mod write_timeout;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::address::NamedByProxy;
use crate::model::limits;
use crate::origin::Origin;
use crate::tls::{self, Listening, Shown};
use idle_timeout::{HeadBudget, IdleTimeoutStream, InFlight};
use parking::{ConnectionState, EncodedResponse, Pending, RequestForm, ResponseFuture};
use write_timeout::WriteTimeoutStream;

pub use accepting::{serve, serve_until};
pub use ending::{Ending, REST_WITHIN};
pub(crate) use hooked_stream::{HookedStream, Hooks, ReadResult};
pub use http2::StreamCut;
pub use limiter::{ConnectionLimiter, Permit};
pub use parking::{Parking, later};

/// Time limit from accepting a connection to the end of its TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for the answer to a client that sends HTTP to a TLS port.
const TELL_WITHIN: Duration = Duration::from_secs(1);
const SPEAK_TLS: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 30\r\n\
    Connection: close\r\n\r\nHTTPS is spoken on this port.\n";

/// Identity that a client proved in its TLS handshake: an extension of each of its requests, while its certificate is
/// valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Common name of its certificate, which an authority of `--tls-client-ca` signed.
    pub common_name: String,
}

/// Certificate of a [`PeerCertificate`], for work that outlasts its request: an extension of each request.
#[derive(Clone)]
pub struct LastingCertificate(Arc<Shown>);

impl LastingCertificate {
    /// Reports whether it has not expired, and an authority of `--tls-client-ca` vouches for it.
    pub fn is_good(&self) -> bool {
        self.0.is_good(UnixTime::now())
    }
}

impl fmt::Debug for LastingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LastingCertificate").field(&self.0.common_name()).finish()
    }
}

/// A listener: a surface on its socket.
pub struct Listener {
    /// Name of the listener in metrics.
    pub name: &'static str,
    pub listener: TcpListener,
    pub router: Router,
    /// Paths of health checks and metrics, the only ones answered on a connection without a place.
    pub checks: &'static [&'static str],
    /// TLS; `None` for plain HTTP.
    pub tls: Option<Arc<Listening>>,
    pub protocol: Protocol,
    /// Networks of proxies that may name the client of a connection in a proxy header.
    pub proxies: Arc<[IpNet]>,
}

/// Protocol of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Http1,
    /// HTTP/2, for gRPC; without TLS by prior knowledge.
    Http2,
}

/// Peer at the other end of a connection, and the router that serves it.
struct Caller {
    peer: SocketAddr,
    /// True if a proxy named the peer.
    is_forwarded: bool,
    certificate: Option<Arc<Shown>>,
    router: Router,
    protocol: Protocol,
    /// Cancelled when each answer has to be the last of its connection.
    leaving: CancellationToken,
    /// Restriction to checks; `None` for a connection that has a place.
    only: Option<Box<CheckOnly>>,
}

/// Requests that a connection without a place may make.
struct CheckOnly {
    paths: &'static [&'static str],
    /// Cancelled at any other request: the connection ends without an answer.
    other: CancellationToken,
}

impl Caller {
    /// Reports whether a request is answered; otherwise its connection ends.
    fn answers(&self, path: &str) -> bool {
        let Some(only) = &self.only else { return true };
        let is_check = only.paths.contains(&path);
        if !is_check {
            only.other.cancel();
        }
        is_check
    }

    /// Adds `Connection: close` to an answer if its connection has to end with it.
    fn dismiss(&self, response: &mut Response) {
        if self.leaving.is_cancelled() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Adds the identity of the peer to a request.
    fn introduce(&self, extensions: &mut Extensions) {
        extensions.insert(ConnectInfo(self.peer));
        if self.is_forwarded {
            extensions.insert(NamedByProxy);
        }
        if let Some(shown) = self.certificate.as_ref().filter(|shown| shown.is_good(UnixTime::now())) {
            extensions.insert(PeerCertificate { common_name: shown.common_name().to_owned() });
            extensions.insert(LastingCertificate(shown.clone()));
        }
    }
}

/// Serves one connection, which holds its place, from its first byte to its last. Returns the reason for metrics if no
/// request could be served.
async fn attend(
    mut stream: TcpStream,
    mut caller: Caller,
    mut place: Permit,
    is_proxy: bool,
    tls: Option<Arc<Listening>>,
    closing: CancellationToken,
) -> Result<(), &'static str> {
    // A small answer must not wait for the acknowledgement of the previous one.
    let _ = stream.set_nodelay(true);
    if is_proxy {
        let named = Box::pin(proxy_header::read(&mut stream));
        let Some(named) = closing.run_until_cancelled(named).await else { return Ok(()) };
        if let Some(client) = named? {
            place.pass_to(Origin::of(client.ip()))?;
            (caller.peer, caller.is_forwarded) = (client, true);
        }
    }
    let room = HeadBudget::new(place.heads(), Origin::of(caller.peer.ip()));
    match tls {
        None => speak_protocol(WriteTimeoutStream::new(stream), caller, room, closing).await,
        // Boxed: a connection without TLS does not need the memory of its future.
        Some(tls) => Box::pin(attend_secured(stream, caller, room, tls, closing)).await,
    }
}

async fn attend_secured(
    stream: TcpStream,
    mut caller: Caller,
    room: HeadBudget,
    tls: Arc<Listening>,
    closing: CancellationToken,
) -> Result<(), &'static str> {
    // An incomplete handshake is dropped when the node shuts down.
    let secured = timeout(HANDSHAKE_WITHIN, secure(stream, &tls, caller.protocol));
    let handshake = closing.run_until_cancelled(secured);
    let stream = match Box::pin(handshake).await {
        None => return Ok(()),
        Some(Err(_)) => return Err("tls_slow"),
        Some(Ok(secured)) => secured?,
    };
    caller.certificate =
        stream.get_ref().1.peer_certificates().and_then(|chain| tls.client_certificate(chain)).map(Arc::new);
    speak_protocol(stream, caller, room, closing).await
}

async fn speak_protocol<S>(
    stream: S,
    caller: Caller,
    room: HeadBudget,
    closing: CancellationToken,
) -> Result<(), &'static str>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    match caller.protocol {
        Protocol::Http1 => {
            converse(stream, caller, room, closing).await;
            Ok(())
        }
        Protocol::Http2 => Box::pin(http2::converse(stream, caller, closing)).await,
    }
}

async fn secure(
    stream: TcpStream,
    tls: &Listening,
    protocol: Protocol,
) -> Result<TlsStream<WriteTimeoutStream<TcpStream>>, &'static str> {
    let acceptor = match protocol {
        Protocol::Http1 => tls.acceptor(),
        Protocol::Http2 => tls.http2_acceptor(),
    };
    match tls::begins_with_tls(&stream).await {
        Ok(true) => acceptor.accept(WriteTimeoutStream::new(stream)).await.map_err(|error| {
            tracing::debug!(%error, "a TLS handshake failed");
            "tls"
        }),
        Ok(false) => {
            // A courtesy: a client that does not read it is closed a moment later.
            let _ = timeout(TELL_WITHIN, answer_plaintext(stream)).await;
            Err("plain")
        }
        Err(_) => Err("tls"),
    }
}

/// Answers a client that sends HTTP to a TLS port. Reads until the other end closes: with unread input the connection
/// would be reset, and the answer lost.
async fn answer_plaintext(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(SPEAK_TLS.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Serves one connection over any stream, like those that [`serve`] accepts.
pub async fn serve_stream<S>(stream: S, peer: SocketAddr, router: Router, place: Permit, closing: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let room = HeadBudget::new(place.heads(), Origin::of(peer.ip()));
    converse(
        WriteTimeoutStream::new(stream),
        Caller {
            peer,
            is_forwarded: false,
            certificate: None,
            router,
            protocol: Protocol::Http1,
            leaving: CancellationToken::new(),
            only: None,
        },
        room,
        closing,
    )
    .await;
}

/// Serves requests until either end closes.
async fn converse<S>(stream: S, caller: Caller, room: HeadBudget, closing: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut stream, pulse) = IdleTimeoutStream::new(stream, room);
    let (caller, desk) = (Arc::new(caller), Arc::new(ConnectionState::default()));
    loop {
        let spoken = speak(stream, &caller, &pulse, &desk, &closing);
        let Some(parked) = Box::pin(spoken).await else { return };
        stream = parked.stream;
        let Some((mut response, more)) = parking::wait(&mut stream, parked.pending).await else { return };
        caller.dismiss(&mut response);
        // Boxed: the memory of its future is not needed while the answer is awaited.
        if !Box::pin(tell(&mut stream, response, parked.asked)).await {
            return;
        }
        let first = if parked.early.is_empty() && more.is_empty() {
            let Some(Some(first)) = closing.run_until_cancelled(parking::next(&mut stream)).await else { return };
            first
        } else {
            [parked.early, more].concat().into()
        };
        stream.hooks.read_first(first);
    }
}

/// Writes the answer to a parked request; reports whether the connection continues.
async fn tell<S: AsyncWrite + Unpin>(stream: &mut S, response: Response, asked: RequestForm) -> bool {
    let Some(words) = EncodedResponse::of(response, asked).await else { return false };
    let closes = words.closes;
    if stream.write_all(&words.bytes).await.is_err() || stream.flush().await.is_err() {
        return false;
    }
    if closes {
        let _ = stream.shutdown().await;
    }
    !closes
}

/// A connection whose request is parked.
struct Parked<S> {
    stream: IdleTimeoutStream<S>,
    pending: Pending,
    asked: RequestForm,
    /// Bytes that the protocol has read beyond the request.
    early: Bytes,
}

/// Serves HTTP until either end closes, or until a request is parked.
async fn speak<S>(
    stream: IdleTimeoutStream<S>,
    caller: &Arc<Caller>,
    pulse: &InFlight,
    desk: &Arc<ConnectionState>,
    closing: &CancellationToken,
) -> Option<Parked<S>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = {
        let (caller, pulse, desk) = (caller.clone(), pulse.clone(), desk.clone());
        hyper::service::service_fn(move |request| answer(request, caller.clone(), &pulse, &desk))
    };
    let mut connection = http1::Builder::new()
        // The stream's own timeouts distinguish an idle connection from a slow request.
        .header_read_timeout(None)
        .max_buf_size(limits::REQUEST_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut closed = pin!(closing.cancelled());
    let mut is_closing = false;
    let ended = poll_fn(|cx| {
        if let Poll::Ready(ended) = Pin::new(&mut connection).poll(cx) {
            return Poll::Ready(Err(ended));
        }
        if let Some(parked) = desk.parked() {
            return Poll::Ready(Ok(parked));
        }
        if !is_closing && closed.as_mut().poll(cx).is_ready() {
            is_closing = true;
            Pin::new(&mut connection).graceful_shutdown();
            // The connection may have nothing left to do.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    });
    match ended.await {
        Ok((pending, asked)) => {
            let parts = connection.into_parts();
            // A copy, because even an empty slice would retain the whole buffer.
            let early = Bytes::copy_from_slice(&parts.read_buf);
            Some(Parked { stream: parts.io.into_inner(), pending, asked, early })
        }
        Err(ended) => {
            if let Err(error) = ended {
                tracing::debug!(%error, peer = %caller.peer, "a connection ended early");
            }
            None
        }
    }
}

/// Passes a request to the surface; returns the future of its answer.
fn answer(
    request: hyper::Request<Incoming>,
    caller: Arc<Caller>,
    pulse: &InFlight,
    desk: &Arc<ConnectionState>,
) -> ResponseFuture {
    if !caller.answers(request.uri().path()) {
        return desk.begin(Box::pin(pending()), pulse.serving());
    }
    let mut request = desk.ask(request);
    caller.introduce(request.extensions_mut());
    let answer = caller.router.clone().oneshot(request);
    let answer = Box::pin(async move {
        let mut response = answer.await.unwrap_or_else(|never| match never {});
        caller.dismiss(&mut response);
        response
    });
    desk.begin(answer, pulse.serving())
}
