//! HTTP/2, for gRPC: by prior knowledge, or over TLS.
//!
//! A connection may be silent while a stream is open; it is cut if it does not answer pings. One without a stream is
//! closed gracefully after a while. A connection that does not begin with the HTTP/2 preface is not served.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{interval, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::ServiceExt;

use crate::tasks;

use super::authority_list::AuthorityLists;
use super::hooked_stream::{HookedStream, Hooks, ReadResult};
use super::{Caller, TELL_WITHIN};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Time limit for the preface.
const PREFACE_WITHIN: Duration = Duration::from_secs(10);
const SPEAK_HTTP2: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 30\r\n\
    Connection: close\r\n\r\ngRPC is spoken on this port.\n\n";
/// Time without a stream after which a connection is closed gracefully.
const IDLE_MAX: Duration = Duration::from_secs(300);
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of streams of a connection. A gRPC client may open a stream for each of its targets on a single
/// connection: as many as one address may have connections by default.
const STREAMS_MAX: u32 = 10_000;
const HEADERS_BYTES_MAX: u32 = 16 * 1024;
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// Maximum unread bytes of all streams of a connection together. The HTTP/2 library treats half of it, in frames that
/// count as 256 bytes less their payload, as a flood of small frames and ends the connection. A single stream with
/// messages of 50 bytes or more reaches its own window first.
const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Maximum number of streams that were reset before they were handled; more of them end the connection.
const RESETS_PENDING_MAX: usize = 20;

/// Serves requests until either end closes. Returns the reason for metrics if none was served.
pub(super) async fn converse<S>(mut stream: S, caller: Caller, closing: CancellationToken) -> Result<(), &'static str>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let preface = closing.run_until_cancelled(timeout(PREFACE_WITHIN, read_preface(&mut stream))).await;
    match preface {
        None => return Ok(()),
        Some(Err(_)) => return Err("slow"),
        // Load balancers check in this way whether a port is open.
        Some(Ok(Err(_))) => return Ok(()),
        Some(Ok(Ok(false))) => {
            // A courtesy: a client that does not read it is closed a moment later.
            let _ = timeout(TELL_WITHIN, answer_http1(stream)).await;
            return Err("http1");
        }
        Some(Ok(Ok(true))) => {}
    }
    let peer = caller.peer;
    let (caller, streams) = (Arc::new(caller), OpenStreams::default());
    let (executor, cut) = (StreamExecutor::default(), CancellationToken::new());
    let service = {
        let (streams, executor, connection) = (streams.clone(), executor.clone(), cut.clone());
        hyper::service::service_fn(move |request| {
            let cut = StreamCut {
                stream: CancellationToken::new(),
                connection: connection.clone(),
                streams: streams.clone(),
            };
            executor.announce(&cut);
            answer(request, caller.clone(), cut, streams.begin())
        })
    };
    let connection =
        builder(executor).serve_connection(TokioIo::new(HookedStream { stream, hooks: Preface::default() }), service);
    let mut connection = pin!(connection);
    let mut idle = IdleLook::new(streams);
    let mut is_ending = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, %peer, "a connection ended early");
                }
                return Ok(());
            }
            () = cut.cancelled() => return Ok(()),
            () = closing.cancelled(), if !is_ending => {}
            () = idle.is_long(), if !is_ending => {}
        }
        is_ending = true;
        connection.as_mut().graceful_shutdown();
    }
}

fn builder(executor: StreamExecutor) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX);
    builder
}

