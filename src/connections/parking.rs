//! What a request keeps while it waits for long.
//!
//! A connection that is spoken on keeps buffers of 8 KiB for what comes and goes next, and the state of the
//! protocol; what surrounds a handler keeps the request and whatever it does afterwards. A request that is held
//! for a minute needs none of it. So a handler that begins to wait answers at once with the promise of an answer
//! ([`later`]). That goes out through all layers, which do what they do to any answer and are gone. Then it is taken
//! out of the protocol, which is dropped, and of the connection only the stream stays. When the answer is there
//! the protocol begins anew on the same stream. It is told of the request what the form of an answer depends
//! on ([`Asked`]), and gets the answer at once, with the headers that the layers had put on the promise.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};
use tracing::Instrument;

use super::patient::Serving;

/// What a client may send while its request is held, before nothing more is read.
const EARLY_BYTES_MAX: usize = 512;

/// The answer to a request, on its way.
pub(super) type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An extension of each request: whoever serves its connection understands the promise of an answer.
#[derive(Clone, Copy)]
pub struct Parking(());

/// Answers with what `answer` comes to: where the connection can be parked, by a promise, and until it is kept the
/// connection holds nothing of the request but that future. A request whose body has not been read to its end
/// keeps its buffers too.
pub fn later<A>(parking: Option<Parking>, answer: A) -> impl Future<Output = Response> + Send
where
    A: Future<Output = Response> + Send + 'static,
{
    let answer: Answer = Box::pin(answer.in_current_span());
    async move {
        let Some(Parking(())) = parking else { return answer.await };
        let mut promise = Response::default();
        promise.extensions_mut().insert(Promise(Arc::new(Mutex::new(Some(answer)))));
        promise
    }
}

/// An extension of an answer that is not one yet.
#[derive(Clone)]
struct Promise(Arc<Mutex<Option<Answer>>>);

impl Promise {
    /// What an answer promises, and the headers that were put on it meanwhile.
    fn of(response: &mut Response) -> Option<Answer> {
        let answer = response.extensions_mut().remove::<Promise>()?.0.lock().take()?;
        let mut headers = std::mem::take(response.headers_mut());
        // That of a promise, which has no content.
        headers.remove(header::CONTENT_LENGTH);
        Some(Box::pin(dressed(answer, headers.into_iter().collect())))
    }
}

async fn dressed(answer: Answer, headers: Box<[(Option<HeaderName>, HeaderValue)]>) -> Response {
    let mut response = answer.await;
    response.headers_mut().extend(headers);
    response
}

/// Where the answer to the present request of a connection lies: the protocol asks here for it, and it can be
/// taken away from the protocol.
#[derive(Default)]
pub(super) struct Desk {
    pending: Mutex<Option<Pending>>,
    /// What is pending was promised, and may be taken away.
    is_promised: AtomicBool,
    /// The body of the request is at its end: what comes next on the stream is another request.
    is_read: AtomicBool,
    asked: Mutex<Asked>,
}

/// An answer that is waited for.
pub(super) struct Pending {
    answer: Answer,
    /// There until it comes: none where it was waited for elsewhere.
    _serving: Option<Serving>,
}

impl Desk {
    /// A request has come; what its answer comes of is put here by [`Desk::begin`].
    pub(super) fn ask(self: &Arc<Self>, mut request: Request<Incoming>) -> Request<Read> {
        self.is_read.store(request.body().is_end_stream(), Ordering::Relaxed);
        *self.asked.lock() = Asked::of(&request);
        request.extensions_mut().insert(Parking(()));
        request.map(|body| Read { body, desk: self.clone() })
    }

    pub(super) fn begin(self: &Arc<Self>, answer: Answer, serving: Option<Serving>) -> Turn {
        self.is_promised.store(false, Ordering::Relaxed);
        *self.pending.lock() = Some(Pending { answer, _serving: serving });
        Turn(self.clone())
    }

    /// The answer that is waited for, if it was promised, and what it answers.
    pub(super) fn parked(&self) -> Option<(Pending, Asked)> {
        if !self.is_read.load(Ordering::Relaxed) || !self.is_promised.swap(false, Ordering::Relaxed) {
            return None;
        }
        let pending = self.pending.lock().take()?;
        Some((pending, *self.asked.lock()))
    }
}

/// A body that tells when it is at its end.
pub(super) struct Read {
    body: Incoming,
    desk: Arc<Desk>,
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

/// What the protocol waits for.
pub(super) struct Turn(Arc<Desk>);

impl Future for Turn {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.pending.lock();
        let Some(pending) = slot.as_mut() else { return Poll::Pending };
        loop {
            let mut response = ready!(pending.answer.as_mut().poll(cx));
            let Some(promised) = Promise::of(&mut response) else {
                *slot = None;
                return Poll::Ready(Ok(response));
            };
            pending.answer = promised;
            self.0.is_promised.store(true, Ordering::Relaxed);
        }
    }
}

/// Nobody wants the answer any more, unless it was taken away. It holds its request, which holds the desk: left
/// there, the two would keep each other for ever.
impl Drop for Turn {
    fn drop(&mut self) {
        let unwanted = self.0.pending.lock().take();
        drop(unwanted);
    }
}

/// What the form of an answer depends on, besides what the handler makes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    is_head: bool,
    is_http_1_0: bool,
    /// What the client said of the connection.
    closes: bool,
    keeps: bool,
}

impl Asked {
    fn of<B>(request: &Request<B>) -> Asked {
        Asked {
            is_head: request.method() == Method::HEAD,
            is_http_1_0: request.version() == Version::HTTP_10,
            closes: says(request.headers(), "close"),
            keeps: says(request.headers(), "keep-alive"),
        }
    }

    /// A request that is answered in the same form.
    pub(super) fn head(self) -> String {
        let method = if self.is_head { "HEAD" } else { "GET" };
        let version = if self.is_http_1_0 { "1.0" } else { "1.1" };
        let close = if self.closes { "Connection: close\r\n" } else { "" };
        let keep = if self.keeps { "Connection: keep-alive\r\n" } else { "" };
        format!("{method} / HTTP/{version}\r\n{close}{keep}\r\n")
    }
}

fn says(headers: &HeaderMap, word: &str) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
}

/// Waits for the answer for as long as the other end is there. Returns it, and what the other end has sent
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
            let mut bytes = [0; EARLY_BYTES_MAX];
            let mut read = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(cx, &mut read) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !read.filled().is_empty() => early.put_slice(read.filled()),
                Poll::Ready(_) => return Poll::Ready(None),
            }
        }
        Poll::Pending
    });
    Some((response.await?, early.freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_its_form() {
        let head = |method: Method, version: Version, connection: Option<&str>| {
            let request = Request::builder().method(method).version(version);
            let request = connection.into_iter().fold(request, |request, value| request.header("Connection", value));
            Asked::of(&request.body(()).expect("a request")).head()
        };
        let rows = [
            (Method::GET, Version::HTTP_11, None, "GET / HTTP/1.1\r\n\r\n"),
            (Method::POST, Version::HTTP_11, Some("x, Close"), "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"),
            (Method::HEAD, Version::HTTP_10, Some("Keep-Alive"), "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        ];
        for (method, version, connection, expected) in rows {
            assert_eq!(head(method, version, connection), expected);
        }
    }
}
