//! Idle timeouts of a connection.
//!
//! | client | limit |
//! |---|---|
//! | sends nothing between two requests | [`IDLE_MAX`] |
//! | has opened the connection or begun a request, and has not sent the whole head | [`REQUEST_HEAD_WITHIN`] |
//! | does not read the answer | [`UNREAD_MAX`] since it read the last byte, see [`super::write_timeout`] |
//!
//! While a request is being served there is no limit here: a long poll may be held for long, and a body has the time
//! limit of its request. The limits are checked where the bytes pass, because only there the state of a connection is
//! known.
//!
//! [`UNREAD_MAX`]: super::write_timeout::UNREAD_MAX

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use super::hooked_stream::{HookedStream, Hooks, ReadResult, WriteResult};
use super::write_timeout::Alarm;
use crate::model::limits;
use crate::origin::{Origin, OriginQuota};

/// Time limit for a client to send the whole head of a request.
const REQUEST_HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Longer than load balancers keep idle connections, so that they close them first.
const IDLE_MAX: Duration = Duration::from_secs(75);

/// A stream that fails if its other end sends nothing for longer than the state of its request allows.
pub(super) type IdleTimeoutStream<S> = HookedStream<S, IdleTimeout>;

pub(super) struct IdleTimeout {
    /// Bytes that are read before those of the stream.
    first: Bytes,
    pulse: InFlight,
    /// Time at which the current head began; `None` between two requests.
    head_since: Option<Instant>,
    /// Number of complete heads at the last check.
    heads_seen: u32,
    room: HeadBudget,
    moved_at: Instant,
    reading: Alarm,
}

/// Requests of the connection that are being served.
#[derive(Clone, Default)]
pub(super) struct InFlight(Arc<Requests>);

#[derive(Default)]
struct Requests {
    begun: AtomicU32,
    ended: AtomicU32,
}

/// A request that is being served.
pub(super) struct Serving(InFlight);

impl InFlight {
    /// Registers a request whose head is complete; the result is dropped when it is answered.
    pub(super) fn serving(&self) -> Serving {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        Serving(self.clone())
    }

    fn begun(&self) -> u32 {
        self.0.begun.load(Ordering::Relaxed)
    }

