//! Response bodies. Each holds the place of its stream until its last byte, is charged to the budget of its client
//! while it is sent, and ends when the node stops.
//!
//! A response is sent in pieces that exist until HTTP/2 has written them. This distinguishes a slow client from one
//! that reads nothing: only the latter has its stream reset. The other streams of the connection continue.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use prometheus::IntCounter;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

use super::stream_place::StreamPlace;
use crate::budget::{Budget, keeping};
use crate::connections::StreamCut;
use crate::origin::Origin;
use crate::tasks;

const PIECE_BYTES: usize = 64 * 1024;
/// Time without a written piece after which a stream counts as unread and is reset.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// Interval between two checks for written pieces.
const LOOK_PAUSE: Duration = Duration::from_secs(10);

/// Body of a response.
pub(super) struct AnswerBody {
    body: Body,
    rest: Bytes,
    pieces: Arc<Pieces>,
    cut: Option<Cut>,
    watched: Option<UnreadWatch>,
    /// Budget and origin to charge; none if the service accounts for what it sends.
    counting: Option<(Budget, Origin)>,
    ending: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    has_ended: bool,
    _place: StreamPlace,
}

/// Handle that resets an unread stream, and the counter of such resets.
#[derive(Clone)]
pub(super) struct Cut {
    pub(super) stream: StreamCut,
    pub(super) counter: IntCounter,
}

/// Numbers of the pieces of a stream that were handed to HTTP/2 and that were written.
#[derive(Default)]
struct Pieces {
    handed: AtomicU64,
    gone: AtomicU64,
}

/// Piece that counts as written when it is dropped.
struct Piece {
    bytes: Bytes,
    pieces: Arc<Pieces>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pieces.gone.fetch_add(1, Ordering::Relaxed);
    }
}

/// Task that watches a stream; aborted on drop.
struct UnreadWatch(AbortHandle);

impl Drop for UnreadWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Resets the stream if no piece is written for [`UNREAD_MAX`].
async fn watch(cut: Cut, pieces: Arc<Pieces>) {
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        sleep(LOOK_PAUSE).await;
        let gone = pieces.gone.load(Ordering::Relaxed);
        if gone != seen || gone == pieces.handed.load(Ordering::Relaxed) {
            (seen, since) = (gone, Instant::now());
        } else if since.elapsed() >= UNREAD_MAX {
            tracing::debug!("reset a stream whose client reads nothing");
            cut.counter.inc();
            return cut.stream.cut();
        }
    }
}

impl AnswerBody {
    pub(super) fn new(body: Body, place: StreamPlace, cut: Option<Cut>) -> AnswerBody {
        AnswerBody {
            body,
            rest: Bytes::new(),
            pieces: Arc::default(),
            cut,
            watched: None,
            counting: None,
            ending: None,
            has_ended: false,
            _place: place,
        }
    }

    /// Ends the body with UNAVAILABLE when the node stops, for services that do not handle this.
    pub(super) fn ending_with(self, ending: CancellationToken) -> AnswerBody {
        AnswerBody { ending: Some(Box::pin(ending.cancelled_owned())), ..self }
    }

    /// Charges sent data to `origin`, for services that do not account for it.
    pub(super) fn counting(self, budget: Budget, origin: Origin) -> AnswerBody {
        AnswerBody { counting: Some((budget, origin)), ..self }
    }

    /// Returns the next piece of the data from the service.
    fn piece(&mut self) -> Frame<Bytes> {
        if let Some(cut) = self.cut.take() {
            self.watched = Some(UnreadWatch(tasks::errand(watch(cut, self.pieces.clone())).abort_handle()));
        }
        self.pieces.handed.fetch_add(1, Ordering::Relaxed);
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        Frame::data(Bytes::from_owner(Piece { bytes, pieces: self.pieces.clone() }))
    }

