//! Memory budget in bytes for the data of clients in transit: request bodies, and large responses until they are sent.
//! A second one limits the state of open streams.
//!
//! A body is charged from before its first byte is read until its request is answered, with its announced length or the
//! bytes received. A response is charged until the connection has accepted its last byte, however slowly its client
//! reads. Small ones are free, because the number of connections limits them. Released files sent to config clients are
//! not charged, because all requests for a file share one rendering.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use prometheus::IntGauge;
use tokio::time::{Instant, sleep};

use crate::metrics::Metrics;
use crate::model::limits;
use crate::origin::{Origin, OriginQuota, Short};

/// Maximum time that a body waits for room.
const ROOM_WITHIN: Duration = Duration::from_secs(1);
/// Interval between two checks for room.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Memory budget. Cheap to clone.
#[derive(Clone)]
pub struct Budget(Arc<BudgetState>);

struct BudgetState {
    shares: OriginQuota,
    taken: IntGauge,
}

impl Budget {
    /// Creates the budget of a node with this memory limit. One client always has room for the largest response.
    pub fn new(memory_limit: Option<u64>, metrics: Arc<Metrics>) -> Budget {
        let limit = memory_limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let total = (limit / limits::UNDER_WAY_MEMORY_DIVISOR).max(2 * limits::UNDER_WAY_PER_ORIGIN_MIN);
        let per_origin = (total / limits::UNDER_WAY_ORIGIN_DIVISOR).max(limits::UNDER_WAY_PER_ORIGIN_MIN);
        metrics.under_way_max.set(number(total));
        Budget::shared(OriginQuota::new(total, per_origin), &metrics.under_way)
    }

    /// Creates the budget for the state of streams. Clients at one address may use a third of it.
    pub fn of_streams(memory_limit: Option<u64>, metrics: &Metrics) -> Budget {
        let limit = memory_limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let total = (limit / limits::STREAMS_MEMORY_DIVISOR).max(2 * limits::UNDER_WAY_PER_ORIGIN_MIN);
        metrics.stream_bytes_max.set(number(total));
        Budget::shared(OriginQuota::new(total, total / limits::STREAMS_ORIGIN_DIVISOR), &metrics.stream_bytes)
    }

    fn shared(shares: OriginQuota, taken: &IntGauge) -> Budget {
        Budget(Arc::new(BudgetState { shares, taken: taken.clone() }))
    }

    /// Charges bytes to a client until the returned value is dropped.
    pub fn take(&self, origin: Origin, bytes: usize) -> Result<Held, Short> {
        self.0.shares.take(origin, bytes)?;
        Ok(self.held(origin, bytes))
    }

    /// Returns a charge of zero bytes, which can grow.
    pub fn nothing(&self, origin: Origin) -> Held {
        Held { budget: self.clone(), origin, bytes: 0 }
    }

    /// Charges like [`take`](Self::take), but even without room: for work that is done and has to be reported.
    pub fn charge(&self, origin: Origin, bytes: usize) -> Held {
        self.0.shares.charge(origin, bytes);
        self.held(origin, bytes)
    }

    /// Charges like [`take`](Self::take), but waits up to [`ROOM_WITHIN`] for room.
    pub async fn wait(&self, origin: Origin, bytes: usize) -> Result<Held, Short> {
        let until = Instant::now() + ROOM_WITHIN;
        loop {
            match self.take(origin, bytes) {
                Err(_) if Instant::now() < until => sleep(LOOK_PAUSE).await,
                taken => return taken,
            }
        }
    }

    fn held(&self, origin: Origin, bytes: usize) -> Held {
        self.show();
        Held { budget: self.clone(), origin, bytes }
    }

    fn show(&self) {
        self.0.taken.set(number(self.0.shares.taken()));
    }
}