    fn is_serving(&self) -> bool {
        self.begun() != self.0.ended.load(Ordering::Relaxed)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Share of the current request head in the budget of incomplete heads.
pub(super) struct HeadBudget {
    shares: Arc<OriginQuota>,
    origin: Origin,
    bytes: usize,
    taken: usize,
}

impl HeadBudget {
    pub(super) fn new(shares: Arc<OriginQuota>, origin: Origin) -> Self {
        HeadBudget { shares, origin, bytes: 0, taken: 0 }
    }

    /// Adds arrived bytes to the share; fails if the budget is exhausted.
    fn grow(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes += bytes;
        let more = self.bytes.saturating_sub(limits::HEAD_BYTES_FREE).saturating_sub(self.taken);
        if more > 0 {
            let taken = self.shares.take(self.origin, more);
            taken.map_err(|_| io::Error::other("there are too many requests whose head has not come whole"))?;
            self.taken += more;
        }
        Ok(())
    }

    /// Frees the share, because the head is complete.
    fn clear(&mut self) {
        if self.taken > 0 {
            self.shares.give_back(self.origin, self.taken);
        }
        (self.bytes, self.taken) = (0, 0);
    }
}

impl Drop for HeadBudget {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<S> IdleTimeoutStream<S> {
    pub(super) fn new(stream: S, room: HeadBudget) -> (IdleTimeoutStream<S>, InFlight) {
        let (now, pulse) = (Instant::now(), InFlight::default());
        let hooks = IdleTimeout {
            first: Bytes::new(),
            pulse: pulse.clone(),
            head_since: Some(now),
            heads_seen: 0,
            room,
            moved_at: now,
            reading: Alarm::default(),
        };
        (HookedStream { stream, hooks }, pulse)
    }
}

impl IdleTimeout {
    /// Prepends bytes that were read already.
    pub(super) fn read_first(&mut self, first: Bytes) {
        self.first = if self.first.is_empty() { first } else { [first, self.first.clone()].concat().into() };
    }

    /// Ends the time limit of a head that has become a request.
    fn forget_finished_head(&mut self) {
        let begun = self.pulse.begun();
        if begun != self.heads_seen {
            self.heads_seen = begun;
            self.head_since = None;
            self.room.clear();
        }
    }

    /// Fails if bytes should have arrived by now; otherwise waits.
    fn wait_for_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pulse.is_serving() {
            return Poll::Pending;
        }
        let (deadline, text) = match self.head_since {
            Some(since) => (since + REQUEST_HEAD_WITHIN, "the head of a request did not come in time"),
            None => (self.moved_at + IDLE_MAX, "the connection was idle"),
        };
        ready!(self.reading.poll(cx, deadline));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

impl Hooks for IdleTimeout {
    fn read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> ReadResult {
        if !self.first.is_empty() {
            let piece = self.first.split_to(buffer.remaining().min(self.first.len()));
            buffer.put_slice(&piece);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        self.forget_finished_head();
        match Pin::new(stream).poll_read(cx, buffer) {
            Poll::Pending => self.wait_for_input(cx),
            Poll::Ready(read) => {
                let came = buffer.filled().len() - before;
                if came > 0 {
                    self.moved_at = Instant::now();
                    if !self.pulse.is_serving() {
                        self.head_since.get_or_insert(self.moved_at);
                        self.room.grow(came)?;
                    }
                }
                Poll::Ready(read)
            }
        }
    }

    fn written(&mut self, _: &mut Context<'_>, written: WriteResult) -> WriteResult {
        if written.is_ready() {
            self.moved_at = Instant::now();
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PIPE_BYTES: usize = 64;

    fn patient() -> (IdleTimeoutStream<DuplexStream>, InFlight, DuplexStream) {
        let (near, far) = duplex(PIPE_BYTES);
        let room = HeadBudget::new(Arc::new(OriginQuota::new(3 * PIPE_BYTES, PIPE_BYTES)), Origin::UNKNOWN);
        let (patient, pulse) = IdleTimeoutStream::new(near, room);
        (patient, pulse, far)
    }

    /// Reads until an error; returns its kind and the seconds until then.
    async fn read_to_failure(patient: &mut IdleTimeoutStream<DuplexStream>) -> (io::ErrorKind, u64) {
        let began = Instant::now();
        let mut buffer = [0; PIPE_BYTES];
        loop {
            match patient.read(&mut buffer).await {
                Ok(count) => assert!(count > 0, "the other end is open"),
                Err(error) => return (error.kind(), began.elapsed().as_secs()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_never_says_anything_is_closed_soon() {
        let (mut patient, _pulse, _far) = patient();
        let expected = (io::ErrorKind::TimedOut, REQUEST_HEAD_WITHIN.as_secs());
        assert_eq!(read_to_failure(&mut patient).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_dribbles_has_no_longer() {
        let (mut patient, _pulse, mut far) = patient();
        tokio::spawn(async move {
            while far.write_u8(b'x').await.is_ok() {
                tokio::time::sleep(SECOND).await
            }
        });
        let expected = (io::ErrorKind::TimedOut, REQUEST_HEAD_WITHIN.as_secs());
        assert_eq!(read_to_failure(&mut patient).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn between_two_requests_a_connection_may_be_idle_and_while_it_is_served_for_ever() {
        let (mut patient, pulse, mut far) = patient();
        far.write_all(b"GET / HTTP/1.1").await.expect("written");
        let mut head = [0; 14];
        patient.read_exact(&mut head).await.expect("there");
        let serving = pulse.serving();
        let hour = 3600 * SECOND;
        tokio::time::timeout(hour, read_to_failure(&mut patient)).await.expect_err("a held poll is not cut");
        drop(serving);
        patient.write_all(b"200").await.expect("the answer is taken");
        assert_eq!(read_to_failure(&mut patient).await, (io::ErrorKind::TimedOut, IDLE_MAX.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_head_has_its_own_time_after_a_pause() {
        let (mut patient, pulse, mut far) = patient();
        far.write_all(b"x").await.expect("written");
        patient.read_u8().await.expect("there");
        drop(pulse.serving());
        tokio::spawn(async move {
            tokio::time::sleep(60 * SECOND).await;
            far.write_all(b"x").await.expect("written");
            std::future::pending::<()>().await;
        });
        let expected = (io::ErrorKind::TimedOut, 60 + REQUEST_HEAD_WITHIN.as_secs());
        assert_eq!(read_to_failure(&mut patient).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn large_heads_share_their_room_until_they_have_come_whole() {
        let (mut patient, pulse, mut far) = patient();
        let shares = patient.hooks.room.shares.clone();
        let mut send = async |patient: &mut IdleTimeoutStream<DuplexStream>, bytes: usize| {
            let mut left = bytes;
            while left > 0 {
                let piece = left.min(PIPE_BYTES);
                far.write_all(&[b'x'; PIPE_BYTES][..piece]).await.expect("the pipe takes as much");
                patient.read_exact(&mut [0; PIPE_BYTES][..piece]).await?;
                left -= piece;
            }
            Ok::<_, io::Error>(())
        };
        send(&mut patient, limits::HEAD_BYTES_FREE).await.expect("small heads are free");
        assert_eq!(shares.taken(), 0);
        send(&mut patient, PIPE_BYTES).await.expect("there is room");
        assert_eq!(shares.taken(), PIPE_BYTES);
        drop(pulse.serving());
        send(&mut patient, limits::HEAD_BYTES_FREE).await.expect("the next one is small");
        assert_eq!(shares.taken(), 0, "a head that has come whole takes no room");
        send(&mut patient, PIPE_BYTES).await.expect("there is room");
        send(&mut patient, 1).await.expect_err("the room is used up");
        drop(patient);
        assert_eq!(shares.taken(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_is_an_end_and_not_a_failure() {
        let (mut patient, _pulse, far) = patient();
        drop(far);
        let read = poll_fn(|cx| Pin::new(&mut patient).poll_read(cx, &mut ReadBuf::new(&mut [0; 8]))).await;
        read.expect("an end is read as nothing");
    }
}
