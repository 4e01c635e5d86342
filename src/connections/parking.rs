//! Parked requests: held requests without the memory of their connection.
//!
//! An open HTTP/1 connection has two buffers of 8 KiB and the state of the protocol, and the layers around a handler
//! hold the request. A request that is held for a minute needs none of them. So a handler that starts to wait returns a
//! deferred response ([`later`]), which passes all layers as any response does, and they end. Then the protocol is
//! dropped, and only the stream of the connection remains. When the response is ready, it gets the headers that the
//! layers added to the deferred one, and is written in one piece in the form that the request requires
//! ([`RequestForm`]). The protocol starts again with the first bytes of the next request. So a hundred thousand held
//! requests that are answered at the same moment do not need a buffer each.
//! requests that are answered at the same moment do not take a buffer each.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::to_bytes;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use httpdate::fmt_http_date;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, header};
use parking_lot::Mutex;
use time::OffsetDateTime;
use tokio::io::{AsyncRead, ReadBuf};
use tracing::Instrument;

use super::idle_timeout::Serving;

/// Bytes that a client may send while its request is held, before reading stops.
const EARLY_BYTES_MAX: usize = 512;
/// Capacity that fits most heads of answers.
const HEAD_BYTES_USUAL: usize = 512;

/// Future of the answer to a request.
pub(super) type AnswerFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Extension of each request whose connection supports deferred responses.
#[derive(Clone, Copy)]
pub struct Parking(());

/// Returns the result of `answer`, as a deferred response if the connection supports it; until it is ready the
/// connection holds nothing of the request but that future. A request whose body was not read completely is not parked.
/// The content of a deferred response is written in one piece.
pub fn later<A>(parking: Option<Parking>, answer: A) -> impl Future<Output = Response> + Send
where
    A: Future<Output = Response> + Send + 'static,
{
    let answer: AnswerFuture = Box::pin(answer.in_current_span());
    async move {
        let Some(Parking(())) = parking else { return answer.await };
        let mut promise = Response::default();
        promise.extensions_mut().insert(DeferredResponse(Arc::new(Mutex::new(Some(answer)))));
        promise
    }
}

/// A deferred response: an extension of the empty response that passes the layers.
#[derive(Clone)]
struct DeferredResponse(Arc<Mutex<Option<AnswerFuture>>>);

impl DeferredResponse {
    /// Takes the future of a deferred response, with the headers that were added to the empty response; `None` if the
    /// response is not deferred.
    fn of(response: &mut Response) -> Option<AnswerFuture> {
        let answer = response.extensions_mut().remove::<DeferredResponse>()?.0.lock().take()?;
        let mut headers = std::mem::take(response.headers_mut());
        // The length of the empty response.
        headers.remove(header::CONTENT_LENGTH);
        Some(Box::pin(dressed(answer, headers.into_iter().collect())))
    }
}

async fn dressed(answer: AnswerFuture, headers: Box<[(Option<HeaderName>, HeaderValue)]>) -> Response {
    let mut response = answer.await;
    response.headers_mut().extend(headers);
    response
}

/// Slot of the answer to the current request of a connection: the protocol polls it, and it can be taken from there.
#[derive(Default)]
pub(super) struct ConnectionState {
    pending: Mutex<Option<Pending>>,
    /// True if the pending answer is deferred, and may be taken.
    is_promised: AtomicBool,
    /// True if the body of the request was read completely, so that the next bytes are another request.
    is_read: AtomicBool,
    asked: Mutex<RequestForm>,
}

/// An answer that is awaited.
pub(super) struct Pending {
    answer: AnswerFuture,
    /// Held until the answer is ready.
    _serving: Serving,
}

impl ConnectionState {
    /// Prepares the slot for a request, whose answer is stored by [`ConnectionState::begin`].
    pub(super) fn ask(self: &Arc<Self>, mut request: Request<Incoming>) -> Request<Read> {
        self.is_read.store(request.body().is_end_stream(), Ordering::Relaxed);
        *self.asked.lock() = RequestForm::of(&request);
        request.extensions_mut().insert(Parking(()));
        request.map(|body| Read { body, desk: self.clone() })
    }