/// Reads the preface; returns false as soon as other bytes have arrived.
async fn read_preface<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<bool> {
    let mut bytes = [0; PREFACE.len()];
    let mut filled = 0;
    while filled < bytes.len() {
        match stream.read(&mut bytes[filled..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => filled += read,
        }
        if bytes[..filled] != PREFACE[..filled] {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn answer_http1<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<()> {
    stream.write_all(SPEAK_HTTP2.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Passes a request to the surface and returns its answer.
async fn answer(
    request: Request<Incoming>,
    caller: Arc<Caller>,
    cut: StreamCut,
    open: OpenStream,
) -> Result<hyper::Response<CountedBody>, Infallible> {
    if !caller.answers(request.uri().path()) {
        pending::<()>().await;
    }
    let mut request = request.map(Body::new);
    caller.introduce(request.extensions_mut());
    request.extensions_mut().insert(cut);
    let response: Response = caller.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
    Ok(response.map(|body| CountedBody { body, _open: open }))
}

/// Handle that ends a stream at once, as an extension of its request, for an answer that its client does not read. The
/// other streams of the connection, which may belong to other clients of a proxy, are not affected; a connection
/// without other streams ends.
#[derive(Clone, Default)]
pub struct StreamCut {
    stream: CancellationToken,
    connection: CancellationToken,
    streams: OpenStreams,
}

impl StreamCut {
    pub fn cut(&self) {
        if self.streams.open() <= 1 {
            self.connection.cancel();
        }
        self.stream.cancel();
    }

    /// Waits until the stream is cut.
    pub async fn done(&self) {
        self.stream.cancelled().await;
    }
}

/// Executor of the streams of a connection. A stream that is cut is reset by HTTP/2, and its unsent data is dropped.
#[derive(Clone, Default)]
struct StreamExecutor(Arc<Mutex<Option<CancellationToken>>>);

impl StreamExecutor {
    /// Sets the cut of the next executed stream. It is executed right after this call, by the same task.
    fn announce(&self, cut: &StreamCut) {
        *self.0.lock() = Some(cut.stream.clone());
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
{
    fn execute(&self, stream: F) {
        let cut = self.0.lock().take().unwrap_or_default();
        tasks::errand(UntilCut { stream: Box::pin(stream), cut: Box::pin(cut.cancelled_owned()) });
    }
}

/// A stream that runs until it ends or is cut.
struct UntilCut<F> {
    stream: Pin<Box<F>>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<F: Future> Future for UntilCut<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.stream.as_mut().poll(cx).map(drop)
    }
}

/// Counts of the streams of a connection.
#[derive(Clone, Default)]
struct OpenStreams(Arc<StreamCounts>);

#[derive(Default)]
struct StreamCounts {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// A stream from its head to the end of its answer.
struct OpenStream(OpenStreams);

impl OpenStreams {
    fn begin(&self) -> OpenStream {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.clone())
    }

    fn begun(&self) -> usize {
        self.0.begun.load(Ordering::Relaxed)
    }

    fn open(&self) -> usize {
        self.begun().saturating_sub(self.0.ended.load(Ordering::Relaxed))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Periodic check for an unused connection.
struct IdleLook {
    streams: OpenStreams,
    looks: tokio::time::Interval,
    /// Number of streams begun at the last check.
    begun: Option<usize>,
}

impl IdleLook {
    fn new(streams: OpenStreams) -> IdleLook {
        IdleLook { streams, looks: interval(IDLE_MAX), begun: None }
    }

    /// Waits until there was no stream between two checks. Cancel-safe.
    async fn is_long(&mut self) {
        loop {
            self.looks.tick().await;
            let begun = self.streams.begun();
            let seen = self.begun.replace(begun);
            if self.streams.open() == 0 && seen == Some(begun) {
                return;
            }
        }
    }
}

/// Body of an answer, which keeps its stream counted as open.
struct CountedBody {
    body: Body,
    _open: OpenStream,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Hooks that return a preface that was read again.
#[derive(Default)]
struct Preface {
    /// Number of bytes of the preface returned again.
    read: usize,
    lists: AuthorityLists,
}

impl Hooks for Preface {
    fn read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> ReadResult {
        if self.read == PREFACE.len() {
            let before = buffer.filled().len();
            let read = Pin::new(stream).poll_read(cx, buffer);
            self.lists.mend(&mut buffer.filled_mut()[before..]);
            return read;
        }
        let rest = &PREFACE[self.read..];
        let taken = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..taken]);
        self.read += taken;
        Poll::Ready(Ok(()))
    }
}