fn number(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Charged part of the budget.
pub struct Held {
    budget: Budget,
    origin: Origin,
    bytes: usize,
}

impl Held {
    /// Increases the charge to `bytes`.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Short> {
        let missing = bytes.saturating_sub(self.bytes);
        self.budget.0.shares.take(self.origin, missing)?;
        self.bytes += missing;
        self.budget.show();
        Ok(())
    }

    /// Increases the charge like [`grow_to`](Self::grow_to), but waits up to [`ROOM_WITHIN`] for room.
    pub async fn wait_to(&mut self, bytes: usize) -> Result<(), Short> {
        let until = Instant::now() + ROOM_WITHIN;
        loop {
            match self.grow_to(bytes) {
                Err(_) if Instant::now() < until => sleep(LOOK_PAUSE).await,
                grown => return grown,
            }
        }
    }

    /// Reduces the charge to `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        if surplus > 0 {
            self.budget.0.shares.give_back(self.origin, surplus);
            self.bytes = bytes;
            self.budget.show();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Returns the length of a response if it is to be charged.
pub fn counted(response: &Response) -> Option<usize> {
    let length = response.body().size_hint().exact()?;
    usize::try_from(length).ok().filter(|length| *length > limits::ANSWER_BYTES_FREE)
}

/// Returns the response with `held` attached until all of it was accepted by the connection.
pub fn hold(response: Response, held: Held) -> Response {
    let (mut parts, body) = response.into_parts();
    let held = Arc::new(held);
    // A server that writes the body in its own way retains the extensions until the end.
    parts.extensions.insert(held.clone());
    Response::from_parts(parts, Body::new(Holding { body, held }))
}

/// Body whose pieces retain the charge. A piece is dropped when it was written.
struct Holding {
    body: Body,
    held: Arc<Held>,
}

struct Piece {
    bytes: Bytes,
    _held: Arc<Held>,
}

/// Returns bytes that retain the charge until they are dropped.
pub fn keeping(bytes: Bytes, held: Arc<Held>) -> Bytes {
    Bytes::from_owner(Piece { bytes, _held: held })
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Holding {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(Pin::new(&mut this.body).poll_frame(cx));
        let keep = |bytes| keeping(bytes, this.held.clone());
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(keep))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads a whole body of unknown length and increases the charge with the received bytes.
pub async fn collect<B>(mut body: B, held: &mut Held) -> Result<Result<Bytes, Short>, B::Error>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if let Err(short) = held.grow_to(whole.len() + data.len()) {
            return Ok(Err(short));
        }
        whole.extend_from_slice(&data);
    }
    Ok(Ok(whole.into()))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    const MIN: usize = limits::UNDER_WAY_PER_ORIGIN_MIN;

    fn budget(memory_limit: u64) -> (Budget, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::new().expect("a table"));
        (Budget::new(Some(memory_limit), metrics.clone()), metrics)
    }

    fn origin(last: u8) -> Origin {
        Origin::of([192, 0, 2, last].into())
    }

    #[test]
    fn an_eighth_of_the_memory_is_for_all_and_a_quarter_of_that_for_one() {
        for (limit, total, one) in [
            (8 << 30, 1 << 30, 256 << 20),
            (1 << 30, 128 << 20, 32 << 20),
            // There is room for a response on the smallest machine.
            (1 << 20, 2 * MIN, MIN),
        ] {
            let (budget, metrics) = budget(limit);
            assert_eq!((budget.0.shares.total(), budget.0.shares.per_origin()), (total, one), "{limit}");
            assert_eq!(metrics.under_way_max.get(), number(total));
        }
    }

    #[test]
    fn what_is_held_is_shown_and_given_back() {
        let (budget, metrics) = budget(0);
        let mut first = budget.take(origin(1), MIN - 10).expect("there is room");
        assert_eq!(budget.take(origin(1), 11).err(), Some(Short::Origin));
        assert_eq!(first.grow_to(MIN + 1), Err(Short::Origin));
        first.grow_to(MIN).expect("there is room");
        first.shrink_to(MIN - 7);
        assert_eq!(metrics.under_way.get(), number(MIN - 7));
        first.grow_to(MIN).expect("there is room");
        let second = budget.take(origin(2), MIN).expect("another one has room");
        assert_eq!(budget.take(origin(3), 1).err(), Some(Short::Total));
        let done = budget.charge(origin(3), 5);
        assert_eq!(metrics.under_way.get(), number(2 * MIN + 5));
        for held in [first, second, done] {
            drop(held);
        }
        assert_eq!((metrics.under_way.get(), budget.0.shares.origins()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_room_and_not_for_ever() {
        let (budget, _) = budget(0);
        let held = budget.take(origin(1), MIN).expect("there is room");
        let began = Instant::now();
        assert!(budget.wait(origin(1), 1).await.is_err());
        assert!((ROOM_WITHIN..ROOM_WITHIN * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
        let (waiting, ()) = tokio::join!(budget.wait(origin(1), 1), async move {
            sleep(ROOM_WITHIN / 2).await;
            drop(held);
        });
        assert!(waiting.is_ok(), "room came in time");
    }

    #[tokio::test]
    async fn an_answer_holds_until_its_last_piece_is_gone() {
        let (budget, metrics) = budget(0);
        let small = vec![b'x'; limits::ANSWER_BYTES_FREE].into_response();
        assert_eq!(counted(&small), None);
        let large = vec![b'x'; limits::ANSWER_BYTES_FREE + 1].into_response();
        let length = counted(&large).expect("it is large");
        let answer = hold(large, budget.take(origin(1), length).expect("there is room"));
        assert_eq!(counted(&answer), Some(length), "its length is still known");
        let (parts, body) = answer.into_parts();
        drop(parts);
        let bytes = body.collect().await.expect("whole").to_bytes();
        assert_eq!((bytes.len(), metrics.under_way.get()), (length, number(length)), "it was read, and is still there");
        let part = bytes.slice(length - 1..);
        drop(bytes);
        assert_eq!(metrics.under_way.get(), number(length));
        drop(part);
        assert_eq!(metrics.under_way.get(), 0);
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_takes_as_it_comes() {
        let (budget, metrics) = budget(0);
        let pieces = |count: usize| {
            let pieces = (0..count).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; MIN / 4])));
            Body::from_stream(futures_util::stream::iter(pieces))
        };
        let mut held = budget.nothing(origin(1));
        let read = collect(pieces(4), &mut held).await.expect("read").expect("there is room");
        assert_eq!((read.len(), metrics.under_way.get()), (MIN, number(MIN)));
        let mut more = budget.nothing(origin(2));
        assert_eq!(collect(pieces(5), &mut more).await.expect("read"), Err(Short::Origin));
    }
}
