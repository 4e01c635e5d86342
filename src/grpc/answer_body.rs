//! Bodies of answers. Each keeps the place of its stream until its last byte, is within the budget of its client while
//! it is sent, and ends when the node stops.
//!
//! A large answer is sent in pieces, so that a client which takes none can be told from a slow one: the connection of
//! the first is cut.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::Status;

use super::admission::StreamPlace;
use crate::budget::Held;
use crate::connections::ConnectionCut;

const PIECE_BYTES: usize = 64 * 1024;
/// A response of which no piece is taken for so long is not read any more.
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// Room in the budget for responses of a stream that were handed over to be encoded.
#[derive(Clone, Default)]
pub(super) struct Outbox(Arc<Mutex<Vec<Held>>>);

impl Outbox {
    pub(super) fn put(&self, held: Held) {
        self.0.lock().push(held);
    }

    fn take(&self) -> Vec<Held> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The body of an answer.
pub(super) struct AnswerBody {
    body: Body,
    outbox: Outbox,
    cut: Option<ConnectionCut>,
    large: Option<Large>,
    ending: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    has_ended: bool,
    _place: StreamPlace,
}

/// The rest of a large response.
struct Large {
    rest: Bytes,
    /// Pieces that were taken.
    taken: Arc<AtomicU64>,
    _held: Vec<Held>,
    _watched: Option<DropGuard>,
}

impl Large {
    fn new(rest: Bytes, held: Vec<Held>, cut: Option<&ConnectionCut>) -> Large {
        let taken = Arc::default();
        let watched = cut.map(|cut| watch(cut.clone(), Arc::clone(&taken)));
        Large { rest, taken, _held: held, _watched: watched }
    }

    fn piece(&mut self) -> Bytes {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.rest.split_to(self.rest.len().min(PIECE_BYTES))
    }
}

/// Cuts the connection when nothing is taken, until the guard is dropped.
fn watch(cut: ConnectionCut, taken: Arc<AtomicU64>) -> DropGuard {
    let done = CancellationToken::new();
    let guard = done.clone().drop_guard();
    tokio::spawn(done.run_until_cancelled_owned(async move {
        loop {
            let seen = taken.load(Ordering::Relaxed);
            sleep(UNREAD_MAX).await;
            if taken.load(Ordering::Relaxed) == seen {
                tracing::debug!("a connection is cut whose other end takes nothing");
                return cut.cut();
            }
        }
    }));
    guard
}

impl AnswerBody {
    pub(super) fn new(body: Body, place: StreamPlace, outbox: Outbox, cut: Option<ConnectionCut>) -> AnswerBody {
        AnswerBody { body, outbox, cut, large: None, ending: None, has_ended: false, _place: place }
    }

    /// Ends with UNAVAILABLE when the node stops: of services that know nothing of that.
    pub(super) fn ending_with(self, ending: CancellationToken) -> AnswerBody {
        AnswerBody { ending: Some(Box::pin(ending.cancelled_owned())), ..self }
    }