    pub(super) fn begin(self: &Arc<Self>, answer: AnswerFuture, serving: Serving) -> ResponseFuture {
        self.is_promised.store(false, Ordering::Relaxed);
        *self.pending.lock() = Some(Pending { answer, _serving: serving });
        ResponseFuture(self.clone())
    }

    /// Takes the pending answer, if it is deferred, and the form that its request requires.
    pub(super) fn parked(&self) -> Option<(Pending, RequestForm)> {
        if !self.is_read.load(Ordering::Relaxed) || !self.is_promised.swap(false, Ordering::Relaxed) {
            return None;
        }
        let pending = self.pending.lock().take()?;
        Some((pending, *self.asked.lock()))
    }
}

/// A body that records when it was read completely.
pub(super) struct Read {
    body: Incoming,
    desk: Arc<ConnectionState>,
}

impl Body for Read {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() {
            self.desk.is_read.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Future of the response that the protocol waits for.
pub(super) struct ResponseFuture(Arc<ConnectionState>);

impl Future for ResponseFuture {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.pending.lock();
        let Some(pending) = slot.as_mut() else { return Poll::Pending };
        loop {
            let mut response = ready!(pending.answer.as_mut().poll(cx));
            let Some(promised) = DeferredResponse::of(&mut response) else {
                *slot = None;
                return Poll::Ready(Ok(response));
            };
            pending.answer = promised;
            self.0.is_promised.store(true, Ordering::Relaxed);
        }
    }
}

/// Drops an answer that is no longer wanted and was not taken. It holds its request, which holds the connection state:
/// left there, the two would keep each other alive.
impl Drop for ResponseFuture {
    fn drop(&mut self) {
        let unwanted = self.0.pending.lock().take();
        drop(unwanted);
    }
}

/// Properties of a request that determine the form of its answer in addition to the handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestForm {
    is_head: bool,
    is_http_1_0: bool,
    /// Options of the connection that the client requested: close it, or keep it alive.
    closes: bool,
    keeps: bool,
}

impl RequestForm {
    fn of<B>(request: &Request<B>) -> RequestForm {
        RequestForm {
            is_head: request.method() == Method::HEAD,
            is_http_1_0: request.version() == Version::HTTP_10,
            closes: says(request.headers(), "close"),
            keeps: says(request.headers(), "keep-alive"),
        }
    }
}

fn says(headers: &HeaderMap, word: &str) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
}

/// Waits for the answer while the other end is connected. Returns it with the bytes that the other end has sent
/// meanwhile.
pub(super) async fn wait<S>(stream: &mut S, mut pending: Pending) -> Option<(Response, Bytes)>
where
    S: AsyncRead + Unpin,
{
    let mut early = BytesMut::new();
    let response = poll_fn(|cx| {
        if let Poll::Ready(response) = pending.answer.as_mut().poll(cx) {
            return Poll::Ready(Some(response));
        }
        while early.len() < EARLY_BYTES_MAX {
            match poll_some(stream, cx) {
                Poll::Pending => break,
                Poll::Ready(Some(bytes)) => early.put_slice(&bytes),
                Poll::Ready(None) => return Poll::Ready(None),
            }
        }
        Poll::Pending
    });
    Some((response.await?, early.freeze()))
}

/// Returns the first bytes of the next request; `None` when the other end has closed, or was idle for too long.
pub(super) async fn next<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Bytes> {
    poll_fn(|cx| poll_some(stream, cx)).await
}

/// Reads without a buffer that would be held while no bytes arrive. `None` at the end.
fn poll_some<S: AsyncRead + Unpin>(stream: &mut S, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
    let mut bytes = [0; EARLY_BYTES_MAX];
    let mut read = ReadBuf::new(&mut bytes);
    let is_read = ready!(Pin::new(stream).poll_read(cx, &mut read)).is_ok();
    let filled = read.filled();
    Poll::Ready((is_read && !filled.is_empty()).then(|| Bytes::copy_from_slice(filled)))
}

/// An encoded answer.
pub(super) struct EncodedResponse {
    pub(super) bytes: Vec<u8>,
    /// True if the connection ends with it.
    pub(super) closes: bool,
    /// Extensions of the response, held until the bytes are written.
    _held: Extensions,
}