    /// Polls the service for its next frame.
    fn poll_service(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            end => return Poll::Ready(end),
        };
        let frame = match frame.into_data() {
            Ok(data) if data.is_empty() => Frame::data(data),
            Ok(data) => {
                self.rest = match &self.counting {
                    None => data,
                    Some((budget, origin)) => match budget.take(*origin, data.len()) {
                        Ok(held) => keeping(data, Arc::new(held)),
                        Err(_) => {
                            self.has_ended = true;
                            let text = "answers take as much memory as they may";
                            return Poll::Ready(Some(Ok(ended_by(&Status::resource_exhausted(text)))));
                        }
                    },
                };
                self.piece()
            }
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
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        if let Poll::Ready(frame) = self.poll_service(cx) {
            return Poll::Ready(frame);
        }
        match self.ending.as_mut().map(|ending| ending.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                self.has_ended = true;
                Poll::Ready(Some(Ok(ended_by(&stopping()))))
            }
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || (self.rest.is_empty() && self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}

/// Returns the status of streams that end because the node stops.
pub(super) fn stopping() -> Status {
    Status::unavailable("this node stops: another one serves")
}

/// Returns the trailers with a status.
pub(super) fn ended_by(status: &Status) -> Frame<Bytes> {
    let mut headers = HeaderMap::new();
    // Encoding fails if the message does not fit into a header; only the code is sent then.
    if status.add_header(&mut headers).is_err() {
        let _ = Status::new(status.code(), "").add_header(&mut headers);
    }
    Frame::trailers(headers)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};
    use tokio::time::timeout;

    use super::*;
    use crate::metrics::Metrics;
    use crate::origin::OriginQuota;

    fn place() -> (Arc<OriginQuota>, StreamPlace) {
        let places = Arc::new(OriginQuota::new(1, 1));
        places.take(Origin::UNKNOWN, 1).expect("free");
        (places.clone(), StreamPlace::new(places, Origin::UNKNOWN))
    }

    /// Returns a body that sends this data and stays open.
    fn body(sent: Vec<Bytes>) -> Body {
        let frames = sent.into_iter().map(|bytes| Ok::<_, axum::Error>(Frame::data(bytes)));
        Body::new(StreamBody::new(futures_util::StreamExt::chain(stream::iter(frames), stream::pending())))
    }

    fn cut() -> Cut {
        Cut { stream: StreamCut::default(), counter: IntCounter::new("a", "b").expect("a counter") }
    }

    async fn taken(answer: &mut AnswerBody) -> Bytes {
        answer.frame().await.expect("a piece").expect("no error").into_data().expect("data")
    }

    #[tokio::test]
    async fn what_a_service_sends_counts_until_it_is_written() {
        let metrics = Arc::new(Metrics::new().expect("a table"));
        let budget = Budget::new(Some(1), metrics.clone());
        let (places, place) = place();
        let sent = vec![Bytes::from(vec![1; 10]), Bytes::from(vec![2; 2 * PIECE_BYTES + 1])];
        let answer = AnswerBody::new(body(sent.clone()), place, None);
        let mut answer = answer.counting(budget.clone(), Origin::UNKNOWN);
        let small = taken(&mut answer).await;
        assert_eq!((small.len(), metrics.under_way.get()), (10, 10));
        drop(small);
        let mut large = Vec::new();
        for _ in 0..3 {
            large.push(taken(&mut answer).await);
        }
        assert_eq!(large.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE_BYTES, PIECE_BYTES, 1]);
        assert_eq!((large.concat(), metrics.under_way.get()), (sent[1].to_vec(), 2 * PIECE_BYTES as i64 + 1));
        drop(large);
        assert_eq!((metrics.under_way.get(), places.taken()), (0, 1));
        drop(answer);
        assert_eq!(places.taken(), 0);
        let _all = budget.take(Origin::UNKNOWN, crate::model::limits::UNDER_WAY_PER_ORIGIN_MIN).expect("room");
        let answer = AnswerBody::new(body(sent), self::place().1, None);
        let mut answer = answer.counting(budget, Origin::UNKNOWN);
        let trailers = answer.frame().await.expect("trailers").expect("no error").into_trailers().expect("trailers");
        assert_eq!(trailers.get("grpc-status").and_then(|code| code.to_str().ok()), Some("8"));
    }

    /// The size of the unread data does not matter.
    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_cut_and_who_is_slow_or_has_taken_all_is_not() {
        for size in [1, 5 * PIECE_BYTES] {
            for (pause, is_cut) in [(UNREAD_MAX * 3, true), (UNREAD_MAX - Duration::from_secs(1), false)] {
                let cut = cut();
                let mut answer = AnswerBody::new(body(vec![vec![1; size].into()]), place().1, Some(cut.clone()));
                for _ in 0..size.div_ceil(PIECE_BYTES) {
                    let piece = taken(&mut answer).await;
                    sleep(pause).await;
                    drop(piece);
                }
                sleep(UNREAD_MAX * 3).await;
                let seen = timeout(Duration::from_secs(1), cut.stream.done()).await;
                assert_eq!((seen.is_ok(), cut.counter.get()), (is_cut, u64::from(is_cut)), "{size} {pause:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_service_that_knows_no_end_ends_with_the_node() {
        let ending = CancellationToken::new();
        let answer = AnswerBody::new(body(Vec::new()), place().1, None);
        let mut answer = answer.ending_with(ending.clone());
        ending.cancel();
        let trailers = answer.frame().await.expect("trailers").expect("no error").into_trailers().expect("trailers");
        assert_eq!(trailers.get("grpc-status").and_then(|code| code.to_str().ok()), Some("14"));
        assert!(answer.is_end_stream() && answer.frame().await.is_none());
    }
}