    /// The next frame of the service itself; a large response is kept.
    fn poll_service(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            end => return Poll::Ready(end),
        };
        let held = self.outbox.take();
        let frame = match frame.into_data() {
            Ok(data) if data.len() > PIECE_BYTES => {
                let large = self.large.insert(Large::new(data, held, self.cut.as_ref()));
                Frame::data(large.piece())
            }
            Ok(data) => Frame::data(data),
            Err(frame) => frame,
        };
        Poll::Ready(Some(Ok(frame)))
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Some(large) = self.large.as_mut() {
            let piece = large.piece();
            if large.rest.is_empty() {
                self.large = None;
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if let Poll::Ready(frame) = self.poll_service(cx) {
            return Poll::Ready(frame);
        }
        match self.ending.as_mut().map(|ending| ending.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                self.has_ended = true;
                Poll::Ready(Some(Ok(Frame::trailers(trailers(&stopping())))))
            }
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || (self.large.is_none() && self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.large.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

/// Status of what ends as the node stops.
pub(super) fn stopping() -> Status {
    Status::unavailable("this node stops: another one serves")
}

fn trailers(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // It fails for a message that no header could hold, which this one is not.
    let _ = status.add_header(&mut headers);
    headers
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};
    use tokio::time::timeout;

    use super::*;
    use crate::budget::Budget;
    use crate::metrics::Metrics;
    use crate::origin::{Origin, OriginQuota};

    fn place() -> (Arc<OriginQuota>, StreamPlace) {
        let places = Arc::new(OriginQuota::new(1, 1));
        places.take(Origin::UNKNOWN, 1).expect("free");
        (places.clone(), StreamPlace::new(places, Origin::UNKNOWN))
    }

    fn body(pieces: Vec<Bytes>) -> Body {
        let frames = pieces.into_iter().map(|bytes| Ok::<_, axum::Error>(Frame::data(bytes)));
        Body::new(StreamBody::new(stream::iter(frames)))
    }

    #[tokio::test]
    async fn a_large_response_counts_until_its_last_piece() {
        let metrics = Arc::new(Metrics::new().expect("a table"));
        let (budget, outbox) = (Budget::new(Some(1), metrics.clone()), Outbox::default());
        let (places, place) = place();
        let sent = vec![Bytes::from(vec![1; 10]), Bytes::from(vec![2; 2 * PIECE_BYTES + 1]), Bytes::from(vec![3; 5])];
        let mut answer = AnswerBody::new(body(sent.clone()), place, outbox.clone(), None);
        outbox.put(budget.take(Origin::UNKNOWN, 1000).expect("room"));
        let mut got = Vec::new();
        let mut counted = Vec::new();
        while let Some(frame) = answer.frame().await {
            got.push(frame.expect("no error").into_data().expect("data"));
            if got.len() == 1 {
                outbox.put(budget.take(Origin::UNKNOWN, 2000).expect("room"));
            }
            counted.push(metrics.under_way.get());
        }
        assert_eq!(got.iter().map(Bytes::len).collect::<Vec<_>>(), [10, PIECE_BYTES, PIECE_BYTES, 1, 5]);
        assert_eq!(got.concat(), sent.concat());
        assert_eq!(counted, [2000, 2000, 2000, 0, 0]);
        assert_eq!(places.taken(), 1);
        drop(answer);
        assert_eq!(places.taken(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_cut_and_who_is_slow_is_not() {
        for (pause, is_cut) in [(UNREAD_MAX * 3, true), (UNREAD_MAX - Duration::from_secs(1), false)] {
            let cut = ConnectionCut::default();
            let sent = vec![Bytes::from(vec![1; 5 * PIECE_BYTES])];
            let mut answer = AnswerBody::new(body(sent), place().1, Outbox::default(), Some(cut.clone()));
            for _ in 0..5 {
                answer.frame().await.expect("a piece").expect("no error");
                sleep(pause).await;
            }
            sleep(UNREAD_MAX * 3).await;
            let seen = timeout(Duration::from_secs(1), cut.done()).await;
            assert_eq!(seen.is_ok(), is_cut, "{pause:?}");
        }
    }

    #[tokio::test]
    async fn a_service_that_knows_no_end_ends_with_the_node() {
        let ending = CancellationToken::new();
        let endless = Body::new(StreamBody::new(stream::pending::<Result<Frame<Bytes>, axum::Error>>()));
        let answer = AnswerBody::new(endless, place().1, Outbox::default(), None);
        let mut answer = answer.ending_with(ending.clone());
        ending.cancel();
        let trailers = answer.frame().await.expect("trailers").expect("no error").into_trailers().expect("trailers");
        assert_eq!(trailers.get("grpc-status").and_then(|code| code.to_str().ok()), Some("14"));
        assert!(answer.is_end_stream() && answer.frame().await.is_none());
    }
}