impl EncodedResponse {
    /// Encodes a response; `None` if its content cannot be read.
    pub(super) async fn of(response: Response, asked: RequestForm) -> Option<EncodedResponse> {
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.ok()?;
        let closes = asked.closes || (asked.is_http_1_0 && !asked.keeps) || says(&parts.headers, "close");
        let (version, status) = (if asked.is_http_1_0 { "1.0" } else { "1.1" }, parts.status);
        let mut bytes = Vec::with_capacity(HEAD_BYTES_USUAL + body.len());
        let mut put = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        let reason = status.canonical_reason().unwrap_or_default();
        put(&[b"HTTP/", version.as_bytes(), b" ", status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"]);
        for (name, value) in &parts.headers {
            // These headers are set below.
            if ![header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(name) {
                put(&[name.as_ref(), b": ", value.as_bytes(), b"\r\n"]);
            }
        }
        let has_content = ![StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
        if has_content {
            put(&[b"content-length: ", body.len().to_string().as_bytes(), b"\r\n"]);
        }
        if closes {
            put(&[b"connection: close\r\n"]);
        } else if asked.is_http_1_0 {
            put(&[b"connection: keep-alive\r\n"]);
        }
        put(&[b"date: ", fmt_http_date(OffsetDateTime::now_utc().into()).as_bytes(), b"\r\n\r\n"]);
        if has_content && !asked.is_head {
            put(&[&body]);
        }
        Some(EncodedResponse { bytes, closes, _held: parts.extensions })
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[tokio::test]
    async fn an_answer_has_the_form_that_was_asked_for() {
        let words = async |method: Method, version: Version, connection: Option<&str>, response: Response| {
            let request = Request::builder().method(method).version(version);
            let request = connection.into_iter().fold(request, |request, value| request.header("Connection", value));
            let words = EncodedResponse::of(response, RequestForm::of(&request.body(()).expect("a request")))
                .await
                .expect("at hand");
            let text = String::from_utf8(words.bytes).expect("text");
            let (before, after) = text.split_once("date: ").expect("a date");
            let (date, after) = after.split_once("\r\n").expect("a line");
            assert!(date.ends_with(" GMT"), "{date}");
            (format!("{before}{after}"), words.closes)
        };
        let answer = || ([("x-a", "b"), ("content-length", "0")], "news").into_response();
        let unchanged = || StatusCode::NOT_MODIFIED.into_response();
        let closing = || ([("connection", "close")], "news").into_response();
        let head = "content-type: text/plain; charset=utf-8\r\n";
        let rows = [
            (
                Method::GET,
                Version::HTTP_11,
                None,
                answer(),
                format!("HTTP/1.1 200 OK\r\n{head}x-a: b\r\ncontent-length: 4\r\n\r\nnews"),
                false,
            ),
            (
                Method::HEAD,
                Version::HTTP_11,
                None,
                answer(),
                format!("HTTP/1.1 200 OK\r\n{head}x-a: b\r\ncontent-length: 4\r\n\r\n"),
                false,
            ),
            (Method::GET, Version::HTTP_11, None, unchanged(), "HTTP/1.1 304 Not Modified\r\n\r\n".into(), false),
            (
                Method::GET,
                Version::HTTP_11,
                None,
                closing(),
                format!("HTTP/1.1 200 OK\r\n{head}content-length: 4\r\nconnection: close\r\n\r\nnews"),
                true,
            ),
            (
                Method::GET,
                Version::HTTP_11,
                Some("x, Close"),
                unchanged(),
                "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n".into(),
                true,
            ),
            (
                Method::GET,
                Version::HTTP_10,
                None,
                unchanged(),
                "HTTP/1.0 304 Not Modified\r\nconnection: close\r\n\r\n".into(),
                true,
            ),
            (
                Method::GET,
                Version::HTTP_10,
                Some("Keep-Alive"),
                unchanged(),
                "HTTP/1.0 304 Not Modified\r\nconnection: keep-alive\r\n\r\n".into(),
                false,
            ),
        ];
        for (method, version, connection, response, text, closes) in rows {
            assert_eq!(words(method, version, connection, response).await, (text, closes));
        }
    }
}
